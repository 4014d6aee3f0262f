"""`everwhen calendar` against a live server."""

import json

ICS = """BEGIN:VCALENDAR
BEGIN:VEVENT
DTSTART;VALUE=DATE:20270326
SUMMARY:Good Friday
END:VEVENT
END:VCALENDAR
"""


def test_a_calendar_is_made_changed_shown_and_deleted(shell):
    eve = {"date": "2027-12-24", "hours": [["09:00", "13:00"]], "label": "Christmas Eve"}
    shell("calendar", "create", "de", "--definition", json.dumps({"week": ["mon"], "days": [eve]}))
    changed = shell.json("calendar", "set", "de", "--definition", json.dumps({"days": [eve]}), "--reason", "open up")
    listed = shell.json("calendar", "list")
    versions = shell.json("calendar", "versions", "de")
    picture = shell("calendar", "show", "de", "2027").stdout.splitlines()

    assert changed["items"][0]["version"] == 2
    assert [item["name"] for item in listed["items"]] == ["de"]
    assert [item["reason"] for item in versions["items"]] == [None, "open up"]
    assert picture[12] == "Dec   " + "." * 23 + "+" + "." * 7 + "  31"
    assert picture[13] == "2027-12-24  09:00 to 13:00  Christmas Eve"
    assert shell.json("calendar", "show", "de", "2027")["items"][0]["open_days"] == 365
    shell("calendar", "delete", "de", exit_code=2)
    shell("calendar", "delete", "de", "--yes")
    shell("calendar", "get", "de", exit_code=3)


def test_an_icalendar_file_becomes_a_calendar_and_then_its_next_version(shell, tmp_path):
    (tmp_path / "holidays.ics").write_text(ICS)
    source = ("--ics", "holidays.ics", "--years", "2026-2028")
    dry = json.loads(shell("calendar", "import", "de", *source, "--dry-run").stdout)
    first = shell.json("calendar", "import", "de", *source)
    second = shell.json("calendar", "import", "de", *source, "--effective-from", "2027-01-01")

    assert dry["days"] == [{"date": "2027-03-26", "hours": "closed", "label": "Good Friday"}]
    assert (first["items"][0]["version"], second["items"][0]["version"]) == (1, 2)
    assert first["items"][0]["definition"] == dry


def test_public_holidays_and_those_of_a_market_are_imported(shell):
    german = json.loads(shell("calendar", "import", "de", "--country", "DE", "--years", "2027", "--dry-run").stdout)
    market = json.loads(shell("calendar", "import", "x", "--market", "XNYS", "--years", "2027", "--dry-run").stdout)

    assert {"date": "2027-03-26", "hours": "closed", "label": "Good Friday"} in german["days"]
    assert {day["date"] for day in market["days"]} >= {"2027-07-05", "2027-11-25"}
    assert german["week"] == ["mon", "tue", "wed", "thu", "fri"]


def test_a_wrong_import_says_what_is_wrong(shell, tmp_path):
    (tmp_path / "bad.ics").write_text(ICS.replace("20270326", "20270326T090000"))
    for arguments, told in (
        (("--country", "DE", "--market", "XNYS", "--years", "2027"), "one source"),
        (("--country", "DE", "--years", "27"), "--years"),
        (("--country", "DE", "--years", "2030-2026"), "--years"),
        (("--country", "ZZ", "--years", "2027"), "knows no such"),
        (("--ics", "bad.ics", "--years", "2027"), "line 3"),
    ):
        result = shell("calendar", "import", "de", *arguments, exit_code=2)
        assert told in result.output
