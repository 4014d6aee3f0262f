"""A schedule with a past: what the tests of explanations share. Every instant is told to the roles; nothing waits."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from everwhen import clock
from everwhen.core.calendar_use import CalendarUse
from everwhen.core.planning import CatchUp
from everwhen.core.triggers import GapPolicy, Timing, parse_trigger
from everwhen.dispatch.reaper import Reaper
from everwhen.dispatch.service import Dispatch
from everwhen.explaining.observer import Observer
from everwhen.explaining.sightings import Sightings
from everwhen.postgres.pool import Database
from everwhen.runs import store as runs
from everwhen.runs.planning import ensure_partitions
from everwhen.schedules import service as schedules
from everwhen.schedules.model import Schedule, ScheduleDraft, Spec
from everwhen.schedules.scheduler import Scheduler
from everwhen.tenants.model import Tenant
from tests.dispatch.scene import LINE, report_on, rows, set_lane, wish
from tests.factories import TESTER, make_task, make_tenant
from tests.people import app_on, client_of, token_of

BERLIN = "Europe/Berlin"
NIGHT = datetime(2025, 11, 17, 1, 30, tzinfo=UTC)  # 02:30 in Berlin
DAILY = {"kind": "cron", "expr": "30 2 * * *"}
CREATED = datetime(2025, 1, 1, tzinfo=UTC)


class _Seen:
    def __init__(self, *asked: Any) -> None:
        self._asked = list(asked)

    def seen(self) -> list[Any]:
        return self._asked


@dataclass(kw_only=True)
class Scene:
    """A tenant `acme` with the task `report` at the queue `line`, and every role, on a clock that the test moves."""

    db: Database
    tenant: Tenant
    scheduler: Scheduler
    observer: Observer
    dispatch: Dispatch
    reaper: Reaper
    known: tuple[str, ...] | None = None
    rewrite: Callable[[datetime], Awaitable[None]]
    """Puts the changes of schedules of this hour to another instant: their history is append-only for our own roles."""
    schedules: dict[str, Schedule] = field(default_factory=dict[str, Schedule])

    async def schedule(self, *, name: str = "nightly", created: datetime = CREATED, decided: datetime, **changes: Any):
        """A schedule that was made at `created` and is decided until `decided`."""
        made = self.schedules[name] = await _make(self.db, self.tenant, name, **changes)
        async with self.db.system() as conn:
            await conn.execute(
                "update everwhen.schedules set created_at = %s, updated_at = %s where uid = %s",
                (created, created, made.uid),
            )
            await conn.execute(
                "update everwhen.watermarks set decided_until = %s, next_at = %s where schedule_uid = %s",
                (decided, decided, made.uid),
            )
        await self.rewrite(created)
        return made

    async def plan(self, now: datetime) -> None:
        while (await self.scheduler.tick(now)).more:
            pass

    async def watch(self, since: datetime, until: datetime, *, step: float = 10, seen: bool = True) -> None:
        """Look at the lines from one instant to another, every `step` seconds; workers ask meanwhile, if `seen`."""
        now = since
        while now <= until:
            if seen:
                await self.see(now)
            await self.observer.tick(now)
            now += timedelta(seconds=step)

    async def see(self, now: datetime, *, queue: str = LINE) -> None:
        role = Sightings(database=self.db, lines=_Seen((self.tenant.id, (queue,), self.known)), server_id=UUID(int=1))
        await role.tick(now)

    async def fill(self, due_at: datetime, *, task: str = "report") -> UUID:
        """Line up a run that somebody asked for, due at this instant."""
        async with self.db.tenant(self.tenant.id) as conn:
            await ensure_partitions(conn, [due_at])
            run_id = clock.new_id(due_at)
            await runs.insert_requested(
                conn,
                tenant_id=self.tenant.id,
                run_id=run_id,
                task=task,
                schedule_uid=None,
                schedule_revision=None,
                priority=None,
                due_at=due_at,
                input="{}",
                now=due_at,
            )
        return run_id

    async def claim(self, now: datetime, **changes: Any):
        grant = await self.dispatch.claim(wish(tenant_id=self.tenant.id, **({"limit": 1} | changes)), now=now)
        (lease,) = grant.leases
        return lease

    async def report(self, lease: Any, outcome: str, now: datetime, **changes: Any) -> None:
        (result,) = await self.dispatch.complete(
            self.tenant.id, "w-7f", [report_on(lease, outcome, **changes)], now=now
        )
        assert result.accepted

    async def limit(self, limit: int | None) -> None:
        await set_lane(self.db, self.tenant, max_in_flight=limit)

    async def rows(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return await rows(self.db, query, *parameters)

    async def why(self, ref: str) -> dict[str, Any]:
        """What the API says; the segments always sum to the lateness."""
        async with client_of(app_on(self.db), token_of("viewer", "payloads", tenant_id=self.tenant.id)) as client:
            answer = await client.get(f"/v1/tenants/{self.tenant.name}/runs/{ref.replace('+', '%2B')}/explain")
        said = answer.json()
        if answer.status_code == 200:
            seconds = [datetime.fromisoformat(s["to"]) - datetime.fromisoformat(s["from"]) for s in said["segments"]]
            span = datetime.fromisoformat(said["until"]) - datetime.fromisoformat(said["intended_at"])
            assert sum(seconds, timedelta()) == span
            assert said["lateness_seconds"] == span.total_seconds()
        return said


async def _make(
    db: Database,
    tenant: Tenant,
    name: str,
    *,
    trigger: dict[str, Any] | None = None,
    timezone: str = BERLIN,
    gap: GapPolicy | None = None,
    catch_up: CatchUp | None = None,
    task: str = "report",
    calendars: CalendarUse | None = None,
) -> Schedule:
    timing = Timing(parse_trigger(trigger or DAILY), timezone, gap, calendars=calendars)
    draft = ScheduleDraft(name=name, task=task, spec=Spec(timing=timing, catch_up=catch_up or CatchUp()))
    return await schedules.create_schedule(db, tenant_id=tenant.id, draft=draft, change=TESTER)


async def make_scene(db: Database, rewrite: Any, **task: Any) -> Scene:
    tenant = await make_tenant(db, name="acme")
    await make_task(db, tenant, queue=LINE, **task)
    return Scene(
        db=db,
        tenant=tenant,
        scheduler=Scheduler(database=db),
        observer=Observer(database=db, observer_id=UUID(int=9)),
        dispatch=Dispatch(db, jitter=lambda: 0.0),
        reaper=Reaper(database=db, jitter=lambda: 0.0),
        rewrite=rewrite,
    )


def told(said: dict[str, Any], *, at: str = "segments") -> list[tuple[str, float]]:
    return [(each["reason"], each["seconds"]) for each in said[at]]


def sentences(said: dict[str, Any], *, at: str = "segments") -> list[str]:
    return [each["sentence"] for each in said[at]]
