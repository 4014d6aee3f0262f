"""A schedule behind a gate, its worker and its gatekeeper, all by a clock that the test moves."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from everwhen.core.overlap import OverlapWish
from everwhen.core.overlap_json import parse_overlap
from everwhen.core.retry import RetryPolicy
from everwhen.core.triggers import Timing, parse_trigger
from everwhen.dispatch.model import Lease
from everwhen.dispatch.reaper import Reaper
from everwhen.dispatch.service import Claim, Dispatch
from everwhen.overlap.gatekeeper import Gatekeeper
from everwhen.pauses.attendant import Attendant
from everwhen.postgres.pool import Database
from everwhen.roles import Tick
from everwhen.runs import service as runs
from everwhen.runs.model import RunFilter, RunRequest
from everwhen.runs.service import RunView
from everwhen.schedules import service as schedules
from everwhen.schedules.model import Schedule, ScheduleDraft, Spec
from everwhen.schedules.scheduler import Scheduler
from everwhen.services import followers
from everwhen.tenants.model import Tenant
from everwhen.verify.service import verify
from tests.dispatch.scene import report_on
from tests.factories import TESTER, WORKER, make_task, make_tenant

MINUTE = timedelta(minutes=1)
QUEUE = "line"


@dataclass(kw_only=True)
class Scene:
    """One tenant with a task `report` and a schedule `minutely`, from a whole minute `start` on."""

    db: Database
    tenant: Tenant
    start: datetime
    now: datetime
    dispatch: Dispatch
    is_by_the_database: bool = False

    @property
    def now_or_none(self) -> datetime | None:
        """The clock that the test moves; None: the database's own, of each transaction."""
        return None if self.is_by_the_database else self.now

    async def create(self, *, name: str = "minutely", every: str = "PT1M", **policy: Any) -> Schedule:
        """Make a schedule that fires on every whole minute; `policy` is its overlap policy."""
        failures = policy.pop("pause_after_failures", None)
        draft = ScheduleDraft(name=name, task="report", spec=self.spec(every, policy, failures))
        return await schedules.create_schedule(self.db, tenant_id=self.tenant.id, draft=draft, change=TESTER)

    def spec(self, every: str, policy: dict[str, Any], failures: int | None = None) -> Spec:
        return Spec(
            timing=Timing(parse_trigger({"kind": "every", "every": every, "anchor": self.start.isoformat()}), "UTC"),
            overlap=parse_overlap(policy or None),
            pause_after_failures=failures,
        )

    async def change(self, *, name: str = "minutely", **policy: Any) -> None:
        await schedules.update_schedule(
            self.db,
            tenant_id=self.tenant.id,
            name=name,
            changes=lambda _: {"spec": self.spec("PT1M", policy)},
            change=TESTER,
        )

    async def minute(self, number: int, *, seconds: float = 0) -> None:
        """Move the clock to this minute after the start, plan, and have the gatekeeper decide."""
        self.now = self.start + number * MINUTE + timedelta(seconds=seconds)
        await Scheduler(database=self.db).tick(self.now)
        await self.decide()

    async def decide(self) -> Tick:
        return await Gatekeeper(database=self.db, on_ended=followers()).tick(self.now)

    async def attend(self) -> Tick:
        return await Attendant(database=self.db).tick(self.now)

    async def reap(self) -> Tick:
        return await Reaper(database=self.db, jitter=lambda: 0.0, on_ended=followers()).tick(self.now)

    async def request(self, overlap: str = "respect", *, schedule: str = "minutely", **known: Any) -> RunView:
        request = RunRequest(schedule=schedule, overlap=OverlapWish(overlap), **known)
        return await runs.request_run(self.db, tenant_id=self.tenant.id, request=request, on_ended=followers())

    async def claim(self, limit: int = 10, lease_seconds: float = 3600.0) -> list[Lease]:
        claim = Claim(
            tenant_id=self.tenant.id,
            queues=(QUEUE,),
            tasks=None,
            worker=WORKER,
            limit=limit,
            lease_seconds=lease_seconds,
        )
        return (await self.dispatch.claim(claim, now=self.now_or_none)).leases

    async def end(self, lease: Lease, outcome: str = "succeeded") -> bool:
        report = report_on(lease, outcome)
        (result,) = await self.dispatch.complete(self.tenant.id, WORKER, [report], now=self.now_or_none)
        return result.accepted

    async def states(self, *, name: str = "minutely") -> list[str]:
        """State and reason of the schedule's runs that are due, the oldest first."""
        found = (
            await runs.list_runs(self.db, tenant_id=self.tenant.id, where=RunFilter(schedule=name), limit=100)
        ).rows
        due = sorted((each for each in found if each.row.due_at <= self.now), key=lambda each: each.row.due_at)
        return [f"{_place(each)} {each.row.reason or ''}".strip() for each in due]

    async def get(self, run_id: UUID) -> RunView:
        return await runs.get_run(self.db, tenant_id=self.tenant.id, ref=str(run_id))

    async def cancel(self, run_id: UUID) -> RunView:
        return await runs.cancel_run(
            self.db, tenant_id=self.tenant.id, ref=str(run_id), by="ann", reason=None, on_ended=followers()
        )

    async def rows(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        async with self.db.system() as conn:
            return await (await conn.execute(query.encode(), parameters or None)).fetchall()

    async def is_sound(self) -> bool:
        """Whether every promise holds; what does not is shown."""
        broken = await verify(self.db)
        assert broken == {}, broken
        return True


def _place(view: RunView) -> str:
    """The state, but for what is due: whether it is held, or was let in."""
    if view.state in {"planned", "waiting"}:
        return "held" if view.row.is_held else "line"
    return view.state.value


async def make_scene(db: Database, *, retry: RetryPolicy | None = None, **task: Any) -> Scene:
    tenant = await make_tenant(db)
    await make_task(db, tenant, queue=QUEUE, retry=retry or RetryPolicy(max_attempts=1), **task)
    async with db.system() as conn:
        start = conn.now.replace(second=0, microsecond=0) + 2 * MINUTE
    return Scene(
        db=db,
        tenant=tenant,
        start=start,
        now=start,
        dispatch=Dispatch(db, jitter=lambda: 0.0, on_ended=followers()),
    )
