"""Logs in tests: an attempt that is held, and what it printed."""

from everwhen.core.retry import RetryPolicy
from everwhen.dispatch.service import Claim, Dispatch
from everwhen.logs.service import Logs, Writer
from everwhen.postgres.pool import Database
from everwhen.runs import service as runs
from everwhen.runs.model import RunRequest
from everwhen.tenants.model import Tenant
from everwhen.worker.protocol import Report
from tests.factories import WORKER, make_task

AT_ONCE = RetryPolicy(max_attempts=5, base=RetryPolicy().base * 0)


def dispatch_on(db: Database) -> Dispatch:
    """Dispatch without jitter."""
    return Dispatch(db, jitter=lambda: 0.0)


async def make_writer(db: Database, tenant: Tenant, *, name: str = "printing") -> Writer:
    """A run of its own task and queue, in a worker's hands."""
    await make_task(db, tenant, name=name, queue=name)
    request = RunRequest(task=name, at=None, input={}, has_input=True)
    view = await runs.request_run(db, tenant_id=tenant.id, request=request)
    return Writer(tenant_id=tenant.id, run_id=view.row.run_id, token=await claim(db, tenant, name=name))


async def claim(db: Database, tenant: Tenant, *, name: str = "printing") -> int:
    """Take the run at this queue; return the lease's number."""
    wish = Claim(tenant_id=tenant.id, queues=(name,), tasks=None, worker=WORKER, limit=1, lease_seconds=60.0)
    grant = await dispatch_on(db).claim(wish)
    return grant.leases[0].lease_token


async def report(db: Database, writer: Writer, outcome: str = "succeeded") -> None:
    """End the attempt."""
    told = Report(tenant_id=writer.tenant_id, run_id=writer.run_id, lease_token=str(writer.token), outcome=outcome)
    (result,) = await dispatch_on(db).complete(writer.tenant_id, WORKER, [told])
    assert result.accepted


async def text_of(logs: Logs, writer: Writer, attempt: int | None = None, *, start: int = 0) -> bytes:
    """All that an attempt printed, from `start` on."""
    head = await logs.head(writer.tenant_id, str(writer.run_id), attempt)
    read = logs.read(writer.tenant_id, head, start=start, end=head.size_bytes)
    return b"".join([chunk async for chunk in read])
