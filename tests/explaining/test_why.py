"""Why: each kind of story, told by the API, word for word. `Scene.why` checks that the segments sum to the lateness."""

from datetime import UTC, datetime, timedelta

import pytest

from everwhen.calendars import service as calendars
from everwhen.calendars.model import CalendarDraft
from everwhen.core.calendar_json import parse_definition
from everwhen.core.calendar_use import CalendarUse
from everwhen.core.planning import CatchUp, CatchUpPolicy
from everwhen.core.retry import Jitter, RetryPolicy
from everwhen.core.triggers import GapPolicy
from everwhen.runs import service as runs
from everwhen.schedules import service as schedules
from everwhen.schedules.service import Change
from everwhen.worker.protocol import RunError
from tests.dispatch.scene import LINE, wish
from tests.explaining.scene import BERLIN, DAILY, NIGHT, sentences, told
from tests.factories import make_schedule, make_task
from tests.seasons import next_years_change

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
REF = "nightly@2025-11-17T02:30+01:00"
EVERY_MINUTE = {"kind": "cron", "expr": "* * * * *"}


async def plan(scene, **changes):
    """The schedule, planned a little ahead of the night's instant."""
    await scene.schedule(decided=NIGHT - MINUTE, **changes)
    await scene.plan(NIGHT - 10 * SECOND)


async def test_a_limit_then_no_worker_then_a_retry(scene):
    await scene.limit(1)
    blocker = await scene.fill(NIGHT - 10 * MINUTE)
    held = await scene.claim(NIGHT - 5 * MINUTE, lease_seconds=3600.0)
    assert held.run_id == blocker
    await plan(scene)
    await scene.watch(NIGHT - 20 * SECOND, NIGHT + 100 * SECOND, step=20)
    await scene.watch(NIGHT + 110 * SECOND, NIGHT + 432 * SECOND, seen=False, step=20)
    await scene.report(held, "succeeded", NIGHT + 432 * SECOND)
    await scene.watch(NIGHT + 432 * SECOND, NIGHT + 662 * SECOND, seen=False, step=20)
    first = await scene.claim(NIGHT + 663 * SECOND, worker="w-7f")
    error = RunError(type="OSError", message="disk full.")
    await scene.report(first, "failed", NIGHT + 693 * SECOND, error=error, retry_after_seconds=60.0)
    await scene.watch(NIGHT + 663 * SECOND, NIGHT + 753 * SECOND)
    await scene.report(await scene.claim(NIGHT + 754 * SECOND), "succeeded", NIGHT + 900 * SECOND)

    said = await scene.why(REF)

    assert said["headline"] == (
        "Started 12m 34s late: 7m 12s at the limit of its queue, 3m 51s without a live worker, "
        "30s in an attempt that failed, 1m between attempts."
    )
    assert told(said) == [
        ("limit.queue", 432.0),
        ("worker.none_live", 231.0),
        ("attempt.failed", 30.0),
        ("retry.backoff", 60.0),
        ("queue.waiting", 1.0),
    ]
    assert sentences(said) == [
        "1 of 1 runs allowed at queue line were in flight.",
        "No worker was asking for runs of queue line; the last one was seen at 2025-11-17 02:31:40+01:00.",
        "Attempt 1 failed: OSError: disk full.",
        "Attempt 1 had failed, and the retry policy waited 1m before the next one.",
        "The run waited in the line of queue line until a worker took it.",
    ]
    assert [(each["reason"], each["from"][11:19], each["to"][11:19]) for each in said["also_blocking"]] == [
        ("worker.slots_full", "01:31:40", "01:37:12"),
        ("worker.none_live", "01:31:40", "01:41:03"),
    ]
    assert [(each["reason"], each["action"]) for each in said["remedies"]] == [
        ("limit.queue", "everwhen queue set line"),
        ("worker.none_live", None),
        ("attempt.failed", f"everwhen run attempts {REF}"),
        ("worker.slots_full", None),
    ]
    assert said["segments"][0]["numbers"] == {"in_flight": 1, "limit": 1}
    assert said["segments"][0]["refs"] == [{"kind": "queue", "name": "line"}]
    assert said["segments"][0]["category"] == "resource"
    assert (said["state"], said["attempts"], said["complete"]) == ("succeeded", 2, True)
    assert said["started_at"] == said["until"] == "2025-11-17T01:42:34Z"
    assert said["policy_in_force"]["revision"] == 1
    assert said["policy_in_force"]["schedule"]["catch_up"]["policy"] == "coalesce"
    assert said["policy_in_force"]["task"]["retry"]["max_attempts"] == 3


