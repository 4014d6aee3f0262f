"""The parts between claim and report, with the network replaced by the test's own hands."""

import asyncio
from types import SimpleNamespace
from uuid import UUID

import httpx2
import pytest

from everwhen.worker import Context, Worker, outcomes
from everwhen.worker.backoff import Backoff, Outage
from everwhen.worker.completion import Completer
from everwhen.worker.errors import RequestRefused
from everwhen.worker.execution import Execution, ServerTime
from everwhen.worker.fetching import Room
from everwhen.worker.leases import Lease
from everwhen.worker.protocol import CompleteResponse, ReportResult
from everwhen.worker.stats import Stats
from everwhen.worker.transport import retry_after_seconds
from tests.worker.fake_server import EPOCH


def a_lease(number: int = 1, task: str = "wait") -> Lease:
    run = Context.fake(run_id=UUID(int=number), task=task)._lease.run
    return Lease(run, sent=0.0, received=0.0, duration=float("inf"))


class Gate:
    """A transport whose answers wait until the test lets them go."""

    def __init__(self):
        self.batches = []
        self.open = asyncio.Semaphore(0)

    async def complete(self, request):
        self.batches.append([report.run_id.int for report in request.reports])
        await self.open.acquire()
        results = [ReportResult(run_id=report.run_id, accepted=True) for report in request.reports]
        return CompleteResponse(results=results)


async def test_reports_gather_while_one_request_is_on_its_way():
    gate, forgotten = Gate(), []
    completer = Completer(
        worker_id="w",
        transport=gate,
        backoff=Backoff(jitter=lambda: 0.0),
        outage=Outage(clock=lambda: 0.0),
        forget=forgotten.extend,
        stats=Stats(),
    )
    leases = [a_lease(number) for number in range(1, 6)]
    completer.submit(leases[0], outcomes.released(leases[0]))
    running = asyncio.create_task(completer.run())
    await _until(lambda: gate.batches)
    for lease in leases[1:]:
        completer.submit(lease, outcomes.released(lease))
    leases[3].lost = True
    for _ in range(2):
        gate.open.release()
    await completer.settled()
    running.cancel()
    assert gate.batches == [[1], [2, 3, 5]]
    assert (set(forgotten), completer.backlog) == (set(leases), 0)


async def test_an_attempt_that_is_cancelled_before_its_first_step_frees_its_slot():
    execution, delivered = _execution()
    lease = a_lease()
    execution.accept([lease], ServerTime(server=EPOCH, sent=0.0, received=0.0))
    lease.cancel_requested = True
    execution.interrupt([lease])
    await _until(lambda: delivered)
    assert ([report.outcome for report in delivered], execution.held) == (["cancelled"], 0)


async def test_an_attempt_that_is_lost_before_a_slot_is_free_never_starts():
    execution, delivered = _execution()
    first, second = a_lease(1), a_lease(2)
    execution.accept([first, second], ServerTime(server=EPOCH, sent=0.0, received=0.0))
    second.lost = True
    first.cancel_requested = True
    execution.interrupt([first])
    await _until(lambda: not execution.held)
    assert len(delivered) == 1


def _execution():
    worker = Worker()
    worker.task("wait")(asyncio.Event().wait)
    delivered = []
    execution = Execution(
        tasks=worker.tasks,
        concurrency=1,
        clock=lambda: 0.0,
        deliver=lambda _, report: delivered.append(report),
        abandon=lambda _: None,
        stats=Stats(),
    )
    return execution, delivered


async def _until(condition):
    for _ in range(100):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not happen in a hundred steps of the loop")


def test_nothing_is_claimed_while_unanswered_reports_pile_up():
    execution = SimpleNamespace(held=0)
    completer = SimpleNamespace(backlog=999)
    room = Room(
        capacity=10, execution=execution, completer=completer, keeper=SimpleNamespace(), resources={}, reserved=3
    )
    assert room.free == 7
    room.completer.backlog = 1000
    assert room.free == 0


async def test_who_has_to_offer_the_resources_gets_them_next_though_others_ask_all_the_time():
    parts = SimpleNamespace(held=0, backlog=0, in_use={"gpu": 1.0})
    room = Room(capacity=10, execution=parts, completer=parts, keeper=parts, resources={"gpu": 4.0})
    lent = room.lend()
    assert (lent, room.lend()) == ({"gpu": 3.0}, {})

    borrowed = asyncio.create_task(room.borrow())
    await asyncio.sleep(0)
    room.take_back(lent)
    room.freed()
    assert room.lend() == {}  # it is left to whoever waits
    assert await borrowed == {"gpu": 3.0}
    room.take_back({"gpu": 3.0})
    assert room.lend() == {"gpu": 3.0}


def test_server_time_is_never_early_for_starts_and_never_late_for_deadlines():
    time = ServerTime(server=EPOCH, sent=10.0, received=12.0)
    assert time.at(13.0) == EPOCH.replace(second=1)
    assert time.moment(EPOCH.replace(second=30)) == 40.0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "Sun, 01 Mar 2026 12:01:30 GMT", "Date": "Sun, 01 Mar 2026 12:00:00 GMT"}, 90.0),
        ({"Retry-After": "soon"}, None),
    ],
)
def test_retry_after_is_seconds_or_a_date_against_the_servers_own(headers, seconds):
    assert retry_after_seconds(httpx2.Headers(headers)) == seconds


def test_a_replaced_report_keeps_its_identity():
    lease = a_lease(9)
    replaced = outcomes.refused(outcomes.released(lease), str(RequestRefused("too large", status=413)))
    assert (replaced.run_id.int, replaced.outcome, replaced.error.message) == (9, "failed", "too large")
