"""EventBridge: the shape is what `get-schedule` is documented to return; expressions are from the user guide."""

import json

import pytest

from everwhen.core.proofs import prove
from everwhen.core.triggers import At, Every
from everwhen.schedules.importers.eventbridge import parse_eventbridge
from everwhen.tasks.wire import RetryFields
from tests.schedules.importers.reading import AFTER, KEEP, entries, local_fires, refusal


def schedule(expr="cron(0 8 1 * ? *)", **fields):
    given = {
        "Arn": "arn:aws:scheduler:eu-central-1:123456789012:schedule/default/report",
        "CreationDate": "2026-06-01T10:15:30.123000+00:00",
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "GroupName": "default",
        "LastModificationDate": "2026-06-01T10:15:30.123000+00:00",
        "Name": "report",
        "ScheduleExpression": expr,
        "ScheduleExpressionTimezone": "Europe/Berlin",
        "State": "ENABLED",
        "Target": {
            "Arn": "arn:aws:lambda:eu-central-1:123456789012:function:report",
            "Input": '{"a": 1}',
            "RoleArn": "arn:aws:iam::123456789012:role/scheduler",
        },
    }
    return {key: value for key, value in (given | fields).items() if value is not None}


def read(item, *options):
    return entries(parse_eventbridge, json.dumps(item), *options)


def test_a_cron_keeps_its_dialect_its_zone_and_its_target():
    [entry] = read(schedule("cron(15 10 ? * 6L 2026-2030)"))

    assert local_fires(entry.stored, 2) == ["2027-01-29T10:15:00", "2027-02-26T10:15:00"]
    assert entry.name == "report"
    assert entry.input["target"].endswith("function:report")
    assert entry.input["input"] == '{"a": 1}'
    assert prove(entry.source, entry.stored, after=AFTER).is_equal


def test_a_rate_counts_elapsed_time_from_its_start_or_its_creation():
    created, started = read([schedule("rate(5 days)"), schedule("rate(1 hour)", StartDate="2027-02-01T00:00:07Z")])

    assert created.stored.trigger == Every("P5D", created.stored.trigger.anchor)
    assert created.stored.trigger.anchor.isoformat() == "2026-06-01T10:15:30+00:00"
    assert local_fires(started.stored, 2) == ["2027-02-01T01:00:07", "2027-02-01T02:00:07"]
    assert prove(started.source, started.stored, after=AFTER).is_equal


def test_older_clients_print_seconds():
    [entry] = read(schedule("rate(1 days)", CreationDate=1780308930.123))

    assert entry.stored.trigger.anchor.isoformat() == "2026-06-01T10:15:30+00:00"


def test_at_is_a_local_time_and_bounds_do_not_count_for_it():
    [entry] = read(schedule("at(2027-11-20T13:00:00)", StartDate="2028-01-01T00:00:00Z"))

    assert isinstance(entry.stored.trigger, At)
    assert local_fires(entry.stored) == ["2027-11-20T13:00:00"]


def test_bounds_bound():
    [entry] = read(schedule("cron(0 8 * * ? *)", StartDate="2027-02-01T12:00:00Z", EndDate="2027-02-03T12:00:00Z"))

    assert local_fires(entry.stored, 9) == ["2027-02-02T08:00:00", "2027-02-03T08:00:00"]


def test_a_flexible_window_is_flex_and_a_disabled_one_is_paused():
    window = {"Mode": "FLEXIBLE", "MaximumWindowInMinutes": 15}
    [entry] = read(schedule(FlexibleTimeWindow=window, State="DISABLED", GroupName="ops"))

    assert entry.flex == {"mode": "hash", "window_seconds": 900}
    assert entry.paused == "disabled in EventBridge"
    assert entry.name == "ops.report"


def test_lists_documents_one_after_the_other_and_rules_are_read():
    rule = {"Name": "rule", "ScheduleExpression": "cron(0 10 * * ? *)", "State": "ENABLED"}
    several = json.dumps(schedule()) + "\n" + json.dumps(schedule(Name="b"))

    assert [entry.name for entry in entries(parse_eventbridge, several)] == ["report", "b"]
    assert [entry.name for entry in read({"Schedules": [schedule()]})] == ["report"]
    [entry] = read({"Rules": [rule]})
    assert entry.stored.timezone == "UTC"
    assert "no zone" in entry.notes[0]


@pytest.mark.parametrize(
    ("policy", "retry"),
    [
        (None, None),
        ({}, None),
        ({"MaximumRetryAttempts": 0}, {"max_attempts": 1}),
        (
            {"MaximumRetryAttempts": 185, "MaximumEventAgeInSeconds": 86_400},
            {"max_attempts": 186, "max_age_seconds": 86_400},
        ),
    ],
)
def test_a_retry_policy_of_the_target_is_one_of_a_task(policy, retry):
    target = {"Arn": "arn:aws:sqs:eu-central-1:1:q", **({} if policy is None else {"RetryPolicy": policy})}
    [entry] = read(schedule(Target=target))

    assert entry.task == ({} if retry is None else {"retry": retry})
    assert entry.notes == ()
    assert RetryFields.model_validate(retry or {}).policy()


@pytest.mark.parametrize("policy", [{"MaximumRetryAttempts": -1}, {"MaximumEventAgeInSeconds": "1h"}, "often"])
def test_a_retry_policy_that_is_none_is_refused(policy):
    item = schedule(Target={"Arn": "arn:aws:sqs:eu-central-1:1:q", "RetryPolicy": policy})

    assert refusal(parse_eventbridge, json.dumps(item)) == "import.type"


def test_it_is_skipped_in_a_gap_and_runs_once_in_a_fold_and_the_proof_tells_what_changes():
    [entry], [kept] = read(schedule("cron(30 2 * * ? *)")), read(schedule("cron(30 2 * * ? *)"), KEEP)
    found = prove(entry.source, entry.stored, after=AFTER)

    assert found.differences == 10
    assert {move.after.month for move in found.first if move.after} == {3}
    assert prove(kept.source, kept.stored, after=AFTER).is_equal


@pytest.mark.parametrize(
    ("item", "code"),
    [
        (schedule("rate(5 minutes)", CreationDate=None), "import.eventbridge.anchor"),
        (schedule("rate(0 minutes)"), "import.eventbridge.rate"),
        (schedule("rate(5 weeks)"), "import.eventbridge.rate"),
        (schedule("rate(999999999 days)"), "trigger.every.bounds"),
        (schedule("0 8 * * ? *"), "import.eventbridge.expression"),
        (schedule("cron(0 8 * * * *)"), "trigger.cron.day_columns"),
        (schedule("cron(0 8 * * ?)"), "trigger.cron.fields"),
        (schedule("at(2027-11-20T13:00:00Z)"), "import.eventbridge.at"),
        (schedule("at(tomorrow)"), "trigger.instant.syntax"),
        (schedule(State="GONE"), "import.eventbridge.state"),
        (schedule(State=["ENABLED"]), "import.type"),
        (schedule(FlexibleTimeWindow={"Mode": "FLEXIBLE"}), "import.eventbridge.window"),
        (schedule(StartDate=True), "import.type"),
        (schedule(ScheduleExpressionTimezone="CET/DST"), "trigger.timezone.unknown"),
        (schedule(Name=None), "import.missing"),
        (schedule(Target={"Input": "x" * 70_000}), "import.input"),
        ([1], "import.type"),
    ],
)
def test_what_cannot_become_a_schedule_is_refused(item, code):
    assert refusal(parse_eventbridge, json.dumps(item)) == code
