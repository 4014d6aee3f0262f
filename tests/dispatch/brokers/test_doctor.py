"""What the doctor finds of a real NATS server, and of one that is not there."""

import pytest

from everwhen.cli.brokers import find_of_brokers
from everwhen.config import Settings
from tests.broker_servers import NatsServers, free_ports, running


def settings_of(**values):
    return Settings(**values)


def found(**values):
    return {each.check: each for each in find_of_brokers(settings_of(**values))}


@pytest.mark.parametrize(("line", "verdict"), [("", "ok"), ("lax", "fail")])
def test_a_server_is_reached_and_asked_about_its_disk(tmp_path, line, verdict):
    with running(NatsServers(tmp_path, 1, sync="always" if not line else "2m")) as servers:
        monitor = f"http://127.0.0.1:{servers.monitors[0]}"
        findings = found(nats_url=servers.address.urls[0], nats_monitor_url=monitor)
        assert findings["broker nats"].verdict == "ok"
        assert findings["broker nats, disk"].verdict == verdict
        assert found(nats_url=servers.address.urls[0])["broker nats, disk"].verdict == "warn"


def test_one_that_is_not_there_fails_without_its_password():
    (port,) = free_ports(1)
    at = f"127.0.0.1:{port}"
    findings = found(
        nats_url=f"nats://u:canary@{at}", rabbitmq_url=f"amqp://u:canary@{at}/", nats_monitor_url=f"http://{at}"
    )
    assert [each.verdict for each in findings.values()] == ["fail", "fail", "warn"]
    assert "canary" not in str(findings)


def test_without_brokers_there_is_nothing_to_find():
    assert found() == {}
