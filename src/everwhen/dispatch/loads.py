"""What lines and tenants have in flight beside their limits, for a claim; and whom to wake when there is room again.

A line's limit is counted while its row is locked. A tenant may have one over all of its lines together, which the
platform sets: claims of such a tenant take turns behind an advisory lock, whichever lines they are at, and count once
they have it, in a statement of its own. Lines are locked first, then tenants in the order of their ids, then what
claim_limits locks. A claim at queues that tenants share holds lines of many, so it waits for no tenant: whoever is
counted just now is left out, and has somebody at work for it.

Whoever is turned away because a tenant is at its limit leaves no trace: its runs stay in their lines, so those that are
first there go first whatever happens. It sleeps until an end wakes it, which wakes all lines of the tenant in which
something is due. A wake-up that is lost costs a poll.
"""

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from everwhen.core.lanes import Lane
from everwhen.dispatch import store
from everwhen.dispatch.model import LaneRow
from everwhen.postgres.pool import Connection
from everwhen.postgres.wakeups import notify, topics_of_lane

MOST_WOKEN: Final = 64
"""How many lines of one tenant an end wakes; the others look when they poll."""

LaneKey = tuple[UUID, str]


async def with_load(conn: Connection, rows: Sequence[LaneRow], *, waits: bool) -> list[Lane]:
    """Return locked lines with what is in flight; where it `waits`, the claim holds lines of one tenant only."""
    limited = [row for row in rows if row.max_in_flight is not None]
    load: dict[LaneKey, int] = {}
    if limited:
        counted = await store.count_in_flight(
            conn, tenant_ids=[row.tenant_id for row in limited], queues=[row.queue for row in limited]
        )
        load = {(lane.tenant_id, lane.queue): lane.in_flight for lane in counted}
    rooms = await _rooms(conn, sorted({row.tenant_id for row in rows if row.has_tenant_limit}), waits=waits)
    return [
        Lane(
            tenant_id=row.tenant_id,
            queue=row.queue,
            weight=row.weight,
            virtual_time=row.virtual_time,
            max_in_flight=row.max_in_flight,
            is_limited=row.is_limited,
            has_tenant_limit=row.has_tenant_limit,
            is_paused=row.is_paused,
            in_flight=load.get((row.tenant_id, row.queue), 0),
            tenant_room=rooms.get(row.tenant_id) if row.has_tenant_limit else None,
        )
        for row in rows
    ]


async def _rooms(conn: Connection, tenant_ids: Sequence[UUID], *, waits: bool) -> dict[UUID, int | None]:
    """Return what the limits of these tenants leave; nothing to one that another claim counts just now."""
    if not tenant_ids:
        return {}
    locked = await store.lock_tenants(conn, tenant_ids=tenant_ids, waits=waits)
    held = [each.tenant_id for each in locked if each.is_held]
    rooms: dict[UUID, int | None] = {each.tenant_id: 0 for each in locked}
    if held:
        rooms |= {each.tenant_id: each.room for each in await store.count_in_flight_of_tenants(conn, tenant_ids=held)}
    return rooms


async def wake_freed(conn: Connection, lanes: set[LaneKey]) -> None:
    """Wake whoever waits for room at these lines, in which there is some now, and at others of their tenants."""
    if not lanes:
        return
    tenant_ids = sorted({tenant_id for tenant_id, _ in lanes})
    others = await store.find_lines_in_want(conn, tenant_ids=tenant_ids, now=conn.now, limit=MOST_WOKEN)
    woken = lanes | {(lane.tenant_id, lane.queue) for lane in others}
    await notify(conn, [topic for tenant_id, queue in woken for topic in topics_of_lane(tenant_id, queue)])


def freed_lanes(tenants: Mapping[int, UUID], freed: Mapping[int, str]) -> set[LaneKey]:
    """Return the lines with limits that these attempts, by their tokens, had counted for."""
    return {(tenant_id, queue) for token, tenant_id in tenants.items() if (queue := freed.get(token)) is not None}
