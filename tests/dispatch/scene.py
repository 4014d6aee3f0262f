"""A line and its worker: what the tests of the hot path share."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec

from everwhen import clock
from everwhen.dispatch.model import Lease, ToRenew
from everwhen.dispatch.service import Claim, Dispatch, Grant
from everwhen.postgres.pool import Database
from everwhen.runs import store as runs
from everwhen.runs.planning import ensure_partitions
from everwhen.tenants.model import Tenant
from everwhen.worker.protocol import NOTHING, Report
from tests.factories import WORKER, make_task, make_tenant

LINE = "line"
LEASE_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class Line:
    """A tenant with one task, `report`, at the queue `line`."""

    db: Database
    dispatch: Dispatch
    tenant: Tenant

    async def now(self) -> datetime:
        return await database_now(self.db)

    async def fill(self, count: int = 1, **row: Any) -> list[UUID]:
        return await fill(self.db, self.tenant, count=count, **row)

    def wish(self, **changes: Any) -> Claim:
        return wish(**({"tenant_id": self.tenant.id} | changes))

    async def claim(self, *, now: datetime | None = None, **changes: Any) -> list[Lease]:
        return (await self.grant(now=now, **changes)).leases

    async def grant(self, *, now: datetime | None = None, **changes: Any) -> Grant:
        return await self.dispatch.claim(self.wish(**changes), now=now)

    async def complete(
        self, *reports: Report, now: datetime | None = None
    ) -> list[tuple[bool, str | None, str | None]]:
        """Report, and return (accepted, state, code) of each."""
        results = await self.dispatch.complete(self.tenant.id, WORKER, reports, now=now)
        assert [result.run_id for result in results] == [report.run_id for report in reports]
        return [(result.accepted, result.state, result.code) for result in results]

    async def rows(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return await rows(self.db, query, *parameters)

    async def set_lane(self, **changes: Any) -> None:
        await set_lane(self.db, self.tenant, **changes)


async def make_line(db: Database, **task: Any) -> Line:
    tenant = await make_tenant(db)
    await make_task(db, tenant, queue=LINE, **task)
    return Line(db=db, dispatch=Dispatch(db, jitter=lambda: 0.0), tenant=tenant)


def wish(*, tenant_id: UUID | None, **changes: Any) -> Claim:
    asked = {"queues": (LINE,), "tasks": None, "worker": WORKER, "limit": 10, "lease_seconds": LEASE_SECONDS}
    return Claim(tenant_id=tenant_id, **(asked | changes))


async def fill(
    db: Database,
    tenant: Tenant,
    *,
    count: int = 1,
    task: str = "report",
    due_in: timedelta = timedelta(0),
    priority: int | None = None,
    input: Any = None,  # noqa: A002  # the field's name
) -> list[UUID]:
    """Line up runs, due this long from now; return their ids."""
    async with db.tenant(tenant.id) as conn:
        due_at = conn.now + due_in
        await ensure_partitions(conn, [due_at])
        run_ids = [clock.new_id(due_at) for _ in range(count)]
        for run_id in run_ids:
            await runs.insert_requested(
                conn,
                tenant_id=tenant.id,
                run_id=run_id,
                task=task,
                schedule_uid=None,
                schedule_revision=None,
                priority=priority,
                due_at=due_at,
                input=json.dumps(input or {}),
                now=conn.now,
            )
    return run_ids


async def set_lane(db: Database, tenant: Tenant, *, queue: str = LINE, **changes: Any) -> None:
    """Change a lane as an operator would."""
    async with db.system() as conn:
        for name, value in changes.items():
            await conn.execute(
                f"update everwhen.lanes set {name} = %s where tenant_id = %s and queue = %s", (value, tenant.id, queue)
            )


async def spoil_retry(db: Database, tenant: Tenant, retry: str, *, task: str = "report") -> None:
    """Put a policy into a task that no service would."""
    async with db.system() as conn:
        await conn.execute(
            "update everwhen.tasks set retry = %s::jsonb where tenant_id = %s and name = %s", (retry, tenant.id, task)
        )


async def rows(db: Database, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
    async with db.system() as conn:
        return await (await conn.execute(query, parameters or None)).fetchall()


async def database_now(db: Database) -> datetime:
    async with db.system() as conn:
        return conn.now


def report_on(lease: Lease, outcome: str = "succeeded", *, result: bytes | None = None, **changes: Any) -> Report:
    """What its worker says of a lease."""
    said = {
        "tenant_id": lease.tenant_id,
        "run_id": lease.run_id,
        "lease_token": str(lease.lease_token),
        "outcome": outcome,
        "result": NOTHING if result is None else msgspec.Raw(result),
    }
    return Report(**(said | changes))


def hold(
    lease: Lease,
    *,
    tenant_id: UUID | None = None,
    token: int | None = None,
    details: str | None = None,
    started_at: datetime | None = None,
) -> ToRenew:
    """A lease as its worker's heartbeat names it."""
    return ToRenew(
        tenant_id=tenant_id or lease.tenant_id,
        run_id=lease.run_id,
        lease_token=lease.lease_token if token is None else token,
        details=details,
        started_at=started_at,
    )


def ids(leases: Sequence[Lease]) -> list[UUID]:
    return [lease.run_id for lease in leases]
