import json
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from click.testing import CliRunner
from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

from everwhen.cli.crontab import TASK, apply_entries, import_crontab, machine_zone
from everwhen.core.triggers import Cron, Timing, fires
from everwhen.schedules.crontab import (
    CrontabEntry,
    CrontabFormat,
    CrontabRefusal,
    detect_format,
    parse_crontab,
    split_stdin,
)

CASES = Path(__file__).parents[1] / "cases"
MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}

ETC_CRONTAB = """\
# /etc/crontab: system-wide crontab
SHELL=/bin/sh
PATH=/usr/local/sbin:/usr/local/bin:/sbin:/bin:/usr/sbin:/usr/bin

# .---------------- minute (0 - 59)
# |  .------------- hour (0 - 23)
# *  *  *  *  * user-name command to be executed
17 *\t* * *\troot\tcd / && run-parts --report /etc/cron.hourly
25 6\t* * *\troot\ttest -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.daily; }
47 6\t* * 7\troot\ttest -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.weekly; }
52 6\t1 * *\troot\ttest -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.monthly; }
#
"""
CRON_D = {
    "e2scrub_all": """\
30 3 * * 0 root test -e /run/systemd/system || SERVICE_MODE=1 /usr/lib/x86_64-linux-gnu/e2fsprogs/e2scrub_all_cron
10 3 * * * root test -e /run/systemd/system || SERVICE_MODE=1 /sbin/e2scrub_all -A -r
""",
    "sysstat": """\
# The first element of the path is a directory where the debian-sa1 script is located
PATH=/usr/lib/sysstat:/usr/sbin:/usr/sbin:/usr/bin:/sbin:/bin

# Activity reports every 10 minutes everyday
5-55/10 * * * * root command -v debian-sa1 > /dev/null && debian-sa1 1 1

# Additional run at 23:59 to rotate the statistics file
59 23 * * * root command -v debian-sa1 > /dev/null && debian-sa1 60 2
""",
    "php": """\
09,39 *     * * *     root   [ -x /usr/lib/php/sessionclean ] && if [ ! -d /run/systemd/system ]; then \
/usr/lib/php/sessionclean; fi
""",
    "mdadm": """\
# By default, run at 00:57 on every Sunday, but do nothing unless the day of
# the month is less than or equal to 7.
57 0 * * 0 root if [ -x /usr/share/mdadm/checkarray ] && [ $(date +\\%d) -le 7 ]; then \
/usr/share/mdadm/checkarray --cron --all --idle --quiet; fi
""",
    "anacron": """\
SHELL=/bin/sh
30 7-23 * * *\troot\t[ -x /etc/init.d/anacron ] && if [ ! -d /run/systemd/system ]; then \
/usr/sbin/invoke-rc.d anacron start >/dev/null; fi
""",
    "popularity-contest": """\
SHELL=/bin/sh
PATH=/usr/local/sbin:/usr/local/bin:/sbin:/bin:/usr/sbin:/usr/bin
26 15 * * *   root    test -x /etc/cron.daily/popularity-contest && /etc/cron.daily/popularity-contest --crond
""",
}


def entries(text, **options):
    found = parse_crontab(text, **options)
    assert all(isinstance(line, CrontabEntry) for line in found), found
    return found


def refusals(text, **options):
    found = parse_crontab(text, **options)
    assert all(isinstance(line, CrontabRefusal) for line in found), found
    return found


def next_fires(entry, after, count=1):
    timing = Timing(Cron(entry.expr), entry.timezone or "UTC")
    return [instant.isoformat() for instant in fires(timing, after=after, count=count)]


def test_debians_own_crontab_is_read_as_the_system_format():
    found = entries(ETC_CRONTAB)
    assert [entry.user for entry in found] == ["root"] * 4
    assert found[0].command == "cd / && run-parts --report /etc/cron.hourly"
    assert found[0].environment["SHELL"] == "/bin/sh"
    after = datetime(2026, 11, 29, 20, 0, tzinfo=UTC)
    assert [next_fires(entry, after)[0][:16] for entry in found] == [
        "2026-11-29T20:17",
        "2026-11-30T06:25",
        "2026-12-06T06:47",
        "2026-12-01T06:52",
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("e2scrub_all", ["2026-12-06T03:30", "2026-11-30T03:10"]),
        ("sysstat", ["2026-11-29T20:05", "2026-11-29T23:59"]),
        ("php", ["2026-11-29T20:09"]),
        ("mdadm", ["2026-12-06T00:57"]),
        ("anacron", ["2026-11-29T20:30"]),
        ("popularity-contest", ["2026-11-30T15:26"]),
    ],
)
def test_the_files_of_cron_d_are_read(name, expected):
    found = entries(CRON_D[name])
    assert [entry.user for entry in found] == ["root"] * len(expected)
    after = datetime(2026, 11, 29, 20, 0, tzinfo=UTC)
    assert [next_fires(entry, after)[0][:16] for entry in found] == expected


