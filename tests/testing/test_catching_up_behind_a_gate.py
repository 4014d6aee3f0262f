"""What was missed stands behind the gate of its schedule: catching up decides how many of it run, the gate when."""

from collections import Counter
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from everwhen.testing import EverwhenTest, Succeeds
from everwhen.testing.clock import instant

MINUTE = timedelta(minutes=1)
START = "2027-03-27T00:00:00Z"
MINUTELY = {"kind": "cron", "expr": "* * * * *"}
REPLAY = {"policy": "replay", "grace_seconds": 30}
MISSED = 4


@pytest.fixture
async def ew(everwhen):
    async with everwhen(start=START) as made:
        await made.apply(tasks=[{"name": "report"}])
        yield made
        await made.assert_every_promise_holds()


async def caught_up(ew: EverwhenTest, overlap, *, catch_up=REPLAY, takes=timedelta(seconds=20)) -> Any:
    """Miss some instants, catch up, pause at once so that nothing new comes, and work everything off."""
    ew.on("report", Succeeds(takes=takes))
    body = {"name": "minutely", "task": "report", "trigger": MINUTELY, "timezone": "UTC", "catch_up": catch_up}
    await ew.apply(schedules=[{**body, "overlap": overlap}])
    await ew.outage_until(ew.now + MISSED * MINUTE + timedelta(seconds=45))
    await ew.advance(timedelta(seconds=1))
    await ew.call("PATCH", "schedules/minutely", {"trigger": {"kind": "cron", "expr": "0 0 1 1 *"}})
    await ew.advance(5 * MINUTE)
    return await ew.runs("minutely")


def ended(runs):
    return Counter(run.state if run.state == "succeeded" else f"{run.state} {run.reason}" for run in runs)


@pytest.mark.parametrize(
    "overlap",
    [
        {"policy": "skip"},
        {"policy": "terminate_other"},
    ],
    ids=lambda value: value["policy"],
)
async def test_what_catching_up_decided_to_run_waits_for_room_whatever_the_policy_does(ew: EverwhenTest, overlap):
    runs = await caught_up(ew, overlap)

    assert ended(runs) == Counter({"succeeded": MISSED})
    assert len({run.nominal_at for run in runs}) == MISSED
    done = sorted((run.finished_at, run.nominal_at) for run in runs)
    assert [nominal for _, nominal in done] == sorted(nominal for _, nominal in done)
    ends = [finished for finished, _ in done]
    assert all(later - earlier >= timedelta(seconds=20) for earlier, later in pairwise(ends))  # never two at once


async def test_live_instants_meet_the_policy_while_the_past_is_caught_up_on(ew: EverwhenTest):
    ew.on("report", Succeeds(takes=timedelta(seconds=40)))
    body = {"name": "minutely", "task": "report", "trigger": MINUTELY, "timezone": "UTC", "catch_up": REPLAY}
    await ew.apply(schedules=[{**body, "overlap": {"policy": "skip"}}])
    await ew.outage_until(ew.now + 3 * MINUTE + timedelta(seconds=45))
    await ew.advance(4 * MINUTE)
    await ew.call("POST", "schedules/minutely/pause", {"reason": "enough"})
    await ew.advance(MINUTE)

    past: list[Any] = []
    live: list[Any] = []
    runs: Any = await ew.runs("minutely")
    for run in runs:
        (past if run.nominal_at <= instant(START) + 3 * MINUTE else live).append(run)
    assert ended(past) == Counter({"succeeded": 3})
    assert ended(live).keys() == {"succeeded", "skipped overlap.previous_running"}


async def test_the_one_that_stands_for_all_waits_behind_the_gate_like_any_other(ew: EverwhenTest):
    ew.on("report", Succeeds(takes=20 * MINUTE))
    coalesce = {"policy": "coalesce", "grace_seconds": 30}
    body = {"name": "minutely", "task": "report", "trigger": MINUTELY, "timezone": "UTC", "catch_up": coalesce}
    await ew.apply(schedules=[{**body, "overlap": {"policy": "buffer_one"}}])
    await ew.advance(MINUTE)  # one runs
    await ew.outage_until(ew.now + 10 * MINUTE + timedelta(seconds=45))
    await ew.advance(timedelta(seconds=1))

    states = Counter(run.state for run in await ew.runs("minutely"))
    assert (states["running"], states["waiting"]) == (1, 1)
    waiting = next(run for run in await ew.runs("minutely") if run.state == "waiting")
    assert waiting.reason == "limit.schedule"
    await ew.assert_skipped("minutely", reason="catchup.coalesced", times=9)


async def test_a_paced_replay_is_let_in_at_its_pace_and_not_by_the_gate_alone(ew: EverwhenTest):
    runs = await caught_up(
        ew, {"policy": "strict_sequential"}, catch_up={**REPLAY, "rate": 0.02}, takes=timedelta(seconds=1)
    )

    assert ended(runs) == Counter({"succeeded": MISSED})
    ends = sorted(run.finished_at for run in runs)
    assert all(later - earlier >= timedelta(seconds=49) for earlier, later in pairwise(ends))
