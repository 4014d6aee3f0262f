"""Timers and OnCalendar. The pairs of forms are the table in systemd.time(7); the oracle walks days by itself."""

import calendar
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from everwhen.core.proofs import prove
from everwhen.core.triggers import Cron, FoldPolicy, GapPolicy, Rrule, Timing, fires
from everwhen.schedules.importers.entry import Options
from everwhen.schedules.importers.on_calendar import parse_on_calendar, recurrence_of, stored_of
from everwhen.schedules.importers.systemd import parse_systemd
from tests.schedules.importers.reading import AFTER, BERLIN, entries, local_fires, refusal

LOGROTATE = """\
[Unit]
Description=Daily rotation of log files
Documentation=man:logrotate(8) man:logrotate.conf(5)

[Timer]
OnCalendar=daily
AccuracySec=1h
Persistent=true

[Install]
WantedBy=timers.target
"""


@pytest.mark.parametrize(
    ("given", "normal"),
    [
        ("Sat,Thu,Mon..Wed,Sat..Sun", "Mon..Thu,Sat,Sun *-*-* 00:00:00"),
        ("Mon,Sun 12-*-* 2,1:23", "Mon,Sun 2012-*-* 01,02:23:00"),
        ("Wed *-1", "Wed *-*-01 00:00:00"),
        ("Wed..Wed,Wed *-1", "Wed *-*-01 00:00:00"),
        ("Wed, 17:48", "Wed *-*-* 17:48:00"),
        ("Wed..Sat,Tue 12-10-15 1:2:3", "Tue..Sat 2012-10-15 01:02:03"),
        ("*-*-7 0:0:0", "*-*-07 00:00:00"),
        ("10-15", "*-10-15 00:00:00"),
        ("monday *-12-* 17:00", "Mon *-12-* 17:00:00"),
        ("Mon,Fri *-*-3,1,2 *:30:45", "Mon,Fri *-*-01,02,03 *:30:45"),
        ("12,14,13,12:20,10,30", "*-*-* 12,13,14:10,20,30:00"),
        ("12..14:10,20,30", "*-*-* 12..14:10,20,30:00"),
        ("mon,fri *-1/2-1,3 *:30:45", "Mon,Fri *-01/2-01,03 *:30:45"),
        ("03-05 08:05:40", "*-03-05 08:05:40"),
        ("08:05:40", "*-*-* 08:05:40"),
        ("05:40", "*-*-* 05:40:00"),
        ("Sat,Sun 12-05 08:05:40", "Sat,Sun *-12-05 08:05:40"),
        ("Sat,Sun 08:05:40", "Sat,Sun *-*-* 08:05:40"),
        ("2003-03-05 05:40", "2003-03-05 05:40:00"),
        ("2003-02..04-05", "2003-02..04-05 00:00:00"),
        ("2003-03-05 05:40 UTC", "2003-03-05 05:40:00 UTC"),
        ("2003-03-05", "2003-03-05 00:00:00"),
        ("03-05", "*-03-05 00:00:00"),
        ("hourly", "*-*-* *:00:00"),
        ("daily", "*-*-* 00:00:00"),
        ("daily UTC", "*-*-* 00:00:00 UTC"),
        ("monthly", "*-*-01 00:00:00"),
        ("weekly", "Mon *-*-* 00:00:00"),
        ("weekly Pacific/Auckland", "Mon *-*-* 00:00:00 Pacific/Auckland"),
        ("yearly", "*-01-01 00:00:00"),
        ("annually", "*-01-01 00:00:00"),
        ("*:2/3", "*-*-* *:02/3:00"),
    ],
)
def test_the_forms_of_the_manual_mean_their_normal_forms(given, normal):
    assert parse_on_calendar(given) == parse_on_calendar(normal)


@pytest.mark.parametrize(
    ("text", "stored", "first"),
    [
        ("Mon..Fri *-*-* 02:30", "30 2 * * 1-5", "2027-01-01T02:30:00"),
        ("*:0/15", "*/15 * * * *", "2027-01-01T00:15:00"),
        ("*-*-1..7 8..18/3:00", "0 8,11,14,17 1-7 * *", "2027-01-01T08:00:00"),
        ("*-*-1/2", "0 0 1-31/2 * *", "2027-01-03T00:00:00"),
        ("Sun *-1/3-* 12:00", "0 12 * 1-12/3 0", "2027-01-03T12:00:00"),
        ("Mon *-05~07/1", None, "2027-05-31T00:00:00"),
        ("*-02~03", None, "2027-02-26T00:00:00"),
        ("*-*~01 18:00", None, "2027-01-31T18:00:00"),
        ("*-*~1..3 18:00", None, "2027-01-29T18:00:00"),
        ("Fri *-*-13 00:00", None, "2027-08-13T00:00:00"),
        ("2028..2030-2-29", None, "2028-02-29T00:00:00"),
        ("*-*-* 12:00:30", None, "2027-01-01T12:00:30"),
    ],
)
def test_cron_is_stored_where_it_can_say_it_and_both_fire_alike(text, stored, first):
    found = parse_on_calendar(text)
    trigger = stored_of(found)

    assert isinstance(trigger, Cron) == (stored is not None)
    assert stored is None or trigger.expr == stored
    assert local_fires(Timing(trigger), 1) == [first]
    assert local_fires(Timing(recurrence_of(found)), 50) == local_fires(Timing(trigger), 50)


