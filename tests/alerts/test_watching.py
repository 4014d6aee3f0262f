"""What no event would tell: late runs, attempts that do nothing."""

import asyncio
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from everwhen.alerts.model import SubscriptionDraft
from everwhen.alerts.reading.previewing import preview
from everwhen.alerts.watching.watch import watch
from everwhen.core.alert_kinds import AlertKind
from everwhen.core.lifecycle import RunState
from everwhen.core.punctuality import DEFAULT_OBJECTIVE_SECONDS
from everwhen.dispatch.model import Lease
from everwhen.dispatch.reaper import Reaper
from everwhen.dispatch.service import Claim, Dispatch
from tests.alerts.scene import Scene
from tests.dispatch.scene import database_now, fill, report_on
from tests.factories import NEVER_AGAIN, WORKER, make_run, make_schedule, make_task

MINUTE = timedelta(minutes=1)


async def kinds(scene: Scene) -> list[str]:
    return [kind for (kind,) in await scene.rows("select kind from everwhen.alert_signals order by signal_id")]


async def look(scene: Scene, *, later: timedelta = timedelta(0)) -> int:
    async with scene.db.system() as conn:
        now = conn.now + later
    return await watch(scene.db, now=now)


async def test_a_run_that_nobody_begins_is_told_as_late_once(scene: Scene):
    await scene.channel()
    await make_run(scene.db, scene.tenant)
    assert await look(scene, later=MINUTE) == 0  # nobody listens
    await scene.subscribe(AlertKind.RUN_LATE)

    assert await look(scene) == 0  # it has just become due
    assert await look(scene, later=MINUTE) == 1
    assert await look(scene, later=2 * MINUTE) == 0
    await scene.tell()
    [sent] = scene.hook.sent
    assert sent.message.shown[0].kind is AlertKind.RUN_LATE


async def test_a_run_that_was_claimed_late_is_told_too(scene: Scene):
    await scene.channel()
    await scene.subscribe(AlertKind.RUN_LATE)
    await make_run(scene.db, scene.tenant, state=RunState.RUNNING)
    await make_run(scene.db, scene.tenant, state=RunState.RUNNING)
    assert await look(scene) == 0
    await scene.execute(
        "update everwhen.leases set claimed_at = now() + interval '1 minute'"
        " where run_id = (select max(run_id::text)::uuid from everwhen.leases)"
    )

    assert await look(scene, later=MINUTE) == 1


async def test_an_attempt_that_shows_no_progress_is_a_zombie(scene: Scene, server, work_database):
    await scene.channel()
    await scene.subscribe(AlertKind.RUN_ZOMBIE)
    await make_task(scene.db, scene.tenant, name="report")
    schedule = await make_schedule(scene.db, scene.tenant)
    for _ in range(5):
        await make_run(scene.db, scene.tenant, state=RunState.SUCCEEDED)
    running = await make_run(scene.db, scene.tenant, state=RunState.RUNNING)
    with psycopg.connect(server.superuser(work_database), autocommit=True) as conn:  # history is nobody's to change
        conn.execute("update everwhen.runs set schedule_uid = %s", [schedule.uid])
    await scene.execute("update everwhen.leases set lease_until = now() + interval '1 day', details = '{\"done\": 0}'")

    assert await look(scene) == 0
    assert await look(scene, later=5 * MINUTE) == 0  # seen for the first time
    await scene.execute("update everwhen.leases set details = '{\"done\": 1}'")
    assert await look(scene, later=6 * MINUTE) == 0  # it has reported something
    assert await look(scene, later=6.5 * MINUTE) == 0
    assert await look(scene, later=8 * MINUTE) == 1
    assert await look(scene, later=9 * MINUTE) == 0
    assert await kinds(scene) == ["run.zombie"]
    assert running.row.run_id


