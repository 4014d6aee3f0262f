"""What every kind of channel is, and what its sending can come to.

A kind of channel is one folder: it reads and checks its configuration, names its secrets, and sends what was rendered.
It keeps nothing and decides nothing about retries: it tells apart what was delivered, what may succeed later, and what
never will. Adding a kind is copying a folder and a line in `channels.registry`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

from everwhen.alerts.message import Rendered


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """The receiver has it. `response` is what it said, in one short line without control characters."""

    response: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TryLater:
    """It may succeed later: the receiver is away, slow, busy, or said so. `after` is what it asked for."""

    response: str
    after: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """It never will succeed: an unknown recipient, wrong credentials, a forbidden address, a 4xx."""

    response: str


Outcome = Delivered | TryLater | Refused


class ChannelKind(Protocol):
    """One kind of channel."""

    @property
    def name(self) -> str:
        """The kind's word in the API: `email`, `webhook`, `slack`."""
        ...

    @property
    def secret_names(self) -> Sequence[str]:
        """The names of the secrets that it takes; they are write-only and sealed at rest."""
        ...

    def check(self, configuration: Mapping[str, Any], secrets: Mapping[str, str]) -> dict[str, Any]:
        """Return the configuration in its stored form; raise InvalidInput with a pointer for what is wrong."""
        ...

    def recipients(self, configuration: Mapping[str, Any]) -> Sequence[str]:
        """Return whom a channel reaches, each by a delivery of its own; one empty text where there is one receiver."""
        ...

    async def send(  # noqa: PLR0913  # what, how, to whom
        self,
        rendered: Rendered,
        *,
        tenant_id: UUID,
        recipient: str,
        unsubscribe_link: str | None,
        configuration: Mapping[str, Any],
        secrets: Mapping[str, str],
        delivery_id: UUID,
        now: datetime,
    ) -> Outcome:
        """Send once, within the kind's own bounded time. Only a defect raises.

        Each tenant may have a few sendings under way at once; one above that is told to try later.
        """
        ...
