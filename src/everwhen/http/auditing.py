"""How a request tells of itself in the audit: no handler of a control route has to know.

Whatever changes something goes through `manners.carry_out` (a control route) or is a route that reads its body itself
(`uploads.UploadRoute`). Each gives its request a `Recorder`:

    the dependency that grants access     says in whose chain, and by whom; holds the resource, and looks what it is
    the handler                           does its work, in the same transaction
    carry_out                             looks what the resource has become, and writes the event

A look is what the operation that reads the resource would answer to somebody who may see no payloads: the same words as
everywhere else, and no secrets, since none are ever answered. It ends where the answer is known, before it is spelt; a
change that answers the same model of the same thing needs no second one. Which operation that is follows from the
paths: of `POST …/schedules/{name}/pause` it is `GET …/schedules/{name}`. What is made is told by the answer itself.

An upload is no single transaction, so its handler hands the recorder to where the last one is: `Recorder.write`. A
route that has changed something and told nobody of it is a defect, and answers 500.
"""

import functools
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast
from urllib.parse import unquote
from uuid import UUID

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.datastructures import Headers
from starlette.types import Scope

from everwhen.audit import service as audit
from everwhen.audit.model import Actor, Deed
from everwhen.core.audit_telling import difference
from everwhen.errors import EverwhenError
from everwhen.http.addresses import Network, client_address
from everwhen.http.edge import principal_of
from everwhen.http.payloads import without_payloads
from everwhen.http.plane import DATABASE, plane_of
from everwhen.http.principal import Principal
from everwhen.http.roles import Role
from everwhen.postgres.joined import Joined
from everwhen.postgres.pool import Connection

MOST_REASON: Final = 500
_TENANT: Final = "/v1/tenants/{tenant}"
_RECORDER: Final = "everwhen.recorder"
_LOOKING: Final = "everwhen.looking"
_AUDITED: Final = "everwhen_audited"
_REMEMBERS: Final = "everwhen_remembers"

Handler = Callable[[Request], Coroutine[Any, Any, Response]]
Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])

_answer: ContextVar[Any] = ContextVar("everwhen.answer", default=None)
_is_look: ContextVar[bool] = ContextVar("everwhen.is_look", default=False)


class _Seen(Exception):  # noqa: N818  # never leaves this module
    """A look has what it looked for: its answer need not become a response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """What an endpoint says about how it is to be told, where its path does not: see `audited`."""

    resource: str | None = None
    seen_by: str | None = None
    tells_answer: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """The operation that reads what another one changes."""

    route: "RememberingRoute"
    path: str
    of_made: bool = False
    """Whether it reads what the other one makes: there is nothing to be seen before."""


def audited(
    *, resource: str | None = None, seen_by: str | None = None, tells_answer: bool = False
) -> Callable[[Endpoint], Endpoint]:
    """Mark a change whose path does not say it all.

    What its resource is called, which operation reads it, whether what it answered is to be told besides.
    """

    def mark(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, _AUDITED, Audited(resource=resource, seen_by=seen_by, tells_answer=tells_answer))
        return endpoint

    return mark


class RememberingRoute(APIRoute):
    """A route that remembers what its endpoint answered, before it becomes JSON."""

    inner: Handler
    """The framework's own handler, without what ours put around it."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **rest: Any) -> None:
        super().__init__(path, _remembering(endpoint), **rest)

    def get_route_handler(self) -> Handler:
        """Keep the framework's handler."""
        self.inner = super().get_route_handler()
        return self.inner

    @property
    def changes(self) -> bool:
        """Whether it may change something, as far as its method tells."""
        return not {"GET", "HEAD"} & set(self.methods or ())


