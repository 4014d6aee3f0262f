"""Dead runs by the thousand, and an operator: what the tests of operations share."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from everwhen import clock
from everwhen.core.bulk import Limits, OperationKind
from everwhen.operations import service
from everwhen.operations.model import OperationRow
from everwhen.operations.operator import Operator
from everwhen.operations.service import Ask, Asked, Planned
from everwhen.postgres.pool import Database
from everwhen.runs.planning import ensure_partitions
from everwhen.tenants.model import Tenant
from tests.dispatch.scene import LINE, rows

MOST_TICKS = 2_000

DIE = """
with asked as (
  select * from unnest(%(run_ids)s::uuid[], %(fingerprints)s::text[]) as a (run_id, fingerprint)
), made as (
  insert into everwhen.runs
    (tenant_id, run_id, source, task, queue, priority, due_at, planned_at, input)
  select %(tenant_id)s, run_id, 'api', %(task)s, %(queue)s, 5, %(at)s, %(at)s, %(input)s::jsonb from asked
), tried as (
  insert into everwhen.attempts
    (tenant_id, run_id, attempt, lease_token, worker, claimed_at, finished_at, outcome, reason, error)
  select %(tenant_id)s, run_id, 1, everwhen.new_lease_token(), 'w', %(at)s, %(at)s, 'failed', 'attempt.failed',
         jsonb_build_object('type', 'Broken', 'message', coalesce(fingerprint, 'nothing'))
  from asked
), ended as (
  insert into everwhen.run_ends (tenant_id, run_id, state, reason, attempts, finished_at, fingerprint)
  select %(tenant_id)s, run_id, 'dead', 'retry.exhausted', 1, %(at)s, fingerprint from asked
)
insert into everwhen.events (tenant_id, run_id, event_id, at, kind, attempt, reason)
select %(tenant_id)s, run_id, nextval('everwhen.event_ids'), %(at)s, kind, attempt, reason
from asked
cross join (values (1, 'planned', null::smallint, null), (2, 'claimed', 1::smallint, null),
                   (3, 'dead', 1::smallint, 'retry.exhausted')) as e (n, kind, attempt, reason)
order by run_id, n
"""


async def make_dead(
    db: Database,
    tenant: Tenant,
    count: int,
    *,
    fingerprints: Sequence[str | None] = (None,),
    task: str = "report",
    ago: timedelta = timedelta(hours=1),
    input: Any = None,  # noqa: A002  # the field's name
) -> list[UUID]:
    """Make runs that died so long ago, their fingerprints by turns; return their ids, oldest first."""
    async with db.tenant(tenant.id) as conn:
        at = conn.now - ago
        await ensure_partitions(conn, [at])
        run_ids = sorted(clock.new_id(at) for _ in range(count))
        params = {
            "run_ids": run_ids,
            "fingerprints": [fingerprints[number % len(fingerprints)] for number in range(count)],
            "tenant_id": tenant.id,
            "task": task,
            "queue": LINE,
            "at": at,
            "input": json.dumps(input or {}),
        }
        await conn.execute(DIE, params)
    return run_ids


def redrive(text: str = "", **changes: Any) -> Ask:
    """A redrive by a filter; `changes` are fields of Ask and of Limits."""
    limits = {name: changes.pop(name) for name in ("rate", "canary", "most_dead", "most_dead_share") if name in changes}
    return Ask(kind=OperationKind.REDRIVE, filter=text, limits=Limits(**limits), **changes)


async def begin(db: Database, tenant: Tenant, ask: Ask) -> OperationRow:
    """Plan, and carry the plan out."""
    planned = await service.plan(db, tenant_id=tenant.id, ask=ask)
    row, replayed = await carry_out(db, tenant, planned)
    assert not replayed
    return row


async def carry_out(db: Database, tenant: Tenant, planned: Planned) -> tuple[OperationRow, bool]:
    asked = Asked(by="tester", reason="mended", token=planned.token)
    return await service.start(db, tenant_id=tenant.id, ask=planned.ask, asked=asked)


async def read(db: Database, tenant: Tenant, operation_id: UUID) -> OperationRow:
    return await service.get_operation(db, tenant_id=tenant.id, operation_id=operation_id)


async def drain(operator: Operator, *, now: datetime | None = None) -> int:
    """Tick as long as something is due, at most MOST_TICKS times; return how often."""
    for ticks in range(MOST_TICKS):
        async with operator.database.system() as conn:
            at = now or conn.now
        if not (await operator.tick(at)).more:
            return ticks
    raise AssertionError(f"still something to do after {MOST_TICKS} ticks")


async def let_be_due(db: Database) -> None:
    """Let every operation be looked at now, however long it was put off."""
    async with db.system() as conn:
        await conn.execute("update everwhen.operations set next_at = now() where next_at is not null")


async def let_rate_pass(db: Database, seconds: float) -> None:
    """Make as if so much time had passed for every rate."""
    async with db.system() as conn:
        await conn.execute(
            "update everwhen.operations set rate_at = rate_at - make_interval(secs => %s), next_at = now()"
            " where next_at is not null",
            (seconds,),
        )


async def count_made(db: Database, operation_id: UUID) -> int:
    found = await rows(db, "select count(*) from everwhen.runs where operation_id = %s", operation_id)
    return found[0][0]
