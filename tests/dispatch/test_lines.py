"""Waiting in line: what ends the sleep of a claim that found nothing, and what it must never do."""

import asyncio
from datetime import timedelta

import pytest

from everwhen.dispatch import lines as module
from everwhen.dispatch.lines import Lines
from everwhen.postgres.wakeups import Wakeups, notify, queue_topic
from tests.dispatch.scene import LINE, ids, report_on, wish

LONG = 30.0


async def there():
    return True


async def gone():
    return False


@pytest.fixture
def wakeups(server, work_database):
    return Wakeups(server.app(work_database))


@pytest.fixture
def lines(line, wakeups):
    return Lines(line.dispatch, wakeups)


@pytest.fixture
def unhurried(monkeypatch):
    """No poll ever comes: what ends a wait is what the test is about."""
    monkeypatch.setattr(module, "POLL_SECONDS", LONG)


@pytest.fixture
async def listening(wakeups):
    """Hear notifications of the database, as a server does."""
    listener = asyncio.create_task(wakeups.listen_forever())
    async with asyncio.timeout(10):
        await wakeups.listening.wait()
    yield
    listener.cancel()
    await asyncio.gather(listener, return_exceptions=True)


@pytest.fixture
def waits(monkeypatch):
    """Wait until a claim has looked, found nothing, and goes to sleep."""
    asleep, pause = asyncio.Event(), module._pause

    def fall_asleep(*args):
        asleep.set()
        return pause(*args)

    async def waits():
        async with asyncio.timeout(10):
            await asleep.wait()

    monkeypatch.setattr(module, "_pause", fall_asleep)
    return waits


async def test_what_is_due_is_handed_out_without_waiting(line, lines):
    (run_id,) = await line.fill()

    grant = await lines.take(line.wish(), wait_seconds=LONG, still_there=gone)

    assert ids(grant.leases) == [run_id]


async def test_without_patience_nothing_is_waited_for(line, lines):
    assert (await lines.take(line.wish(), wait_seconds=0.0, still_there=there)).leases == []


@pytest.mark.usefixtures("unhurried")
async def test_a_waiting_claim_wakes_at_the_due_instant_without_a_message(line, lines):
    (run_id,) = await line.fill(due_in=timedelta(milliseconds=400))

    async with asyncio.timeout(10):
        grant = await lines.take(line.wish(), wait_seconds=LONG, still_there=there)

    assert ids(grant.leases) == [run_id]
    assert grant.leases[0].claimed_at >= grant.leases[0].due_at


@pytest.mark.usefixtures("unhurried", "listening")
async def test_a_waiting_claim_wakes_when_somebody_asks_for_a_run(line, lines, waits):
    waiting = asyncio.create_task(lines.take(line.wish(), wait_seconds=LONG, still_there=there))
    await waits()
    (run_id,) = await line.fill()
    async with line.db.tenant(line.tenant.id) as conn:
        await notify(conn, [queue_topic(line.tenant.id, LINE)])

    async with asyncio.timeout(10):
        assert ids((await waiting).leases) == [run_id]


async def test_a_lost_message_costs_a_poll_and_no_more(line, lines, monkeypatch, waits):
    monkeypatch.setattr(module, "POLL_SECONDS", 0.01)
    waiting = asyncio.create_task(lines.take(line.wish(), wait_seconds=LONG, still_there=there))
    await waits()
    (run_id,) = await line.fill()

    async with asyncio.timeout(10):
        assert ids((await waiting).leases) == [run_id]


async def test_a_claim_at_a_shared_queue_polls(line, lines, waits):
    waiting = asyncio.create_task(lines.take(wish(tenant_id=None), wait_seconds=LONG, still_there=there))
    await waits()
    (run_id,) = await line.fill()

    async with asyncio.timeout(10):
        assert ids((await waiting).leases) == [run_id]


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("claimers", [1, 20])
async def test_everybody_goes_home_when_the_process_stops(line, lines, claimers, waits):
    waiting = [
        asyncio.create_task(lines.take(line.wish(), wait_seconds=LONG, still_there=there)) for _ in range(claimers)
    ]
    await waits()
    lines.close()

    async with asyncio.timeout(10):
        grants = await asyncio.gather(*waiting)

    assert [grant.leases for grant in grants] == [[]] * claimers
    assert lines._wakeups._waiters == {}


