"""RabbitMQ keeps to what every kind of broker keeps to. `make brokers` installs Debian's package."""

import asyncio

import pytest

from everwhen.worker.brokers.inbox import BrokerAway
from tests.broker_servers import RabbitServers, connected, make_broker, running
from tests.dispatch.brokers.conformance import ACME, OTHER, Conformance, notice, take


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """Three nodes for the suite: a quorum queue is made for a majority, and one node that was killed is none."""
    with running(RabbitServers(tmp_path_factory.mktemp("rabbitmq"), 3)) as started:
        yield started


class TestRabbitMq(Conformance):
    kind = "rabbitmq"

    async def publish_raw(self, broker, address, body):
        import aio_pika

        await broker._channel.default_exchange.publish(aio_pika.Message(body), address, mandatory=True)

    async def delete(self, broker, box):
        async with broker._side_channel() as channel:
            await channel.queue_delete(box.name)

    async def test_a_tenants_worker_reads_its_own_mailbox_only(self, servers, broker, box):
        theirs = broker.mailbox(OTHER, "mail")
        await broker.ensure(theirs)
        sent = [notice(1), notice(2, tenant_id=OTHER)]
        assert len((await broker.publish(sent)).acknowledged) == 2
        servers.ctl("add_user", "acme", "w")
        servers.ctl("set_permissions", "acme", "^$", "^$", rf"^{broker.prefix}\.{ACME.hex}\.")
        address = servers.address_of("acme:w")
        async with self.listening(servers, box, address=address) as inbox:
            (got,) = await take(inbox, 1)
            assert got.notice == sent[0]
            await inbox.ack([got])
        with pytest.raises(BrokerAway):
            async with self.listening(servers, theirs, address=address):
                pass
        assert await broker.depth(theirs) == 1
        publisher = make_broker(servers, address=address, prefix=broker.prefix)
        async with connected(publisher):
            with pytest.raises(BrokerAway):
                await publisher.publish([notice(3)])

    async def test_a_message_that_is_given_back_for_ever_is_left_be(self, servers, broker, box):
        await broker.publish([notice()])
        deliveries = 0
        async with self.listening(servers, box) as inbox:
            while got := await inbox.take(1, seconds=1.0):
                deliveries += 1
                assert deliveries < 50
                await inbox.give_back(got, seconds=0)
        assert deliveries == 21

    async def test_a_server_that_hangs_is_away_within_the_bound(self, servers, broker, box):
        servers.stop(0)
        try:
            async with asyncio.timeout(30):
                with pytest.raises(BrokerAway):
                    await broker.publish([notice()])
        finally:
            servers.go_on(0)