def _remembering(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    if hasattr(endpoint, _REMEMBERS):
        return endpoint

    @functools.wraps(endpoint)
    async def remembering(**given: Any) -> Any:
        answer = await endpoint(**given)
        _answer.set(answer)
        if _is_look.get():
            raise _Seen
        return answer

    setattr(remembering, _REMEMBERS, True)
    return remembering


@dataclass(slots=True, kw_only=True)
class Recorder:
    """What one request has to tell. It is written once, in the transaction of the change."""

    request: Request
    operation: str
    sight: Sight | None = None
    resource: str | None = None
    tells_secret: bool = False
    tells_answer: bool = False
    whole: Joined | None = None
    is_settled: bool = False
    tenant_id: UUID | None = None
    _roles: Iterable[Role] = field(init=False, default=())
    _in_system: bool = field(init=False, default=False)
    _before: Any = field(init=False, default=None)
    _seen_as: type | None = field(init=False, default=None)

    async def begin(self, tenant_id: UUID, roles: Iterable[Role], *, in_system: bool = False) -> None:
        """Take down in whose chain it is and with which roles, and look what the resource is before the change."""
        self.tenant_id, self._roles, self._in_system = tenant_id, roles, in_system
        if self.sight is None or self.sight.of_made or self.whole is None:
            return
        async with self._connection(self.whole) as conn:
            await audit.hold(conn, tenant_id=tenant_id, resource=self._name())
        self._before = await self._look(self.sight, self.request.path_params)

    def about(self, resource: str, *, before: BaseModel | None = None) -> None:
        """Say what the change is about, and what it is like before it: where the path does not tell."""
        self.resource = resource
        self._before = None if before is None else plain(before)

    def nothing_changed(self) -> None:
        """Say that the request found everything as it asked for, and there is nothing to be told."""
        self.is_settled = True

    async def tell(self, answer: Response) -> None:
        """Write the event of a change that has been made, in the transaction that made it."""
        if self.is_settled or answer.status_code >= 400:
            return
        assert self.whole is not None
        if self.tenant_id is None:
            raise RuntimeError(f"{self.operation} has changed something, and nobody knows whose")
        detail: dict[str, Any] = {"answer": plain(_answer.get())} if self.tells_answer else {}
        location = answer.headers.get("location")
        after = await self._after(answer, location)
        if location is not None and self.resource is None and (self.sight is None or self.sight.of_made):
            self.resource = resource_of(location)
        elif location is not None:
            detail["made"] = resource_of(location)
        async with self._connection(self.whole) as conn:
            await self.write(conn, after=after, detail=detail or None)

    async def write(self, conn: Connection, *, after: Any = None, detail: Mapping[str, Any] | None = None) -> None:
        """Write the event in this transaction; `after` is a model, or plain."""
        assert self.tenant_id is not None
        name = self._name(_id_of(self._before))
        before, after = difference(self._before, plain(after, whole=self._before is not None))
        actor = actor_of(self.request, principal_of(self.request), self._roles)
        deed = Deed(
            operation=self.operation,
            resource=name,
            request_id=request_id_of(self.request),
            reason=await _reason_of(self.request, has_read=self.whole is not None),
            before=before,
            after=after,
            detail=detail,
        )
        await audit.record(conn, tenant_id=self.tenant_id, actor=actor, deed=deed)
        self.is_settled = True

    def insist(self, answer: Response) -> None:
        """Raise RuntimeError when something was done and nobody has told of it: of a route that tells by itself."""
        if answer.status_code < 400 and not self.is_settled:
            raise RuntimeError(f"{self.operation} has changed something and told nobody of it")

    def _connection(self, whole: Joined) -> Any:
        assert self.tenant_id is not None
        return whole.system() if self._in_system else whole.tenant(self.tenant_id)

    def _name(self, known_as: str | None = None) -> str:
        """Name the resource: as somebody said, or by its path, with the id in place of another name that it has."""
        if self.resource is not None:
            return self.resource
        seen = self.sight is not None and not self.sight.of_made
        template = self.sight.path if self.sight and seen else _template_of(self.request)
        name = resource_of(template.format_map(_Values(self.request.path_params)), template)
        return name if not seen or known_as is None else f"{name.rpartition('/')[0]}/{known_as}"

    async def _after(self, answer: Response, location: str | None) -> Any:
        answered = _answer.get()
        if self.sight is not None and not self.sight.of_made:
            if location is None and self._is_of_the_same(answered):
                return answered
            return await self._look(self.sight, self.request.path_params)
        if not self.tells_secret:
            return answered if answer.body and not isinstance(answered, Response) else None
        if self.sight is None or location is None:
            return None
        name = self.sight.path.rpartition("{")[2].rstrip("}")
        made = unquote(location.rpartition("/")[2])
        return await self._look(self.sight, {**self.request.path_params, name: made})

    def _is_of_the_same(self, answered: Any) -> bool:
        """Whether what was answered is what reading the resource would answer: another look would find no more."""
        seen: Any = self._before
        if self._seen_as is None or type(answered) is not self._seen_as or not isinstance(seen, dict):
            return False
        before = cast("dict[str, Any]", seen)
        known_by = next((name for name in ("id", "name") if name in before), None)
        return known_by is not None and str(getattr(answered, known_by, None)) == before[known_by]

    async def _look(self, sight: Sight, values: Mapping[str, Any]) -> Any:
        """Return what reading the resource answers to somebody without payloads; None when there is no such thing."""
        assert self.whole is not None
        path = sight.path.format_map(_Values(values))
        scope: dict[str, Any] = dict(self.request.scope) | {
            "method": "GET",
            "path": path,
            "raw_path": path.encode("utf-8", "replace"),
            "path_params": {name: value for name, value in values.items() if f"{{{name}}}" in sight.path},
            "query_string": b"",
            "headers": [],
            "route": sight.route,
            _LOOKING: self.tenant_id,
            _RECORDER: None,
        }
        looking = _is_look.set(True)
        try:
            with self.whole.tolerant():
                await sight.route.inner(Request(scope, _nothing))
        except _Seen:
            found = _answer.get()
        except (EverwhenError, RequestValidationError) as error:
            if getattr(error, "status", 422) >= 500:
                raise
            return None
        else:
            raise RuntimeError(f"{sight.path} answered, and was not remembered")
        finally:
            _is_look.reset(looking)
        self._seen_as = type(found)
        return plain(found)


def recorder_of(request: Request) -> Recorder | None:
    """Return what tells of this request; None when it is only tried, or changes nothing."""
    return request.scope.get(_RECORDER)


def give(request: Request, recorder: Recorder) -> None:
    """Let a request be told by this recorder."""
    request.scope[_RECORDER] = recorder
    if recorder.whole is not None:
        request.scope[DATABASE] = recorder.whole


def looking_for(request: Request) -> UUID | None:
    """Return the tenant that the audit itself looks into, on behalf of a request that was let in; None: it does not."""
    return request.scope.get(_LOOKING)


def actor_of(request: Request, principal: Principal, roles: Iterable[Role]) -> Actor:
    """Return who makes a request, and from where."""
    return actor_from(request.scope, principal, roles, trusted=plane_of(request).trusted)


def actor_from(scope: Scope, principal: Principal, roles: Iterable[Role], *, trusted: Sequence[Network]) -> Actor:
    """Return the same of a request that has not reached the application."""
    return Actor(
        subject=principal.subject,
        token_id=principal.token_id or str(principal.session_id or ""),
        kind=principal.kind,
        roles=tuple(role.value for role in roles),
        address=client_address(scope, trusted),
        agent=Headers(scope=scope).get("user-agent"),
    )


def request_id_of(request: Request) -> str:
    """Return the id that the edge gave this request."""
    return str(request.scope.get("state", {}).get("request_id", ""))


def plain(value: Any, *, whole: bool = True) -> Any:
    """Return a model as the JSON that it becomes for somebody who may see no payloads; not `whole`: without nulls."""
    if not isinstance(value, BaseModel):
        return value
    return without_payloads(value).model_dump(mode="json", by_alias=True, exclude_none=not whole)


def resource_of(path: str, template: str | None = None) -> str:
    """Name a resource by its path: what stands behind its tenant, up to the last part that is a name.

    `template` says which parts are names; without one the whole path is the resource's.
    """
    parts = path.partition("?")[0].strip("/").split("/")
    if template is not None:
        pattern = template.strip("/").split("/")
        names = [index for index, part in enumerate(pattern) if part.startswith("{")]
        parts = parts[: names[-1] + 1] if names else parts
    if parts[:2] == ["v1", "tenants"] and len(parts) > 3:
        return "/".join(parts[3:])
    return "/".join(parts[1:] if parts[0] == "v1" else parts)


def sights_of(routes: Sequence[Any]) -> dict[str, Sight]:
    """Return, by the operation that changes something, the one that reads what it changes."""
    remembering = [route for route in routes if isinstance(route, RememberingRoute)]
    reading = {route.path_format: route for route in remembering if "GET" in (route.methods or ())}
    by_name = {route.name: route for route in reading.values()}
    found: dict[str, Sight] = {}
    for route in remembering:
        if route.changes:
            seen_by = said_of(route.endpoint).seen_by
            seen = by_name[seen_by] if seen_by else _nearest(route, reading)
            made = next((each for path, each in reading.items() if _is_item(path, of=route.path_format)), None)
            if seen is not None:
                found[route.name] = Sight(route=seen, path=seen.path_format)
            elif made is not None:
                found[route.name] = Sight(route=made, path=made.path_format, of_made=True)
    return found


def _is_item(path: str, *, of: str) -> bool:
    above, _, name = path.rpartition("/")
    return above == of and name.startswith("{")


def said_of(endpoint: Callable[..., Any]) -> Audited:
    """Return what an endpoint says about how it is to be told."""
    return getattr(endpoint, _AUDITED, Audited())


def _nearest(route: RememberingRoute, reading: Mapping[str, RememberingRoute]) -> RememberingRoute | None:
    """Return what reads the longest part of a route's path that ends in a name; of a PUT or PATCH, its own path."""
    path = route.path_format
    if {"PUT", "PATCH"} & set(route.methods or ()) and path in reading:
        return reading[path]
    while len(path) > len(_TENANT):
        if path.endswith("}") and path in reading:
            return reading[path]
        path = path.rpartition("/")[0]
    return None


def _id_of(seen: Any) -> str | None:
    found = cast("dict[str, Any]", seen).get("id") if isinstance(seen, dict) else None
    return found if isinstance(found, str) else None


def _template_of(request: Request) -> str:
    return request.scope["route"].path_format


class _Values(dict[str, Any]):
    """Values of a path as they are spelt in it."""

    def __missing__(self, key: str) -> str:
        return f"{{{key}}}"


async def _reason_of(request: Request, *, has_read: bool) -> str | None:
    """Return why somebody does it, where the request says so: in its query, or in a body that was read already."""
    said: Any = request.query_params.get("reason")
    if has_read and await request.body():
        body = await request.json()
        said = cast("dict[str, Any]", body).get("reason", said) if isinstance(body, dict) else said
    return said[:MOST_REASON] if isinstance(said, str) else None


async def _nothing() -> Any:
    return {"type": "http.request", "body": b"", "more_body": False}
