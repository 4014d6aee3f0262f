"""Instants against answers, by the product's own expansion and by an oracle that walks UTC minute by minute."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from everwhen.core.planning import CatchUp, CatchUpPolicy
from everwhen.core.triggers import Timing, parse_trigger
from everwhen.core.zones import FoldPolicy, GapPolicy
from everwhen.schedules import service as schedules
from everwhen.schedules.model import ScheduleDraft, Spec
from everwhen.schedules.scheduler import Scheduler
from everwhen.verify.instants import check_instants
from everwhen.verify.model import Answers, Scope
from everwhen.verify.occurrences import MOST_INSTANTS, compare, expand_by_core
from everwhen.verify.promises import MISCOUNTED, MISSING, UNINTENDED
from tests.core.minute_walk import window
from tests.factories import TESTER, make_schedule, make_task, make_tenant

DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)
CHANGES = {
    "forward": datetime(2027, 3, 28, 1, tzinfo=UTC),
    "back": datetime(2027, 10, 31, 1, tzinfo=UTC),
}
EXPR = "*/10 1-3 * * *"
WHOLE_LIFE = Scope(days=36_500)


def walk(timing, after, until, limit):
    """The oracle: it reads the expression and the zone, and nothing else of the product."""
    fires = window(timing.timezone, until - 12 * HOUR).fires(timing.trigger.expr, gap="skip", fold="first")
    return [at for at in fires if after < at <= until][:limit]


async def rows(database, query, *parameters):
    async with database.system() as conn:
        return await (await conn.execute(query, parameters or None)).fetchall()


async def planned_through(database, change, *, catch_up):
    """A schedule whose watermark has come past a change of the clocks, by the real planner."""
    tenant = await make_tenant(database)
    await make_task(database, tenant)
    timing = Timing(parse_trigger({"kind": "cron", "expr": EXPR}), "Europe/Berlin", GapPolicy.SKIP, FoldPolicy.FIRST)
    draft = ScheduleDraft(name="nightly", task="report", spec=Spec(timing=timing, catch_up=catch_up))
    schedule = await schedules.create_schedule(database, tenant_id=tenant.id, draft=draft, change=TESTER)
    begin = change - 12 * HOUR
    await rows(database, "update everwhen.schedules set created_at = %s returning 1", begin)
    await rows(database, "update everwhen.watermarks set decided_until = %s, next_at = %s returning 1", begin, begin)
    while (await Scheduler(database=database).tick(change + 12 * HOUR)).more:
        pass
    return tenant, schedule


@pytest.mark.parametrize("policy", list(CatchUpPolicy))
@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
async def test_what_the_planner_wrote_through_a_change_of_clocks_is_what_the_walk_finds(database, change, policy):
    await planned_through(database, change, catch_up=CatchUp(policy=policy))
    answers = await rows(
        database, "select (select count(*) from everwhen.runs), (select sum(instants) from everwhen.spans)"
    )

    assert answers != [(0, None)]
    # The walk has no instants in the gap, for which the product records a verdict: nothing is missing, and those are.
    by_walk = await check_instants(database, WHOLE_LIFE, now=change + DAY, expand=walk)
    by_core = await check_instants(database, WHOLE_LIFE, now=change + DAY)
    assert by_walk[MISSING] == by_core[MISSING] == by_core[UNINTENDED] == by_core[MISCOUNTED] == []
    in_the_gap = await rows(database, "select count(*) from everwhen.run_ends where reason = 'calendar.dst_gap'")
    assert len(by_walk[UNINTENDED]) == in_the_gap[0][0]


async def test_a_run_that_is_lost_is_missed_by_both_and_a_moved_one_is_found_in_two_places(database):
    change = CHANGES["back"]
    await planned_through(database, change, catch_up=CatchUp(policy=CatchUpPolicy.REPLAY))
    ((run_id, at),) = await rows(database, "select run_id, nominal_at from everwhen.runs order by nominal_at limit 1")
    async with database.system() as conn:
        await conn.execute("delete from everwhen.runs where run_id = %s", (run_id,))

    for expand in (walk, expand_by_core):
        found = await check_instants(database, WHOLE_LIFE, now=change + DAY, expand=expand)
        assert [violation.detail for violation in found[MISSING]] == [
            f"{at.astimezone(UTC).isoformat()} has neither a run nor a span"
        ]
        assert found[UNINTENDED] == []


async def test_every_revision_is_judged_by_its_own_trigger_and_a_pause_by_its_spans(database):
    tenant = await make_tenant(database)
    await make_task(database, tenant)
    schedule = await make_schedule(database, tenant, trigger={"kind": "every", "every": "PT1S"})
    name, by = schedule.name, {"tenant_id": tenant.id, "name": schedule.name, "change": TESTER}
    scheduler = Scheduler(database=database, ahead=timedelta(seconds=5))
    for step in ("edit", "pause", "resume", "edit"):
        now = (await rows(database, "select now()"))[0][0]
        await scheduler.tick(now)
        match step:
            case "edit":
                await schedules.update_schedule(
                    database, **by, changes=lambda spec: {"spec": replace(spec, catch_up=CatchUp(window=HOUR))}
                )
            case "pause":
                await schedules.pause_schedule(database, **by)
            case "resume":
                await schedules.resume_schedule(database, **by)
    await scheduler.tick((await rows(database, "select now()"))[0][0])

    found = await check_instants(database, WHOLE_LIFE, now=(await rows(database, "select now()"))[0][0])
    revisions = await schedules.list_revisions(database, tenant_id=tenant.id, name=name, limit=10)

    assert [revision.action for revision in revisions] == ["created", "updated", "paused", "resumed", "updated"]
    assert found == {MISSING: [], UNINTENDED: [], MISCOUNTED: []}


async def test_the_sample_is_drawn_by_its_seed(database):
    tenant = await make_tenant(database)
    await make_task(database, tenant)
    for number in range(8):
        await make_schedule(database, tenant, name=f"s{number}", trigger={"kind": "every", "every": "PT1S"})
    while (await Scheduler(database=database).tick((await rows(database, "select now()"))[0][0])).more:
        pass
    async with database.system() as conn:
        await conn.execute("delete from everwhen.runs")

    async def drawn(seed):
        found = await check_instants(
            database, Scope(sample=2, seed=seed), now=(await rows(database, "select now()"))[0][0]
        )
        return {violation.subject for violation in found[MISSING]}

    draws = [await drawn(seed) for seed in ("a", "b", "c", "d", "a")]
    assert {len(draw) for draw in draws} == {2}
    assert draws[0] == draws[4]
    assert len(set(map(frozenset, draws))) > 1


# What cannot be told is not judged ------------------------------------------------------------------------------------

T0 = datetime(2027, 1, 1, tzinfo=UTC)
SECONDLY = {"kind": "every", "every": "PT1S"}


def answers(**changes):
    empty = {
        "since": T0,
        "decided_until": T0 + MINUTE,
        "tz_version": "r1",
        "is_settled": True,
        "run_nominals": [],
        "run_finals": [],
        "run_releases": [],
        "span_firsts": [],
        "span_lasts": [],
        "span_counts": [],
        "revision_ats": [T0],
        "revision_specs": [""],
        "apart_afters": [],
        "apart_untils": [],
    }
    return Answers(**(empty | changes))


def every_second(timing, after, until, limit):
    count = min(limit, int((until - after).total_seconds()))
    return [after.replace(microsecond=0) + timedelta(seconds=1 + n) for n in range(count)]


def judged(given, *, timings=("",)):
    return compare(given, timings, since=T0 - DAY, release="r1", expand=every_second)


def test_instants_without_any_answer_are_all_missing():
    assert len(judged(answers()).missing) == 60


def test_another_release_of_the_tz_database_is_not_judged():
    assert not judged(answers(tz_version="r2"))


def test_what_another_release_planned_is_not_judged_and_what_follows_is():
    by_another = answers(run_nominals=[T0 + MINUTE / 2], run_finals=[T0], run_releases=["r0"])

    assert len(judged(by_another).missing) == 30


def test_what_is_still_being_caught_up_on_is_not_judged_and_the_rest_is():
    apart = answers(apart_afters=[T0], apart_untils=[T0 + MINUTE / 2])

    assert len(judged(apart).missing) == 30


def test_while_a_calendar_is_being_followed_nothing_is_judged():
    assert not judged(answers(is_settled=False))


def test_a_revision_that_cannot_be_told_is_not_judged_and_the_next_is():
    half = answers(revision_ats=[T0, T0 + MINUTE / 2], revision_specs=["", ""])

    assert len(judged(half, timings=(None, "")).missing) == 30


def test_of_a_dense_schedule_the_latest_instants_are_judged():
    dense = judged(answers(decided_until=T0 + 2 * HOUR))

    assert MOST_INSTANTS / 2 < len(dense.missing) <= MOST_INSTANTS
    assert dense.missing[-1] == T0 + 2 * HOUR


def test_a_schedule_that_nobody_recorded_a_revision_of_is_judged_by_what_it_is():
    assert len(judged(answers(revision_ats=[], revision_specs=[])).missing) == 60


def test_what_a_calendar_rolled_back_to_before_its_instant_may_belong_to_the_revision_before():
    at = T0 + timedelta(milliseconds=1500)
    spans = {"span_firsts": [T0], "span_lasts": [T0 + MINUTE], "span_counts": [60]}
    run = {"run_nominals": [at], "run_releases": ["r1"]}

    assert not judged(answers(**spans, **run, run_finals=[T0])).unintended
    assert judged(answers(**spans, **run, run_finals=[at])).unintended == [at]
