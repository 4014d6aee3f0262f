"""Real servers for the tests of channels: one takes mail, one takes webhooks, and one stands in for Slack.

Each runs in a thread of this process, answers by a script (one entry a request, then its ordinary answer), keeps what
it received, and can be down for a while: `server.down()`, `server.up()`.

    with MailServer() as mail: …            mail.port, mail.messages
    with HttpsReceiver() as receiver: …     receiver.url, receiver.requests, receiver.by_id
    with SlackStandIn() as slack: …         slack.url, slack.messages
"""

import asyncio
import gzip
import json
from collections import Counter, deque
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from tests.alerts.certificates import authority
from tests.alerts.listening import Server

HANG = "hang"  # takes the request and never answers
DRIP = "drip"  # answers a byte at a time, for ever
CUT = "cut"  # ends the connection instead of answering
FLOOD = "flood"  # a good status, and a body that does not end
STALL = "stall"  # a good status, and a body that never comes
BOMB = "bomb"  # a good status, and 10 kB that unpack to 10 MB
NONSENSE = "nonsense"  # bytes that are no HTTP
SLOW = "slow"  # takes a second, then does as it ordinarily does
SLOW_SECONDS = 1.0
ORDINARY = (200, SLOW)


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What an HTTP server answers."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b"ok"


@dataclass(frozen=True, kw_only=True)
class Request:
    """What it was asked."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)


class HttpsReceiver(Server):
    """An HTTPS server; `script` holds statuses, replies or one of the words above."""

    def __init__(self, *, secrets: tuple[str, ...] = (), names: tuple[str, ...] = (), plain: bool = False) -> None:
        super().__init__()
        self.secrets = secrets
        self.script: deque[int | str | Reply] = deque()
        self.ordinary: int | str | Reply = 200
        self.requests: list[Request] = []
        self.by_id: Counter[str] = Counter()
        self.verified: Counter[str] = Counter()
        self.plain = plain
        self.names = names
        self._context = None if plain else authority().server_context(*names)

    @property
    def url(self) -> str:
        scheme = "http" if self.plain else "https"
        return f"{scheme}://localhost:{self.port}/hook"

    def use(self, context) -> None:
        """Show another certificate from the next start on."""
        self._context = context

    def tls(self):
        return self._context

    def protocol(self) -> asyncio.BaseProtocol:
        return _Http(self)

    def answer(self, request: Request) -> int | str | Reply:
        """What this request gets."""
        self.requests.append(request)
        identity = request.headers.get("webhook-id", "")
        self.by_id[identity] += 1
        try:
            for secret in self.secrets:
                Webhook(secret).verify(request.body, request.headers)
                self.verified[identity] += 1
        except WebhookVerificationError:
            return Reply(status=401)
        return self.script.popleft() if self.script else self.ordinary


class SlackStandIn(HttpsReceiver):
    """Slack's incoming webhooks, as far as it looks at what it is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[dict] = []

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}/services/T000/B000/xoxsecretXOX"

    def answer(self, request: Request) -> int | str | Reply:
        scripted = super().answer(request)
        if scripted not in ORDINARY:
            return scripted
        if request.path != "/services/T000/B000/xoxsecretXOX":
            return Reply(status=404, body=b"no_service")
        if why := _wrong_with(request):
            return Reply(status=400, body=why)
        self.messages.append(request.json)
        return scripted


def _wrong_with(request: Request) -> bytes | None:
    try:
        payload = request.json
    except ValueError:
        return b"invalid_payload"
    blocks = payload.get("blocks", [])
    if not payload.get("text") and not blocks:
        return b"no_text"
    texts = [block["text"]["text"] for block in blocks if "text" in block]
    if len(blocks) > 50 or any(not 1 <= len(text) <= 3000 for text in texts) or len(payload.get("text", "")) > 40_000:
        return b"invalid_blocks"
    return None


