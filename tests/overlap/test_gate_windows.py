"""A gate is made while an operation writes runs of the schedule: whoever comes first, no run passes by the gate.

Two real transactions at once, in both orders; the second one is started while the first has not committed.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from everwhen.core.ids import derived_run_id, scheduled_run_id
from everwhen.core.zones import tz_version
from everwhen.overlap.gatekeeper import Gatekeeper
from everwhen.postgres.pool import Connection
from everwhen.runs.derived import Filling, Making, PastInstant, make_backfilled, make_redriven
from everwhen.schedules import service as schedules
from everwhen.services import followers
from tests.factories import TESTER
from tests.overlap.scene import Scene, make_scene

Step = Callable[[Connection], Awaitable[object]]
WAITS = """
    select from pg_locks l join pg_stat_activity a using (pid)
    where not l.granted and a.datname = current_database()"""
BESIDE = """
    select run_id from everwhen.waiting w
    where not exists (select from everwhen.admitted a where a.tenant_id = w.tenant_id and a.run_id = w.run_id)"""
PATIENCE = 30.0


@pytest.fixture
async def scene(database) -> Scene:
    made = await make_scene(database)
    made.is_by_the_database = True
    return made


def gate(scene: Scene) -> Step:
    async def change(conn: Connection) -> object:
        spec = scene.spec("PT24H", {"policy": "skip"})
        return await schedules.change_schedule(
            conn, tenant_id=scene.tenant.id, name="minutely", changes=lambda _: {"spec": spec}, change=TESTER
        )

    return change


async def backfill(scene: Scene, uid: uuid.UUID) -> Step:
    at = scene.start - timedelta(hours=2)
    operation = uuid.UUID(int=42)
    making = Making(tenant_id=scene.tenant.id, by="ann", operation_id=operation)
    made = scheduled_run_id(scene.tenant.id, uid, nominal_at=at, due_at=at, source=f"backfill:{operation}")
    instants = [PastInstant(run_id=made, nominal_at=at, utc_offset=timedelta(0))]
    filling = Filling(schedule_uid=uid, priority=5, tz_version=tz_version())
    return lambda conn: make_backfilled(conn, making, instants, filling)


async def redrive(scene: Scene, _uid: uuid.UUID) -> Step:
    await scene.request()
    (lease,) = await scene.claim()
    await scene.end(lease, "failed")
    making = Making(tenant_id=scene.tenant.id, by="ann")
    pairs = [(lease.run_id, derived_run_id(scene.tenant.id, lease.run_id, by="redrive:1", at=lease.due_at))]
    return lambda conn: make_redriven(conn, making, pairs)


@pytest.mark.parametrize("write", [backfill, redrive])
@pytest.mark.parametrize("is_gate_first", [True, False], ids=["the gate first", "the runs first"])
async def test_runs_that_an_operation_writes_do_not_pass_by_a_gate_that_is_being_made(
    scene: Scene, write, is_gate_first
) -> None:
    schedule = await scene.create(every="PT24H")
    steps = [gate(scene), await write(scene, schedule.uid)]
    first, second = steps if is_gate_first else reversed(steps)

    async def follow() -> None:
        async with scene.db.tenant(scene.tenant.id) as conn:
            await second(conn)

    async with scene.db.tenant(scene.tenant.id) as conn:
        await first(conn)
        later = asyncio.create_task(follow())
        async with asyncio.timeout(PATIENCE):
            while not later.done() and not await scene.rows(WAITS):  # noqa: ASYNC110  # nothing tells
                await asyncio.sleep(0.01)
    await later

    assert await scene.rows(BESIDE) == []
    async with scene.db.system() as conn:
        now = conn.now
    await Gatekeeper(database=scene.db, on_ended=followers()).tick(now)
    (lease,) = await scene.claim()
    await scene.end(lease)
    assert await scene.rows("select from everwhen.held where due_at <= now()") == []
    assert await scene.rows("select from everwhen.admitted") == []
