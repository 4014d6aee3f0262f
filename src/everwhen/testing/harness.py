"""Everwhen in one process and on one clock: every role ticks, and the worker works, whenever something is to happen.

    advance_to(target):   settle ──> the next instant at which something becomes due ──> settle ──> … ──> target

*Settle* means: every role ticks until none has anything more to do, and the worker carries out what it can claim. Time
stands still meanwhile, so an attempt takes exactly as long as its script says, and a test is as fast as the machine,
not as the clock. What becomes due is asked of the database (DUE), so nothing on the way is jumped over.

The clock is the one that the product decides by, the database connection's `now`; nothing else is replaced. Partitions
bound how far it may be moved: from ten years before today to a year after.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Final, Self, get_args
from urllib.parse import quote
from uuid import UUID

import httpx2

from everwhen import clock as real
from everwhen.app import make_app
from everwhen.config import RoleName, Settings
from everwhen.core.capability import without
from everwhen.core.targets import RESERVED
from everwhen.dispatch.model import Lease
from everwhen.dispatch.service import Claim
from everwhen.http.auth import mint_token
from everwhen.http.roles import Role as TokenRole
from everwhen.role_makers import make_role
from everwhen.roles import Role
from everwhen.services import Services, open_services
from everwhen.tenants import service as tenants
from everwhen.testing.clock import MovableClock, instant
from everwhen.testing.records import RunRecord, SpanRecord, record_of
from everwhen.testing.scripts import Script, ScriptedWorker, cancelled
from everwhen.testing.server import TestingServer
from everwhen.verify.model import Scope
from everwhen.verify.service import check
from everwhen.worker import Worker
from everwhen.worker.protocol import Report

TENANT: Final = "test"
AHEAD: Final = timedelta(seconds=1)
LEASE_SECONDS: Final = 60.0
MOST_AT_ONCE: Final = 100
MOST_ROUNDS: Final = 10_000
PAGE: Final = 200
NOT_RUN: Final = ("skipped", "missed", "coalesced")

DUE: Final = (
    ("waiting", "available_at"),
    ("waiting", "expires_at"),
    ("leases", "lease_until"),
    ("held", "look_at"),
    ("workflow_runs", "look_at"),
    ("schedules", "paused_until"),
    ("pauses", "paused_until"),
    ("streaks", "pause_at"),
)
"""Where the database keeps instants at which something is to happen, in tables that may not be there yet."""

When = str | datetime


@dataclass(frozen=True, slots=True)
class _Open:
    """An attempt that goes on until an instant, and what is reported then."""

    until: datetime
    report: Report
    resources: str | None = None


class EverwhenTest:
    """An Everwhen with one tenant, used in an `async with` block. `start` is the first instant of its clock."""

    def __init__(self, *, start: When, server: TestingServer | None = None) -> None:
        """Prepare; without a server one is started for the block, which takes some seconds."""
        self._clock = MovableClock(instant(start))
        self._server = server
        self._exit = AsyncExitStack()
        self._worker = ScriptedWorker()
        self._open: list[_Open] = []
        self._due: list[tuple[str, str]] = []
        self._services: Services
        self._roles: list[Role]
        self._client: httpx2.AsyncClient
        self._tenant_id: UUID
        self._labels: dict[str, str] = {}
        self._resources: dict[str, float] = {}
        self.has_workers = True

    @property
    def now(self) -> datetime:
        """The present instant, UTC."""
        return self._clock.now

    async def __aenter__(self) -> Self:
        """Make the database, the tenant and the roles."""
        try:
            await self._begin()
        except BaseException:
            await self._exit.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._exit.aclose()

    async def _begin(self) -> None:
        server = self._server or self._exit.enter_context(TestingServer.start())
        conninfo = self._exit.enter_context(server.database())
        secret = real.new_secret()
        settings = Settings(
            jwt_secret=secret, plan_ahead_seconds=AHEAD.total_seconds(), pool_size=4, lease_seconds_max=3600.0
        )  # pyright: ignore[reportCallIssue]  # the rest has defaults
        self._services = await self._exit.enter_async_context(open_services(settings, conninfo, set_clock=self._clock))
        names: Iterable[RoleName] = get_args(RoleName)
        self._roles = [make_role(name, self._services) for name in names if name != "api"]
        tenant = await tenants.create_tenant(self._services.database, name=TENANT)
        self._tenant_id = tenant.id
        token = mint_token(secret, subject="test", roles=[TokenRole.ADMIN], tenant_id=tenant.id, now=real.process_now())
        transport = httpx2.ASGITransport(app=make_app(self._services))
        self._client = await self._exit.enter_async_context(
            httpx2.AsyncClient(
                transport=transport,
                base_url=f"http://everwhen.test/v1/tenants/{TENANT}/",
                headers={"Authorization": f"Bearer {token}"},
            )
        )
        async with self._services.database.system() as conn:
            found = await conn.execute(
                "select table_name, column_name from information_schema.columns where table_schema = 'everwhen'"
            )
            there = set(await found.fetchall())
        self._due = [place for place in DUE if place in there]

    # What there is ---------------------------------------------------------------------------------------------------

    async def apply(
        self,
        *,
        calendars: Sequence[dict[str, Any]] = (),
        tasks: Sequence[dict[str, Any]] = (),
        workflows: Sequence[dict[str, Any]] = (),
        schedules: Sequence[dict[str, Any]] = (),
    ) -> None:
        """Make what there is, as bodies of the API; raise AssertionError with what it refuses.

        A workflow is its definition, as `everwhen workflow apply` takes it and `Workflow.to_json` returns it.
        """
        wanted = [{"name": definition.get("name"), "definition": definition} for definition in workflows]
        kinds = {"calendars": calendars, "tasks": tasks, "workflows": wanted, "schedules": schedules}
        for path, bodies in kinds.items():
            for body in bodies:
                await self.call("POST", path, body)

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        """Call the API of the tenant, as `schedules/nightly/pause`; raise AssertionError with its problem."""
        headers = {"Idempotency-Key": real.new_secret(), "If-Match": "*"}
        answer = await self._client.request(method, path, json=body, headers=headers)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def on(self, task: str, script: Script) -> None:
        """Say what the worker does with a task: one step for every attempt, or a list of them."""
        self._worker.scripts[task] = script

    def use(self, worker: Worker) -> None:
        """Let the tasks of this worker be carried out by its own functions, in this process."""
        self._worker.workers.append(worker)

    def equip(self, *, labels: Mapping[str, str] | None = None, resources: Mapping[str, float] | None = None) -> None:
        """Say what the worker has, from now on; without it, it gets only runs that require nothing."""
        self._labels, self._resources = dict(labels or {}), dict(resources or {})

    # Time ------------------------------------------------------------------------------------------------------------

    async def advance(self, by: timedelta) -> None:
        """Let so much time pass."""
        await self.advance_to(self.now + by)

    async def advance_to(self, target: When) -> None:
        """Let time pass until an instant, with everything that happens on the way."""
        end = instant(target)
        assert end >= self.now, f"the clock shows {self.now.isoformat()} already; time does not go back"
        await self._settle()
        while (following := await self._next_instant()) is not None and following <= end:
            self._clock.now = following
            await self._settle()
        self._clock.now = end
        await self._settle()

    async def outage_until(self, target: When) -> None:
        """Let time pass while nothing of Everwhen runs, and no worker; what was missed is seen to afterwards."""
        end = instant(target)
        assert end >= self.now, f"the clock shows {self.now.isoformat()} already; time does not go back"
        self._clock.now = end

    async def _settle(self) -> None:
        for _ in range(MOST_ROUNDS):
            done = await self._work() if self.has_workers else 0
            for role in self._roles:
                tick = await role.tick(self.now)
                done += tick.done + tick.more
            if not done:
                return
        raise AssertionError(f"something happens without end at {self.now.isoformat()}")

    async def _next_instant(self) -> datetime | None:
        """Return the next instant, after now, at which something is to happen; None: never."""
        selects = [
            f"select min({column}) from everwhen.{table} where {column} > %(now)s"  # noqa: S608  # our own names
            for table, column in self._due
        ]
        selects.append("select min(next_at) - %(ahead)s from everwhen.watermarks where next_at - %(ahead)s > %(now)s")
        async with self._services.database.system() as conn:
            found = await conn.execute(" union all ".join(selects), {"now": self.now, "ahead": AHEAD})  # pyright: ignore[reportArgumentType]  # our own names
            instants = [at for (at,) in await found.fetchall() if at is not None]
        instants += [attempt.until for attempt in self._open if attempt.until > self.now]
        return min(instants, default=None)

    # The worker ------------------------------------------------------------------------------------------------------

    async def _work(self) -> int:
        """Report what has come to its end, and carry out what is due; return how many of both."""
        over = [attempt for attempt in self._open if attempt.until <= self.now]
        self._open = [attempt for attempt in self._open if attempt.until > self.now]
        await self._report([attempt.report for attempt in over])
        stopped = await self._stop_cancelled()
        claim = Claim(
            tenant_id=self._tenant_id,
            queues=tuple(await self._queues()),
            tasks=None,
            worker="everwhen-test",
            limit=MOST_AT_ONCE,
            lease_seconds=LEASE_SECONDS,
            labels=tuple(sorted(self._labels.items())),
            free=tuple(sorted(self._free().items())),
        )
        leases = (await self._services.dispatch.claim(claim)).leases
        for lease in leases:
            await self._carry_out(lease)
        return len(over) + stopped + len(leases)

    def _free(self) -> dict[str, float]:
        """Return what the attempts that are under way leave of what the worker has."""
        free = dict(self._resources)
        for attempt in self._open:
            if attempt.resources is not None:
                free = without(free, json.loads(attempt.resources))
        return {name: max(0.0, amount) for name, amount in free.items()}

    async def _stop_cancelled(self) -> int:
        """Stop the attempts that are under way and whose run somebody cancels, as a worker does that is told so."""
        if not self._open:
            return 0
        async with self._services.database.system() as conn:
            found = await conn.execute(
                "select run_id from everwhen.leases where tenant_id = %s and cancel_requested_at is not null",
                (self._tenant_id,),
            )
            asked = {run_id for (run_id,) in await found.fetchall()}
        stopped = [attempt for attempt in self._open if attempt.report.run_id in asked]
        self._open = [attempt for attempt in self._open if attempt.report.run_id not in asked]
        await self._report([cancelled(attempt.report) for attempt in stopped])
        return len(stopped)

    async def _carry_out(self, lease: Lease) -> None:
        report, takes = await self._worker.carry_out(lease)
        if report is None:
            return
        if takes:
            self._open.append(_Open(self.now + takes, report, lease.resources))
            await self._hold(lease, takes)
        else:
            await self._report([report])

    async def _hold(self, lease: Lease, takes: timedelta) -> None:
        """Keep the lease for as long as the attempt takes, as heartbeats would; never beyond its time-out."""
        until = self.now + takes + timedelta(seconds=LEASE_SECONDS)
        if lease.deadline_at is not None:
            until = min(until, max(lease.lease_until, lease.deadline_at))
        async with self._services.database.system() as conn:
            await conn.execute(
                "update everwhen.leases set lease_until = greatest(lease_until, %s)"
                " where tenant_id = %s and run_id = %s and lease_token = %s",
                (until, lease.tenant_id, lease.run_id, lease.lease_token),
            )

    async def _report(self, reports: Sequence[Report]) -> None:
        if reports:
            await self._services.dispatch.complete(self._tenant_id, "everwhen-test", reports)

    async def _queues(self) -> list[str]:
        """Return where the worker claims: at every queue but that of the conductor, which is one of the roles."""
        async with self._services.database.system() as conn:
            found = await conn.execute("select queue from everwhen.lanes where tenant_id = %s", (self._tenant_id,))
            return [queue for (queue,) in await found.fetchall() if not queue.startswith(RESERVED)]

    # What became of it -----------------------------------------------------------------------------------------------

    async def runs(self, schedule: str | None = None) -> list[RunRecord]:
        """Return the runs, of one schedule or all, the earliest first."""
        path: str | None = f"runs?limit={PAGE}" + (f"&schedule={schedule}" if schedule else "")
        found: list[RunRecord] = []
        while path is not None:
            page = await self.call("GET", path)
            found += map(record_of, page["items"])
            path = page["next"]
        return found[::-1]

    async def nodes(self, run: UUID | str) -> dict[str, str]:
        """Return the state of each node of a workflow's run, by the run's id or its `schedule@instant`."""
        found = await self.call("GET", f"workflow-runs/{quote(str(run), safe='')}")
        return {node["id"]: node["state"] for node in found["nodes"]}

    async def spans(self, schedule: str) -> list[SpanRecord]:
        """Return the spans of a schedule: many neighbouring instants with one verdict."""
        query = """
            select p.first_at, p.last_at, p.instants, p.verdict, p.reason
            from everwhen.spans p join everwhen.schedules s on s.tenant_id = p.tenant_id and s.uid = p.schedule_uid
            where s.tenant_id = %s and s.name = %s order by p.first_at"""
        async with self._services.database.system() as conn:
            rows = await (await conn.execute(query, (self._tenant_id, schedule))).fetchall()
        return [
            SpanRecord(first_at=instant(first), last_at=instant(last), instants=count, state=state, reason=reason)
            for first, last, count, state, reason in rows
        ]

    async def assert_ran(self, schedule: str, *, times: int | None = None, at: When | None = None) -> None:
        """Assert that runs of the schedule succeeded: so many, or the one of a nominal instant."""
        await self._assert_state(schedule, "succeeded", times=times, at=at)

    async def assert_dead(self, schedule: str, *, times: int | None = None, at: When | None = None) -> None:
        """Assert that runs of the schedule failed for good: so many, or the one of a nominal instant."""
        await self._assert_state(schedule, "dead", times=times, at=at)

    async def assert_skipped(self, schedule: str, *, reason: str, times: int | None = None) -> None:
        """Assert that instants of the schedule did not run for this reason, whether in rows or in spans."""
        counts: dict[str, int] = {}
        for run in await self.runs(schedule):
            if run.state in NOT_RUN:
                counts[str(run.reason)] = counts.get(str(run.reason), 0) + 1
        for span in await self.spans(schedule):
            counts[span.reason] = counts.get(span.reason, 0) + span.instants
        found = counts.get(reason, 0)
        wanted = "some" if times is None else times
        assert found == times or (times is None and found), (
            f"{schedule}: {wanted} not run for {reason} expected, {found} found; all reasons: {counts}"
        )

    async def assert_every_promise_holds(self) -> None:
        """Assert that `everwhen verify` finds nothing wrong."""
        broken = [checked for checked in await check(self._services.database, Scope(sample=None)) if checked.count]
        assert not broken, "\n".join(f"{each.name}: {list(each.first)}" for each in broken)

    async def _assert_state(self, schedule: str, state: str, *, times: int | None, at: When | None) -> None:
        runs = await self.runs(schedule)
        told = ", ".join(f"{run.ref or run.id} {run.state}" for run in runs) or "no runs"
        if at is not None:
            runs = [run for run in runs if run.nominal_at == instant(at)]
        found = sum(run.state == state for run in runs)
        wanted = "some" if times is None else times
        assert found == times or (times is None and found), (
            f"{schedule}: {wanted} {state} expected, {found} found; there are {told}"
        )
