"""The kinds of brokers there are. A new one is a module beside the others, one in the worker's SDK, and a line here."""

from collections.abc import Callable, Mapping

from everwhen.dispatch.brokers.nats import NatsBroker
from everwhen.dispatch.brokers.protocol import Broker
from everwhen.dispatch.brokers.rabbitmq import RabbitBroker
from everwhen.errors import ConfigurationError
from everwhen.worker.brokers.inbox import BrokerAddress
from everwhen.worker.brokers.nats import library as nats_library
from everwhen.worker.brokers.rabbitmq import library as rabbitmq_library
from everwhen.worker.errors import ConfigurationError as NotInstalled

BrokerMaker = Callable[[], Broker]


def makers_of(addresses: Mapping[str, BrokerAddress], *, prefix: str, replicas: int) -> Mapping[str, BrokerMaker]:
    """Return how each of these is made; raise ConfigurationError when the client of one is not installed."""
    kinds: dict[str, tuple[Callable[[], object], Callable[[BrokerAddress], Broker]]] = {
        "nats": (
            lambda: nats_library("nats"),
            lambda address: NatsBroker(address, prefix=prefix, replicas=replicas),
        ),
        "rabbitmq": (lambda: rabbitmq_library("aio_pika"), lambda address: RabbitBroker(address, prefix=prefix)),
    }
    makers: dict[str, BrokerMaker] = {}
    for kind, address in addresses.items():
        need, make = kinds[kind]
        try:
            need()
        except NotInstalled as error:
            raise ConfigurationError(str(error)) from error
        makers[kind] = _maker(make, address)
    return makers


def _maker(make: Callable[[BrokerAddress], Broker], address: BrokerAddress) -> BrokerMaker:
    return lambda: make(address)
