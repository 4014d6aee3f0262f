import asyncio
import contextlib
import os
import signal
from uuid import UUID

import psycopg
import pytest

from everwhen.postgres import wakeups as module
from everwhen.postgres.wakeups import Wakeups, notify, queue_topic

TENANT = UUID(int=1)
MAIL, REPORTS = queue_topic(TENANT, "mail"), queue_topic(TENANT, "reports")
LONG_SECONDS = 20.0
LISTENER = "select pid from pg_stat_activity where application_name = 'everwhen wakeups'"


@pytest.fixture
def operator(server, work_database):
    with psycopg.connect(server.superuser(work_database), autocommit=True) as conn:
        yield conn


def test_a_topic_reveals_neither_tenant_nor_queue():
    topics = {MAIL, REPORTS, queue_topic(None, "mail"), queue_topic(UUID(int=2), "mail")}

    assert len(topics) == 4
    assert all(len(topic) == 24 and "mail" not in topic and str(TENANT) not in topic for topic in topics)


async def test_a_committed_notification_wakes_those_who_wait_for_its_topic(wakeups, database):
    with (
        wakeups.subscribe(MAIL) as mail,
        wakeups.subscribe(REPORTS) as reports,
        wakeups.subscribe(MAIL, REPORTS) as any_,
    ):
        async with database.system() as conn:
            await notify(conn, [MAIL, MAIL])

        assert await mail.wait(LONG_SECONDS)
        assert await any_.wait(LONG_SECONDS)
        assert not await reports.wait(0)


async def test_a_wake_up_between_two_waits_is_kept_and_heard_once(wakeups):
    with wakeups.subscribe(MAIL) as waiter:
        wakeups.wake(MAIL)

        assert await waiter.wait(0)
        assert not await waiter.wait(0)


async def test_a_rolled_back_notification_wakes_nobody(wakeups, database):
    async def fail():
        async with database.system() as conn:
            await notify(conn, [MAIL])
            raise ZeroDivisionError

    with wakeups.subscribe(MAIL) as mail, wakeups.subscribe(REPORTS) as reports:
        with pytest.raises(ZeroDivisionError):
            await fail()
        async with database.system() as conn:
            await notify(conn, [REPORTS])

        assert await reports.wait(LONG_SECONDS)
        assert not await mail.wait(0)


async def test_a_lost_connection_wakes_everybody_when_it_is_back(wakeups, operator, database):
    with wakeups.subscribe(MAIL) as mail, wakeups.subscribe(REPORTS) as reports:
        operator.execute(f"select pg_terminate_backend(pid) from ({LISTENER}) as listener")

        assert await mail.wait(LONG_SECONDS)
        assert await reports.wait(LONG_SECONDS)
        async with database.system() as conn:
            await notify(conn, [MAIL])
        assert await mail.wait(LONG_SECONDS)
        assert not await reports.wait(0)


async def test_a_listener_that_is_silent_for_ever_is_cut(server, work_database, operator, monkeypatch):
    monkeypatch.setattr(module, "PROBE_SECONDS", 0.05)
    monkeypatch.setattr(module, "PROBE_TIMEOUT_SECONDS", 0.5)
    hub = Wakeups(server.app(work_database))
    task = asyncio.create_task(hub.listen_forever())
    async with asyncio.timeout(LONG_SECONDS):
        await hub.listening.wait()
    ((pid,),) = operator.execute(LISTENER).fetchall()
    os.kill(pid, signal.SIGSTOP)
    try:
        with hub.subscribe(MAIL) as mail:
            assert await mail.wait(LONG_SECONDS)
    finally:
        os.kill(pid, signal.SIGCONT)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_a_closed_waiter_is_forgotten(wakeups):
    with wakeups.subscribe(MAIL, REPORTS):
        assert set(wakeups._waiters) == {MAIL, REPORTS}

    assert wakeups._waiters == {}
