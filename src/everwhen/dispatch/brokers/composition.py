"""From the settings to what they are about: the brokers that are set, and the relay."""

from collections.abc import Mapping
from datetime import timedelta

from everwhen.config import Settings
from everwhen.dispatch.brokers.kinds import BrokerMaker, makers_of
from everwhen.dispatch.brokers.link import Link
from everwhen.dispatch.brokers.relay import Relay
from everwhen.postgres.pool import Database
from everwhen.worker.brokers.inbox import BrokerAddress


def make_brokers(settings: Settings) -> Mapping[str, BrokerMaker]:
    """Return how each broker that is set is talked to; raise ConfigurationError when its client is not installed."""
    urls = {"nats": settings.nats_url, "rabbitmq": settings.rabbitmq_url}
    addresses = {kind: _address(settings, url.get_secret_value()) for kind, url in urls.items() if url is not None}
    return makers_of(addresses, prefix=settings.broker_prefix, replicas=settings.nats_replicas)


def make_relay(database: Database, brokers: Mapping[str, BrokerMaker], settings: Settings) -> Relay:
    """Make the role."""
    return Relay(
        database=database,
        links={kind: Link(kind=kind, make=make) for kind, make in brokers.items()},
        window=settings.relay_window,
        batch=settings.relay_batch,
        again=timedelta(seconds=settings.relay_again_seconds),
    )


def _address(settings: Settings, urls: str) -> BrokerAddress:
    return BrokerAddress(
        urls=tuple(part.strip() for part in urls.split(",") if part.strip()),
        ca_file=settings.broker_ca_file,
        cert_file=settings.broker_cert_file,
        key_file=settings.broker_key_file,
    )