async def test_on_time(scene):
    await plan(scene)
    await scene.report(await scene.claim(NIGHT + 12 * timedelta(milliseconds=1)), "succeeded", NIGHT + SECOND)
    said = await scene.why(REF)

    assert said["headline"] == "Started on time."
    assert told(said) == [("queue.waiting", 0.012)]
    assert said["remedies"] == []


async def test_where_nobody_watched_it_is_not_complete(scene):
    await plan(scene)
    await scene.report(await scene.claim(NIGHT + MINUTE), "succeeded", NIGHT + 2 * MINUTE)
    said = await scene.why(REF)

    assert (said["headline"], said["complete"]) == ("Started 1m late: 1m in the line.", False)


async def test_nobody_knows_the_task(scene):
    scene.known = ("export",)
    await plan(scene)
    await scene.watch(NIGHT - 10 * SECOND, NIGHT + 50 * SECOND, step=2)
    scene.known = None
    await scene.watch(NIGHT + 52 * SECOND, NIGHT + 59 * SECOND, step=1)
    await scene.claim(NIGHT + MINUTE)
    said = await scene.why(REF)

    assert (said["state"], said["headline"]) == (
        "running",
        "Started 1m late: 52s without a worker that it fits, 8s in the line.",
    )
    assert sentences(said)[0] == "No worker of queue line fits the run of task report: none of those that ask knows it."
    assert said["remedies"][0]["href"] == "/v1/tenants/acme/tasks/report"


async def test_behind_others_in_the_line(scene):
    for _ in range(4):
        await scene.fill(NIGHT - MINUTE)
    await plan(scene)
    await scene.watch(NIGHT - 10 * SECOND, NIGHT + 20 * SECOND, step=2)
    grant = await scene.dispatch.claim(wish(tenant_id=scene.tenant.id, limit=10), now=NIGHT + 20 * SECOND)
    assert len(grant.leases) == 5
    said = await scene.why(REF)

    assert told(said) == [("priority.behind", 20.0)]
    assert sentences(said) == ["4 runs were due in the line of queue line: higher priorities and older ones go first."]


async def test_it_waits_now_and_says_how_many_are_ahead(scene):
    for _ in range(3):
        await scene.fill(NIGHT - MINUTE)
    await plan(scene)
    await scene.watch(NIGHT - 10 * SECOND, NIGHT + 10 * SECOND, step=2)
    said = await scene.why(REF)

    assert said["state"] == "waiting"
    assert said["headline"].startswith("Waits; ")
    assert said["headline"].endswith(" behind others in the line so far.")
    assert said["until"] == said["evaluated_at"]
    assert said["segments"][-1]["numbers"] == {"due": 3, "ahead": 3, "ahead_by_priority": {"5": 3}}


async def test_expired(scene):
    await make_task(scene.db, scene.tenant, name="strict", queue=LINE, start_deadline_seconds=900.0)
    await plan(scene, task="strict")
    await scene.watch(NIGHT - 10 * SECOND, NIGHT + 900 * SECOND, step=20, seen=False)
    await scene.reaper.tick(NIGHT + 900 * SECOND)
    said = await scene.why(REF)

    assert said["headline"] == (
        "Expired. No worker has asked for runs of queue line in the last 30 days. "
        "It was 15m late: 15m without any worker."
    )
    assert told(said) == [("worker.none_registered", 900.0)]
    assert sentences(said) == ["No worker has asked for runs of queue line in the last 30 days."]
    assert [each["reason"] for each in said["remedies"]] == ["worker.none_registered"]


