"""How a worker takes notices out of a broker: one small protocol, and what its implementations share.

An implementation is good for one connection. When that ends, whatever the reason, every call raises BrokerAway, and
whoever uses it makes another one: no library's own reconnecting, which is said to be back before its consumers are.
"""

import asyncio
import contextlib
import ssl
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from everwhen.worker.brokers.notices import Delivery, read_notice
from everwhen.worker.protocol import Mailbox

CONNECT_SECONDS: Final = 5.0


class BrokerAway(Exception):  # noqa: N818 - read as a sentence
    """The broker cannot be reached, or has not what is looked for; another connection may succeed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAddress:
    """Where a broker is, each of its servers with user and password where it has them, and what TLS needs."""

    urls: tuple[str, ...]
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None


class Inbox(Protocol):
    """One connection through which notices come."""

    async def open(self, mailboxes: Sequence[Mailbox]) -> None:
        """Connect, and let what lies in these mailboxes come."""
        ...

    async def take(self, limit: int, *, seconds: float) -> list[Delivery]:
        """Return up to `limit` messages, waiting so long for the first one; none is an ordinary answer."""
        ...

    async def ack(self, deliveries: Sequence[Delivery]) -> None:
        """Say that these are done with. It may be lost: they come again, and change nothing."""
        ...

    async def give_back(self, deliveries: Sequence[Delivery], *, seconds: float) -> None:
        """Let these come again, here or elsewhere, after about so long."""
        ...

    async def close(self) -> None:
        """Let go of the connection; what was taken and not acked comes again."""
        ...


class Arrivals:
    """What has come and was not taken yet, up to a bound; and that nothing more will come."""

    def __init__(self, size: int) -> None:
        """Hold up to `size` messages; whoever brings more waits."""
        self._size = size
        self._waiting: deque[Delivery] = deque()
        self._arrived = asyncio.Event()  # there is something to take, or the end is
        self._room = asyncio.Event()
        self._why: str | None = None

    async def put(self, message: bytes, handle: object) -> None:
        """Bring a message, as soon as there is room for it."""
        while len(self._waiting) >= self._size:
            self._room.clear()
            await self._room.wait()
        self._waiting.append(Delivery(notice=read_notice(message), handle=handle))
        self._arrived.set()

    def end(self, why: str) -> None:
        """Say that the connection is of no use any more; the first reason stands."""
        self._why = self._why or why
        self._arrived.set()

    async def take(self, limit: int, *, seconds: float) -> list[Delivery]:
        """Return up to `limit`, waiting so long for the first; raise BrokerAway when nothing will come any more."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._arrived.wait()
        if not self._waiting and self._why is not None:
            raise BrokerAway(self._why)
        taken = [self._waiting.popleft() for _ in range(min(limit, len(self._waiting)))]
        if not self._waiting and self._why is None:
            self._arrived.clear()
        self._room.set()
        return taken

    def rest(self) -> list[Delivery]:
        """Return what nobody will take any more."""
        rest, self._waiting = list(self._waiting), deque()
        return rest


def tls_of(address: BrokerAddress) -> ssl.SSLContext | None:
    """Return what TLS needs where it is not the system's; None: as the URL says, and as the system trusts."""
    if address.ca_file is None and address.cert_file is None:
        return None
    context = ssl.create_default_context(cafile=address.ca_file)
    if address.cert_file is not None:
        context.load_cert_chain(address.cert_file, address.key_file)
    return context
