"""The one loop: at once while there is more, asleep until something is due, through any outage, and home when told."""

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import get_args

import psycopg
import psycopg_pool
import pytest
from structlog.testing import capture_logs

from everwhen import roles
from everwhen.config import RoleName
from everwhen.postgres.pool import Database, PoolLimits
from everwhen.role_makers import MAKERS
from everwhen.roles import Loop, Tick

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
LONG = timedelta(hours=1)


@dataclass
class Scripted:
    """A role that does what it is told, tick by tick, and then has the loop stop."""

    script: list[Tick | BaseException]
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    interval: timedelta = LONG
    name: str = "scripted"
    ticks: list[datetime] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)

    async def tick(self, now):
        self.ticks.append(now)
        step = self.script.pop(0)
        if not self.script:
            self.stop.set()
        if isinstance(step, BaseException):
            raise step
        return step

    async def clock(self):
        return NOW

    async def wait_for_wakeup(self, seconds):
        """Be woken at once, having noted how long the sleep would have been."""
        self.slept.append(seconds)

    async def run(self, **parts):
        async with asyncio.timeout(10):
            await roles.run(
                self, Loop(**{"clock": self.clock, "wait_for_wakeup": self.wait_for_wakeup, "stop": self.stop} | parts)
            )


@pytest.fixture
def short_back_off(monkeypatch):
    monkeypatch.setattr(roles, "FIRST_BACK_OFF", timedelta(milliseconds=1))
    monkeypatch.setattr(roles, "MOST_BACK_OFF", timedelta(milliseconds=4))


async def test_while_there_is_more_nobody_sleeps():
    role = Scripted([Tick(more=True)] * 50 + [Tick()])
    await role.run()

    assert role.ticks == [NOW] * 51
    assert len(role.slept) <= 1  # after the last one


@pytest.mark.parametrize(
    ("next_at", "seconds"),
    [
        (None, 3600.0),
        (NOW + 5 * SECOND, 5.0),
        (NOW + 2 * LONG, 3600.0),  # never longer than the interval: a wake-up may be lost
        (NOW, 0.0),
        (NOW - LONG, 0.0),
    ],
)
async def test_the_loop_sleeps_until_something_is_due_and_no_longer_than_the_interval(next_at, seconds):
    role = Scripted([Tick(next_at=next_at), Tick(more=True)])
    await role.run()

    assert role.slept == [seconds]


async def test_a_wake_up_ends_the_sleep():
    asleep, woken = asyncio.Event(), asyncio.Event()
    role = Scripted([Tick(), Tick(more=True)])

    async def wait_for_wakeup(seconds):
        asleep.set()
        await woken.wait()

    running = asyncio.create_task(role.run(wait_for_wakeup=wait_for_wakeup))
    async with asyncio.timeout(10):
        await asleep.wait()
        woken.set()
        await running

    assert len(role.ticks) == 2


async def test_the_interval_ends_the_sleep_when_no_wake_up_comes():
    role = Scripted([Tick(), Tick(more=True)], interval=timedelta(milliseconds=5))

    async def wait_for_wakeup(seconds):
        await asyncio.Event().wait()

    await role.run(wait_for_wakeup=wait_for_wakeup)

    assert len(role.ticks) == 2


async def test_the_order_to_stop_ends_the_sleep_and_leaves_no_task_behind():
    role = Scripted([Tick(), Tick()])
    asleep = asyncio.Event()

    async def wait_for_wakeup(seconds):
        asleep.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(role.run(wait_for_wakeup=wait_for_wakeup))
    async with asyncio.timeout(10):
        await asleep.wait()
        role.stop.set()
        await running

    assert len(role.ticks) == 1
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_loop_that_is_told_to_stop_before_it_begins_does_nothing():
    role = Scripted([Tick()])
    role.stop.set()
    await role.run()

    assert role.ticks == []


OUTAGES = [
    psycopg.OperationalError("server closed the connection unexpectedly"),
    psycopg.errors.AdminShutdown("terminating connection due to administrator command"),
    psycopg.errors.DeadlockDetected("deadlock detected"),
    psycopg.errors.IdleInTransactionSessionTimeout("terminating connection due to idle-in-transaction timeout"),
    psycopg.errors.ReadOnlySqlTransaction("cannot execute INSERT in a read-only transaction"),
    psycopg_pool.PoolTimeout("couldn't get a connection after 10.00 sec"),
    ConnectionResetError(),
    TimeoutError(),
]


