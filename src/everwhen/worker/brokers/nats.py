"""Notices out of NATS JetStream: a pull request at each mailbox, renewed for as long as the connection lives.

The consumers are the server's to make (see `everwhen.dispatch.brokers.nats`); here they are only asked. So a worker
needs no right but to ask for its own and to acknowledge what it got, below an inbox of its own.

A pull request is answered message by message, as they come: the library's `fetch` would wait until the batch is full
or the time is over. Heartbeats say that somebody still serves the request; without them it would look like an empty
mailbox, after a leader's fall or a deletion, for as long as it lasts.
"""

import asyncio
import contextlib
import importlib
import json
from collections.abc import Generator, Mapping, Sequence
from typing import Any, Final

from everwhen.worker.brokers.inbox import CONNECT_SECONDS, Arrivals, BrokerAddress, BrokerAway, tls_of
from everwhen.worker.brokers.notices import Delivery
from everwhen.worker.errors import ConfigurationError
from everwhen.worker.protocol import Mailbox

PULL_SECONDS: Final = 30.0
BEAT_SECONDS: Final = 2.0
MISSED_BEATS: Final = 3
PING_SECONDS: Final = 5
NANOSECONDS: Final = 1_000_000_000

_BEAT: Final = "100"
_REQUEST_OVER: Final = frozenset({"404", "408"})


def library(name: str) -> Any:
    """Import the client when it is first needed; raise ConfigurationError when it is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ConfigurationError("NATS needs its client: pip install 'everwhen[nats]'") from error


def failures() -> tuple[type[Exception], ...]:
    """Return what the client raises when the server is away, or answers that something cannot be done."""
    error: type[Exception] = library("nats.errors").Error
    return (error, OSError, TimeoutError, ValueError, EOFError)


async def connect_nats(address: BrokerAddress, *, name: str, inbox: str, arrivals: Arrivals | None = None) -> Any:
    """Return a connection to one of the servers; raise BrokerAway when none of them lets us in."""
    options = {
        "name": name,
        "inbox_prefix": inbox,
        "tls": tls_of(address),
        "allow_reconnect": False,
        "max_reconnect_attempts": 1,  # the library would knock at a closed port for two minutes
        "reconnect_time_wait": 0.05,
        "connect_timeout": CONNECT_SECONDS,
        "ping_interval": PING_SECONDS,
        "max_outstanding_pings": 2,
    }

    async def closed() -> None:
        if arrivals is not None:
            arrivals.end("the connection to NATS has ended")

    async def noticed(error: Exception) -> None:
        """Hear of rights that are missing; the rest is told by whoever uses the connection, once."""
        if arrivals is not None and "permissions violation" in str(error).lower():
            arrivals.end(str(error))

    why = "no server is named"
    for url in address.urls:
        client = library("nats.aio.client").Client()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await client.connect(url, error_cb=noticed, closed_cb=closed, **options)
        except failures() as error:
            cause = client.last_error or error
            why = f"{type(cause).__name__}: {cause}".rstrip(": ")
            await disconnect_nats(client)
        else:
            return client
    raise BrokerAway(f"NATS does not let us in: {why}")


async def disconnect_nats(client: Any) -> None:
    """Close a connection, or what became of one."""
    with contextlib.suppress(*failures()):
        async with asyncio.timeout(CONNECT_SECONDS):
            await client.close()


class NatsInbox:
    """One connection to NATS."""

    def __init__(self, address: BrokerAddress, *, name: str, size: int) -> None:
        """Take up to `size` messages ahead."""
        self._address = address
        self._name = name
        self._size = size
        self._arrivals = Arrivals(size)
        self._connection: Any = None
        self._pulls: list[asyncio.Task[None]] = []

    async def open(self, mailboxes: Sequence[Mailbox]) -> None:
        """Connect, and ask at each mailbox."""
        owners = {mailbox.tenant_id for mailbox in mailboxes}
        inbox = inbox_of(owners.pop().hex if len(owners) == 1 else "platform")
        self._connection = await connect_nats(self._address, name=self._name, inbox=inbox, arrivals=self._arrivals)
        batch = max(1, self._size // len(mailboxes))
        for mailbox in mailboxes:
            self._pulls.append(asyncio.create_task(self._pull(mailbox, batch)))

    async def take(self, limit: int, *, seconds: float) -> list[Delivery]:
        """Return what has come."""
        return await self._arrivals.take(limit, seconds=seconds)

    async def ack(self, deliveries: Sequence[Delivery]) -> None:
        """Acknowledge."""
        with _away():
            for delivery in deliveries:
                await delivery.handle.ack()

    async def give_back(self, deliveries: Sequence[Delivery], *, seconds: float) -> None:
        """Have them redelivered after so long."""
        with _away():
            for delivery in deliveries:
                await delivery.handle.nak(delay=seconds)

    async def close(self) -> None:
        """Stop asking and disconnect."""
        for pull in self._pulls:
            pull.cancel()
        await asyncio.gather(*self._pulls, return_exceptions=True)
        with contextlib.suppress(BrokerAway):  # what nobody here has looked at comes to others at once
            await self.give_back(self._arrivals.rest(), seconds=0)
        if self._connection is not None:
            await disconnect_nats(self._connection)

    async def _pull(self, mailbox: Mailbox, batch: int) -> None:
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{mailbox.stream}.{mailbox.name}"
        wanted = {"batch": batch, "expires": int(PULL_SECONDS * NANOSECONDS)}
        body = json.dumps({**wanted, "idle_heartbeat": int(BEAT_SECONDS * NANOSECONDS)}).encode()
        try:
            answers = await self._connection.subscribe(self._connection.new_inbox())
            while True:
                await self._connection.publish(subject, body, reply=answers.subject)
                await self._receive(answers, batch)
        except failures() as error:
            self._arrivals.end(f"{mailbox.name}: {type(error).__name__}: {error}")
        except BrokerAway as error:
            self._arrivals.end(str(error))

    async def _receive(self, answers: Any, batch: int) -> None:
        """Take what one request brings, until it is over."""
        while batch:
            message = await answers.next_msg(timeout=BEAT_SECONDS * MISSED_BEATS)
            headers: dict[str, str] = message.headers or {}
            status = headers.get("Status")
            if status is None:
                batch -= 1
                await self._arrivals.put(message.data, message)
            elif status in _REQUEST_OVER or _is_new_leader(headers):
                return
            elif status != _BEAT:
                raise BrokerAway(f"the mailbox does not answer: {status} {headers.get('Description', '')}".rstrip())


def _is_new_leader(headers: Mapping[str, str]) -> bool:
    return headers["Status"] == "409" and "Leadership" in headers.get("Description", "")


def inbox_of(owner: str) -> str:
    """Return the prefix below which answers come; each tenant has its own, so that rights can keep them apart."""
    return f"_INBOX_{owner}"


@contextlib.contextmanager
def _away() -> Generator[None]:
    try:
        yield
    except failures() as error:
        raise BrokerAway(f"{type(error).__name__}: {error}") from error
