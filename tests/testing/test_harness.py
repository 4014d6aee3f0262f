"""Everwhen on a clock that is moved: what a team would test of its own schedules, and the harness itself."""

from datetime import UTC, datetime, timedelta

import pytest

from everwhen.testing import EverwhenTest, Fails, Loses, Succeeds
from everwhen.worker import Context, Worker

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
START = "2027-03-27T00:00:00Z"
NIGHTLY = {"kind": "daily", "times": ["02:30"]}
MINUTELY = {"kind": "cron", "expr": "* * * * *"}


@pytest.fixture
async def ew(everwhen):
    async with everwhen(start=START) as made:
        await made.apply(tasks=[{"name": "report"}])
        yield made
        await made.assert_every_promise_holds()


def schedule(name="nightly", **fields):
    return {"name": name, "task": "report", "trigger": NIGHTLY, "timezone": "UTC", **fields}


async def test_each_night_has_its_run_at_its_instant(ew: EverwhenTest):
    await ew.apply(schedules=[schedule()])
    await ew.advance_to("2027-03-30T00:00:00Z")

    await ew.assert_ran("nightly", times=3)
    runs = await ew.runs("nightly")
    assert [run.due_at for run in runs] == [datetime(2027, 3, day, 2, 30, tzinfo=UTC) for day in (27, 28, 29)]
    assert [run.finished_at for run in runs] == [run.due_at for run in runs]


async def test_nothing_runs_before_its_instant(ew: EverwhenTest):
    await ew.apply(schedules=[schedule()])
    await ew.advance_to("2027-03-27T02:29:59Z")

    assert [run.state for run in await ew.runs()] in ([], ["planned"])
    await ew.advance(timedelta(seconds=1))
    await ew.assert_ran("nightly", times=1, at="2027-03-27T02:30:00Z")


@pytest.mark.parametrize(
    ("gap", "at", "reason"),
    [("skip", None, "calendar.dst_gap"), ("gap_end", "2027-03-28T01:00:00Z", None)],
)
async def test_through_the_hour_that_does_not_exist(ew: EverwhenTest, gap, at, reason):
    await ew.apply(schedules=[schedule(timezone="Europe/Berlin", gap=gap)])
    await ew.advance_to("2027-03-30T00:00:00Z")

    await ew.assert_ran("nightly", times=2 if reason else 3)
    if reason:
        await ew.assert_skipped("nightly", reason=reason, times=1)
    else:
        await ew.assert_ran("nightly", at=at)


async def test_after_an_outage_the_policy_decides(ew: EverwhenTest):
    await ew.apply(
        schedules=[
            schedule("each", trigger=MINUTELY, catch_up={"policy": "replay"}),
            schedule("latest", trigger=MINUTELY, catch_up={"policy": "coalesce"}),
            schedule("none", trigger=MINUTELY, catch_up={"policy": "skip"}),
        ]
    )
    await ew.advance(10 * MINUTE)
    await ew.outage_until(ew.now + 2 * HOUR)
    await ew.advance(10 * MINUTE)

    await ew.assert_ran("each", times=140)
    late = [run for run in await ew.runs("latest") if run.state == "succeeded"]
    assert 20 < len(late) < 30
    await ew.assert_skipped("latest", reason="catchup.coalesced", times=140 - len(late))
    skipped = 140 - sum(run.state == "succeeded" for run in await ew.runs("none"))
    assert skipped > 100
    await ew.assert_skipped("none", reason="catchup.skip", times=skipped)


async def test_a_task_that_keeps_failing_is_retried_and_then_dead(ew: EverwhenTest):
    retry = {"max_attempts": 3, "base_seconds": 60, "factor": 2, "jitter": "none"}
    await ew.call("PATCH", "tasks/report", {"retry": retry})
    await ew.apply(schedules=[schedule()])
    ew.on("report", Fails(error="the database is away"))
    await ew.advance_to("2027-03-27T02:32:00Z")
    (run,) = await ew.runs("nightly")
    assert (run.state, run.attempts) == ("retrying", 2)
    await ew.advance_to("2027-03-27T12:00:00Z")

    await ew.assert_dead("nightly", times=1)
    (run,) = await ew.runs("nightly")
    assert (run.attempts, run.reason, run.finished_at) == (
        3,
        "retry.exhausted",
        datetime(2027, 3, 27, 2, 33, tzinfo=UTC),
    )