@pytest.mark.usefixtures("short_back_off")
@pytest.mark.parametrize("error", OUTAGES, ids=lambda error: type(error).__name__)
async def test_an_outage_is_waited_out(error):
    role = Scripted([error, error, Tick(more=True)])
    await role.run()

    assert len(role.ticks) == 3


@pytest.mark.usefixtures("short_back_off")
async def test_the_pause_grows_to_a_bound_and_starts_anew_after_a_success():
    away = psycopg.OperationalError("away")
    role = Scripted([away] * 5 + [Tick(more=True), away, Tick(more=True)])
    with capture_logs() as logged:
        await role.run()

    assert [line["retry_seconds"] for line in logged] == [0.001, 0.002, 0.004, 0.004, 0.004, 0.001]
    assert {(line["event"], line["role"]) for line in logged} == {("role.database_away", "scripted")}


@pytest.mark.usefixtures("short_back_off")
async def test_a_database_whose_clock_cannot_be_asked_is_away_too():
    role = Scripted([Tick(more=True)])
    answers = [psycopg.OperationalError("away"), ConnectionRefusedError(), NOW]

    async def clock():
        answer = answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    await role.run(clock=clock)

    assert (role.ticks, answers) == ([NOW], [])


async def test_the_order_to_stop_ends_the_wait_for_a_database_that_does_not_answer():
    role = Scripted([Tick()])
    asked = asyncio.Event()

    async def clock():
        asked.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(role.run(clock=clock))
    async with asyncio.timeout(10):
        await asked.wait()
        role.stop.set()
        await running

    assert role.ticks == []
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_the_order_to_stop_ends_the_pause_of_an_outage(monkeypatch):
    monkeypatch.setattr(roles, "FIRST_BACK_OFF", LONG)
    role = Scripted([psycopg.OperationalError("away")])
    await role.run()

    assert len(role.ticks) == 1


@pytest.mark.parametrize(
    "defect",
    [
        ZeroDivisionError(),
        KeyError("spec"),
        psycopg.errors.UndefinedColumn("column"),
        psycopg.errors.CheckViolation("x"),
    ],
    ids=lambda defect: type(defect).__name__,
)
async def test_a_defect_ends_the_loop(defect):
    role = Scripted([defect, Tick()])
    with pytest.raises(type(defect)):
        await role.run()

    assert len(role.ticks) == 1


async def test_a_wake_up_that_fails_is_no_secret():
    role = Scripted([Tick(), Tick()])

    async def wait_for_wakeup(seconds):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await role.run(wait_for_wakeup=wait_for_wakeup)


async def test_a_loop_that_is_cancelled_ends():
    role = Scripted([Tick(), Tick()])
    asleep = asyncio.Event()

    async def wait_for_wakeup(seconds):
        asleep.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(role.run(wait_for_wakeup=wait_for_wakeup))
    async with asyncio.timeout(10):
        await asleep.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running


@pytest.mark.usefixtures("short_back_off")
async def test_a_process_that_was_paused_in_the_middle_of_a_tick_goes_on(server, work_database):
    """The server ends a transaction that stands still; that is no defect of ours."""
    limits = PoolLimits(min_size=1, max_size=2, idle_in_transaction_seconds=0.05)
    async with await Database.open(server.app(work_database), limits=limits) as database:
        role = Scripted([Tick(more=True), Tick(more=True)])
        pauses = [True, False]

        async def clock():
            async with database.system() as conn:
                if pauses.pop(0):
                    async with asyncio.timeout(10):
                        while not await gone(server, work_database, conn.info.backend_pid):  # noqa: ASYNC110
                            await asyncio.sleep(0.01)
                return conn.now

        role.script = [Tick(more=True)]
        await role.run(clock=clock)

    assert (len(role.ticks), pauses) == (1, [])


async def gone(server, database, backend_pid):
    """Whether the server has ended this session."""
    async with await psycopg.AsyncConnection.connect(server.superuser(database)) as conn:
        found = await conn.execute("select from pg_stat_activity where pid = %s", (backend_pid,))
        return await found.fetchone() is None


def test_every_role_but_the_api_can_be_made():
    assert set(MAKERS) == set(get_args(RoleName)) - {"api"}
