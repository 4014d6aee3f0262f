"""How runs come to the fleet of a queue: each kind reads and checks the settings that a tenant gives it.

What it takes to carry them out is not here, but with whoever does it: see the relay and the courier.
"""

from collections.abc import Mapping
from typing import Any, Final, Protocol

from everwhen.errors import InvalidInput
from everwhen.queues.brokered import Brokered
from everwhen.queues.model import DeliveryKind


class Delivery(Protocol):
    """A kind of delivery."""

    def read(self, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the settings as they are stored; raise InvalidInput with pointers under `/delivery_settings`."""
        ...


class Pull:
    """Workers ask for runs, and there is nothing to set."""

    def read(self, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """Refuse whatever is set."""
        if settings:
            detail = "The delivery pull has no settings."
            raise InvalidInput.at("/delivery_settings", detail, code="queue.delivery_settings")
        return {}


DELIVERIES: Final[Mapping[DeliveryKind, Delivery]] = {
    DeliveryKind.PULL: Pull(),
    DeliveryKind.NATS: Brokered(),
    DeliveryKind.RABBITMQ: Brokered(),
}
