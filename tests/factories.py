"""Makes what tests start from, through the services, so that nothing can exist here that could not exist out there."""

from datetime import datetime, timedelta
from itertools import count
from typing import Any
from uuid import UUID

import msgspec

from everwhen.core.lifecycle import RunState
from everwhen.core.planning import CatchUp
from everwhen.core.retry import Jitter, RetryPolicy
from everwhen.core.triggers import Timing, parse_trigger
from everwhen.dispatch.service import Claim, Dispatch
from everwhen.postgres.pool import Database
from everwhen.runs import service as runs
from everwhen.runs.model import RunRequest
from everwhen.runs.service import RunView
from everwhen.schedules import service as schedules
from everwhen.schedules.model import Schedule, ScheduleDraft, Spec
from everwhen.schedules.service import Change
from everwhen.tasks import service as tasks
from everwhen.tasks.model import Task, TaskDraft
from everwhen.tenants import service as tenants
from everwhen.tenants.model import Tenant
from everwhen.worker.protocol import Report

WORKER = "test-worker"
TESTER = Change(by="factory")
NEVER_AGAIN = RetryPolicy(max_attempts=1)
SLOWLY = RetryPolicy(base=timedelta(hours=1), cap=timedelta(hours=1), jitter=Jitter.NONE)

_numbers = count(1)


async def make_tenant(db: Database, *, name: str | None = None) -> Tenant:
    """A tenant with a name of its own."""
    return await tenants.create_tenant(db, name=name or f"tenant-{next(_numbers)}")


async def make_task(db: Database, tenant: Tenant, *, name: str = "report", **changes: Any) -> Task:
    """A task; `changes` are fields of TaskDraft."""
    return await tasks.create_task(db, tenant_id=tenant.id, draft=TaskDraft(name=name, **changes))


async def make_schedule(  # what a schedule is made of
    db: Database,
    tenant: Tenant,
    *,
    name: str = "nightly",
    task: str = "report",
    trigger: dict[str, Any] | None = None,
    timezone: str = "UTC",
    catch_up: CatchUp | None = None,
    **changes: Any,
) -> Schedule:
    """A schedule that fires at 02:30, unless told otherwise; its task must be there."""
    timing = Timing(parse_trigger(trigger or {"kind": "cron", "expr": "30 2 * * *"}), timezone)
    spec = Spec(timing=timing, catch_up=catch_up or CatchUp())
    draft = ScheduleDraft(name=name, task=task, spec=spec, **changes)
    return await schedules.create_schedule(db, tenant_id=tenant.id, draft=draft, change=TESTER)


async def make_run(
    db: Database,
    tenant: Tenant,
    *,
    state: RunState = RunState.WAITING,
    at: datetime | None = None,
    input: Any = None,  # noqa: A002  # the field's name
) -> RunView:
    """A run in this state, of a task and queue of its own, by the way that a run gets there.

    The verdicts of the planner (skipped, missed, coalesced, expired) belong to schedules and deadlines: not made here.
    """
    name = f"task-{next(_numbers)}"
    retry = SLOWLY if state is RunState.RETRYING else NEVER_AGAIN
    await make_task(db, tenant, name=name, queue=name, retry=retry)
    async with db.tenant(tenant.id) as conn:
        due_at = conn.now + timedelta(hours=1) if state is RunState.PLANNED else at
    request = RunRequest(task=name, at=due_at, input=input or {}, has_input=True)
    view = await runs.request_run(db, tenant_id=tenant.id, request=request)
    await _drive(db, tenant, view, state=state)
    return await runs.get_run(db, tenant_id=tenant.id, ref=str(view.row.run_id))


async def _drive(db: Database, tenant: Tenant, view: RunView, *, state: RunState) -> None:
    run_id = view.row.run_id
    match state:
        case RunState.PLANNED | RunState.WAITING:
            return
        case RunState.CANCELLED:
            await runs.cancel_run(db, tenant_id=tenant.id, ref=str(run_id), by="tester", reason=None)
        case RunState.RUNNING:
            await _claim(db, tenant, queue=view.row.queue)
        case RunState.SUCCEEDED | RunState.DEAD | RunState.RETRYING:
            token = await _claim(db, tenant, queue=view.row.queue)
            await _report(db, tenant, run_id=run_id, token=token, succeeded=state is RunState.SUCCEEDED)
        case _:
            raise ValueError(f"make_run makes no run that is {state}")


async def _claim(db: Database, tenant: Tenant, *, queue: str) -> int:
    claim = Claim(tenant_id=tenant.id, queues=(queue,), tasks=None, worker=WORKER, limit=1, lease_seconds=60.0)
    grant = await Dispatch(db, jitter=lambda: 0.0).claim(claim)
    return grant.leases[0].lease_token


async def _report(db: Database, tenant: Tenant, *, run_id: UUID, token: int, succeeded: bool) -> None:
    report = Report(
        tenant_id=tenant.id,
        run_id=run_id,
        lease_token=str(token),
        outcome="succeeded" if succeeded else "failed",
        result=msgspec.Raw(b"{}"),
    )
    await Dispatch(db, jitter=lambda: 0.0).complete(tenant.id, WORKER, [report])