async def test_dead(scene):
    await make_task(
        scene.db,
        scene.tenant,
        name="frail",
        queue=LINE,
        retry=RetryPolicy(max_attempts=2, base=SECOND, jitter=Jitter.NONE),
    )
    await plan(scene, task="frail")
    for number in range(2):
        now = NIGHT + number * MINUTE
        error = RunError(type="ValueError", message=f"boom\n{number}")
        await scene.report(await scene.claim(now), "failed", now + 5 * SECOND, error=error)
    said = await scene.why(REF)

    assert said["headline"] == (
        "Dead. Every attempt that the retry policy allows has failed; it made 2: ValueError: boom 1. "
        "The last attempt started 1m late: 5s in an attempt that failed, 1s between attempts, 54s in the line."
    )
    assert [reason for reason, _ in told(said)] == ["attempt.failed", "retry.backoff", "queue.waiting"]
    assert said["remedies"][0] == {
        "reason": "retry.exhausted",
        "text": "Mend what the error names, then redrive the run.",
        "action": f"everwhen dead redrive {REF}",
        "href": f"/v1/tenants/acme/runs/{REF}/redrive",
    }


async def test_a_worker_that_was_lost_and_one_that_gave_the_run_back(scene):
    await plan(scene)
    await scene.claim(NIGHT, worker="w-1")
    await scene.reaper.tick(NIGHT + 61 * SECOND)
    second = await scene.claim(NIGHT + 70 * SECOND, worker="w-2")
    await scene.report(second, "released", NIGHT + 75 * SECOND)
    await scene.claim(NIGHT + 76 * SECOND)
    said = await scene.why(REF)

    assert told(said) == [
        ("lease.expired", 61.0),
        ("retry.backoff", 5.0),
        ("queue.waiting", 4.0),
        ("attempt.released", 5.0),
        ("queue.waiting", 1.0),
    ]
    assert sentences(said)[0] == "w-1 stopped renewing its lease: it died, hung or lost the network."
    assert sentences(said)[3] == "w-2 gave the run back before it was done, for example while it drained."


async def test_cancelled_while_it_waited(scene):
    await scene.schedule(decided=NIGHT - MINUTE)
    await scene.plan(NIGHT - 10 * SECOND)
    await runs.cancel_run(scene.db, tenant_id=scene.tenant.id, ref=REF, by="mk", reason="migration")
    said = await scene.why(REF)

    assert said["state"] == "cancelled"
    assert said["headline"].startswith("Cancelled. mk asked for the run to be cancelled: migration. It was ")
    assert said["headline"].endswith(" in the line.")


async def test_planned_a_little_late_and_with_a_flex_window(scene):
    await scene.schedule(decided=NIGHT - MINUTE)
    await scene.plan(NIGHT + 4 * SECOND)
    await scene.claim(NIGHT + 5 * SECOND)
    said = await scene.why(REF)

    assert said["headline"] == "Started 5s late: 4s before the scheduler looked, 1s in the line."
    assert sentences(said)[0] == "The scheduler looked at the schedule 4s late."


async def test_replayed_after_the_scheduler_was_down(scene):
    await scene.schedule(decided=NIGHT - timedelta(days=1), catch_up=CatchUp(policy=CatchUpPolicy.REPLAY))
    await scene.plan(NIGHT - timedelta(days=1) + timedelta(seconds=1))
    await scene.plan(NIGHT + 13 * MINUTE)
    said = await scene.why(REF)

    assert told(said)[0] == ("scheduler.down", 780.0)
    assert sentences(said)[0] == (
        "No scheduler looked at the schedule between 2025-11-16 02:31:01+01:00 and 2025-11-17 02:43+01:00."
    )


