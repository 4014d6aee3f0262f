"""How a request may be made: tried without effect, or repeated without a second effect.

    ?dry_run=true        what a change would answer; all of it is done in a transaction that is undone
    Idempotency-Key: …   a POST that is repeated answers what it answered the first time

Both rest on one thing: the handler's use-cases take part in one transaction (`postgres/joined.py`), in which the event
of the audit is written, too (`auditing.py`). A route needs to do nothing for it, but use the database of its `Access`.
What a POST route may say about itself: `reads` (it writes nothing, so none of this applies), `tells_secret` (its answer
is not to be kept, so it is neither tried nor repeated), `needs_key` (it would make something new each time). One that
has a parameter `dry_run` of its own answers that itself.
"""

import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from fastapi import Request, Response

from everwhen.errors import InvalidInput
from everwhen.http.auditing import Audited, Recorder, give, said_of
from everwhen.http.edge import principal_of
from everwhen.http.plane import DATABASE, plane_of
from everwhen.postgres.joined import Joined, joined
from everwhen.postgres.pool import Connection
from everwhen.replies import service as replies
from everwhen.replies.model import Keyed, Reply

MOST_KEY: Final = 255
REPLAYED: Final = "Idempotency-Replayed"
TRIED: Final = "Dry-Run"

_KEY: Final = re.compile(rf"[\x21-\x7e]{{1,{MOST_KEY}}}")
_KEPT_HEADERS: Final = ("content-type", "location", "etag")
_TRY: Final = {"true": True, "1": True, "false": False, "0": False}
_READS: Final = "everwhen_reads"
_TELLS: Final = "everwhen_tells"
_NEEDS_KEY: Final = "everwhen_needs_key"

Handler = Callable[[Request], Awaitable[Response]]
Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """What a route takes."""

    operation: str
    writes: bool
    tries: bool
    tries_itself: bool
    keyed: bool
    needs_key: bool
    tells: bool
    audited: Audited


def reads(endpoint: Endpoint) -> Endpoint:
    """Mark a POST that writes nothing: it is one for its body's sake."""
    setattr(endpoint, _READS, True)
    return endpoint


def tells_secret(endpoint: Endpoint) -> Endpoint:
    """Mark a POST whose answer holds a secret: that is kept nowhere, so it is neither repeated nor tried."""
    setattr(endpoint, _TELLS, True)
    return endpoint


def needs_key(endpoint: Endpoint) -> Endpoint:
    """Mark a POST that needs an idempotency key."""
    setattr(endpoint, _NEEDS_KEY, True)
    return endpoint


def manner_of(endpoint: Callable[..., Any], methods: Iterable[str], parameters: Iterable[str]) -> Manner:
    """Return what a route takes, by what it is. `parameters` are its own query parameters."""
    writes = not {"GET", "HEAD"} & set(methods) and not hasattr(endpoint, _READS)
    tells, tries_itself = hasattr(endpoint, _TELLS), "dry_run" in set(parameters)
    tries = writes and not tells and not tries_itself
    return Manner(
        operation=endpoint.__name__,
        writes=writes,
        tries=tries,
        tries_itself=writes and tries_itself,
        keyed=tries and "POST" in methods,
        needs_key=hasattr(endpoint, _NEEDS_KEY),
        tells=tells,
        audited=said_of(endpoint),
    )


async def carry_out(request: Request, handler: Handler, manner: Manner) -> Response:
    """Answer a request in the manner that it asks for."""
    if not manner.writes:
        return await handler(request)
    if manner.tries and _asks_to_try(request):
        return await _tried(request, handler)
    if manner.tries_itself and _asks_to_try(request):
        return await handler(request)
    key = _key_of(request, needed=manner.needs_key) if manner.keyed else None
    if key is None:
        return await _done(request, handler, manner)
    keyed = Keyed(
        principal=principal_of(request).subject,
        operation=manner.operation,
        key=key,
        fingerprint=await _fingerprint(request),
    )
    return await _once(request, handler, manner, keyed)


class _Undone(Exception):  # noqa: N818  # never leaves this module
    """The transaction is to be rolled back, and nothing is wrong."""


class _Known(Exception):  # noqa: N818  # never leaves this module
    """The request was answered before."""

    def __init__(self, reply: Reply) -> None:
        super().__init__()
        self.reply = reply


async def _tried(request: Request, handler: Handler) -> Response:
    answers: list[Response] = []
    try:
        async with joined(plane_of(request).database) as whole:
            request.scope[DATABASE] = whole
            answers.append(await handler(request))
            raise _Undone  # noqa: TRY301  # it has to leave the block above
    except _Undone:
        answers[0].headers[TRIED] = "true"
        return answers[0]


async def _done(request: Request, handler: Handler, manner: Manner) -> Response:
    async with joined(plane_of(request).database) as whole:
        return await _told(request, handler, manner, whole)


async def _once(request: Request, handler: Handler, manner: Manner, keyed: Keyed) -> Response:
    async def take(conn: Connection, tenant_id: Any) -> None:
        reply = await replies.take(conn, tenant_id=tenant_id, keyed=keyed)
        if reply is not None:
            raise _Known(reply)

    try:
        async with joined(plane_of(request).database, on_begin=take) as whole:
            answer = await _told(request, handler, manner, whole)
            for tenant_id, conn in whole.tenants.items():
                await replies.keep(conn, tenant_id=tenant_id, keyed=keyed, reply=_reply(answer))
        return answer  # noqa: TRY300  # after the commit
    except _Known as known:
        said = known.reply
        return Response(said.body, status_code=said.status, headers={**said.headers, REPLAYED: "true"})


async def _told(request: Request, handler: Handler, manner: Manner, whole: Joined) -> Response:
    """Have the work done and told in one transaction, or in none."""
    recorder = Recorder(
        request=request,
        operation=manner.operation,
        sight=request.app.state.sights.get(manner.operation),
        resource=manner.audited.resource,
        tells_answer=manner.audited.tells_answer,
        tells_secret=manner.tells,
        whole=whole,
    )
    give(request, recorder)
    answer = await handler(request)
    await recorder.tell(answer)
    return answer


def _reply(answer: Response) -> Reply:
    headers = {name: answer.headers[name] for name in _KEPT_HEADERS if name in answer.headers}
    return Reply(status=answer.status_code, headers=headers, body=bytes(answer.body))


def _asks_to_try(request: Request) -> bool:
    values = request.query_params.getlist("dry_run")
    if not values:
        return False
    if len(values) > 1 or values[0] not in _TRY:
        raise InvalidInput.at("query:dry_run", "dry_run is true or false.", code="field.invalid")
    return _TRY[values[0]]


def _key_of(request: Request, *, needed: bool) -> str | None:
    values = request.headers.getlist("idempotency-key")
    if not values and not needed:
        return None
    if len(values) != 1 or not _KEY.fullmatch(values[0]):
        detail = f"Send an Idempotency-Key header of 1 to {MOST_KEY} visible characters, the same for a repeat."
        raise InvalidInput.at("header:Idempotency-Key", detail, code="idempotency.key_required")
    return values[0]


async def _fingerprint(request: Request) -> bytes:
    """The same for equal requests, however their JSON was spelt."""
    body = await request.json() if await request.body() else None
    said = [request.url.path, sorted(request.query_params.multi_items()), body]
    text = json.dumps(cast("Any", said), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).digest()
