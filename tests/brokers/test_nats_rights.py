"""What a NATS server is told of rights and TLS, and one that hangs; docs/operate/brokers.md shows the same rights."""

import asyncio

import pytest

from everwhen.worker.brokers.inbox import BrokerAway
from tests.alerts.certificates import authority
from tests.broker_servers import NatsServers, connected, make_broker, running
from tests.dispatch.brokers.conformance import ACME, OTHER, Conformance, notice, take

# What docs/operate/brokers.md says that a relay and a tenant's workers need, and nothing more.
RELAY = """{ user: relay, password: r, permissions: {
  publish: ["EVERWHEN.*.*", "$JS.API.STREAM.INFO.EVERWHEN", "$JS.API.STREAM.CREATE.EVERWHEN",
    "$JS.API.CONSUMER.INFO.EVERWHEN.*", "$JS.API.CONSUMER.CREATE.EVERWHEN.>",
    "$JS.API.CONSUMER.DURABLE.CREATE.EVERWHEN.*"],
  subscribe: ["_INBOX_relay.>"] } }"""
WORKER = """{{ user: {name}, password: w, permissions: {{
  publish: ["$JS.API.CONSUMER.MSG.NEXT.EVERWHEN.{tenant}-*", "$JS.ACK.EVERWHEN.{tenant}-*.>"],
  subscribe: ["_INBOX_{tenant}.>"] }} }}"""


def configuration(tls: str = "") -> str:
    workers = [
        WORKER.format(name=name, tenant=tenant.hex).replace("-*", "-n-mail")
        for name, tenant in (("acme", ACME), ("other", OTHER))
    ]
    return f"authorization {{ users: [ {RELAY}, {', '.join(workers)} ] }}\n{tls}"


async def test_a_tenants_worker_reads_its_own_mailbox_only_by_tls(tmp_path):
    file = authority().server_file()
    extra = configuration(f'tls {{ cert_file: "{file}", key_file: "{file}" }}')
    with running(NatsServers(tmp_path, 1, extra=extra, scheme="tls")) as servers:
        suite = Conformance()
        suite.kind = "nats"

        def login(who):
            return servers.address_of(who, ca_file=authority().file)

        async with connected(make_broker(servers, address=login("relay:r"))) as broker:
            mine, theirs = broker.mailbox(ACME, "mail"), broker.mailbox(OTHER, "mail")
            for box in (mine, theirs):
                await broker.ensure(box)
            sent = [notice(1), notice(2, tenant_id=OTHER)]
            assert len((await broker.publish(sent)).acknowledged) == 2
            async with suite.listening(servers, mine, address=login("acme:w")) as inbox:
                (got,) = await take(inbox, 1)
                assert got.notice == sent[0]
                await inbox.ack([got])
            async with suite.listening(servers, theirs, address=login("acme:w")) as inbox:
                with pytest.raises(BrokerAway):
                    await take(inbox, 1, seconds=20)
            assert await broker.depth(theirs) == 1
        with pytest.raises(BrokerAway, match="let us in"):
            await make_broker(servers, address=servers.address_of("relay:r")).connect()  # the system trusts no such CA


async def test_a_server_that_hangs_is_away_within_the_bound(tmp_path):
    with running(NatsServers(tmp_path, 1)) as servers:
        async with connected(make_broker(servers)) as broker:
            await broker.ensure(broker.mailbox(ACME, "mail"))
            servers.stop(0)
            async with asyncio.timeout(30):
                with pytest.raises(BrokerAway):
                    await broker.publish([notice()])
            servers.go_on(0)