async def test_missed_while_the_scheduler_was_down(scene):
    await scene.schedule(decided=NIGHT - timedelta(days=1, minutes=1), catch_up=CatchUp(policy=CatchUpPolicy.SKIP))
    await scene.plan(NIGHT - timedelta(days=1, seconds=20))
    await scene.plan(NIGHT + 11 * MINUTE)
    said = await scene.why(REF)

    assert (said["state"], said["reason"], said["category"]) == ("missed", "catchup.skip", "system")
    assert said["headline"] == (
        "Missed. The instant passed while nobody looked, and the schedule skips what it missed. "
        "No scheduler looked at the schedule between 2025-11-16 02:29:40+01:00 and 2025-11-17 02:41+01:00."
    )
    assert told(said) == [("scheduler.down", 660.0)]
    assert said["remedies"][0]["action"] == (
        "everwhen schedule backfill nightly --from 2025-11-17T01:30:00+00:00 --until 2025-11-17T01:30:01+00:00"
    )
    assert said["remedies"][1]["text"] == "Run two schedulers, and see why this one was away."


async def test_replayed_at_a_rate_after_the_scheduler_was_down(scene):
    rule = CatchUp(policy=CatchUpPolicy.REPLAY, rate=0.1)
    await scene.schedule(name="ticker", trigger=EVERY_MINUTE, decided=NIGHT - MINUTE, catch_up=rule)
    await scene.plan(NIGHT - 50 * SECOND)
    await scene.plan(NIGHT + 11 * MINUTE)
    await scene.plan(NIGHT + 12 * MINUTE)
    await scene.dispatch.claim(wish(tenant_id=scene.tenant.id, limit=50), now=NIGHT + 13 * MINUTE)
    said = await scene.why("ticker@2025-11-17T02:35")

    assert [reason for reason, _ in told(said)] == ["scheduler.down", "catchup.paced", "queue.waiting"]
    assert sentences(said)[0] == (
        "No scheduler looked at the schedule between 2025-11-17 02:29:10+01:00 and 2025-11-17 02:41+01:00."
    )
    assert told(said)[0] == ("scheduler.down", 360.0)


async def test_an_instant_in_arrears_that_are_not_worked_off(scene):
    rule = CatchUp(policy=CatchUpPolicy.REPLAY, rate=0.001)
    await scene.schedule(name="ticker", trigger=EVERY_MINUTE, decided=NIGHT - MINUTE, catch_up=rule)
    await scene.plan(NIGHT + 600 * MINUTE)
    said = await scene.why("ticker@2025-11-17T06:30")

    assert said["headline"] == (
        "Not decided yet. The schedule catches up on what it missed at a limited rate; this run's turn came later."
    )
    assert (said["state"], said["reason"], told(said)[0][0]) == (None, "catchup.paced", "catchup.paced")


async def test_inside_a_span_of_43_000(scene):
    start = datetime(2025, 11, 1, 12, tzinfo=UTC)
    skip = CatchUp(policy=CatchUpPolicy.SKIP)
    await scene.schedule(name="ticker", trigger=EVERY_MINUTE, decided=start - MINUTE, catch_up=skip)
    await scene.plan(start - 50 * SECOND)
    await scene.plan(start + 43_002 * MINUTE)
    said = await scene.why("ticker@2025-11-20T12:34")

    assert await scene.rows("select count(*), max(instants) from everwhen.spans") == [(1, 43_000)]
    assert said["span"] == {
        "first_at": "2025-11-01T12:01:00Z",
        "last_at": "2025-12-01T08:40:00Z",
        "instants": 43_000,
    }
    assert said["headline"] == (
        "Missed, one of 43,000 instants from 2025-11-01 13:01+01:00 to 2025-12-01 09:40+01:00. "
        "The instant passed while nobody looked, and the schedule skips what it missed. "
        "No scheduler looked at the schedule between 2025-11-01 12:59:10+01:00 and 2025-12-01 09:42+01:00."
    )
    assert (said["state"], said["reason"], said["run_id"]) == ("missed", "catchup.skip", None)
    assert [reason for reason, _ in told(said)] == ["scheduler.down"]


