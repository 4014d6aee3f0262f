"""What every kind of broker keeps to. A new kind is a class that starts its server, and nothing else.

`test_nats.py` is beside this; what needs a server that is not a wheel is in `tests/brokers`, with what takes a cluster.
"""

import contextlib
import itertools
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from everwhen.dispatch.brokers.naming import subject
from everwhen.worker.brokers.inbox import BrokerAddress, BrokerAway, Inbox
from everwhen.worker.brokers.kinds import INBOXES
from everwhen.worker.brokers.notices import Notice
from tests.broker_servers import connected, eventually, free_ports, make_broker

ACME, OTHER = UUID(int=0xACE), UUID(int=0xB0B)
NOW = datetime(2026, 11, 30, tzinfo=UTC)
ODD_QUEUES = ["mail", "mail.eu", "*", ">", "mail.>", "n-mail", "x-6d", "h-", "naïve ✓", "a" * 200, "A" * 60, "a b", "#"]
_numbers = itertools.count()


def notice(number=1, *, tenant_id=ACME, queue="mail", told_at=NOW):
    return Notice(tenant_id=tenant_id, queue=queue, run_id=UUID(int=number), attempt=1, told_at=told_at)


async def take(inbox, count, *, seconds=15.0):
    """Exactly so many, in the end."""
    taken = []

    async def more():
        taken.extend(await inbox.take(count - len(taken), seconds=1.0))
        assert len(taken) == count

    await eventually(more, seconds=seconds, wait_out=AssertionError)
    return taken


