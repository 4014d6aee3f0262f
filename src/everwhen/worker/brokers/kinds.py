"""The brokers that a worker can listen to: one line a kind."""

from collections.abc import Callable, Mapping
from typing import Final

from everwhen.worker.brokers.inbox import BrokerAddress, Inbox
from everwhen.worker.brokers.nats import NatsInbox
from everwhen.worker.brokers.rabbitmq import RabbitInbox

InboxMaker = Callable[[BrokerAddress, str, int], Inbox]

INBOXES: Final[Mapping[str, InboxMaker]] = {
    "nats": lambda address, name, size: NatsInbox(address, name=name, size=size),
    "rabbitmq": lambda address, name, size: RabbitInbox(address, name=name, size=size),
}
"""How each is made, with the connection's name and how many messages it may take ahead."""