def test_a_unit_is_named_by_its_file_and_persistent_is_kept():
    [entry] = entries(parse_systemd, LOGROTATE, Options(timezone="Europe/Berlin", file="logrotate.timer"))

    assert (entry.name, entry.input) == ("logrotate", {"unit": "logrotate.service"})
    assert entry.catch_up == {"policy": "coalesce"}
    assert local_fires(entry.stored, 1) == ["2027-01-02T00:00:00"]
    assert prove(entry.source, entry.stored, after=AFTER).is_equal


def test_what_systemctl_cat_prints_is_read_with_its_drop_ins():
    text = f"""\
# /usr/lib/systemd/system/logrotate.timer
{LOGROTATE}
# /etc/systemd/system/logrotate.timer.d/override.conf
[Timer]
OnCalendar=
OnCalendar=Mon..Fri 06:00
OnCalendar=Sat 07:00

# /usr/lib/systemd/system/fstrim.timer
[Timer]
OnCalendar=weekly
AccuracySec=1h
Persistent=false
RandomizedDelaySec=100min
Unit=trim.service
"""
    rotate, trim = entries(parse_systemd, text)

    assert local_fires(rotate.stored, 2) == ["2027-01-01T06:00:00", "2027-01-02T07:00:00"]
    assert trim.flex == {"mode": "hash", "window_seconds": 6000}
    assert trim.catch_up == {"policy": "skip"}
    assert trim.input == {"unit": "trim.service"}
    assert "drawn once" in trim.notes[0]


def test_lines_are_read_with_or_without_names():
    first, second = entries(parse_systemd, "# mine\nbackup = 03:00 UTC\n\nOnCalendar=hourly\n", BERLIN)

    assert (first.name, first.stored.timezone, first.catch_up) == ("backup", "UTC", None)
    assert (second.stored.timezone, second.name[:6]) == ("Europe/Berlin", "timer-")


def test_a_gap_is_skipped_there_and_the_proof_tells():
    [entry] = entries(parse_systemd, "02:30", BERLIN)
    [kept] = entries(parse_systemd, "02:30", Options(timezone="Europe/Berlin", keep=True))

    assert prove(entry.source, entry.stored, after=AFTER).differences == 10
    found = prove(kept.source, kept.stored, after=AFTER)
    assert (found.is_equal, found.same_rule) == (True, False)


def test_hourly_and_nightly_in_one_timer_keep_what_systemd_does():
    [entry] = entries(parse_systemd, "[Timer]\nOnCalendar=hourly\nOnCalendar=02:30", BERLIN)
    found = prove(entry.source, entry.stored, after=AFTER)

    assert (entry.stored.gap, entry.stored.fold) == (GapPolicy.SKIP, FoldPolicy.FIRST)
    assert (found.is_equal, found.complete) == (True, True)


