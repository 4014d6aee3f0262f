"""Two transactions about one run, really at once, in both orders: who commits first wins, and the other is told so.

The first one does all it has to do and then stands still before its commit. The second one starts, and is waited for
until it has ended or waits for a lock of the first. Then the first commits.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from everwhen.core.retry import Jitter, RetryPolicy
from everwhen.dispatch.reaper import Reaper
from everwhen.dispatch.service import Dispatch
from everwhen.errors import Conflict
from everwhen.postgres.pool import Connection, Database
from everwhen.runs import service as runs
from tests.dispatch.scene import Line, hold, make_line, report_on, rows
from tests.factories import WORKER

SECOND = timedelta(seconds=1)
PATIENCE_SECONDS = 20.0
STEADY = RetryPolicy(max_attempts=3, base=5 * SECOND, factor=1.0, cap=5 * SECOND, jitter=Jitter.NONE)
BLOCKED = "select count(*) from pg_locks where not granted"

Act = Callable[[Database], Awaitable[Any]]


class StandingStill:
    """A database whose transactions do not commit before they are let, from the n-th on."""

    def __init__(self, db: Database, *, nth: int) -> None:
        self._db = db
        self._before = nth - 1
        self.arrived = asyncio.Event()
        self.go = asyncio.Event()

    @asynccontextmanager
    async def tenant(self, tenant_id: UUID) -> AsyncGenerator[Connection]:
        async with self._db.tenant(tenant_id) as conn:
            yield conn
            await self._stand()

    @asynccontextmanager
    async def system(self) -> AsyncGenerator[Connection]:
        async with self._db.system() as conn:
            yield conn
            await self._stand()

    async def _stand(self) -> None:
        if self._before > 0:
            self._before -= 1
            return
        self.arrived.set()
        await self.go.wait()


async def race(db: Database, first: Act, second: Act, *, nth: int = 1) -> tuple[Any, Any]:
    """Return what both answered, or raised. The first one stands still before its n-th commit."""
    still = StandingStill(db, nth=nth)
    async with asyncio.timeout(PATIENCE_SECONDS):
        one = asyncio.create_task(_outcome(first(still)))  # type: ignore[arg-type]  # it has what is used
        await still.arrived.wait()
        other = asyncio.create_task(_outcome(second(db)))
        while not other.done() and await rows(db, BLOCKED) == [(0,)]:
            await asyncio.wait([other], timeout=0.01)
        still.go.set()
        return await one, await other


async def _outcome(work: Awaitable[Any]) -> Any:
    try:
        return await work
    except Conflict as error:
        return error.code


class Acts:
    """What may happen to the one run of a line, as a function of the database that it happens on."""

    def __init__(self, line: Line, *, at: Any = None) -> None:
        self.line = line
        self.lease: Any = None
        self.run_id: UUID
        self.at = at

    def claim(self) -> Act:
        async def act(db: Database) -> int:
            return len((await self._dispatch(db).claim(self.line.wish(limit=1))).leases)

        return act

    def report(self, outcome: str) -> Act:
        async def act(db: Database) -> str | None:
            report = report_on(self.lease, outcome)
            (answer,) = await self._dispatch(db).complete(self.line.tenant.id, WORKER, [report], now=self.at)
            return answer.state if answer.accepted else answer.code

        return act

    def renew(self) -> Act:
        async def act(db: Database) -> str:
            dispatch, held = self._dispatch(db), [hold(self.lease)]
            return (
                "held" if await dispatch.renew(self.line.tenant.id, held, lease_seconds=60.0, now=self.at) else "lost"
            )

        return act

    def cancel(self) -> Act:
        async def act(db: Database) -> str:
            view = await runs.cancel_run(
                db, tenant_id=self.line.tenant.id, ref=str(self.run_id), by="tester", reason=None
            )
            return view.state.value

        return act

    def reap(self) -> Act:
        async def act(db: Database) -> int:
            assert self.at is not None
            return (await Reaper(database=db, jitter=lambda: 0.0).tick(self.at)).done

        return act

    @staticmethod
    def _dispatch(db: Database) -> Dispatch:
        return Dispatch(db, jitter=lambda: 0.0)


@pytest.fixture
async def waiting(database):
    acts = Acts(await make_line(database, retry=STEADY))
    (acts.run_id,) = await acts.line.fill()
    return acts


@pytest.fixture
async def leased(waiting):
    (waiting.lease,) = await waiting.line.claim()
    return waiting


@pytest.fixture
async def overdue(leased):
    """Its lease has run out at `at`, and nobody has noticed yet."""
    leased.at = leased.lease.lease_until
    return leased


async def found(acts: Acts) -> tuple[str, list[str]]:
    """Return the run's state and how its attempts ended."""
    run = await runs.get_run(acts.line.db, tenant_id=acts.line.tenant.id, ref=str(acts.run_id))
    tried = await runs.list_attempts(acts.line.db, tenant_id=acts.line.tenant.id, ref=str(acts.run_id))
    return run.state.value, [each.outcome or "open" for each in tried]


async def refusals(acts: Acts) -> list[tuple[Any, ...]]:
    return await acts.line.rows("select reason from everwhen.events where kind = 'refused'")


async def test_a_cancel_before_a_claim_leaves_nothing_to_claim(waiting):
    assert await race(waiting.line.db, waiting.cancel(), waiting.claim()) == ("cancelled", 0)
    assert await found(waiting) == ("cancelled", [])