def test_an_escaped_percent_is_a_percent_and_no_input():
    [entry] = entries(CRON_D["mdadm"])
    assert "$(date +%d) -le 7" in entry.command
    assert entry.stdin is None


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("mail -s hi bob%Dear Bob,%hello", ("mail -s hi bob", "Dear Bob,\nhello\n")),
        ("date +\\%F", ("date +%F", None)),
        ("a\\%b%c\\%d%", ("a%b", "c%d\n\n")),
        ("cat%", ("cat", "\n")),
    ],
)
def test_percent_signs_start_the_input_and_break_its_lines(command, expected):
    assert split_stdin(command) == expected


def test_an_environment_line_holds_for_the_lines_below_it():
    first, second = entries("A=1\n@daily x\n  B = \"two words\" \nA='3'\n'C'=\n@daily y\n")
    assert first.environment == {"A": "1"}
    assert second.environment == {"A": "3", "B": "two words", "C": ""}


def test_cron_tz_is_the_zone_of_the_lines_below_it_and_tz_is_not():
    found = entries("TZ=Asia/Tokyo\n@daily a\nCRON_TZ=Europe/Berlin\n@daily b\nCRON_TZ=\n@daily c\n")
    assert [entry.timezone for entry in found] == [None, "Europe/Berlin", None]
    assert all("CRON_TZ" not in entry.environment for entry in found)


def test_lines_under_an_unknown_zone_are_refused_and_do_not_run_elsewhere():
    found = refusals("CRON_TZ=Mars/Base\n@daily a\n0 1 * * * b\n")
    assert [(line.line, line.code) for line in found] == [(n, "trigger.timezone.unknown") for n in (1, 2, 3)]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("@reboot /bin/x", "trigger.cron.reboot"),
        ("@never /bin/x", "trigger.cron.macro"),
        ("@daily", "crontab.command"),
        ("0 0 * * *", "crontab.command"),
        ("0 0 * * * %input only", "crontab.command"),
        ("0 0 * *", "trigger.cron.fields"),
        ("0 0 31 2 * x", "trigger.cron.unreachable"),
        ("61 0 * * * x", "trigger.cron.value"),
        ("0 0 L * * x", "trigger.cron.extension"),
        ("0 22-2 * * * x", "trigger.cron.extension.wrap_range"),
        ("0 0 * * * x\0y", "crontab.character"),
        ("0 0 * * * caf\udce9", "crontab.character"),
        ("0 0 * * * " + "x" * 9000, "crontab.length"),
        ("not a crontab line at all", "trigger.cron.syntax"),
    ],
)
def test_a_line_that_cannot_become_a_schedule_is_refused_with_its_reason(line, code):
    [refused] = refusals(f"# comment\n{line}\n", form=CrontabFormat.USER)
    assert (refused.line, refused.code, refused.text) == (2, code, line)
    assert refused.reason


def test_the_system_format_without_a_user_is_refused():
    [refused] = refusals("0 0 * * * /bin/x\n", form=CrontabFormat.SYSTEM)
    assert refused.code == "crontab.user"


def test_the_format_is_detected_by_accounts_and_not_by_words():
    assert detect_format("0 5 * * * echo hello\n") is CrontabFormat.USER
    assert detect_format("0 5 * * * root echo hello\n@daily www-data x\n") is CrontabFormat.SYSTEM
    assert detect_format("0 5 * * * root\n") is CrontabFormat.USER
    assert detect_format("0 5 * * * root x\n0 5 * * * /bin/x y\n") is CrontabFormat.USER
    assert detect_format("") is CrontabFormat.USER


def test_names_follow_from_the_line_and_repeated_lines_get_suffixes():
    text = "0 1 * * * /bin/backup a\n0 1 * * * /bin/backup a\n0 2 * * * /bin/backup a\n"
    first, second, third = (entry.name for entry in entries(text))
    assert first.startswith("crontab-backup-")
    assert second == f"{first}-2"
    assert third != first
    assert [entry.name for entry in entries("# moved down\n\n" + text)] == [first, second, third]


