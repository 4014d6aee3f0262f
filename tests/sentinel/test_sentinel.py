"""The sentinel: what is late is found once and closed once, whoever is to blame, by any number of copies."""

import asyncio
import json
from datetime import timedelta

import pytest

from everwhen import failpoints
from everwhen.core.overlap import Overlap, OverlapPolicy
from everwhen.core.triggers import Timing, parse_trigger
from everwhen.dispatch.reaper import Reaper
from everwhen.failpoints import FailpointError
from everwhen.overlap.gatekeeper import Gatekeeper
from everwhen.pauses import service as pauses
from everwhen.pauses.service import Wish
from everwhen.schedules import service as schedules
from everwhen.schedules.model import ScheduleDraft, Spec
from everwhen.schedules.planner import plan_due
from everwhen.schedules.scheduler import Scheduler
from everwhen.sentinel import service, store
from everwhen.sentinel.model import MEANINGS, FindingKind
from everwhen.sentinel.sentinel import Sentinel
from tests.dispatch.scene import LINE, make_line
from tests.factories import TESTER, make_schedule, make_tenant
from tests.operations.scene import begin, make_dead, redrive
from tests.workflows.scene import make_scene as make_workflow_scene

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
EVERY_SECOND = {"kind": "every", "every": "PT1S"}


@pytest.fixture
async def line(database):
    return await make_line(database, start_deadline_seconds=3600.0)


@pytest.fixture
def sentinel(database):
    return Sentinel(database=database)


async def findings(database, *, is_open=True):
    found = (await service.list_findings(database, tenant_id=None, is_open=is_open, limit=200)).rows
    return {(finding.kind, finding.subject): finding for finding in found}


async def kinds(database):
    return set(await findings(database))


async def events(line):
    return await line.rows("select change, kind, subject from everwhen.finding_events order by event_id")


def test_every_kind_has_a_sentence_and_a_remedy():
    assert set(MEANINGS) == set(FindingKind)


async def test_a_quiet_system_has_no_findings_and_leaves_no_trace(database, line, sentinel):
    await make_schedule(database, line.tenant)
    await line.fill(1, due_in=HOUR)

    tick = await sentinel.tick(await line.now())

    assert (tick.done, tick.more) == (0, False)
    assert await findings(database, is_open=False) == {}
    assert await events(line) == []


# Each kind: opened when it is late, not before, and closed when it is over -------------------------------------------


async def test_a_schedule_that_nobody_plans_is_overdue_until_somebody_does(database, line, sentinel):
    schedule = await make_schedule(database, line.tenant, trigger=EVERY_SECOND)
    due = (await line.rows("select next_at from everwhen.watermarks"))[0][0]

    await sentinel.tick(due + MINUTE)
    assert await kinds(database) == set()
    await sentinel.tick(due + MINUTE + SECOND)
    (finding,) = (await findings(database)).values()
    assert (finding.kind, finding.subject, finding.since) == ("schedule.overdue", "nightly", due)
    assert json.loads(finding.detail)["schedule_uid"] == str(schedule.uid)

    while (await Scheduler(database=database).tick(due + MINUTE + SECOND)).more:
        pass
    await sentinel.tick(due + MINUTE + 2 * SECOND)
    assert ("schedule.overdue", "nightly") not in await kinds(database)
    changes = [change for change, kind, _ in await events(line) if kind == "schedule.overdue"]
    assert changes == ["opened", "closed"]


async def test_a_schedule_that_cannot_be_planned_is_found_with_its_error_and_is_not_overdue(database, line, sentinel):
    await make_schedule(database, line.tenant)
    await line.rows(
        "update everwhen.watermarks set failures = 2, last_error = 'KeyError: policy', next_at = decided_until"
        " returning 1"
    )

    await sentinel.tick(await line.now() + HOUR)
    ((key, finding),) = (await findings(database)).items()

    assert key == ("schedule.put_off", "nightly")
    assert json.loads(finding.detail)["error"] == "KeyError: policy"


async def test_a_line_without_a_worker_is_unattended_and_a_busy_one_waits(database, line, sentinel):
    await line.fill(2)
    now = await line.now()

    await sentinel.tick(now + 59 * SECOND)
    assert await kinds(database) == set()
    await sentinel.tick(now + 2 * MINUTE)
    assert await kinds(database) == {("line.unattended", LINE)}

    await line.claim(limit=1, lease_seconds=3000.0)
    await sentinel.tick(now + 2 * MINUTE + SECOND)
    found = await findings(database)
    assert set(found) == {("line.waiting", LINE)}
    assert json.loads(found["line.waiting", LINE].detail)["in_flight"] == 1

    await line.claim(limit=1, lease_seconds=3000.0)
    await sentinel.tick(now + 2 * MINUTE + 2 * SECOND)
    assert await kinds(database) == set()


