"""What no event would tell: late runs, attempts that do nothing."""

from datetime import timedelta

import psycopg

from everwhen.alerts.watching.watch import watch
from everwhen.core.alert_kinds import AlertKind
from everwhen.core.lifecycle import RunState
from tests.alerts.scene import Scene
from tests.factories import make_run, make_schedule, make_task

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