def test_line_ends_of_other_systems_are_no_part_of_a_command():
    assert [entry.command for entry in entries("0 1 * * * x\r\n@daily y\r\n")] == ["x", "y"]


@settings(max_examples=300, deadline=None)
@given(text=st.text() | st.text("0123456789*/-, @%\\\"'=#ABrot\n\t\r\0", max_size=200))
def test_any_text_is_read_line_by_line_and_never_raises(text):
    for form in (None, *CrontabFormat):
        names = [line.name for line in parse_crontab(text, form=form) if isinstance(line, CrontabEntry)]
        assert len(set(names)) == len(names)


def expected_of_200_lines():
    """Return (line, zone, expression) of each line that an oracle accepts, and the numbers of those it refuses."""
    zone, accepted, refused = "UTC", [], []
    for number, line in enumerate((CASES / "crontab_200.txt").read_text().splitlines(), start=1):
        text = line.strip()
        if not text or text[0] == "#":
            continue
        if text.startswith("CRON_TZ"):
            zone = text.partition("=")[2].strip().strip("\"'") or "UTC"
        elif text[0] in "@*0123456789" or text.startswith("H "):
            words = text.split()
            fields = 1 if text[0] == "@" else 5
            expr = MACROS.get(words[0], words[0]) if fields == 1 else " ".join(words[:5])
            expr = expr.replace("?", "*")  # as we read it; the oracle does not know it
            (accepted if is_accepted(expr) and len(words) > fields else refused).append((number, zone, expr))
    return accepted, refused


def is_accepted(expr):
    try:
        CronSim(expr, datetime(2026, 1, 1, tzinfo=UTC))
    except Exception:  # noqa: BLE001 - the oracle's errors are only counted
        return False
    return not set("L#?").intersection(expr.split()[2] + expr.split()[4])


@pytest.mark.parametrize("after", [datetime(2026, 1, 31, 23, 59, tzinfo=UTC), datetime(2027, 6, 15, 12, tzinfo=UTC)])
def test_a_crontab_of_200_lines_gives_the_fires_that_cronsim_gives(after):
    text = (CASES / "crontab_200.txt").read_text()
    assert len(text.splitlines()) == 200
    accepted, refused = expected_of_200_lines()
    found = parse_crontab(text)
    assert [line.line for line in found if isinstance(line, CrontabRefusal)] == [number for number, _, _ in refused]
    kept = [line for line in found if isinstance(line, CrontabEntry)]
    assert [(entry.line, entry.timezone or "UTC") for entry in kept] == [(number, zone) for number, zone, _ in accepted]
    for entry, (_, zone, expr) in zip(kept, accepted, strict=True):
        oracle = CronSim(expr, after.astimezone(ZoneInfo(zone)))
        expected = [next(oracle).astimezone(UTC).isoformat() for _ in range(3)]
        assert next_fires(entry, after, count=3) == expected, (expr, zone)


class Recorded:
    """A client at the network's edge that keeps what is posted."""

    def __init__(self, statuses=()):
        self.posts, self.statuses = [], iter(statuses)

    def post(self, path, json):
        self.posts.append((path, json))
        return Answer(next(self.statuses, 201))


class Answer:
    def __init__(self, status_code):
        self.status_code = status_code

    def json(self):
        return {"title": "Refused", "detail": "the queue is unknown"}


def test_entries_become_one_task_and_a_schedule_each():
    client = Recorded([409])
    found = entries("A=1\nCRON_TZ=Europe/Berlin\n5 4 * * * cat%hello\n", form=CrontabFormat.USER)
    created = apply_entries(found, client=client, tenant="acme", queue="ops", timezone="UTC")
    (task_path, task), (path, schedule) = client.posts
    assert (task_path, task) == ("/v1/tenants/acme/tasks", {"name": TASK, "queue": "ops"})
    assert path == "/v1/tenants/acme/schedules"
    assert schedule == {
        "name": found[0].name,
        "trigger": {"kind": "cron", "expr": "5 4 * * *"},
        "timezone": "Europe/Berlin",
        "task": TASK,
        "input": {"command": "cat", "stdin": "hello\n", "user": None, "environment": {"A": "1"}},
    }
    assert created == {found[0].name: "created"}