async def test_an_attempt_of_which_its_executor_says_that_it_does_nothing_is_one_at_once(
    scene: Scene, server, work_database
):
    await scene.channel()
    await scene.subscribe(AlertKind.RUN_ZOMBIE)
    await make_task(scene.db, scene.tenant, name="report")
    schedule = await make_schedule(scene.db, scene.tenant)
    await make_run(scene.db, scene.tenant, state=RunState.RUNNING)
    with psycopg.connect(server.superuser(work_database), autocommit=True) as conn:
        conn.execute("update everwhen.runs set schedule_uid = %s", [schedule.uid])
    await scene.execute(
        "update everwhen.leases set lease_until = now() + interval '1 day', details = '{\"zombie\": false}'"
    )
    assert await look(scene, later=2 * MINUTE) == 0

    await scene.execute("update everwhen.leases set details = '{\"zombie\": true}'")
    found = [await look(scene, later=minutes * MINUTE) for minutes in (3, 4, 5)]

    assert (sum(found), await kinds(scene)) == (1, ["run.zombie"])


@pytest.fixture(autouse=True)
def superuser(scene: Scene, server, work_database) -> None:
    """Who may change history."""
    _SUPERUSER[scene.tenant.id] = server.superuser(work_database)


async def claim_late(scene: Scene, **task) -> tuple[Dispatch, Lease]:
    """A run that was due a minute ago is claimed now."""
    await make_task(scene.db, scene.tenant, name="report", queue="line", retry=NEVER_AGAIN, **task)
    await fill(scene.db, scene.tenant, due_in=-MINUTE)
    await age(scene)
    dispatch = Dispatch(scene.db, jitter=lambda: 0.0)
    claim = Claim(tenant_id=scene.tenant.id, queues=("line",), tasks=None, worker=WORKER, limit=1, lease_seconds=60.0)
    (lease,) = (await dispatch.claim(claim)).leases
    return dispatch, lease


_SUPERUSER: dict[Any, str] = {}


def scene_sql(scene: Scene, query: str, *parameters: Any) -> None:
    with psycopg.connect(_SUPERUSER[scene.tenant.id], autocommit=True) as conn:
        conn.execute(query.encode(), parameters or None)


async def age(scene: Scene) -> None:
    """Let what was planned have been planned when it was due: a run counts from when it could begin."""
    await asyncio.to_thread(scene_sql, scene, "update everwhen.runs set planned_at = due_at")


@pytest.mark.parametrize("outcome", ["succeeded", "failed"])
async def test_a_run_that_begins_late_and_ends_between_two_looks_is_told_once(scene: Scene, outcome: str):
    await scene.channel()
    await scene.subscribe(AlertKind.RUN_LATE)
    dispatch, lease = await claim_late(scene)
    await dispatch.complete(scene.tenant.id, WORKER, [report_on(lease, outcome)])

    assert await kinds(scene) == ["run.late"]
    [(at, due)] = await scene.rows(
        "select s.at, r.due_at from everwhen.alert_signals s join everwhen.runs r using (tenant_id, run_id)"
    )
    assert at - due == timedelta(seconds=DEFAULT_OBJECTIVE_SECONDS)
    assert await look(scene) == 0
    await scene.tell()
    [sent] = scene.hook.sent
    assert [each.kind for each in sent.message.shown] == [AlertKind.RUN_LATE]


async def test_a_run_that_the_watch_has_told_of_is_not_told_again_when_it_ends(scene: Scene):
    await scene.channel()
    await scene.subscribe(AlertKind.RUN_LATE)
    dispatch, lease = await claim_late(scene)
    assert await look(scene) == 1
    await dispatch.complete(scene.tenant.id, WORKER, [report_on(lease)])

    assert await kinds(scene) == ["run.late"]


async def test_a_run_that_begins_in_time_is_not_told_however_late_it_ends(scene: Scene):
    await scene.channel()
    await scene.subscribe(AlertKind.RUN_LATE)
    run = await make_run(scene.db, scene.tenant, state=RunState.SUCCEEDED)

    assert run.state is RunState.SUCCEEDED
    assert await kinds(scene) == []


