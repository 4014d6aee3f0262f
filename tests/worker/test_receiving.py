"""The loop that listens: what is announced is claimed, and acknowledged once the server has answered; and its ends."""

import asyncio
from datetime import UTC, datetime
from uuid import UUID

import pytest

from everwhen.worker.backoff import Backoff
from everwhen.worker.brokers import kinds
from everwhen.worker.brokers.inbox import Arrivals, BrokerAway
from everwhen.worker.brokers.notices import Delivery, Notice, write_notice
from everwhen.worker.errors import ServerAway
from everwhen.worker.fetching import Pace
from everwhen.worker.protocol import ClaimResponse, Mailbox, MailboxesResponse, NamedRun
from everwhen.worker.receiving import Receiver
from everwhen.worker.settings import resolve

TENANT, OTHER = UUID(int=1), UUID(int=2)
NOW = datetime(2026, 11, 30, tzinfo=UTC)
ENVIRON = {"EVERWHEN_URL": "http://x", "EVERWHEN_TOKEN": "t", "EVERWHEN_VIA": "nats", "EVERWHEN_BROKER_URL": "nats://n"}
MAIL = Mailbox(tenant_id=TENANT, queue="default", broker="nats", name="m", stream="E")


def delivery(number, *, tenant_id=TENANT):
    notice = Notice(tenant_id=tenant_id, queue="default", run_id=UUID(int=number), attempt=1, told_at=NOW)
    return Delivery(notice=notice, handle=number)


class Server:
    """Grants what it is asked for, unless told otherwise; keeps what it was asked."""

    def __init__(self):
        self.claims = []
        self.outcomes = {}
        self.boxes = [MAIL]
        self.is_away = False
        self.held_back = False

    async def mailboxes(self, request):
        return MailboxesResponse(mailboxes=self.boxes)

    async def claim(self, request):
        if self.is_away:
            raise ServerAway("away")
        self.claims.append(request)
        named = [NamedRun(run_id=each, outcome=self.outcomes.get(each.int, "granted")) for each in request.run_ids]
        return ClaimResponse(runs=[], server_time=NOW, held_back=self.held_back, named=named)


class Box:
    """An inbox whose messages the test puts there."""

    def __init__(self):
        self.messages = []
        self.acked = []
        self.given_back = []
        self.opened = 0
        self.closed = 0
        self.is_away = False

    async def open(self, mailboxes):
        if self.is_away:
            raise BrokerAway("it is not there")
        self.opened += 1

    async def take(self, limit, *, seconds):
        if self.is_away:
            raise BrokerAway("it went")
        taken, self.messages = self.messages[:limit], self.messages[limit:]
        await asyncio.sleep(0)
        return taken

    async def ack(self, deliveries):
        self.acked += [each.handle for each in deliveries]

    async def give_back(self, deliveries, *, seconds):
        self.given_back += [each.handle for each in deliveries]

    async def close(self):
        self.closed += 1


class AnyRoom:
    is_open = True
    reserved = 0
    free = 10

    async def some(self):
        while not (self.is_open and self.free):  # noqa: ASYNC110  # the test opens it
            await asyncio.sleep(0.001)
        return self.free

    async def borrow(self):
        return {"gpu": 2.0}

    def take_back(self, lent):
        self.returned = lent

    def freed(self):
        pass


class Scene:
    def __init__(self, monkeypatch):
        self.server, self.box, self.room = Server(), Box(), AnyRoom()
        self.held_back = 0
        monkeypatch.setitem(kinds.INBOXES, "nats", lambda address, name, size: self.box)
        settings = resolve({"worker_id": "w", "labels": {"zone": "a"}}, environ=ENVIRON)
        self.pace = Pace(queues=settings.queues, loops=3)
        self.receiver = Receiver(
            settings=settings,
            tasks=["report"],
            transport=self.server,
            intake=None,
            room=self.room,
            pace=self.pace,
            backoff=Backoff(jitter=lambda: 0.0, first=0.001, longest=0.001),
            clock=lambda: asyncio.get_running_loop().time(),
            instance=UUID(int=9),
            on_held_back=self._called_home,
        )
        self.task = asyncio.get_running_loop().create_task(self.receiver.run())

    def _called_home(self):
        self.held_back += 1

    async def until(self, condition):
        async with asyncio.timeout(20):
            while not condition():
                assert not self.task.done(), self.task.result()
                await asyncio.sleep(0.001)


@pytest.fixture
async def scene(monkeypatch):
    made = Scene(monkeypatch)
    yield made
    made.task.cancel()
    await asyncio.gather(made.task, return_exceptions=True)


