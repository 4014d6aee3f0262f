"""What the handlers of the control API need, made once by the composition and kept on the application."""

import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final, Protocol, cast
from uuid import UUID

from starlette.requests import Request

from everwhen.core.quotas import Limit
from everwhen.http.addresses import Network
from everwhen.http.auth import Authenticator
from everwhen.http.counting import Counter
from everwhen.postgres.pool import Connection, Database

BODY_BYTES: Final = 1_048_576
DATABASE: Final = "everwhen.database"
"""The key in a request's scope of the transaction that its handler takes part in."""

OnReady = Callable[[Connection, UUID, str], Awaitable[None]]
"""Called inside the transaction that lines up a run which is due at once: (connection, tenant, queue)."""

OnEnded = Callable[[Connection, Sequence[Any], datetime], Awaitable[None]]
"""Called inside the transaction that ends runs which somebody follows: see everwhen.runs.ends."""


async def nobody_follows(conn: Connection, ended: Sequence[Any], now: datetime) -> None:
    """Do nothing."""


class NamedTenant(Protocol):
    """A tenant, as much of it as the edge needs."""

    @property
    def id(self) -> UUID:
        """The id that is in every key."""
        ...

    @property
    def name(self) -> str:
        """The name that is in every path."""
        ...

    @property
    def created_at(self) -> datetime:
        """Since when it exists."""
        ...


class FindTenant(Protocol):
    """Look a tenant up for a caller who is bound to one (its id) or to none; raise NotFound."""

    def __call__(self, db: Database, *, name: str, bound_to: UUID | None) -> Awaitable[NamedTenant]:
        """Return the tenant of this name."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityLimits:
    """How long what lets somebody in may last. A revocation is kept for as long as any token lives."""

    service_token_most: timedelta = timedelta(days=30)
    revocation_keep: timedelta = timedelta(days=1, minutes=1)
    session_most: timedelta = timedelta(hours=12)
    session_idle: timedelta = timedelta(minutes=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlane:
    """The parts. `on_ready` wakes whoever waits for work, `on_ended` does what follows from the end of a run.

    `cursor_key` seals cursors: all copies of the API need the same one. `usual_limits` are those that settings say.
    """

    database: Database
    authenticator: Authenticator
    find_tenant: FindTenant
    on_ready: OnReady | None = None
    on_ended: OnEnded = nobody_follows
    body_bytes_max: int = BODY_BYTES
    cursor_key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    payloads: Any = None  # everwhen.payloads.service.Payloads, which this layer is below of
    streams: Any = None  # everwhen.streaming.hub.Hub, which it is below of, too
    identity: IdentityLimits = IdentityLimits()
    trusted: Sequence[Network] = ()
    """The proxies that are believed when they say who called them."""
    counter: Counter | None = None
    refusals: Any = None  # everwhen.http.refusals.Refusals, which tells by this plane's database
    usual_limits: Mapping[Limit, int] = field(default_factory=dict[Limit, int])


def plane_of(request: Request) -> ControlPlane:
    """Return the parts that serve this request."""
    return cast("ControlPlane", request.app.state.plane)


def acting_plane(request: Request) -> ControlPlane:
    """Return the parts as a handler is to use them: where it takes part in a transaction, with that as its database."""
    plane, taking_part_in = plane_of(request), request.scope.get(DATABASE)
    return plane if taking_part_in is None else replace(plane, database=taking_part_in)