def test_a_translation_that_is_wrong_is_caught_by_the_proof(monkeypatch):
    def off_by_a_weekday(calendar):
        return Cron("30 2 * * 0-4") if calendar.weekdays == (0, 1, 2, 3, 4) else stored_of(calendar)

    monkeypatch.setattr("everwhen.schedules.importers.systemd.stored_of", off_by_a_weekday)
    wrong, right = entries(parse_systemd, "Mon..Fri 02:30\nSun 02:30")
    found = prove(wrong.source, wrong.stored, after=AFTER)

    assert found.differences > 1_000
    assert prove(right.source, right.stored, after=AFTER).is_equal


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("[Timer]\nOnBootSec=5min", "import.systemd.monotonic"),
        ("[Timer]\nOnUnitActiveSec=1d\nOnCalendar=daily", "import.systemd.monotonic"),
        ("[Timer]\nOnClockChange=yes", "import.systemd.event"),
        ("[Timer]\nPersistent=yes", "import.systemd.none"),
        ("[Timer]\nOnCalendar=daily\nRandomizedDelaySec=2 weeks", "import.systemd.delay"),
        ("[Timer]\nOnCalendar=daily\nRandomizedDelaySec=3d", "import.systemd.delay"),
        ("[Timer]\nOnCalendar=daily\nRandomizedDelaySec=" + "1 " * 5000 + "x", "import.systemd.delay"),
        ("[Timer]\nOnCalendar=daily UTC\nOnCalendar=daily Europe/Berlin", "import.systemd.zones"),
        ("05:40:23.4200004/3.1700005", "import.systemd.fraction"),
        ("@1395716396", "import.systemd.unix"),
        ("Sun..Mon", "import.systemd.weekday"),
        ("Mon.. 10:00", "import.systemd.weekday"),
        ("Funday", "import.systemd.weekday"),
        ("daily CEST", "import.systemd.zone"),
        ("daily Mars/Base", "trigger.timezone.unknown"),
        ("25:00", "import.systemd.value"),
        ("*:0/0", "import.systemd.value"),
        ("10..8:00", "import.systemd.value"),
        ("*-*-32", "import.systemd.value"),
        ("*-*~31/2", "import.systemd.days"),
        ("2027/2-*-*", "import.systemd.years"),
        ("1:2:3:4", "import.systemd.time"),
        ("10", "import.systemd.date"),
        ("*-*-* 10:00 11:00 12:00", "import.systemd.expression"),
        ("*-02-30", "trigger.rrule.unreachable"),
        ("*:" + ",".join(["1"] * 200), "import.systemd.length"),
    ],
)
def test_what_cannot_become_a_schedule_is_refused(text, code):
    assert refusal(parse_systemd, text) == code


def terms(low, high):
    """Texts of a component, each with its values by hand."""
    number = st.integers(low, high)
    one = number.map(lambda n: (str(n), {n}))
    span = st.tuples(number, number).map(sorted).map(lambda p: (f"{p[0]}..{p[1]}", set(range(p[0], p[1] + 1))))
    step = st.tuples(number, st.integers(1, 9)).map(lambda p: (f"{p[0]}/{p[1]}", set(range(p[0], high + 1, p[1]))))
    several = st.lists(one | span | step, min_size=1, max_size=3).map(
        lambda found: (",".join(text for text, _ in found), set().union(*(values for _, values in found)))
    )
    return several | st.just(("*", set(range(low, high + 1))))


DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


@settings(max_examples=60, deadline=None)
@given(
    weekdays=st.none() | st.sets(st.integers(0, 6), min_size=1),
    month=terms(1, 12),
    day=terms(1, 31),
    from_end=st.booleans(),
    hour=terms(0, 23),
    minute=terms(0, 59),
)
def test_an_expression_fires_where_a_walk_over_days_says(*, weekdays, month, day, from_end, hour, minute):
    day_text, days = day
    if from_end and day_text != "*":
        day_text, days = "7/2", {7, 5, 3, 1}
    separator = "~" if from_end else "-"
    names = "" if weekdays is None else ",".join(DAYS[number] for number in sorted(weekdays)) + " "
    text = f"{names}*-{month[0]}{separator}{day_text} {hour[0]}:{minute[0]}"
    assume(len(text) <= 256)
    expected = []
    for offset in range(430):
        at = date(2027, 1, 1) + timedelta(days=offset)
        position = calendar.monthrange(at.year, at.month)[1] - at.day + 1 if from_end else at.day
        if at.month in month[1] and (position in days or day_text == "*") and at.weekday() in (weekdays or range(7)):
            expected += [datetime(at.year, at.month, at.day, h, m, tzinfo=UTC) for h in hour[1] for m in minute[1]]
    assume(expected)
    found = parse_on_calendar(text)
    for trigger in (recurrence_of(found), stored_of(found)):
        count = min(300, len(expected))
        before = datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC)
        assert list(fires(Timing(trigger), after=before, count=count)) == sorted(expected)[:count], text


@settings(max_examples=400, deadline=None)
@given(text=st.text() | st.text("0123456789*/-~.,: MonFriUTC=[Timer]\n#", max_size=80))
def test_any_text_is_read_and_never_raises(text):
    parse_systemd(text, BERLIN)
    parse_systemd(f"[Timer]\nOnCalendar={text}\nRandomizedDelaySec={text}", BERLIN)


def test_the_rule_of_an_expression_that_cron_cannot_say_is_a_recurrence():
    assert isinstance(stored_of(parse_on_calendar("Mon *-*-1..7")), Rrule)