async def test_what_the_observer_wrote_says_whether_anybody_asks(database, line, sentinel):
    await line.fill(1)
    now = await line.now()
    async with database.system() as conn:
        await conn.execute(
            "insert into everwhen.line_states (tenant_id, queue, task, reason, opened_at, since, facts)"
            " values (%s, %s, '', 'priority.behind', %s, %s, '{}')",
            (line.tenant.id, LINE, now, now),
        )

    await sentinel.tick(now + 2 * MINUTE)

    assert await kinds(database) == {("line.waiting", LINE)}


async def test_leases_that_nobody_reaps_are_found_by_their_line(database, line, sentinel):
    await line.fill(3)
    leases = await line.claim(limit=3)
    over = leases[0].lease_until

    await sentinel.tick(over + 2 * MINUTE)
    finding = (await findings(database))["leases.unreaped", LINE]
    assert json.loads(finding.detail)["leases"] == 3

    await Reaper(database=database, jitter=lambda: 0.0).tick(over)
    await sentinel.tick(over + 2 * MINUTE + SECOND)
    assert ("leases.unreaped", LINE) not in await kinds(database)


async def test_runs_past_their_start_deadline_that_nobody_ends_are_found(database, line, sentinel):
    await line.fill(2)
    late = await line.now() + HOUR + 2 * MINUTE

    await sentinel.tick(late)
    assert ("runs.unexpired", LINE) in await kinds(database)
    await Reaper(database=database, jitter=lambda: 0.0).tick(late)
    await sentinel.tick(late + SECOND)
    assert await kinds(database) == set()


async def test_a_paused_line_waits_because_it_was_told_to(database, line, sentinel):
    await line.fill(1)
    now = await line.now()
    await pauses.pause(database, tenant_id=line.tenant.id, queue=LINE, wish=Wish(by="ann", reason="repairs"))

    await sentinel.tick(now + HOUR)

    assert await kinds(database) == set()


async def test_runs_behind_a_gate_that_nobody_decides_about_are_found_by_their_schedule(database, line, sentinel):
    timing = Timing(parse_trigger(EVERY_SECOND), "UTC")
    spec = Spec(timing=timing, overlap=Overlap(policy=OverlapPolicy.SKIP))
    draft = ScheduleDraft(name="alone", task="report", spec=spec)
    made = await schedules.create_schedule(database, tenant_id=line.tenant.id, draft=draft, change=TESTER)
    await Scheduler(database=database).tick(made.decided_until)
    late = made.decided_until + 3 * MINUTE
    await sentinel.tick(late)
    assert ("gate.standing_still", "alone") in await kinds(database)

    while (await Gatekeeper(database=database).tick(late)).more:
        pass
    await sentinel.tick(late + SECOND)
    assert ("gate.standing_still", "alone") not in await kinds(database)


async def test_what_nobody_catches_up_on_is_found_with_its_error(database, line, sentinel):
    await make_schedule(database, line.tenant, trigger={"kind": "cron", "expr": "* * * * *"})
    begin = await line.now() - 10 * HOUR
    await line.rows("update everwhen.watermarks set decided_until = %s, next_at = %s returning 1", begin, begin)
    async with database.system() as conn:
        await plan_due(conn, now=conn.now, ahead=MINUTE, batch=10)
        now = conn.now
    assert await line.rows("select count(*) from everwhen.arrears") == [(1,)]

    await sentinel.tick(now + 10 * SECOND)
    assert ("catch_up.standing_still", "nightly") not in await kinds(database)
    await line.rows("update everwhen.arrears set failures = 1, last_error = 'KeyError: rule' returning 1")
    await sentinel.tick(now + 11 * SECOND)
    finding = (await findings(database))["catch_up.standing_still", "nightly"]
    assert json.loads(finding.detail)["error"] == "KeyError: rule"


async def test_an_operation_that_does_not_go_on_is_found_by_its_id(database, line, sentinel):
    await make_dead(database, line.tenant, 2)
    operation = await begin(database, line.tenant, redrive())

    await sentinel.tick(await line.now() + HOUR)

    assert ("operation.standing_still", str(operation.id)) in await kinds(database)


async def workflows_found(database):
    found = (await findings(database)).items()
    return {name: json.loads(each.detail)["wait_for"] for (kind, name), each in found if kind.startswith("workflow.")}


async def test_a_workflow_that_nobody_starts_or_looks_at_is_found_until_a_conductor_is_there(database, sentinel):
    scene = await make_workflow_scene(database)
    await scene.define({"id": "a"})
    await scene.run()
    now = await scene.now()
    await sentinel.tick(now + 59 * SECOND)
    assert await kinds(database) == set()

    await sentinel.tick(now + 2 * MINUTE)
    assert set(await findings(database)) == {("workflow.standing_still", "etl")}  # and no line without a worker
    assert await workflows_found(database) == {"etl": ["start"]}

    await scene.conduct()
    await scene.report((await scene.claim())["a"])
    await sentinel.tick(await scene.now() + 2 * MINUTE)  # it has ended, and nobody says so
    assert await workflows_found(database) == {"etl": ["look"]}

    await scene.conduct()
    await sentinel.tick(await scene.now() + 2 * MINUTE)
    assert await workflows_found(database) == {}


