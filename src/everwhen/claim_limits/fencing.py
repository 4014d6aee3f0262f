"""Limits that are set where there was none, so that they hold from the commit on.

A line without limits is claimed from without a lock. So whoever sets its first limit has to get past the claims that
are under way: one that has looked at the line before, and leases ten runs more a moment later, would exceed the limit
that was committed meanwhile.

    claim      passes the fence (shared, until it ends) ──> looks at its lines ──> locks those with limits ──> takes
    change     stands at the fence (alone, until it ends) ──> locks lines ──> writes ──> commits

The fence is an advisory lock of the tenant: it writes nothing, and claims do not wait for each other at it. Whoever
changes a limit takes it before any lane, since a claim holds it while it waits for a lane. Passing it and looking at
the lines is one statement, whose snapshot may be older than the pass by a hair: so the statement that takes runs looks
again, and a claim that finds a limit of which it did not know begins anew (`UnmarkedLanes`).

Workers of the platform take runs of many tenants, and pass no fence: they hold the row of each line that they take
from, limited or not, so a change waits for them there.
"""

from typing import Final
from uuid import UUID

from everwhen.claim_limits import store
from everwhen.postgres.pool import Connection
from everwhen.postgres.wakeups import notify, topics_of_lane

MOST_CAPPED: Final = 10_000
"""How many leases that began without a limit are told that there is one; the ends of others wake nobody."""

MOST_WOKEN: Final = 64


async def fence(conn: Connection, tenant_id: UUID) -> None:
    """Let no claim of this tenant's workers be under way until the caller's transaction ends. Before any lane."""
    await store.fence(conn, tenant_id=tenant_id)


async def cap_line(conn: Connection, tenant_id: UUID, queue: str) -> None:
    """Have the leases of a line that has a limit now wake whoever waits for room."""
    await store.cap_leases(conn, tenant_id=tenant_id, queues=[queue], limit=MOST_CAPPED)


async def limit_tenant(conn: Connection, tenant_id: UUID) -> None:
    """Let claims go by the limit of a tenant that the caller, behind the fence, has written."""
    queues = await store.list_lanes(conn, tenant_id=tenant_id)
    await store.mark_tenant_lanes(conn, tenant_id=tenant_id)
    await store.cap_leases(conn, tenant_id=tenant_id, queues=queues, limit=MOST_CAPPED)
    await notify(conn, [topic for queue in queues[:MOST_WOKEN] for topic in topics_of_lane(tenant_id, queue)])
