"""The one way out: an HTTP request, or a connection for mail, to where a tenant asked.

    turn of the tenant → URL read → name checked (dialing.py) → TLS for the name → request → status → a little body

* HTTPS to allowed ports; one connection a request, made for it and cut after it.
* What is not there cannot be abused: no redirects, no proxies, no cookies, no decompression, no second name look-up.
* Everything within one deadline. The answer is decided by its status and headers; its body is read for a while and up
  to a size, by those who want it, and what goes wrong there changes nothing.
* Three ends, told apart because they mean different things to whoever retries: answered, away, refused by policy.
* Nothing that an end says holds the URL: it may be a secret.
"""

import asyncio
import contextlib
import re
import socket
import ssl
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final
from uuid import UUID

import httpcore2

from everwhen import __version__, metrics
from everwhen.egress.addresses import Network
from everwhen.egress.dialing import Unreachable, check, dial
from everwhen.egress.policy import EgressPolicy, tls_context
from everwhen.egress.streams import OneSocket
from everwhen.egress.targets import Target, TargetRefused, read_host, read_url
from everwhen.egress.turns import Resolve, Resolver, Turns

BODY_BYTES: Final = 65_536
BODY_SECONDS: Final = 2.0
HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
HEADER_VALUE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The receiver answered. `body` is the beginning of what it said: never show it to a tenant."""

    status: int
    retry_after: str | None = None
    body: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Away:
    """Nobody answered, or nothing sensible; it may be different later."""

    why: str


@dataclass(frozen=True, slots=True)
class RefusedByPolicy:
    """The target may not be reached, now or later."""

    why: str


Answer = Answered | Away | RefusedByPolicy
_OUTCOMES: Final = {Answered: "answered", Away: "away", RefusedByPolicy: "refused"}


class Egress:
    """The guarded client; one for a process."""

    def __init__(self, policy: EgressPolicy, *, resolve: Resolve | None = None) -> None:
        self.policy = policy
        self._resolve = resolve or Resolver()
        self._turns = Turns(policy.per_tenant)

    @cached_property
    def mail_tls(self) -> ssl.SSLContext:
        """What TLS to a mail server is checked by; raises ConfigurationError for a setting that is no good."""
        return tls_context(self.policy.ca_file)

    @cached_property
    def _http_tls(self) -> ssl.SSLContext:
        """The same for HTTPS: a context of its own, since the library writes its protocols into it."""
        return tls_context(self.policy.ca_file)

    async def post(
        self,
        url: str,
        *,
        tenant_id: UUID,
        headers: Mapping[str, str],
        content: bytes,
        seconds: float | None = None,
        with_body: bool = True,
    ) -> Answer:
        """Send once; never raises for what a URL, a name, a receiver or a network does.

        `seconds` is how long it may take in all, None: as long as the policy says.
        """
        within = self.policy.seconds if seconds is None else seconds
        answer = await self._post(
            url, tenant_id=tenant_id, headers=headers, content=content, seconds=within, with_body=with_body
        )
        metrics.EGRESS.labels(_OUTCOMES[type(answer)]).inc()
        return answer

    async def _post(
        self,
        url: str,
        *,
        tenant_id: UUID,
        headers: Mapping[str, str],
        content: bytes,
        seconds: float,
        with_body: bool,
    ) -> Answer:
        answers: list[Answered] = []  # as soon as the status is known it counts, whatever happens to the rest
        try:
            target = read_url(url, policy=self.policy)
            request = _request(target, headers, content)
            async with asyncio.timeout(seconds), self._turns.of(tenant_id):
                connected = await self._dial(tenant_id, target.host, target.port, self.policy.allowed)
                await self._exchange(connected, target, request, answers, with_body=with_body)
        except (TargetRefused, Unreachable, OSError, httpcore2.NetworkError, httpcore2.ProtocolError) as error:
            return answers[-1] if answers else _ending(error, seconds=seconds)
        return answers[-1]

    @asynccontextmanager
    async def mail_connection(
        self, host: str, port: int, *, tenant_id: UUID, guarded: bool = True
    ) -> AsyncGenerator[socket.socket]:
        """Yield a socket that is connected to a mail server; raise TargetRefused or Unreachable.

        The installation's own server is not guarded: it may be anywhere. The tenant's turn lasts as long as the block.
        Whoever takes the socket closes it.
        """
        if guarded and port not in self.policy.mail_ports:
            raise TargetRefused(f"port {port} is not among those of mail servers")
        allowed = self.policy.allowed if guarded else None
        async with self._turns.of(tenant_id):
            yield await self._dial(tenant_id, read_host(host), port, allowed)

    async def _dial(self, tenant_id: UUID, host: str, port: int, allowed: Sequence[Network] | None) -> socket.socket:
        checked = await check(tenant_id, host, port, allowed=allowed, resolve=self._resolve)
        return await dial(checked, allowed=allowed)

    async def _exchange(
        self,
        connected: socket.socket,
        target: Target,
        request: httpcore2.Request,
        answers: list[Answered],
        *,
        with_body: bool,
    ) -> None:
        tls = target.scheme == "https"
        connection = httpcore2.AsyncHTTPConnection(
            request.url.origin,
            ssl_context=self._http_tls if tls else None,
            network_backend=OneSocket(connected, tls=tls),
        )
        try:
            response = await connection.handle_async_request(request)
            answers.append(Answered(status=response.status, retry_after=_header(response, b"retry-after")))
            if with_body:
                answers.append(replace(answers[-1], body=await _beginning(response)))
        finally:
            await connection.aclose()
            connected.close()


async def _beginning(response: httpcore2.Response) -> bytes:
    """Read up to a size and for a while, whatever is announced; what is there by then is enough."""
    read = bytearray()
    with contextlib.suppress(TimeoutError, OSError, httpcore2.NetworkError, httpcore2.ProtocolError):
        async with asyncio.timeout(BODY_SECONDS):
            async for part in response.aiter_stream():
                read += part
                if len(read) >= BODY_BYTES:
                    break
    return bytes(read[:BODY_BYTES])


def _ending(error: Exception, *, seconds: float) -> Away | RefusedByPolicy:
    """Say what an exchange without an answer came to, in words of ours only."""
    match error:
        case TargetRefused():
            return RefusedByPolicy(str(error))
        case Unreachable():
            why = str(error)
        case TimeoutError():
            why = f"no answer within {seconds:g} s"
        case ssl.SSLCertVerificationError():
            why = f"its certificate is not accepted: {error.verify_message}"
        case ssl.SSLError():
            why = "it does not speak TLS as it should"
        case httpcore2.ProtocolError():
            why = "it does not speak HTTP as it should"
        case _:
            why = "the connection was cut"
    return Away(why)


def _request(target: Target, headers: Mapping[str, str], content: bytes) -> httpcore2.Request:
    """Write the request; what belongs to the exchange itself is ours, whatever the caller says."""
    for name, value in headers.items():
        if not HEADER_NAME.fullmatch(name) or not HEADER_VALUE.fullmatch(value):
            raise TargetRefused("a header is a name and one line of printable ASCII")
    theirs = {name.lower(): value for name, value in headers.items()}
    ours = {
        "host": target.authority,
        "user-agent": f"Everwhen/{__version__}",
        "accept-encoding": "identity",
        "connection": "close",
        "content-length": str(len(content)),
    }
    return httpcore2.Request(
        "POST",
        httpcore2.URL(scheme=target.scheme, host=target.host, port=target.port, target=target.path),
        headers=[(name.encode("ascii"), value.encode("ascii")) for name, value in (theirs | ours).items()],
        content=content,
    )


def _header(response: httpcore2.Response, name: bytes) -> str | None:
    return next((value.decode("latin-1") for key, value in response.headers if key.lower() == name), None)