async def test_a_cancel_that_nobody_carries_out_and_a_key_that_nobody_gives_are_found(database, sentinel):
    scene = await make_workflow_scene(database)
    await scene.define({"id": "a", "concurrency_key": "k"})
    first, second = await scene.run(), await scene.run()
    await scene.conduct()
    await sentinel.tick(await scene.now() + 2 * MINUTE)
    assert await workflows_found(database) == {}  # one has the key, the other waits for it

    await scene.report((await scene.claim())["a"])
    waiting = second if (await scene.states(first))["a"] == "succeeded" else first
    await sentinel.tick(await scene.now() + 2 * MINUTE)
    assert await workflows_found(database) == {"etl": ["key", "look"]}

    await scene.cancel(waiting)
    await sentinel.tick(await scene.now() + 2 * MINUTE)
    assert await workflows_found(database) == {"etl": ["halt", "key", "look"]}

    await scene.conduct()
    await sentinel.tick(await scene.now() + 2 * MINUTE)
    assert await workflows_found(database) == {}


async def test_a_run_that_nothing_moves_on_any_more_is_found(database, sentinel):
    scene = await make_workflow_scene(database)
    await scene.define({"id": "a"}, {"id": "b", "needs": ["a"]})
    await scene.run()
    await scene.conduct()
    await scene.report((await scene.claim())["a"])
    await sentinel.tick(await scene.now() + 2 * MINUTE)
    assert await workflows_found(database) == {}

    await scene.rows("update everwhen.workflow_runs set live = 0 returning 1")  # b is released; as if it were not
    await sentinel.tick(await scene.now() + 2 * MINUTE)
    assert await workflows_found(database) == {"etl": ["nothing"]}


# Once -----------------------------------------------------------------------------------------------------------------


async def test_what_goes_on_is_one_finding_that_is_seen_again(database, line, sentinel):
    await line.fill(1)
    now = await line.now() + 2 * MINUTE
    for look in range(4):
        await sentinel.tick(now + look * SECOND)

    (finding,) = (await findings(database, is_open=False)).values()
    assert (finding.opened_at, finding.seen_at) == (now, now + 3 * SECOND)
    assert len(await events(line)) == 1


async def test_what_comes_back_is_another_finding(database, line, sentinel):
    for _ in range(2):
        await line.fill(1)
        now = await line.now() + 2 * MINUTE
        await sentinel.tick(now)
        await line.claim(lease_seconds=3000.0)
        await sentinel.tick(now + SECOND)

    assert [change for change, _, _ in await events(line)] == ["opened", "closed"] * 2


async def test_copies_at_once_open_one_finding(database, line):
    await line.fill(1)
    now = await line.now() + 2 * MINUTE
    await asyncio.gather(*(Sentinel(database=database).tick(now + n * SECOND) for n in range(8)))

    assert len(await findings(database, is_open=False)) == 1
    assert len(await events(line)) == 1


async def test_while_another_copy_is_at_it_a_tick_does_nothing(database, line, sentinel):
    await line.fill(1)
    async with database.system() as conn:
        assert await store.lock_sentinel(conn)
        tick = await sentinel.tick(await line.now() + 2 * MINUTE)

    assert tick.done == 0
    assert await findings(database) == {}


async def test_a_crash_before_the_commit_opens_nothing_and_the_next_look_does(database, line, sentinel):
    await line.fill(1)
    now = await line.now() + 2 * MINUTE
    with failpoints.armed("sentinel.before_commit:error:1"), pytest.raises(FailpointError):
        await sentinel.tick(now)
    assert await findings(database) == {}

    await sentinel.tick(now)

    assert len(await events(line)) == 1


async def test_of_too_many_none_is_closed_until_all_can_be_seen(database, line):
    few = Sentinel(database=database, most_facts=3)
    for number in range(5):
        await make_schedule(database, line.tenant, name=f"s{number}", trigger=EVERY_SECOND)
    now = await line.now()

    await few.tick(now + HOUR)
    assert len(await findings(database)) == 3
    await line.rows("update everwhen.watermarks set next_at = %s returning 1", now + 2 * HOUR)
    await few.tick(now + HOUR + SECOND)
    assert await findings(database) == {}


async def test_a_tenant_sees_its_own_and_the_platform_all(database, line, sentinel):
    other = await make_line(database)
    await line.fill(1)
    await other.fill(1)
    await sentinel.tick(await line.now() + 2 * MINUTE)

    async def of(tenant_id):
        found = (await service.list_findings(database, tenant_id=tenant_id, is_open=True, limit=10)).rows
        return sorted(finding.tenant for finding in found)

    assert await of(line.tenant.id) == [line.tenant.name]
    assert await of(None) == sorted([line.tenant.name, other.tenant.name])
    assert await of((await make_tenant(database)).id) == []
