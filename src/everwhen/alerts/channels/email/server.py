"""A mail server, and handing a mail to it.

    connect to the checked address → TLS for its name → log in → MAIL, RCPT, DATA → 250: delivered

Once DATA is answered with 250 the mail is delivered, whatever happens to the connection afterwards. When the time is up
in between, nobody knows: it is tried again with the same Message-ID, by which a mailbox can tell the two.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import unquote, urlsplit
from uuid import UUID

import aiosmtplib

from everwhen.alerts.channels.protocol import Delivered, Outcome, Refused, TryLater
from everwhen.egress.answers import line
from everwhen.egress.client import Egress
from everwhen.egress.dialing import Unreachable
from everwhen.egress.targets import TargetRefused, read_host
from everwhen.errors import ConfigurationError

Tls = Literal["starttls", "implicit", "none"]
DEFAULT_PORTS: Final[dict[Tls, int]] = {"starttls": 587, "implicit": 465, "none": 25}
QUIT_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MailServer:
    """Where mails are handed in. A guarded one was named by a tenant, and its address is checked."""

    host: str
    port: int
    tls: Tls
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    guarded: bool


def read_server(url: str) -> MailServer:
    """Read the installation's own server from its setting; raise ConfigurationError."""
    try:
        parts = urlsplit(url)
        host, port, plain = read_host(parts.hostname or ""), parts.port, parts.query == "tls=none"
        fits = parts.scheme in {"smtp", "smtps"} and parts.path in {"", "/"} and (plain or not parts.query)
    except (ValueError, TargetRefused):
        fits, host, port, plain = False, "", None, False
        parts = urlsplit("")
    if not fits or (plain and parts.scheme == "smtps"):
        raise ConfigurationError("smtp_url: this is smtp[s]://user:password@host[:port], or smtp://host?tls=none")
    tls: Tls = "implicit" if parts.scheme == "smtps" else "none" if plain else "starttls"
    return MailServer(
        host=host,
        port=port or DEFAULT_PORTS[tls],
        tls=tls,
        username=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
        guarded=False,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A mail as it goes over the wire, with its envelope."""

    sender: str
    recipient: str
    content: bytes = field(repr=False)

    @property
    def needs_utf8(self) -> bool:
        """Whether a mailbox is written outside ASCII, which a server has to be able to take."""
        return not (self.sender.isascii() and self.recipient.isascii())


class _Unfit(Exception):  # noqa: N818  # an outcome, not an accident
    """The server lacks what is needed."""


class _Client(aiosmtplib.SMTP):
    """Cuts its connection where the library waits for TLS to end politely, on a socket that is ours to close."""

    def close(self) -> None:
        """See `aiosmtplib.SMTP`."""
        if isinstance(self.transport, asyncio.WriteTransport):
            self.transport.abort()
        super().close()


async def hand_in(letter: Letter, *, to: MailServer, egress: Egress, tenant_id: UUID) -> Outcome:
    """Hand one mail in, within the installation's time for it; never raises for what a server or a network does."""
    done: list[Delivered] = []
    seconds = egress.policy.mail_seconds
    try:
        async with (
            asyncio.timeout(seconds),
            egress.mail_connection(to.host, to.port, tenant_id=tenant_id, guarded=to.guarded) as connected,
            _conversation(to, connected) as client,
        ):
            await _introduce(client, to, egress.mail_tls)
            done.append(await _give(client, letter, to))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(QUIT_SECONDS):
                    await client.quit()
    except (TargetRefused, Unreachable, _Unfit, aiosmtplib.SMTPException, OSError, ValueError) as error:
        return done[0] if done else _meaning(error, to, seconds)
    return done[0]


@asynccontextmanager
async def _conversation(to: MailServer, connected: socket.socket) -> AsyncGenerator[aiosmtplib.SMTP]:
    """Speak SMTP on this socket, and cut it at the end, however it comes."""
    client = _Client(hostname=to.host, sock=connected, local_hostname=_own_name(), start_tls=False, timeout=None)
    try:
        yield client
    finally:
        client.close()
        await asyncio.sleep(0)  # the loop closes the socket in its next turn
        connected.close()


async def _introduce(client: aiosmtplib.SMTP, to: MailServer, tls: ssl.SSLContext) -> None:
    """Greet, begin TLS and log in, or raise: nothing goes on without what was asked for."""
    await client.connect(use_tls=to.tls == "implicit", tls_context=tls)
    await client.ehlo()
    if to.tls == "starttls":
        if not client.supports_extension("starttls"):
            raise _Unfit("the server offers no STARTTLS, and without TLS nothing is handed in")
        await client.starttls(tls_context=tls)
        await client.ehlo()
    if to.username is not None:
        if not client.supports_extension("auth") or not client.supported_auth_methods:
            raise _Unfit("the server offers no way to log in that is known here")
        await client.login(to.username, to.password or "")


async def _give(client: aiosmtplib.SMTP, letter: Letter, to: MailServer) -> Delivered:
    options: list[str] = []
    if letter.needs_utf8:
        if not client.supports_extension("smtputf8"):
            raise _Unfit("the server cannot take an address that is not written in ASCII")
        options = ["SMTPUTF8", "BODY=8BITMIME"]
    _, said = await client.sendmail(letter.sender, [letter.recipient], letter.content, mail_options=options)
    return Delivered(response=_shown(250, said, to))


def _meaning(error: Exception, to: MailServer, seconds: float) -> Outcome:
    """Say what came of it: by the server's code where it gave one, in our own words otherwise."""
    if isinstance(error, aiosmtplib.SMTPRecipientsRefused) and error.recipients:
        error = error.recipients[0]
    match error:
        case aiosmtplib.SMTPAuthenticationError():  # its text may hold what was sent
            return _by_code(error.code, f"{error.code} the server refuses the user name or the password")
        case aiosmtplib.SMTPResponseException() if error.code > 0:
            return _by_code(error.code, _shown(error.code, error.message, to))
        case TargetRefused() | _Unfit():
            return Refused(response=line(str(error)))
        case Unreachable():
            return TryLater(response=line(str(error)))
        case TimeoutError():
            return TryLater(response=f"not handed in within {seconds:g} s")
        case _:
            return TryLater(response=_of_connection(error))


def _of_connection(error: Exception) -> str:
    causes = (error, error.__cause__, error.__context__)
    tls = next((cause for cause in causes if isinstance(cause, ssl.SSLError)), None)
    if isinstance(tls, ssl.SSLCertVerificationError):
        return line(f"its certificate is not accepted: {tls.verify_message}")
    return "it does not speak TLS as it should" if tls else "the connection was cut, or it does not speak SMTP"


def _shown(code: int, said: str, to: MailServer) -> str:
    return line(f"{code} {said}", without={"password": to.password or ""})


def _by_code(code: int, said: str) -> Outcome:
    return Refused(response=said) if 500 <= code < 600 else TryLater(response=said)


def _own_name() -> str:
    name = socket.gethostname()
    return name if name.isascii() and name.replace("-", "").replace(".", "").isalnum() else "localhost"
