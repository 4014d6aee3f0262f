"""Temporal: the shape is the JSON of its API's `DescribeSchedule`, in which protobuf leaves out zeros."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everwhen.core.overlap import MOST_BUFFERED
from everwhen.core.overlap_json import parse_overlap
from everwhen.core.proofs import prove
from everwhen.core.triggers import AnyOf, Every, FoldPolicy, GapPolicy
from everwhen.schedules.importers.entry import Options
from everwhen.schedules.importers.temporal import parse_temporal
from everwhen.schedules.wire_catchup import CatchUpFields
from tests.schedules.importers.reading import AFTER, KEEP, entries, local_fires, refusal

ALL = {"dayOfMonth": [{"start": 1, "end": 31}], "month": [{"start": 1, "end": 12}], "dayOfWeek": [{"end": 6}]}


def calendar(hour, minute, **fields):
    return {"second": [{}], "minute": [{"start": minute}], "hour": [{"start": hour}], **ALL, **fields}


def described(name="nightly", *, state=None, policies=None, **spec):
    action = {"startWorkflow": {"workflowId": "report-workflow", "workflowType": {"name": "Report"}}}
    return {
        "scheduleId": name,
        "schedule": {
            "spec": spec,
            "action": action,
            "policies": policies or {"overlapPolicy": "SCHEDULE_OVERLAP_POLICY_SKIP", "catchupWindow": "31536000s"},
            "state": state or {"notes": "x"},
        },
        "info": {"actionCount": "3"},
    }


def read(item, *options):
    return entries(parse_temporal, json.dumps(item), *options)


def test_a_structured_calendar_is_a_cron_of_seven_columns():
    weekdays = [{"start": 1, "end": 5, "step": 1}]
    [entry] = read(described(structuredCalendar=[calendar(2, 30, dayOfWeek=weekdays)], timezoneName="Europe/Berlin"))

    assert entry.stored.trigger.expr == "0 30 2 * * 1-5 *"
    assert local_fires(entry.stored, 2) == ["2027-01-01T02:30:00", "2027-01-04T02:30:00"]
    assert entry.input == {"schedule": "nightly", "workflow": "Report"}
    assert entry.notes == ()


@pytest.mark.parametrize(
    ("policy", "overlap"),
    [
        ("SKIP", {"policy": "skip"}),
        ("UNSPECIFIED", {"policy": "skip"}),
        ("BUFFER_ONE", {"policy": "buffer_one"}),
        ("BUFFER_ALL", {"policy": "buffer_all", "max_buffered": MOST_BUFFERED}),
        ("CANCEL_OTHER", {"policy": "cancel_other"}),
        ("TERMINATE_OTHER", {"policy": "terminate_other"}),
        ("ALLOW_ALL", None),
    ],
)
def test_an_overlap_policy_is_ours(policy, overlap):
    for name in (policy, f"SCHEDULE_OVERLAP_POLICY_{policy}"):
        [entry] = read(described(policies={"overlapPolicy": name}, interval=[{"interval": "60s"}]))

        assert entry.overlap == overlap
        parse_overlap(entry.overlap)


@pytest.mark.parametrize(
    ("policies", "window", "grace"),
    [
        ({"overlapPolicy": "SKIP"}, 31_536_000, None),
        ({"catchupWindow": "3600s"}, 3600, None),
        ({"catchupWindow": "30s"}, 30, 30),
        ({"catchupWindow": "1s"}, 10, 10),
    ],
)
def test_what_lies_within_the_catch_up_window_is_replayed_and_what_passed_in_a_pause_is_not(policies, window, grace):
    [entry] = read(described(policies=policies, interval=[{"interval": "60s"}]))

    assert entry.catch_up == {
        "policy": "replay",
        "window_seconds": window,
        "on_resume": {"policy": "skip"},
        **({} if grace is None else {"grace_seconds": grace}),
    }
    assert CatchUpFields.model_validate(entry.catch_up).window_seconds == window


@pytest.mark.parametrize(("flag", "failures"), [(True, 1), (False, None)])
def test_a_pause_on_failure_is_one_after_the_first(flag, failures):
    [entry] = read(described(policies={"pauseOnFailure": flag}, interval=[{"interval": "60s"}]))

    assert entry.pause_after_failures == failures


def test_an_overlap_policy_that_is_none_is_refused():
    item = described(policies={"overlapPolicy": "MAYBE"}, interval=[{"interval": "60s"}])

    assert refusal(parse_temporal, json.dumps(item)) == "import.temporal.overlap"


def test_ranges_have_steps_and_zeros_are_left_out():
    hours = [{"start": 8, "end": 18, "step": 5}, {"start": 23}]
    steps = {**calendar(0, 0), "minute": [{"end": 59, "step": 15}], "hour": hours}
    [entry] = read(described(structuredCalendar=[{**steps, "year": [{"start": 2027, "end": 2028}]}]))

    assert entry.stored.trigger.expr == "0 */15 8-18/5,23 * * * 2027-2028"


def test_an_interval_counts_from_1970_with_its_phase():
    [entry] = read(described(interval=[{"interval": "3600s", "phase": "900s"}]))

    assert isinstance(entry.stored.trigger, Every)
    assert local_fires(entry.stored, 2) == ["2027-01-01T00:15:00", "2027-01-01T01:15:00"]


def test_cron_strings_and_the_older_calendars_are_read():
    [entry] = read(described(cronString=["0 12 * * MON-WED # lunch", "@every 90m/5m"], calendar=[{"hour": "*/6"}]))

    assert isinstance(entry.stored.trigger, AnyOf)
    assert local_fires(entry.stored, 3) == ["2027-01-01T00:05:00", "2027-01-01T01:35:00", "2027-01-01T03:05:00"]
    assert "2027-01-01T06:00:00" in local_fires(entry.stored, 9)


def test_exclusions_and_bounds_are_kept():
    spec = {
        "structuredCalendar": [calendar(9, 0)],
        "excludeStructuredCalendar": [calendar(9, 0, dayOfWeek=[{"start": 0}])],
        "startTime": "2027-01-02T00:00:00Z",
        "endTime": "2027-01-04T23:00:00Z",
    }
    [entry] = read(described(**spec))

    # The 3rd is a Sunday.
    assert local_fires(entry.stored, 9) == ["2027-01-02T09:00:00", "2027-01-04T09:00:00"]


def test_jitter_is_flex_and_a_paused_one_is_paused():
    [entry] = read(described(structuredCalendar=[calendar(9, 0)], jitter="600s", state={"paused": True}))

    assert entry.flex == {"mode": "hash", "window_seconds": 600}
    assert entry.paused == "paused in Temporal"


def test_it_skips_gaps_and_doubles_folds_and_the_proof_tells():
    spec = {"structuredCalendar": [calendar(2, 30)], "timezoneName": "Europe/Berlin"}
    [entry], [kept] = read(described(**spec)), read(described(**spec), KEEP)

    assert prove(entry.source, entry.stored, after=AFTER).differences == 20
    assert prove(kept.source, kept.stored, after=AFTER).is_equal


def test_hourly_and_nightly_in_one_schedule_keep_what_the_source_does():
    [mixed] = read(described(cronString=["0 * * * *", "30 2 * * *"], timezoneName="Europe/Berlin"))
    [hourly] = read(described(cronString=["0 * * * *", "30 */2 * * *"], interval=[{"interval": "7s"}]))

    assert (mixed.stored.gap, mixed.stored.fold) == (GapPolicy.SKIP, FoldPolicy.BOTH)
    assert prove(mixed.source, mixed.stored, after=AFTER).same_rule
    assert (hourly.stored.gap, hourly.stored.fold) == (GapPolicy.SKIP, FoldPolicy.BOTH)


def test_a_schedule_without_an_id_is_named_by_its_workflow():
    item = described(structuredCalendar=[calendar(9, 0)])
    del item["scheduleId"]

    assert read([item])[0].name == "report-workflow"


@pytest.mark.parametrize(
    ("item", "code"),
    [
        (described(), "import.temporal.empty"),
        (described(structuredCalendar=[{"hour": [{"start": 3}]}]), "import.temporal.empty"),
        (described(structuredCalendar=[calendar(24, 0)]), "import.temporal.range"),
        (described(structuredCalendar=[calendar(2, 0, month=[{"start": 0}])]), "import.temporal.range"),
        (described(structuredCalendar=[calendar("2", 0)]), "import.type"),
        (described(calendar=[{"hour": "1 2"}]), "import.temporal.range"),
        (described(interval=[{"interval": "0.5s"}]), "import.temporal.duration"),
        (described(interval=[{"interval": "0s"}]), "import.temporal.interval"),
        (described(interval=[{"interval": "60s", "phase": "60s"}]), "import.temporal.interval"),
        (described(interval=[{"interval": "9999999999999s"}]), "import.temporal.duration"),
        (described(cronString=["CRON_TZ=Europe/Berlin 0 0 * * *"]), "trigger.cron.timezone_prefix"),
        (described(cronString=["@every 1.5h"]), "trigger.cron.every"),
        (described(cronString=[5]), "import.type"),
        (described(cronString=["0 0 L * *"]), "trigger.cron.extension"),
        (described(cronString=["@daily"], timezoneName="Mars"), "trigger.timezone.unknown"),
        (described(cronString=["@daily"], timezoneData="AAAA"), "import.temporal.zone"),
        (described(cronString=["@daily"], jitter="90000s"), "import.temporal.jitter"),
        (described(cronString=["@daily"], startTime="2027-01-01T00:00:00"), "import.type"),
        (described(cronString=["@daily"], state={"limitedActions": True}), "import.temporal.limited"),
        (described(cronString=["@daily"] * 40), "trigger.any_of.size"),
        ({"spec": {"cronString": ["@daily"]}}, "import.temporal.name"),
        ("text", "import.type"),
    ],
)
def test_what_cannot_become_a_schedule_is_refused(item, code):
    assert refusal(parse_temporal, json.dumps(item)) == code


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 99)
    | st.text(max_size=8)
    | st.sampled_from(["@daily", "5s", "* * * * *"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["spec", "schedule", "structuredCalendar", "interval", "cronString", "hour", "start", "state"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(value=json_values)
def test_any_json_is_read_and_never_raises(value):
    parse_temporal(json.dumps(value), Options())
    parse_temporal(json.dumps({"scheduleId": "a", "spec": value}), Options())
