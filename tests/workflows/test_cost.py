"""What the end of a node costs is the same in a graph of any size, whatever the statistics say."""

from typing import Any

import pytest

from everwhen.postgres.pool import Database, PoolLimits
from everwhen.runs.ends import Ended
from everwhen.workflows.life import NodeFollower
from tests.contracts.test_plans import Watched, watched
from tests.workflows.scene import Scene, make_scene

MOST_PAGES_AN_END = 100
SIZES = (100, 3_000)


async def nobody_waits(*_: Any) -> None:
    """Wake nobody."""


def ladder(count: int) -> list[dict[str, Any]]:
    """Layers of ten; each node needs two of the layer before, and is needed by two."""
    nodes: list[dict[str, Any]] = []
    for number in range(count):
        layer, place = divmod(number, 10)
        above = (layer - 1) * 10
        needs = [f"n{above + place}", f"n{above + (place + 1) % 10}"] if layer else []
        nodes.append({"id": f"n{number}", "needs": needs})
    return nodes


@pytest.fixture
async def started(server, fresh_database) -> Any:
    """A scene on a database of its own, and a way to see the pages that a statement touches."""
    async with await Database.open(server.app(fresh_database), limits=PoolLimits(min_size=1, max_size=4)) as db:
        scene = await make_scene(db)
        yield scene, await watched(server, fresh_database, "everwhen_system")


async def cost_of_an_end(scene: Scene, system: Watched, *, size: int) -> int:
    """Pages touched when the last upstream of a node ends: its release included, and taken back again."""
    await scene.define(*ladder(size), name=f"ladder-{size}")
    await scene.run(f"ladder-{size}")
    await scene.conduct()
    leases = await scene.claim()
    assert await scene.report(leases["n1"])
    last = leases["n0"]
    ended = Ended(tenant_id=last.tenant_id, run_id=last.run_id, state="succeeded", reason=None)
    follower = NodeFollower(on_ready=nobody_waits)

    async def end() -> None:
        async with system.conn.transaction(force_rollback=True):
            await follower(system.conn, [ended], last.claimed_at)

    await end()  # the version is read, and plans are made
    pages, _ = await system.pages(end)
    for lease in leases.values():
        if lease.run_id != leases["n1"].run_id:
            await scene.report(lease)
    return pages


async def test_an_end_touches_as_many_pages_in_a_large_graph_as_in_a_small_one(started) -> None:
    scene, system = started

    small, large = [await cost_of_an_end(scene, system, size=size) for size in SIZES]

    assert 0 < small <= MOST_PAGES_AN_END
    assert large <= small * 1.5  # an index of thirty times as many rows is a level deeper
    await system.conn.close()