def imported(tmp_path, text, *arguments, obj=None):
    file = tmp_path / "tab"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    return CliRunner().invoke(import_crontab, [str(file), *arguments], obj=obj)


def test_a_dry_run_shows_each_line_and_its_next_fire(tmp_path):
    result = imported(tmp_path, ETC_CRONTAB, "--dry-run", "--tz", "Europe/Berlin", "--from", "2027-01-01T00:00:00Z")
    assert result.exit_code == 0
    assert "'25 6 * * *' Europe/Berlin  →  crontab.command" in result.stdout
    assert "next 2027-01-01T06:25:00+01:00  2027-01-01T05:25:00Z" in result.stdout


def test_each_line_is_proven_against_cron_itself(tmp_path):
    text = "CRON_TZ=Europe/Berlin\n*/5 * * * * a\n23 0-20/2 * * * b\n0 0 ? * MON c\n"
    result = imported(tmp_path, text, "--dry-run", "-o", "json", "--from", "2027-01-01T00:00:00Z")
    same, differs, foreign = (row["proof"] for row in json.loads(result.stdout))

    assert (same["equal"], same["same_rule"]) == (True, True)
    # In cron only a star that comes first makes a pattern ride on elapsed time.
    assert (differs["differences"], differs["first"][0]["before"]) == (20, "2027-03-28T03:00:00+02:00")
    assert foreign is None
    shown = imported(tmp_path, text, "--dry-run", "--from", "2027-01-01T00:00:00Z").stdout
    assert "as cron: equal for the next 10 years" in shown
    assert "as cron: 20 differences" in shown
    assert "no proof" in shown


def test_a_refused_line_is_shown_with_the_others_and_the_exit_code_is_2(tmp_path):
    text = "@reboot a\n@daily b\n0 0 * * * caf\udce9\n"
    result = imported(tmp_path, text, "--dry-run", "-o", "json")
    assert result.exit_code == 2
    rows = json.loads(result.stdout)
    assert [row["line"] for row in rows] == [1, 2, 3]
    assert rows[0]["refused"]["code"] == "trigger.cron.reboot"
    assert rows[1]["expr"] == "@daily"
    assert rows[2]["refused"]["code"] == "crontab.character"
    assert "refused" in imported(tmp_path, text, "--dry-run").stdout


def test_an_import_posts_through_the_client_and_a_second_one_finds_everything_there(tmp_path):
    client = Recorded()
    result = imported(tmp_path, "@daily a\n", "--tenant", "acme", obj=lambda: client)
    assert (result.exit_code, len(client.posts)) == (0, 2)
    assert "[created]" in result.stdout
    again = imported(tmp_path, "@daily a\n", "-t", "acme", obj=lambda: Recorded([409, 409]))
    assert again.exit_code == 0
    assert "[exists]" in again.stdout


def test_what_the_server_refuses_is_shown_with_its_reason(tmp_path):
    refused = imported(tmp_path, "@daily a\n", "-t", "acme", obj=lambda: Recorded([201, 422]))
    assert refused.exit_code == 2
    assert "refused with 422: the queue is unknown" in refused.stdout
    assert imported(tmp_path, "@daily a\n", "-t", "acme", obj=lambda: Recorded([403])).exit_code == 1


def test_an_import_without_a_server_says_what_to_do(tmp_path):
    result = imported(tmp_path, "@daily a\n", "-t", "acme")
    assert result.exit_code == 1
    assert "--dry-run" in result.output


def test_an_unknown_zone_is_a_usage_error(tmp_path):
    assert imported(tmp_path, "@daily a\n", "--dry-run", "--tz", "Europe").exit_code == 2


def test_the_oracle_of_the_200_lines_sees_most_of_them():
    accepted, refused = expected_of_200_lines()
    assert len(accepted) > 160
    assert len(refused) == 13


@pytest.mark.parametrize(
    ("timezone", "localtime", "zone"),
    [
        ("Europe/Berlin\n", None, "Europe/Berlin"),
        (None, "/usr/share/zoneinfo/America/New_York", "America/New_York"),
        ("Mars/Olympus\n", None, "UTC"),
        (None, None, "UTC"),
    ],
)
def test_a_crontab_means_the_zone_of_its_machine(tmp_path, timezone, localtime, zone):
    etc = tmp_path / "etc"
    etc.mkdir()
    if timezone:
        (etc / "timezone").write_text(timezone)
    if localtime:
        (etc / "localtime").symlink_to(localtime)

    assert machine_zone(tmp_path) == zone
