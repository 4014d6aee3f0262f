"""I8 under fire: many tasks on real connections, and after every commit never more active than the policy allows.

What is counted is not what the gate believes: the runs that lie in a line of a queue or under a lease.
"""

import asyncio
from datetime import timedelta
from random import Random  # noqa: TID251  # drawn by a seed

import psycopg
import pytest

from everwhen.errors import Conflict, Unavailable
from everwhen.overlap import store
from everwhen.overlap.gatekeeper import Gatekeeper
from everwhen.schedules import service as schedules
from everwhen.services import followers
from tests.overlap.scene import Scene, make_scene

ACTIVE = """
    select count(*) from (
      select w.run_id from everwhen.waiting w union all select l.run_id from everwhen.leases l) live
    join everwhen.runs r using (run_id)
    where r.schedule_uid = %s
"""
ROUNDS = 25


@pytest.fixture
async def scene(database) -> Scene:
    made = await make_scene(database)
    made.is_by_the_database = True
    return made


@pytest.mark.parametrize(
    "policy",
    [
        {"policy": "skip"},
        {"policy": "buffer_one", "max_running": 2},
        {"policy": "buffer_latest"},
        {"policy": "buffer_all", "max_running": 3, "max_buffered": 4},
        {"policy": "cancel_other", "max_running": 2},
        {"policy": "terminate_other"},
        {"policy": "strict_sequential"},
        {"policy": "allow", "max_running": 2},
    ],
    ids=lambda policy: policy["policy"],
)
async def test_at_no_commit_are_there_more_than_the_policy_allows(scene: Scene, policy, server, work_database) -> None:
    schedule = await scene.create(every="PT24H", **policy)
    most, done, seen = policy.get("max_running", 1), asyncio.Event(), []

    async def watch() -> None:
        async with await psycopg.AsyncConnection.connect(server.superuser(work_database), autocommit=True) as conn:
            while not done.is_set():
                row = await (await conn.execute(ACTIVE, (schedule.uid,))).fetchone()
                assert row is not None
                seen.append(row[0])

    watcher = asyncio.create_task(watch())
    try:
        await asyncio.gather(*(_ask(scene, worker) for worker in range(3)), *(_work(scene, n) for n in range(3)))
        await _drain(scene)
    finally:
        done.set()
        await watcher

    assert len(seen) > ROUNDS
    assert max(seen) <= most
    assert await scene.rows("select run_id from everwhen.held") == []
    assert await scene.rows("select run_id from everwhen.admitted") == []
    assert await scene.is_sound()
    if policy["policy"] == "strict_sequential":
        order = await scene.rows("select run_id from everwhen.events where kind = 'admitted' order by event_id")
        assert len(order) == 3 * ROUNDS


async def _ask(scene: Scene, worker: int) -> None:
    """Ask for runs, and have a second and third gatekeeper come by at any time."""
    draw = Random(worker)
    for _ in range(ROUNDS):
        await scene.request(draw.choice(["respect", "respect", "wait"]))
        if draw.random() < 0.5:
            await _look(scene)


async def _work(scene: Scene, worker: int) -> None:
    draw = Random(100 + worker)
    for _ in range(2 * ROUNDS):
        for lease in await scene.claim(limit=draw.choice([1, 3])):
            await scene.end(lease, draw.choice(["succeeded", "failed", "cancelled"]))
        if draw.random() < 0.3:
            await _look(scene)


async def _drain(scene: Scene) -> None:
    for _ in range(500):
        await _look(scene)
        for lease in await scene.claim():
            await scene.end(lease)
        if not await scene.rows("select from everwhen.held union all select from everwhen.waiting"):
            return
    raise AssertionError("the line does not move")


async def _look(scene: Scene) -> None:
    await Gatekeeper(database=scene.db, on_ended=followers()).tick(await _now(scene))


async def _now(scene: Scene):
    async with scene.db.system() as conn:
        return conn.now


async def test_a_policy_that_changes_under_load_loses_no_run(scene: Scene) -> None:
    await scene.create(every="PT24H", policy="buffer_all", max_buffered=50)

    async def change() -> None:
        for number in range(8):
            policy = [{"policy": "skip"}, {}, {"policy": "strict_sequential"}, {"policy": "allow", "max_running": 3}]
            try:
                await scene.change(**policy[number % 4])
            except (Conflict, Unavailable):
                continue

    await asyncio.gather(*(_ask(scene, worker) for worker in range(2)), *(_work(scene, n) for n in range(2)), change())
    await scene.change(policy="buffer_all")
    await _drain(scene)

    assert await scene.rows("select run_id from everwhen.admitted") == []
    ended = await scene.rows("select count(*) from everwhen.run_ends")
    assert ended == [(2 * ROUNDS,)]
    assert await scene.is_sound()


async def test_a_crash_before_the_commit_leaves_the_line_as_it_was(scene: Scene, monkeypatch) -> None:
    await scene.create(policy="buffer_one", every="PT24H")
    await scene.request()
    await scene.request()
    (lease,) = await scene.claim()

    async def die(*_args, **_known):
        raise RuntimeError("power cut")

    with monkeypatch.context() as patch:
        patch.setattr(store, "admit_runs", die)
        with pytest.raises(RuntimeError):
            await scene.end(lease)
    before = await scene.rows("select state from everwhen.run_ends")

    await scene.end(lease)

    assert before == []
    assert len(await scene.claim()) == 1
    assert await scene.is_sound()


async def test_two_gatekeepers_share_the_lines_and_one_passes_over_what_the_other_holds(scene: Scene, database) -> None:
    scene.is_by_the_database = False
    await scene.create(policy="skip")
    await scene.minute(0, seconds=-1)
    scene.now = scene.start
    async with database.system() as conn:
        await conn.execute("select from everwhen.gates for update")
        tick = await scene.decide()

    assert (tick.done, tick.more) == (0, False)
    assert tick.next_at == scene.now + timedelta(milliseconds=50)
    assert (await scene.decide()).done == 1


async def test_a_line_that_cannot_be_decided_stops_no_other(scene: Scene, monkeypatch) -> None:
    scene.is_by_the_database = False
    for name in ("bad", "good"):
        await scene.create(name=name, policy="skip")
    await scene.minute(0, seconds=-1)
    scene.now = scene.start
    bad = (await schedules.get_schedule(scene.db, tenant_id=scene.tenant.id, name="bad")).uid
    admit = store.admit_runs

    async def refuse(conn, **known):
        rows = await conn.execute("select 1 from everwhen.held where schedule_uid = %s and run_id = any(%s)",
                                  (bad, known["run_ids"]))  # fmt: skip
        if await rows.fetchone():
            raise psycopg.DataError("no")
        return await admit(conn, **known)

    monkeypatch.setattr(store, "admit_runs", refuse)
    tick = await scene.decide()

    assert tick.done == 1
    assert await scene.states(name="good") == ["line"]
    assert await scene.states(name="bad") == ["held"]
    (look,) = await scene.rows("select min(look_at) from everwhen.held where schedule_uid = %s", bad)
    assert look[0] > scene.now