class Conformance:
    """The suite. A subclass has a fixture `servers` of its own, with one server, and says how things are done there."""

    kind: str

    async def publish_raw(self, broker, address: str, body: bytes):
        """Put any bytes where notices of a line are published."""
        raise NotImplementedError

    async def delete(self, broker, box):
        """Delete whatever holds the mailbox."""
        raise NotImplementedError

    @pytest.fixture
    async def broker(self, servers):
        """A connection as the relay has it, below a prefix of this test's own."""
        async with connected(make_broker(servers, prefix=f"T{next(_numbers)}")) as made:
            yield made

    @pytest.fixture
    async def box(self, broker):
        """A mailbox that is there."""
        made = broker.mailbox(ACME, "mail")
        assert await broker.ensure(made)
        return made

    @contextlib.asynccontextmanager
    async def listening(self, servers, *mailboxes, size=100, address=None, patience=0.0):
        """An inbox that is open; after a restart a server may need a while."""
        inbox: Inbox

        async def opened():
            nonlocal inbox
            inbox = INBOXES[self.kind](address or servers.address, "test", size)
            try:
                await inbox.open(mailboxes)
            except BrokerAway:
                await inbox.close()
                raise

        await eventually(opened, seconds=patience)
        try:
            yield inbox
        finally:
            await inbox.close()

    async def test_what_is_published_arrives_as_it_was(self, servers, broker, box):
        assert not await broker.ensure(box)
        sent = [notice(number) for number in range(1, 150)]
        published = await broker.publish(sent)
        assert published.acknowledged == {each.message_id for each in sent}
        assert not published.homeless
        async with self.listening(servers, box, size=40) as inbox:
            got = []
            while len(got) < len(sent):
                some = await take(inbox, min(40, len(sent) - len(got)))
                await inbox.ack(some)
                got += some
            assert {each.notice for each in got} == set(sent)
            assert await inbox.take(1, seconds=0.2) == []

        async def empty():
            assert await broker.depth(box) == 0

        await eventually(empty, seconds=10)

    async def test_a_message_waits_for_somebody_to_come(self, servers, broker, box):
        await broker.publish([notice()])

        async def lies_there():
            assert await broker.depth(box) == 1

        await eventually(lies_there, seconds=10)
        async with self.listening(servers, box) as inbox:
            await take(inbox, 1)

    async def test_what_is_given_back_comes_again(self, servers, broker, box):
        await broker.publish([notice()])
        async with self.listening(servers, box) as inbox:
            (got,) = await take(inbox, 1)
            await inbox.give_back([got], seconds=0.1)
            (again,) = await take(inbox, 1)
            assert again.notice == got.notice
            await inbox.ack([again])

    async def test_every_line_has_a_mailbox_of_its_own_whatever_its_name(self, servers, broker):
        lines = [(tenant, queue) for queue in ODD_QUEUES for tenant in (ACME, OTHER)]
        boxes = {line: broker.mailbox(*line) for line in lines}
        for each in boxes.values():
            await broker.ensure(each)
        assert len({box.name for box in boxes.values()}) == len(lines)
        sent = {line: notice(number, tenant_id=line[0], queue=line[1]) for number, line in enumerate(lines, start=1)}
        published = await broker.publish(list(sent.values()))
        assert published.acknowledged == {each.message_id for each in sent.values()}
        for line, expected in sent.items():
            async with self.listening(servers, boxes[line]) as inbox:
                (got,) = await take(inbox, 1)
                assert got.notice == expected
                await inbox.ack([got])
                assert await inbox.take(1, seconds=0.02) == []

    async def test_one_inbox_takes_out_of_several_mailboxes(self, servers, broker, box):
        other = broker.mailbox(ACME, "print")
        await broker.ensure(other)
        sent = {notice(1), notice(2, queue="print")}
        await broker.publish(list(sent))
        async with self.listening(servers, box, other, size=2) as inbox:
            assert {each.notice for each in await take(inbox, 2)} == sent

    @pytest.mark.parametrize("body", [b"", b"{", b"[1]", b'{"run_id": "x"}', b"\xff\xfe", b"a" * 100_000])
    async def test_what_is_no_notice_is_delivered_as_such_and_can_be_put_away(self, servers, broker, box, body):
        await self.publish_raw(broker, subject(box.stream or box.name.split(".")[0], ACME, "mail"), body)
        async with self.listening(servers, box) as inbox:
            (got,) = await take(inbox, 1)
            assert got.notice is None
            await inbox.ack([got])

    async def test_who_listens_hears_that_its_mailbox_is_gone(self, servers, broker, box):
        async with self.listening(servers, box) as inbox:
            assert await inbox.take(1, seconds=0.1) == []
            await self.delete(broker, box)
            with pytest.raises(BrokerAway):
                await take(inbox, 1)

    async def test_what_has_no_mailbox_is_not_acknowledged_until_it_is_made_again(self, servers, broker, box):
        await broker.publish([notice(1)])
        await self.delete(broker, box)
        lost = await broker.publish([notice(2)])
        assert not lost.acknowledged
        assert lost.homeless == {(ACME, "mail")}
        assert await broker.ensure(box), "that it had to be made says that what lay in it is lost"
        later = notice(2, told_at=NOW + timedelta(seconds=1))
        assert (await broker.publish([later])).acknowledged == {later.message_id}
        async with self.listening(servers, box) as inbox:
            (got,) = await take(inbox, 1)
            assert got.notice == later

    async def test_nobody_there_and_a_wrong_password_are_the_broker_being_away(self, servers):
        (port,) = free_ports(1)
        scheme = servers.address.urls[0].partition("://")[0]
        for url in (f"{scheme}://127.0.0.1:{port}", f"{scheme}://nobody:canary-pw@127.0.0.1:{servers.ports[0]}"):
            away = make_broker(servers, address=BrokerAddress(urls=(url,)))
            with pytest.raises(BrokerAway) as caught:
                await away.connect()
            assert "canary" not in str(caught.value)
            await away.close()

    async def test_another_server_is_tried_when_the_first_is_not_there(self, servers):
        (port,) = free_ports(1)
        scheme = servers.address.urls[0].partition("://")[0]
        address = BrokerAddress(urls=(f"{scheme}://127.0.0.1:{port}", *servers.address.urls))
        async with connected(make_broker(servers, address=address, prefix=f"T{next(_numbers)}")) as broker:
            assert await broker.ensure(broker.mailbox(ACME, "mail"))

    async def test_what_was_acknowledged_outlives_the_server(self, servers, broker, box):
        sent = [notice(number) for number in range(1, 21)]
        assert len((await broker.publish(sent)).acknowledged) == len(sent)
        async with self.listening(servers, box, size=5) as inbox:
            await take(inbox, 5)
            servers.kill(0)
            with pytest.raises(BrokerAway):
                await take(inbox, len(sent))
        with pytest.raises(BrokerAway):
            await broker.publish([notice(99)])
        with pytest.raises(BrokerAway):
            await broker.ensure(box)
        servers.start(0)
        async with connected(make_broker(servers, prefix=broker.prefix)) as again:

            async def still_there():
                assert not await again.ensure(box)

            await eventually(still_there)
        async with self.listening(servers, box, patience=60.0) as inbox:
            got = await take(inbox, 10)  # whoever left had ten others
            assert {each.notice for each in got} <= set(sent)