async def test_a_script_has_a_step_for_each_attempt(ew: EverwhenTest):
    await ew.apply(schedules=[schedule()])
    ew.on("report", [Fails(), Loses(), Succeeds(takes=5 * MINUTE)])
    await ew.advance_to("2027-03-27T12:00:00Z")

    (run,) = await ew.runs("nightly")
    attempts = (await ew.call("GET", f"runs/{run.id}/attempts"))["items"]
    assert [attempt["outcome"] for attempt in attempts] == ["failed", "lost", "succeeded"]
    last = attempts[-1]
    took = datetime.fromisoformat(last["finished_at"]) - datetime.fromisoformat(last["claimed_at"])
    assert took == 5 * MINUTE


async def test_a_function_is_given_the_run_and_its_error_is_the_attempts(ew: EverwhenTest):
    await ew.apply(schedules=[schedule(input={"region": "eu"})])
    seen = []

    def report(run):
        seen.append((run.schedule, run.attempt, run.input, run.nominal_at))
        if run.attempt == 1:
            raise ValueError("not yet")
        return {"pages": 3}

    ew.on("report", report)
    await ew.advance_to("2027-03-27T12:00:00Z")

    at = datetime(2027, 3, 27, 2, 30, tzinfo=UTC)
    assert seen == [("nightly", 1, {"region": "eu"}, at), ("nightly", 2, {"region": "eu"}, at)]
    await ew.assert_ran("nightly", times=1)


async def test_a_workers_own_functions_are_called(ew: EverwhenTest):
    worker, seen = Worker(), []

    @worker.task("report")
    def report(ctx: Context, region: str) -> str:
        seen.append((ctx.attempt, ctx.nominal_at, region))
        return "done"

    ew.use(worker)
    await ew.apply(schedules=[schedule(input={"region": "eu"})])
    await ew.advance_to("2027-03-28T00:00:00Z")

    assert seen == [(1, datetime(2027, 3, 27, 2, 30, tzinfo=UTC), "eu")]
    await ew.assert_ran("nightly", times=1)


async def test_without_workers_runs_wait_and_the_sentinel_says_so(ew: EverwhenTest):
    ew.has_workers = False
    await ew.apply(schedules=[schedule()])
    await ew.advance_to("2027-03-27T04:00:00Z")
    await ew.advance_to("2027-03-27T04:01:00Z")

    assert [run.state for run in await ew.runs("nightly")] == ["waiting"]
    kinds = {finding["kind"] for finding in (await ew.call("GET", "findings"))["items"]}
    assert kinds == {"line.unattended"}
    ew.has_workers = True
    await ew.advance(MINUTE)
    await ew.assert_ran("nightly", times=1)


ETL = {
    "name": "etl",
    "nodes": [
        {"id": "extract", "task": "extract"},
        {"id": "load", "task": "load", "needs": ["extract"], "retry": {"base_seconds": 60, "jitter": "none"}},
        {"id": "report", "task": "report", "needs": ["load"]},
    ],
}


async def test_a_scheduled_workflow_runs_node_after_node(ew: EverwhenTest):
    await ew.apply(tasks=[{"name": "extract"}, {"name": "load"}], workflows=[ETL])
    ew.on("extract", Succeeds(takes=10 * MINUTE))
    ew.on("load", [Fails(), Succeeds()])
    await ew.apply(schedules=[{"name": "nightly", "workflow": "etl", "trigger": NIGHTLY, "timezone": "UTC"}])

    await ew.advance_to("2027-03-27T02:40:30Z")
    assert await ew.nodes("nightly@2027-03-27T02:30+00:00") == {
        "extract": "succeeded",
        "load": "retrying",
        "report": "blocked",
    }
    await ew.advance_to("2027-03-28T00:00:00Z")

    await ew.assert_ran("nightly", times=1, at="2027-03-27T02:30:00Z")
    (run,) = await ew.runs("nightly")
    assert run.finished_at == datetime(2027, 3, 27, 2, 41, tzinfo=UTC)


async def test_the_deadline_of_a_workflow_is_an_instant_at_which_something_happens(ew: EverwhenTest):
    await ew.apply(tasks=[{"name": "extract"}], workflows=[{**ETL, "nodes": ETL["nodes"][:1], "deadline_seconds": 300}])
    ew.on("extract", Succeeds(takes=HOUR))
    await ew.apply(schedules=[{"name": "nightly", "workflow": "etl", "trigger": NIGHTLY, "timezone": "UTC"}])

    await ew.advance_to("2027-03-27T04:00:00Z")

    (run,) = await ew.runs("nightly")
    assert (run.state, run.reason) == ("dead", "deadline.total")