async def test_nobody_who_listens_for_something_else_pays_for_it(scene: Scene):
    await scene.channel()
    await scene.subscribe(AlertKind.RUN_DEAD)
    dispatch, lease = await claim_late(scene)
    await dispatch.complete(scene.tenant.id, WORKER, [report_on(lease)])

    assert await kinds(scene) == []
    assert await scene.count("alert_watched") == 0


async def test_a_run_that_expires_before_anybody_began_it_was_late_first(scene: Scene):
    await scene.channel()
    await scene.subscribe(AlertKind.RUN_LATE)
    await make_task(scene.db, scene.tenant, name="report", queue="line", start_deadline_seconds=40.0)
    await fill(scene.db, scene.tenant, due_in=-MINUTE)
    await age(scene)
    await Reaper(database=scene.db, jitter=lambda: 0.0).tick(await database_now(scene.db))

    assert await scene.rows("select state from everwhen.run_ends") == [("expired",)]
    assert await kinds(scene) == ["run.late"]


async def history(scene: Scene, *, took: timedelta, **task) -> None:
    """A schedule of which the last five runs took so long."""
    await make_task(scene.db, scene.tenant, name="report", queue="line", **task)
    schedule = await make_schedule(scene.db, scene.tenant)
    for _ in range(5):
        await make_run(scene.db, scene.tenant, state=RunState.SUCCEEDED)
    await asyncio.to_thread(scene_sql, scene, "update everwhen.attempts set finished_at = claimed_at + %s", took)
    await fill(scene.db, scene.tenant)
    await asyncio.to_thread(scene_sql, scene, "update everwhen.runs set schedule_uid = %s", schedule.uid)


@pytest.mark.parametrize(
    ("deadline", "expected"), [(300.0, []), (100.0, ["run.overdue"]), (None, [])], ids=["far", "near", "none"]
)
async def test_a_run_that_will_miss_its_total_deadline_is_told_once(scene: Scene, deadline, expected):
    await scene.channel()
    await scene.subscribe(AlertKind.RUN_OVERDUE)
    await history(scene, took=2 * MINUTE, total_deadline_seconds=deadline)
    await look(scene)
    await look(scene, later=timedelta(seconds=1))

    assert await kinds(scene) == expected


async def test_a_preview_tells_what_the_watch_would_have_told(scene: Scene):
    dispatch, lease = await claim_late(scene, total_deadline_seconds=90.0)
    await dispatch.complete(scene.tenant.id, WORKER, [report_on(lease)])
    watched = frozenset({AlertKind.RUN_LATE, AlertKind.RUN_OVERDUE, AlertKind.RUN_ZOMBIE})
    found = await preview(
        scene.db, tenant_id=scene.tenant.id, draft=SubscriptionDraft(kinds=watched, channels=("ops",))
    )
    assert [(each.kind, each.run_id) for each in found.occasions] == [(AlertKind.RUN_LATE, lease.run_id)]

    schedule = await make_schedule(scene.db, scene.tenant)
    for _ in range(6):
        await make_run(scene.db, scene.tenant, state=RunState.SUCCEEDED)
    await asyncio.to_thread(
        scene_sql,
        scene,
        "update everwhen.runs set schedule_uid = %s, due_at = planned_at where run_id <> %s",
        schedule.uid,
        lease.run_id,
    )
    await asyncio.to_thread(
        scene_sql,
        scene,
        "update everwhen.attempts set finished_at = claimed_at + interval '5 minutes' where run_id ="
        " (select max(run_id::text)::uuid from everwhen.attempts)",
    )
    await asyncio.to_thread(
        scene_sql,
        scene,
        "update everwhen.run_ends set state = 'dead', reason = 'deadline.total' where run_id = %s",
        lease.run_id,
    )
    found = await preview(
        scene.db, tenant_id=scene.tenant.id, draft=SubscriptionDraft(kinds=watched, channels=("ops",))
    )

    assert {each.kind for each in found.occasions} == watched