async def test_a_local_time_in_a_gap(scene):
    gap = datetime(2025, 3, 30, 1, tzinfo=UTC)
    await scene.schedule(decided=gap - timedelta(hours=2), trigger=DAILY, gap=GapPolicy.SKIP)
    await scene.plan(gap)
    naive = await scene.why("nightly@2025-03-30T02:30")
    offset = await scene.why("nightly@2025-03-30T02:30+01:00")
    transition = await scene.why("nightly@2025-03-30T03:00+02:00")

    assert naive["headline"] == (
        "Skipped. 2025-03-30 02:30 does not exist in Europe/Berlin on that day: clocks went forward over it."
    )
    assert naive["reason"] == "calendar.dst_gap"
    assert offset["headline"] == transition["headline"] == naive["headline"]
    assert naive["remedies"][0]["action"] == "everwhen schedule update nightly"


async def test_a_local_time_in_a_gap_that_runs_at_its_end(scene):
    gap = datetime(2025, 3, 30, 1, tzinfo=UTC)
    await scene.schedule(decided=gap - timedelta(hours=2), trigger=DAILY)
    await scene.plan(gap - timedelta(seconds=5))
    await scene.claim(gap)
    said = await scene.why("nightly@2025-03-30T02:30")

    assert said["headline"] == (
        "2025-03-30 02:30 does not exist in Europe/Berlin; this run stands for it. Started on time."
    )
    assert said["ref"] == "nightly@2025-03-30T03:00+02:00"


async def test_a_local_time_that_occurs_twice_is_asked_back(scene):
    await scene.schedule(decided=NIGHT)
    said = await scene.why("nightly@2025-10-26T02:30")

    assert (said["status"], said["code"]) == (422, "run.ref.ambiguous")
    assert said["detail"] == (
        "2025-10-26T02:30 occurs twice in Europe/Berlin: name nightly@2025-10-26T02:30:00+02:00 "
        "and nightly@2025-10-26T02:30:00+01:00, whichever is meant."
    )


async def test_the_pass_of_a_fold_that_the_schedule_does_not_take(scene):
    await scene.schedule(decided=NIGHT)
    said = await scene.why("nightly@2025-10-26T02:30+01:00")

    assert said["headline"] == (
        "Never intended. 2025-10-26 02:30 occurs twice on that day, and the schedule takes the first one."
    )
    assert (said["state"], said["reason"]) == (None, "calendar.dst_duplicate")


async def test_an_instant_that_the_trigger_does_not_name(scene):
    await scene.schedule(decided=NIGHT)
    said = await scene.why("nightly@2025-11-10T14:00")

    assert said["headline"] == (
        "Never intended. The schedule's trigger does not name that instant; "
        "it names 2025-11-10 02:30+01:00 before it and 2025-11-11 02:30+01:00 after it."
    )
    assert (said["before"], said["after"]) == ("2025-11-10T01:30:00Z", "2025-11-11T01:30:00Z")
    assert (said["state"], said["reason"], said["category"]) == (None, "schedule.not_intended", "never")


async def test_outside_the_bounds_of_the_trigger(scene):
    bounds = {"start": "2025-02-01T00:00", "end": "2025-12-01T00:00"}
    trigger = {"kind": "any_of", "triggers": [DAILY], **bounds}
    await scene.schedule(decided=NIGHT, trigger=trigger)

    assert (await scene.why("nightly@2025-01-15T02:30"))["headline"] == (
        "Never intended. The instant is before the start that the schedule's trigger has."
    )
    assert (await scene.why("nightly@2025-12-15T02:30"))["headline"] == (
        "Never intended. The instant is after the end that the schedule's trigger has."
    )


async def test_before_the_schedule_was_made(scene):
    await scene.schedule(decided=NIGHT)
    said = await scene.why("nightly@2024-11-17T02:30")

    assert said["headline"] == (
        "Never intended. The schedule did not exist yet: it was made at 2025-01-01 01:00+01:00."
    )


