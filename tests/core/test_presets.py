import pytest

from everwhen.core.errors import TriggerError
from everwhen.core.presets import CASES, LIBRARIES, PRESETS, answer_to, apply_preset, find_preset
from everwhen.core.triggers import Timing, fires, parse_fold, parse_gap, parse_instant, parse_trigger

# What each library's own next-time function was measured to answer: croniter 7.0.0, cronsim 2.8, APScheduler 3.11.3,
# Airflow 3.3.2, Dagster 1.13.29, Prefect 3.9.1. The order of the columns is that of LIBRARIES.
MEASURED = {
    "New York, gap": ("03:00", "03:00", "03:30", "03:30", "03:00", "03:30"),
    "New York, fold": ("both", "first", "both", "second", "second", "first"),
    "New York, fold, hourly": ("both", "both", "both", "both", "both", "first"),
    "Lord Howe, 30 minute gap": ("02:30", "02:30", "02:45", "02:45", "02:30", "02:45"),
    "Lord Howe, 30 minute fold": ("both", "first", "both", "second", "second", "first"),
    "Troll, 2 hour gap": ("03:00", "03:00", "04:30", "04:30", "04:00", "04:30"),
    "Cairo, midnight gap": ("01:00", "01:00", "dropped", "01:00", "01:00", "01:00"),
    "Santiago, midnight gap": ("01:00", "01:00", "dropped", "01:30", "01:30", "01:30"),
}
# Documented, or read in the source: what happens to a time of day in a gap and in a fold.
STATED = {
    "vixie": ("03:00", "first", "both"),
    "kubernetes": ("dropped", "both", "both"),
    "temporal": ("dropped", "both", "both"),
    "eventbridge": ("dropped", "first", "first"),
    "quartz": ("dropped", "both", "both"),
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_preset_answers_as_the_library_was_measured_to(case, library):
    assert answer_to(case, PRESETS[library]) == MEASURED[case.name][LIBRARIES.index(library)]


@pytest.mark.parametrize("name", STATED)
def test_a_preset_answers_as_the_scheduler_is_said_to(name):
    assert tuple(answer_to(case, PRESETS[name]) for case in CASES[:3]) == STATED[name]


def planned(spec, preset, *, after, count=3):
    data = apply_preset(spec, preset)
    timing = Timing(
        parse_trigger(data["trigger"]),
        spec["timezone"],
        parse_gap(data.get("gap")),
        parse_fold(data.get("fold")),
    )
    found = fires(timing, after=parse_instant(after, field="after"), count=count)
    return [timing.zone.local(instant).isoformat()[5:] for instant in found]


NEW_YORK = "America/New_York"


@pytest.mark.parametrize(
    ("preset", "expr", "after", "expected"),
    [
        # Elapsed time or time of day: each draws the line elsewhere.
        ("vixie", "*/30 2 * * *", "2026-03-08T06:00:00Z", ["03-09T02:00:00-04:00", "03-09T02:30:00-04:00"]),
        ("cronsim", "*/30 2 * * *", "2026-03-08T06:00:00Z", ["03-09T02:00:00-04:00", "03-09T02:30:00-04:00"]),
        ("croniter", "*/30 2 * * *", "2026-03-08T06:00:00Z", ["03-08T03:00:00-04:00", "03-09T02:00:00-04:00"]),
        ("croniter", "30 */2 * * *", "2026-03-08T06:00:00Z", ["03-08T03:00:00-04:00", "03-08T04:30:00-04:00"]),
        ("croniter", "30 * * * *", "2026-03-08T06:00:00Z", ["03-08T01:30:00-05:00", "03-08T03:30:00-04:00"]),
        ("prefect", "30 * * * *", "2026-11-01T05:00:00Z", ["11-01T01:30:00-04:00", "11-01T02:30:00-05:00"]),
        ("airflow", "30 * * * *", "2026-11-01T05:00:00Z", ["11-01T01:30:00-04:00", "11-01T01:30:00-05:00"]),
        ("apscheduler", "30 * * * *", "2026-03-08T06:00:00Z", ["03-08T01:30:00-05:00", "03-08T03:30:00-04:00"]),
        # Day columns and numbering.
        ("apscheduler", "0 0 * * 0", "2026-01-01T06:00:00Z", ["01-05T00:00:00-05:00", "01-12T00:00:00-05:00"]),
        ("apscheduler", "0 0 13 * 4", "2026-01-01T06:00:00Z", ["02-13T00:00:00-05:00", "03-13T00:00:00-04:00"]),
        ("temporal", "0 0 13 * 5", "2026-01-01T06:00:00Z", ["02-13T00:00:00-05:00", "03-13T00:00:00-04:00"]),
        ("kubernetes", "0 0 */2 * 1", "2026-01-01T06:00:00Z", ["01-03T00:00:00-05:00", "01-05T00:00:00-05:00"]),
        ("vixie", "0 0 */2 * 1", "2026-01-01T06:00:00Z", ["01-05T00:00:00-05:00", "01-19T00:00:00-05:00"]),
        ("croniter", "0 0 * * L5", "2026-01-01T06:00:00Z", ["01-30T00:00:00-05:00", "02-27T00:00:00-05:00"]),
        ("quartz", "0 0 0 ? * 2#1", "2026-01-01T06:00:00Z", ["01-05T00:00:00-05:00", "02-02T00:00:00-05:00"]),
        (
            "eventbridge",
            "cron(0 0 ? * 2#1 *)",
            "2026-01-01T06:00:00Z",
            ["01-05T00:00:00-05:00", "02-02T00:00:00-05:00"],
        ),
    ],
)
def test_a_preset_keeps_the_quirks_of_its_scheduler(preset, expr, after, expected):
    spec = {"trigger": {"kind": "cron", "expr": expr}, "timezone": NEW_YORK}
    assert planned(spec, preset, after=after, count=2) == expected


def test_what_a_schedule_names_itself_is_kept():
    spec = {"trigger": {"kind": "cron", "expr": "0 0 * * *"}, "timezone": "Africa/Cairo", "gap": "shift"}
    assert planned(spec, "apscheduler", after="2026-04-23T12:00:00Z", count=1) == ["04-24T01:00:00+03:00"]
    assert apply_preset({**spec, "fold": "second"}, "kubernetes")["fold"] == "second"
    assert apply_preset(spec, "kubernetes") == {
        **spec,
        "trigger": {"kind": "cron", "expr": "0 0 * * *", "dialect": "kubernetes"},
        "fold": "both",
    }


def test_a_trigger_of_another_kind_gets_the_policies_for_a_time_of_day():
    spec = {"trigger": {"kind": "at", "at": "2026-03-08T02:30"}, "timezone": NEW_YORK}
    assert planned(spec, "airflow", after="2026-03-01T00:00:00Z") == ["03-08T03:30:00-04:00"]
    assert planned(spec, "temporal", after="2026-03-01T00:00:00Z") == []


def test_without_a_preset_nothing_changes():
    spec = {"trigger": {"kind": "cron", "expr": "0 0 * * *"}}
    assert apply_preset(spec, None) == spec
    assert apply_preset({"trigger": 5}, "airflow") == {"trigger": 5}


def test_an_unknown_preset_and_another_dialect_are_refused():
    with pytest.raises(TriggerError, match=r"use one of vixie, kubernetes") as caught:
        find_preset("luigi")
    assert (caught.value.code, caught.value.field) == ("trigger.preset.unknown", "preset")
    with pytest.raises(TriggerError) as caught:
        apply_preset({"trigger": {"kind": "cron", "expr": "0 0 * * *", "dialect": "spring"}}, "quartz")
    assert caught.value.code == "trigger.preset.dialect"