@pytest.mark.usefixtures("unhurried")
async def test_a_claim_that_comes_after_the_order_to_stop_does_not_wait(line, lines):
    lines.close()

    async with asyncio.timeout(10):
        assert (await lines.take(line.wish(), wait_seconds=LONG, still_there=there)).leases == []


async def test_a_caller_that_hung_up_gets_no_lease(line, lines, wakeups, waits):
    hung_up = asyncio.Event()

    async def still_there():
        return not hung_up.is_set()

    waiting = asyncio.create_task(lines.take(line.wish(), wait_seconds=LONG, still_there=still_there))
    await waits()
    hung_up.set()
    await line.fill()
    wakeups.wake_everybody()

    async with asyncio.timeout(10):
        assert await waiting is None
    assert await line.rows("select count(*) from everwhen.waiting") == [(1,)]


async def test_a_claim_that_is_cancelled_while_it_waits_leaves_nothing_behind(line, lines, wakeups, waits):
    waiting = asyncio.create_task(lines.take(line.wish(), wait_seconds=LONG, still_there=there))
    await waits()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await line.fill()

    assert wakeups._waiters == {}
    assert await line.rows("select count(*) from everwhen.leases") == [(0,)]


class Looks:
    """A dispatch that counts the looks of those who wait."""

    def __init__(self, dispatch):
        self._dispatch = dispatch
        self.count = 0

    async def claim(self, claim):
        self.count += 1
        return await self._dispatch.claim(claim)


@pytest.mark.usefixtures("unhurried")
async def test_a_hundred_waiting_claims_cost_no_more_looks_than_a_few(line, wakeups):
    looks = Looks(line.dispatch)
    lines = Lines(looks, wakeups)
    await line.fill(due_in=timedelta(milliseconds=700))
    waiting = [asyncio.create_task(lines.take(line.wish(), wait_seconds=LONG, still_there=there)) for _ in range(100)]

    async with asyncio.timeout(10):
        done, others = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    lines.close()
    await asyncio.gather(*others)

    assert [len(task.result().leases) for task in done] == [1]
    assert looks.count <= 100 + 10  # one each to go home with, and a few to find the run
    assert lines._lines == {}


@pytest.mark.usefixtures("unhurried")
async def test_a_full_hand_wakes_the_others_since_there_is_more(line, lines):
    await line.fill(count=30, due_in=timedelta(milliseconds=300))
    waiting = [
        asyncio.create_task(lines.take(line.wish(limit=10), wait_seconds=LONG, still_there=there)) for _ in range(3)
    ]

    async with asyncio.timeout(10):
        grants = await asyncio.gather(*waiting)

    assert [len(grant.leases) for grant in grants] == [10, 10, 10]


@pytest.mark.usefixtures("unhurried")
async def test_a_wake_up_makes_one_of_those_who_wait_look_not_all_of_them(line, wakeups):
    looks = Looks(line.dispatch)
    lines = Lines(looks, wakeups)
    pending = {
        asyncio.create_task(lines.take(line.wish(limit=1), wait_seconds=LONG, still_there=there)) for _ in range(100)
    }
    for _ in range(5):
        await line.fill()
        wakeups.wake(queue_topic(line.tenant.id, LINE))
        async with asyncio.timeout(10):
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        assert [len(task.result().leases) for task in done] == [1]
    seen = looks.count

    lines.close()
    await asyncio.gather(*pending)
    assert seen <= 5 * 4


@pytest.mark.usefixtures("listening", "unhurried")
async def test_a_place_that_comes_free_in_a_limited_lane_ends_the_wait(line, lines, waits):
    await line.set_lane(max_in_flight=1)
    await line.fill(2)
    (held,) = await line.claim()

    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        waiting = group.create_task(lines.take(line.wish(), wait_seconds=LONG, still_there=there))
        await waits()
        await line.complete(report_on(held))

    assert len(waiting.result().leases) == 1
