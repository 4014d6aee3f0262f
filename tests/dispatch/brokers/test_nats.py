"""NATS JetStream keeps to what every kind keeps to, and to what only it promises."""

from datetime import timedelta

import pytest

from tests.broker_servers import NatsServers, running
from tests.dispatch.brokers.conformance import NOW, Conformance, notice, take


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """One server for the suite."""
    with running(NatsServers(tmp_path_factory.mktemp("nats"), 1)) as started:
        yield started


class TestNats(Conformance):
    kind = "nats"

    async def publish_raw(self, broker, address, body):
        await broker._jetstream.publish(address, body)

    async def delete(self, broker, box):
        await broker._jetstream.delete_stream(box.stream)

    async def test_one_id_is_one_message_and_another_telling_is_another(self, broker, box):
        once, again = notice(), notice(told_at=NOW + timedelta(seconds=30))
        for _ in range(3):
            assert (await broker.publish([once, again])).acknowledged == {once.message_id, again.message_id}
        assert await broker.depth(box) == 2

    async def test_a_consumer_that_was_deleted_is_made_again_and_nothing_is_lost(self, servers, broker, box):
        await broker.publish([notice()])
        await broker._jetstream.delete_consumer(box.stream, box.name)
        assert await broker.ensure(box)
        async with self.listening(servers, box) as inbox:
            await take(inbox, 1)