async def test_what_is_announced_is_claimed_by_name_and_acknowledged_whatever_the_answer(scene):
    scene.server.outcomes = {2: "gone", 3: "paused", 4: "elsewhere", 5: "limited", 6: "not_due"}
    scene.box.messages = [delivery(number) for number in range(1, 7)]

    await scene.until(lambda: len(scene.box.acked) == 6)

    (request,) = scene.server.claims
    assert request.run_ids == [UUID(int=number) for number in range(1, 7)]
    assert (request.tenant_id, request.wait_seconds, request.tasks) == (TENANT, 0.0, ["report"])
    assert (request.labels, request.free, scene.room.returned) == ({"zone": "a"}, {"gpu": 2.0}, {"gpu": 2.0})
    assert scene.box.given_back == []
    assert scene.room.reserved == 0


async def test_what_another_worker_can_have_is_given_back(scene):
    scene.server.outcomes = {1: "busy", 2: "unfit"}
    scene.box.messages = [delivery(number) for number in (1, 2, 3)]

    await scene.until(lambda: scene.box.given_back == [1, 2])

    assert scene.box.acked == [3]


async def test_no_more_is_taken_than_there_is_room_for_and_a_message_twice_is_one_run(scene):
    scene.room.free = 2
    scene.box.messages = [delivery(1), delivery(1), delivery(2)]

    await scene.until(lambda: len(scene.box.acked) == 3)

    assert [request.run_ids for request in scene.server.claims] == [[UUID(int=1)], [UUID(int=2)]]


async def test_tenants_are_claimed_for_apart_and_what_is_no_notice_is_put_away(scene):
    scene.box.messages = [delivery(1), delivery(2, tenant_id=OTHER), Delivery(notice=None, handle=3)]

    await scene.until(lambda: sorted(scene.box.acked) == [1, 2, 3])

    assert [request.tenant_id for request in scene.server.claims] == [TENANT, OTHER]


async def test_while_the_broker_is_away_its_queues_are_asked_as_any_and_then_no_more(scene):
    await scene.until(lambda: scene.pace.asked == [])
    scene.box.is_away = True

    await scene.until(lambda: scene.pace.asked == ["default"])
    assert scene.box.closed >= 1
    scene.box.is_away = False
    await scene.until(lambda: scene.pace.asked == [])


async def test_while_the_server_is_away_messages_are_given_back(scene):
    scene.server.is_away = True
    scene.box.messages = [delivery(1)]

    await scene.until(lambda: scene.box.given_back == [1])
    scene.server.is_away = False
    scene.box.messages = [delivery(1)]
    await scene.until(lambda: scene.box.acked == [1])
    assert scene.box.opened >= 2


async def test_a_worker_that_is_cordoned_leaves_its_mailbox_to_others(scene):
    await scene.until(lambda: scene.box.opened == 1)
    scene.room.is_open = False

    await scene.until(lambda: scene.box.closed == 1)
    scene.room.is_open = True
    await scene.until(lambda: scene.box.opened == 2)


async def test_a_worker_that_is_held_back_says_so(scene):
    scene.server.held_back = True
    scene.server.outcomes = {1: "busy"}
    scene.box.messages = [delivery(1)]

    await scene.until(lambda: scene.held_back == 1)
    assert scene.box.acked == []


async def test_a_worker_whose_queues_no_broker_of_its_kind_delivers_listens_nowhere(monkeypatch):
    scene = Scene(monkeypatch)
    scene.server.boxes = [Mailbox(tenant_id=TENANT, queue="default", broker="rabbitmq", name="m")]
    await asyncio.sleep(0.02)

    assert (scene.box.opened, scene.pace.asked) == (0, ["default"])
    scene.task.cancel()
    await asyncio.gather(scene.task, return_exceptions=True)


async def test_arrivals_are_bounded_and_tell_their_end_after_what_came():
    arrivals = Arrivals(2)
    body = write_notice(delivery(1).notice)
    await arrivals.put(body, 1)
    await arrivals.put(b"{", 2)
    third = asyncio.create_task(arrivals.put(body, 3))
    await asyncio.sleep(0.01)
    assert not third.done()
    arrivals.end("lost")

    first = await arrivals.take(1, seconds=5.0)
    await third
    rest = await arrivals.take(10, seconds=5.0)

    assert [each.handle for each in (*first, *rest)] == [1, 2, 3]
    assert [each.notice is None for each in (*first, *rest)] == [False, True, False]
    with pytest.raises(BrokerAway, match="lost"):
        await arrivals.take(1, seconds=5.0)
