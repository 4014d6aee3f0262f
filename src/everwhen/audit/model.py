"""What an audit event is made of."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

PLATFORM: Final = UUID(int=0)
"""The tenant whose chain is that of the platform: tenants themselves, and what concerns all of them."""

BY_ITSELF: Final = "everwhen"
"""Who changes what no person has ordered."""


class Outcome(StrEnum):
    """What became of what somebody wanted to do."""

    DONE = "done"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who does something, by which credential and with which roles, and from where."""

    subject: str
    token_id: str = ""
    kind: str = "platform"
    roles: tuple[str, ...] = ()
    address: str | None = None
    agent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """What somebody did: which operation on which resource, why, and what it was before and is after.

    `detail` is what there is to be said besides, such as the code of a refusal.
    """

    operation: str
    resource: str
    outcome: Outcome = Outcome.DONE
    request_id: str = ""
    reason: str | None = None
    before: Any = None
    after: Any = None
    detail: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """An event as it is stored, with its place in the chain; without one it is not sealed yet."""

    event_id: UUID
    record: str
    seq: int | None
    epoch: UUID | None
    hash: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Which events; None: any."""

    actor: str | None = None
    operation: str | None = None
    resource: str | None = None
    outcome: str | None = None
    request_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """Where a chain ends."""

    tenant_id: UUID
    seq: int
    hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsealed:
    """An event that has no link yet."""

    tenant_id: UUID
    event_id: UUID
    record: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A PostgreSQL server, and the timeline that it writes."""

    server: str
    timeline: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """How many events have no link yet, and since when the oldest of them."""

    unsealed: int
    oldest_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainName:
    """Whose chain it is; a tenant that is not there any more has no name."""

    tenant_id: UUID
    name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredHead:
    """Where a chain ends, as it is stored."""

    seq: int
    epoch: UUID | None
    hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainRow:
    """A link of a chain with what is stored of its event; all None: the event is not there."""

    seq: int
    event_id: UUID
    epoch: UUID
    hash: bytes
    record: str | None
    at: datetime | None
    actor: str | None
    operation: str | None
    resource: str | None
    outcome: str | None
    request_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """An event, and whether it has a link or waits for one."""

    event_id: UUID
    is_placed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Unanchored:
    """A chain that is to be noted outside: where it ends, and where it was noted last."""

    tenant_id: UUID
    seq: int
    epoch: UUID
    hash: bytes
    anchored: int
    anchored_hash: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How chains stand: how many, with something that is not noted outside, and that do not follow from what was."""

    chains: int
    unanchored: int
    broken: int
    noted_at: datetime | None
