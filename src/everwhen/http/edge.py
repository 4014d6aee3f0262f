"""The outermost layer, plain ASGI: request ids, tokens, security headers, and an answer whatever happens inside.

Authentication stands here and not in the routes, so that a route which forgets it is closed, not open. The few paths
that need no token are listed in OPEN_PATHS, or begin with OPEN_PREFIX.
"""

import re
from collections.abc import Callable
from datetime import datetime
from typing import Final

import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from everwhen import clock, failpoints
from everwhen.errors import EverwhenError, Forbidden, RateExceeded, Unauthenticated, Unavailable
from everwhen.http.auth import Authenticator
from everwhen.http.counting import Counter
from everwhen.http.payloads import show_payloads
from everwhen.http.principal import Principal
from everwhen.http.problems import REFUSED_BY, problem_response
from everwhen.http.sessions import insist_on_same_site, session_secret

OPEN_PATHS: Final = frozenset({"/healthz", "/healthz/ready"})
OPEN_PREFIX: Final = "/v1/alerts/unsubscribe/"
"""What follows it is a token of its own kind: the link at the foot of a mail."""

_PRINCIPAL: Final = "everwhen.principal"
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")
_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
"""What an answer has unless it says otherwise."""

OnRefused = Callable[[Scope, EverwhenError, Principal | None], None]

log = structlog.get_logger("everwhen.http")


def principal_of(request: Request) -> Principal:
    """Return who the request is from; raise Unauthenticated on a path that needs no token."""
    principal = request.scope.get(_PRINCIPAL)
    if not isinstance(principal, Principal):
        raise Unauthenticated
    return principal


class Edge:
    """The middleware."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        authenticator: Authenticator,
        counter: Counter | None = None,
        on_refused: OnRefused | None = None,
    ) -> None:
        """Without a counter nobody is limited; `on_refused` is called after whatever was answered with a problem."""
        self._app = app
        self._authenticator = authenticator
        self._counter = counter
        self._on_refused = on_refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; pass the lifespan through, and nothing else."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        now = clock.process_now()
        given = _single(scope, b"request-id")
        request_id = given if given and _REQUEST_ID.fullmatch(given) else f"req_{clock.new_id(now).hex}"
        scope["state"] = {**scope.get("state", {}), "request_id": request_id}
        answer = _Answer(send, scope, request_id, self._counter)
        show_payloads(False)
        try:
            if scope["path"] not in OPEN_PATHS and not scope["path"].startswith(OPEN_PREFIX):
                scope[_PRINCIPAL] = await self._principal(scope, now=now)
            elif self._counter is not None:
                self._counter.look(scope)
            await self._app(scope, receive, answer.send)
        except (Unauthenticated, Unavailable, Forbidden, RateExceeded) as error:
            await problem_response(Request(scope), error)(scope, receive, answer.send)
        except ClientDisconnect:
            return  # nobody is left to be answered, and nothing is wrong with us
        except Exception as error:
            log.exception("request.failed", request_id=request_id, method=scope["method"], path=scope["path"])
            if answer.started:
                raise
            problem = EverwhenError("Something went wrong on our side; the request id names it.")
            problem.__cause__ = error
            await problem_response(Request(scope), problem)(scope, receive, answer.send)
        if self._on_refused is not None and (refused := scope.get(REFUSED_BY)) is not None:
            self._on_refused(scope, refused, scope.get(_PRINCIPAL))

    async def _principal(self, scope: Scope, *, now: datetime) -> Principal:
        secret = session_secret(scope)
        given = _single(scope, b"authorization") if secret is None else None

        async def authenticate() -> Principal:
            return await authenticated(self._authenticator, scope, now=now)

        if self._counter is None:
            principal = await authenticate()
        else:
            is_known = self._authenticator.has_met(given, secret)
            is_guess = given is not None or secret is not None
            principal = await self._counter.let_in(scope, authenticate, is_known=is_known, is_guess=is_guess)
        if secret is not None:
            insist_on_same_site(scope, secret)
        return principal


async def authenticated(authenticator: Authenticator, scope: Scope, *, now: datetime) -> Principal:
    """Return who the credential of a request stands for now; raise Unauthenticated or Unavailable."""
    secret = session_secret(scope)
    if secret is not None:
        return await authenticator.authenticate_session(secret, now=now)
    return await authenticator.authenticate(_single(scope, b"authorization"), now=now)


class _Answer:
    """Adds what every answer carries, and knows whether it has begun."""

    def __init__(self, send: Send, scope: Scope, request_id: str, counter: Counter | None) -> None:
        self._send = send
        self._scope = scope
        self._request_id = request_id
        self._counter = counter
        self.started = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            failpoints.hit("api.before_reply")
            headers: list[tuple[bytes, bytes]] = message["headers"]
            given = {name for name, _ in headers}
            more = [pair for pair in _HEADERS if pair[0] not in given]
            fields = [] if self._counter is None else self._counter.fields(self._scope)
            message["headers"] = [*headers, *more, (b"request-id", self._request_id.encode()), *fields]
        await self._send(message)


def _single(scope: Scope, name: bytes) -> str | None:
    """Return the header's value; None when it is missing, given twice (two readers would disagree) or not ASCII."""
    values = [value for key, value in scope["headers"] if key == name]
    return values[0].decode("ascii", "replace") if len(values) == 1 else None