async def test_a_result_that_is_too_large_is_refused_as_by_a_server(ew: EverwhenTest):
    await ew.apply(tasks=[{"name": "extract"}, {"name": "load"}], workflows=[ETL])
    ew.on("extract", Succeeds(result="x" * 70_000))
    await ew.apply(schedules=[{"name": "nightly", "workflow": "etl", "trigger": NIGHTLY, "timezone": "UTC"}])

    await ew.advance_to("2027-03-28T00:00:00Z")

    states = await ew.nodes("nightly@2027-03-27T02:30+00:00")
    assert states == {"extract": "failed", "load": "upstream_failed", "report": "upstream_failed"}
    (run,) = [run for run in await ew.runs() if run.task == "extract"]
    (attempt,) = (await ew.call("GET", f"runs/{run.id}/attempts"))["items"]
    assert "at most 65536 bytes" in attempt["error"]["message"]


async def test_a_pause_is_skipped_and_has_its_reason(ew: EverwhenTest):
    await ew.apply(schedules=[schedule()])
    await ew.call("POST", "schedules/nightly/pause", {"reason": "holidays"})
    await ew.advance_to("2027-03-30T00:00:00Z")
    await ew.call("POST", "schedules/nightly/resume", {})
    await ew.advance_to("2027-03-31T00:00:00Z")

    await ew.assert_ran("nightly", times=1)
    await ew.assert_skipped("nightly", reason="schedule.paused", times=3)


async def test_an_assertion_that_fails_says_what_there_is(ew: EverwhenTest):
    await ew.apply(schedules=[schedule()])
    await ew.advance_to("2027-03-28T00:00:00Z")

    with pytest.raises(AssertionError, match=r"nightly: 2 succeeded expected, 1 found; there are nightly@.* succeeded"):
        await ew.assert_ran("nightly", times=2)
    with pytest.raises(AssertionError, match=r"some not run for schedule\.paused expected, 0 found"):
        await ew.assert_skipped("nightly", reason="schedule.paused")
    with pytest.raises(AssertionError, match="0 found"):
        await ew.assert_dead("nightly")


async def test_what_the_api_refuses_is_told(ew: EverwhenTest):
    with pytest.raises(AssertionError, match="There is no task named nothing"):
        await ew.apply(schedules=[schedule(task="nothing")])


async def test_time_does_not_go_back_and_needs_an_offset(ew: EverwhenTest):
    with pytest.raises(AssertionError, match="time does not go back"):
        await ew.advance_to("2027-03-26T00:00:00Z")
    with pytest.raises(ValueError, match="has no offset"):
        await ew.advance_to("2027-03-29T00:00:00")


async def test_two_in_one_test_have_nothing_to_do_with_each_other(everwhen):
    async with everwhen(start=START) as one, everwhen(start="2026-12-31T00:00:00Z") as other:
        await one.apply(tasks=[{"name": "report"}], schedules=[schedule()])
        await other.apply(tasks=[{"name": "report"}], schedules=[schedule()])
        await one.advance_to("2027-03-29T00:00:00Z")
        await other.advance_to("2027-01-01T00:00:00Z")

        await one.assert_ran("nightly", times=2)
        await other.assert_ran("nightly", times=1)


async def test_runs_are_given_to_a_worker_that_they_fit_and_take_of_what_it_has(ew: EverwhenTest):
    requires = {"labels": {"zone": "a"}, "resources": {"gpu": 2}}
    await ew.apply(tasks=[{"name": "train", "requires": requires}], schedules=[schedule("hourly", task="train")])
    await ew.apply(schedules=[schedule("other", task="train")])
    ew.on("train", Succeeds(takes=HOUR))
    await ew.advance_to("2027-03-27T03:00:00Z")
    assert {run.reason for run in await ew.runs()} == {"worker.no_capability_match"}

    ew.equip(labels={"zone": "b"}, resources={"gpu": 9})
    await ew.advance(MINUTE)
    assert {run.state for run in await ew.runs()} == {"waiting"}
    ew.equip(labels={"zone": "a"}, resources={"gpu": 3})
    await ew.advance(MINUTE)
    assert sorted(run.state for run in await ew.runs()) == ["running", "waiting"]
    await ew.advance(HOUR)
    assert sorted(run.state for run in await ew.runs()) == ["running", "succeeded"]
    await ew.advance(HOUR)
    assert {run.state for run in await ew.runs()} == {"succeeded"}
