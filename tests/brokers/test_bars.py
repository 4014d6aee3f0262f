"""The bars: leader killed, messages tripled, shuffled, late, a stream deleted; nothing is lost and nothing twice."""

import pytest

from tests.broker_servers import NatsServers, RabbitServers, running
from tests.brokers.bars import calm, leader_killed, meddled_with, staged, stream_deleted
from tests.system.fleet import running_fleet

SERVERS = {"nats": NatsServers, "rabbitmq": RabbitServers}


@pytest.mark.parametrize("kind", SERVERS)
async def test_whatever_befalls_a_cluster_no_run_is_lost_and_none_is_granted_twice(kind, tmp_path):
    with running_fleet() as fleet, running(SERVERS[kind](tmp_path, 3)) as servers:
        async with staged(kind, fleet, servers) as bar:
            for name, play in (
                ("calm", calm),
                ("tripled, shuffled, late", meddled_with),
                ("leader killed", leader_killed),
                ("stream deleted", stream_deleted),
            ):
                await bar.phase(name, play)
            await bar.verdict()