async def test_a_cancel_after_a_claim_is_told_to_the_worker(waiting):
    assert await race(waiting.line.db, waiting.claim(), waiting.cancel()) == (1, "running")
    assert await waiting.line.rows("select cancel_requested_at is not null from everwhen.leases") == [(True,)]


async def test_two_claims_of_one_run_grant_it_once(waiting):
    assert await race(waiting.line.db, waiting.claim(), waiting.claim()) == (1, 0)


@pytest.mark.parametrize(
    ("outcome", "state", "attempt"),
    [("succeeded", "succeeded", "succeeded"), ("failed", "cancelled", "failed"), ("released", "cancelled", "released")],
)
async def test_a_cancel_before_a_report_prevents_the_next_attempt_and_undoes_no_success(
    leased, outcome, state, attempt
):
    assert await race(leased.line.db, leased.cancel(), leased.report(outcome)) == ("running", state)
    assert await found(leased) == (state, [attempt])


async def test_a_cancel_after_a_success_finds_the_run_ended(leased):
    assert await race(leased.line.db, leased.report("succeeded"), leased.cancel()) == ("succeeded", "run.ended")
    assert await found(leased) == ("succeeded", ["succeeded"])


@pytest.mark.parametrize(
    ("outcome", "attempt", "state"), [("failed", "failed", "retrying"), ("released", "released", "waiting")]
)
async def test_a_cancel_after_a_report_that_ends_nothing_takes_the_run_from_the_line(leased, outcome, attempt, state):
    assert await race(leased.line.db, leased.report(outcome), leased.cancel()) == (state, "cancelled")
    assert await found(leased) == ("cancelled", [attempt])


@pytest.mark.parametrize("second", ["succeeded", "failed"])
async def test_of_two_reports_of_one_attempt_the_second_is_refused(leased, second):
    answers = await race(leased.line.db, leased.report("succeeded"), leased.report(second))

    assert answers == ("succeeded", "lease.lost")
    assert await found(leased) == ("succeeded", ["succeeded"])
    assert await refusals(leased) == [("lease.lost",)]


async def test_a_report_before_the_reaper_counts(overdue):
    assert await race(overdue.line.db, overdue.report("succeeded"), overdue.reap()) == ("succeeded", 0)
    assert await found(overdue) == ("succeeded", ["succeeded"])


async def test_a_report_after_the_reaper_is_refused_and_recorded(overdue):
    assert await race(overdue.line.db, overdue.reap(), overdue.report("succeeded")) == (1, "lease.lost")
    assert (await found(overdue))[1] == ["lost"]
    assert await refusals(overdue) == [("lease.lost",)]


async def test_a_renewal_before_the_reaper_keeps_the_lease(overdue):
    assert await race(overdue.line.db, overdue.renew(), overdue.reap()) == ("held", 0)
    assert await overdue.reap()(overdue.line.db) == 0
    assert await found(overdue) == ("running", ["open"])


async def test_a_renewal_after_the_reaper_finds_the_lease_lost(overdue):
    assert await race(overdue.line.db, overdue.reap(), overdue.renew()) == (1, "lost")


async def test_two_reapers_burn_one_retry(overdue):
    assert await race(overdue.line.db, overdue.reap(), overdue.reap()) == (1, 0)
    assert await overdue.line.rows("select attempts, failures from everwhen.waiting") == [(1, 1)]


async def test_a_cancel_before_the_reaper_ends_the_run_with_its_lost_attempt(overdue):
    assert await race(overdue.line.db, overdue.cancel(), overdue.reap()) == ("running", 0)
    assert await overdue.reap()(overdue.line.db) == 1
    assert await found(overdue) == ("cancelled", ["lost"])


async def test_a_cancel_after_the_reaper_takes_the_run_from_the_line(overdue):
    assert await race(overdue.line.db, overdue.reap(), overdue.cancel()) == (1, "cancelled")
    assert await found(overdue) == ("cancelled", ["lost"])


@pytest.mark.parametrize("cancel_first", [True, False])
async def test_a_cancel_and_a_start_deadline_end_a_run_once(database, cancel_first):
    acts = Acts(await make_line(database, start_deadline_seconds=60.0))
    (acts.run_id,) = await acts.line.fill()
    ((acts.at,),) = await acts.line.rows("select expires_at from everwhen.waiting")
    one, other = (acts.cancel(), acts.reap()) if cancel_first else (acts.reap(), acts.cancel())

    # The reaper looks at leases first, in a transaction of its own.
    answers = await race(database, one, other, nth=1 if cancel_first else 2)

    assert answers == (("cancelled", 0) if cancel_first else (1, "run.ended"))
    assert (await found(acts))[0] == ("cancelled" if cancel_first else "expired")


async def test_what_has_ended_stays_as_it_is(leased):
    await leased.report("succeeded")(leased.line.db)
    leased.at = leased.lease.lease_until + 3600 * SECOND

    later = [leased.report("failed"), leased.report("released"), leased.renew(), leased.reap(), leased.claim()]
    answers = [await act(leased.line.db) for act in later]

    assert answers == ["lease.lost", "lease.lost", "lost", 0, 0]
    assert await found(leased) == ("succeeded", ["succeeded"])