async def test_after_it_was_deleted_and_its_name_was_taken_again(scene):
    await scene.schedule(decided=NIGHT - MINUTE)
    await scene.plan(NIGHT - 10 * SECOND)
    await scene.claim(NIGHT)
    await schedules.delete_schedule(scene.db, tenant_id=scene.tenant.id, name="nightly", change=Change(by="mk"))
    ((deleted_at,),) = await scene.rows("select updated_at from everwhen.schedules")
    later = f"nightly@{deleted_at.year + 1}-11-17T02:30"
    gone = await scene.why(later)
    assert gone["headline"].startswith("Never intended. The schedule was deleted before that instant, at ")
    assert (gone["state"], gone["reason"]) == (None, "schedule.after_deletion")

    await make_schedule(scene.db, scene.tenant, trigger=DAILY, timezone=BERLIN)
    assert (await scene.why(REF))["headline"] == "Started on time."
    assert (await scene.why(later))["reason"] == "schedule.upcoming"


async def test_still_ahead(scene):
    await make_schedule(scene.db, scene.tenant, trigger=DAILY, timezone="UTC")
    async with scene.db.system() as conn:
        at = (conn.now + timedelta(days=40)).replace(hour=2, minute=30, second=0, microsecond=0)
    said = await scene.why(f"nightly@{at:%Y-%m-%dT%H:%M}")

    assert said["headline"] == (
        f"Not planned yet. The instant is still ahead: the run becomes due at {at:%Y-%m-%d} 02:30+00:00."
    )
    assert (said["state"], said["reason"], said["lateness_seconds"]) == ("planned", "schedule.upcoming", 0.0)


async def test_a_gap_that_is_still_ahead_and_one_that_has_come_and_is_not_recorded_yet(scene):
    ahead = next_years_change(3)
    await scene.schedule(decided=ahead - MINUTE, trigger=DAILY, gap=GapPolicy.SKIP)
    await scene.plan(ahead - 10 * SECOND)
    naive = await scene.why(f"nightly@{ahead:%Y-%m-%d}T02:30")
    transition = await scene.why(f"nightly@{ahead:%Y-%m-%d}T03:00+02:00")
    past = datetime(2025, 3, 30, 1, tzinfo=UTC)
    await scene.schedule(name="other", decided=past - MINUTE, trigger=DAILY, gap=GapPolicy.SKIP)
    came = await scene.why("other@2025-03-30T02:30")

    does_not_exist = "02:30 does not exist in Europe/Berlin on that day: clocks went forward over it."
    assert naive["headline"] == transition["headline"] == f"It will be skipped. {ahead:%Y-%m-%d} {does_not_exist}"
    assert came["headline"] == f"It is skipped. 2025-03-30 {does_not_exist}"
    for said in (naive, came):
        assert (said["state"], said["reason"], said["run_id"]) == ("skipped", "calendar.dst_gap", None)
        assert (said["lateness_seconds"], said["segments"]) == (0.0, [])