class _Http(asyncio.Protocol):
    """HTTP/1.1, one request a connection."""

    def __init__(self, server: HttpsReceiver) -> None:
        self.server = server
        self.read = bytearray()
        self.transport: Any = None
        self.task: asyncio.Task | None = None

    def connection_made(self, transport):
        self.transport = transport

    def connection_lost(self, exc):
        if self.task:
            self.task.cancel()

    def data_received(self, data):
        self.read += data
        head, found, body = bytes(self.read).partition(b"\r\n\r\n")
        if not found or self.task:
            return
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if len(body) < int(headers.get("content-length", 0)):
            return
        request = Request(path=first.split(" ")[1], headers=headers, body=body)
        self.task = asyncio.get_running_loop().create_task(self._answer(request))

    async def _answer(self, request: Request) -> None:
        what = self.server.answer(request)
        if isinstance(what, str):
            await getattr(self, f"_{what}")()
            return
        reply = Reply(status=what) if isinstance(what, int) else what
        lines = [f"HTTP/1.1 {reply.status} Whatever", f"Content-Length: {len(reply.body)}"]
        lines += [f"{name}: {value}" for name, value in reply.headers.items()]
        self.transport.write("\r\n".join([*lines, "", ""]).encode("latin-1") + reply.body)
        self.transport.close()

    async def _hang(self):
        await asyncio.Event().wait()

    async def _slow(self):
        await asyncio.sleep(SLOW_SECONDS)
        self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        self.transport.close()

    async def _drip(self):
        for byte in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"x" * 100_000:
            self.transport.write(bytes([byte]))
            await asyncio.sleep(0.02)

    async def _cut(self):
        self.transport.abort()

    async def _flood(self):
        self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")
        while not self.transport.is_closing():
            if self.transport.get_write_buffer_size() < 1_000_000:
                self.transport.write(b"x" * 65_536)
            await asyncio.sleep(0)

    async def _stall(self):
        self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")

    async def _bomb(self):
        body = gzip.compress(b"\0" * 10_000_000)
        head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n"
        self.transport.write(head.encode() + body)
        self.transport.close()

    async def _nonsense(self):
        self.transport.write(b"\x16\x03\x01 this is no HTTP\r\n\r\n")
        self.transport.close()


class MailServer(Server):
    """An SMTP server that wants a log-in; `script` holds what DATA is answered with, or HANG or CUT.

    A recipient whose name begins with a code (`550@…`, `451@…`) is answered with it.
    """

    def __init__(self, *, tls: str = "starttls", user: str = "user", password: str = "password") -> None:
        super().__init__()
        self.mode = tls
        self.user, self.password = user, password
        self.script: deque[str] = deque()
        self.ordinary = "250 OK"
        self.messages: list[EmailMessage] = []
        self.recipients: list[str] = []
        self.by_id: Counter[str] = Counter()
        self.greeting: str | None = None
        self._context = authority().server_context()

    def tls(self):
        return self._context if self.mode == "implicit" else None

    def protocol(self) -> asyncio.BaseProtocol:
        if self.greeting is not None:
            return _Greeter(self.greeting)
        return SMTP(
            self,
            hostname="mail.test",
            loop=self._loop,
            enable_SMTPUTF8=True,
            tls_context=self._context if self.mode == "starttls" else None,
            require_starttls=self.mode == "starttls",
            auth_required=bool(self.user) and self.mode == "starttls",  # otherwise the library objects; see RCPT
            auth_require_tls=self.mode == "starttls",
            authenticator=self._authenticate,
        )

    def _authenticate(self, server, session, envelope, mechanism, data) -> AuthResult:  # noqa: PLR0917
        login = data.login if isinstance(data.login, bytes) else str(data.login).encode()
        ok = (login, data.password) == (self.user.encode(), self.password.encode())
        return AuthResult(success=ok, handled=ok)  # handled without success would leave the client waiting

    async def handle_RCPT(self, server, session, envelope, address, options):  # noqa: N802, PLR0917
        if self.user and not session.authenticated:
            return "530 5.7.0 log in first"
        if address[:3].isdigit():
            return f"{address[:3]} 5.1.1 scripted for\tthis \x1b[31mrecipient"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):  # noqa: N802
        what = self.script.popleft() if self.script else self.ordinary
        if what == HANG:
            await asyncio.Event().wait()
        if what == SLOW:
            await asyncio.sleep(SLOW_SECONDS)
            what = self.ordinary
        if what == CUT:
            server.transport.abort()
            return "421 cut"
        if what.startswith("2"):
            message = message_from_bytes(envelope.content, policy=policy.default)
            self.messages.append(message)
            self.recipients += envelope.rcpt_tos
            self.by_id[str(message["Message-ID"])] += 1
        return what


class _Greeter(asyncio.Protocol):
    """Says one thing and nothing more."""

    def __init__(self, greeting: str) -> None:
        self.greeting = greeting

    def connection_made(self, transport: Any):
        transport.write(self.greeting.encode())
