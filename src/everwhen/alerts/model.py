"""Channels, their receivers, and subscriptions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, Protocol
from uuid import UUID

from everwhen.core.alert_kinds import AlertKind
from everwhen.core.alerting import Scope
from everwhen.core.quiet_hours import QuietHours
from everwhen.postgres.pool import Connection

DEFAULT_WINDOW_SECONDS: Final = 30.0
MOST_REFUSALS: Final = 3
"""After how many refusals in a row a channel is disabled."""


class Sealer(Protocol):
    """Keeps what tenants entrust to the server sealed, by a key that is outside the database."""

    async def seal(self, conn: Connection, tenant_id: UUID, secrets: Mapping[str, str]) -> dict[str, bytes]:
        """Return each secret sealed, by its name."""
        ...

    async def open(self, conn: Connection, tenant_id: UUID, sealed: Mapping[str, bytes]) -> dict[str, str]:
        """Return each secret, by its name; raises where the key or the name is another."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelDraft:
    """What a channel is to be. Secrets that are not named stay as they are."""

    kind: str
    configuration: dict[str, Any]
    secrets: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    window_seconds: float = DEFAULT_WINDOW_SECONDS
    messages_an_hour: int | None = None
    quiet: QuietHours | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelRow:
    """A channel, with how it has done. `configuration` and `quiet` are JSON text."""

    name: str
    kind: str
    configuration: str
    state: str
    state_reason: str | None
    window_seconds: float
    messages_an_hour: int | None
    quiet: str | None
    failures: int
    refusals: int
    last_success_at: datetime | None
    last_failure_at: datetime | None
    last_error: str | None
    created_by: str
    revision: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedChannel:
    """A channel that nobody else changes now."""

    kind: str
    configuration: str
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OutletRow:
    """A receiver of a channel."""

    channel: str
    recipient: str
    verified_at: datetime | None
    tested_by: UUID | None
    tested_at: datetime | None
    wrong_codes: int
    unsubscribed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRow:
    """A secret of a channel, sealed."""

    channel: str
    name: str
    sealed: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """A channel with its receivers and the names of its secrets."""

    row: ChannelRow
    outlets: tuple[OutletRow, ...]
    secret_names: tuple[str, ...]

    @property
    def state(self) -> Literal["unverified", "ready", "disabled"]:
        """Whether it sends: ready when some receiver is verified."""
        if self.row.state == "disabled":
            return "disabled"
        is_verified = any(outlet.verified_at and not outlet.unsubscribed_at for outlet in self.outlets)
        return "ready" if is_verified else "unverified"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionDraft:
    """What a subscription is to be. `filter` is in its canonical spelling."""

    scope: Scope = Scope.TENANT
    target: str | None = None
    kinds: frozenset[AlertKind]
    filter: str = ""
    after_failures: int = 1
    pierces: bool = False
    is_enabled: bool = True
    channels: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionRow:
    """A subscription."""

    name: str
    scope: str
    target: str | None
    kinds: list[str]
    filter: str
    after_failures: int
    pierces: bool
    is_enabled: bool
    channels: list[str]
    created_by: str
    revision: int
    created_at: datetime
    updated_at: datetime