@pytest.mark.parametrize("days", [-1, 1])
async def test_a_closed_day_that_is_still_ahead_and_one_that_has_come_and_is_not_recorded_yet(scene, days):
    async with scene.db.system() as conn:
        at = (conn.now + timedelta(days=days)).astimezone(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
    definition = parse_definition({"days": [{"date": f"{at:%Y-%m-%d}", "hours": "closed", "label": "Stocktaking"}]})
    draft = CalendarDraft(definition=definition, changed_by="tester")
    await calendars.create_calendar(scene.db, tenant_id=scene.tenant.id, name="shop", draft=draft)
    use = CalendarUse(open=("shop",))
    await scene.schedule(
        decided=at - MINUTE, trigger={"kind": "cron", "expr": "0 12 * * *"}, calendars=use, timezone="UTC"
    )
    await scene.plan(at - 10 * SECOND)
    said = await scene.why(f"nightly@{at:%Y-%m-%dT%H:%M}")
    await scene.plan(at + 15 * MINUTE)
    recorded = await scene.why(f"nightly@{at:%Y-%m-%dT%H:%M}")

    closed = "Calendar shop, version 1, is closed at that instant (Stocktaking)."
    assert said["headline"] == f"{'It will be' if days > 0 else 'It is'} skipped. {closed}"
    assert recorded["headline"] == f"Skipped. {closed}"
    assert said["reason"] == recorded["reason"] == "calendar.excluded"


async def test_planned_ahead(scene):
    async with scene.db.system() as conn:
        at = (conn.now + timedelta(hours=2)).replace(second=0, microsecond=0)
    await scene.schedule(decided=at - MINUTE, trigger={"kind": "at", "at": at.isoformat()}, timezone="UTC")
    await scene.plan(at - 10 * SECOND)
    said = await scene.why(f"nightly@{at:%Y-%m-%dT%H:%M}")

    assert said["headline"].startswith(f"Planned for {at:%Y-%m-%d %H:%M}+00:00, in 1h 5")
    assert (said["state"], said["segments"]) == ("planned", [])


async def test_while_it_is_paused_nothing_is_recorded_yet(scene):
    await scene.schedule(decided=NIGHT - timedelta(days=3))
    change = Change(by="mk", reason="SMTP migration")
    async with scene.db.system() as conn:
        await conn.execute("update everwhen.watermarks set decided_until = %s", (NIGHT - timedelta(days=3),))
        await conn.execute(
            "update everwhen.schedules set state = 'paused', state_reason = %s, updated_at = %s",
            (change.reason, NIGHT - timedelta(days=3)),
        )
    said = await scene.why(REF)

    assert said["headline"] == "It is skipped. The schedule was paused at that instant: SMTP migration."
    assert (said["state"], said["reason"]) == ("skipped", "schedule.paused")
    assert said["remedies"][0]["action"] == "everwhen schedule resume nightly"


async def test_overdue_without_a_scheduler_and_with_a_schedule_that_fails(scene):
    await scene.schedule(decided=NIGHT - MINUTE)
    down = await scene.why(REF)
    async with scene.db.system() as conn:
        await conn.execute("update everwhen.watermarks set failures = 3, last_error = 'trigger.rrule.work: too long'")
    failing = await scene.why(REF)

    assert down["headline"].startswith(
        "Overdue. No scheduler looked at the schedule between 2025-11-17 02:29+01:00 and "
    )
    assert told(down)[0][0] == "scheduler.down"
    assert down["until"] == down["evaluated_at"]
    assert failing["headline"] == (
        "Overdue. The schedule could not be planned, 3 times in a row: trigger.rrule.work: too long."
    )


async def test_an_instant_of_which_there_is_no_record_is_not_explained_away(scene):
    await scene.schedule(decided=NIGHT + timedelta(days=3))
    said = await scene.why(REF)

    assert said["headline"] == (
        "There is no record of this instant, although the schedule intends it: run everwhen verify."
    )
    assert (said["state"], said["reason"], said["complete"]) == (None, None, False)


async def test_names_that_name_nothing(scene):
    assert (await scene.why("nobody@2025-11-17T02:30"))["code"] == "run.unknown"
    assert (await scene.why("01234567-89ab-8def-8123-456789abcdef"))["code"] == "run.unknown"
    assert (await scene.why("neither"))["code"] == "run.unknown"
    assert (await scene.why("nobody@yesterday"))["code"] == "run.ref.syntax"
    await scene.schedule(decided=NIGHT)
    assert (await scene.why("nightly@0001-01-01T00:00:00+14:00"))["code"] == "run.ref.syntax"
    assert (await scene.why("nightly@9999-12-31T23:59:59-14:00"))["code"] == "run.ref.syntax"


async def test_a_run_that_somebody_asked_for(scene):
    run_id = await scene.fill(NIGHT)
    await scene.claim(NIGHT + 3 * SECOND)
    said = await scene.why(str(run_id))

    assert said["headline"] == "Started 3s late: 3s in the line."
    assert (said["ref"], said["schedule"], said["intended_local"]) == (str(run_id), None, "2025-11-17T01:30:00+00:00")
