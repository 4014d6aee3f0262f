"""Channels, subscriptions and deliveries as the API tells them."""

import json
from typing import Annotated, Any, Final, Literal, cast

from pydantic import AfterValidator, BaseModel, Field, Strict

from everwhen.alerts.model import DEFAULT_WINDOW_SECONDS, Channel, ChannelDraft, SubscriptionDraft, SubscriptionRow
from everwhen.core.alert_kinds import SUBSCRIBABLE, AlertKind
from everwhen.core.alerting import MOST_AFTER, Scope
from everwhen.core.errors import TriggerError
from everwhen.core.quiet_hours import QuietHours, parse_quiet
from everwhen.errors import InvalidInput
from everwhen.http.fields import Name, Payload, Utc, Wire

MOST_SECRET: Final = 4_096
_KINDS: Final = ", ".join(sorted(SUBSCRIBABLE))


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("it is an object")  # noqa: TRY004  # pydantic's protocol
    return cast("dict[str, Any]", value)


def _kind(value: str) -> AlertKind:
    if value not in SUBSCRIBABLE:
        raise ValueError(f"a kind is one of {_KINDS}")
    return AlertKind(value)


Configuration = Annotated[Payload, AfterValidator(_object)]
Secret = Annotated[str, Field(max_length=MOST_SECRET)]
KindName = Annotated[str, AfterValidator(_kind)]


class QuietHoursWire(Wire):
    """When nobody is to be disturbed, in local time: what is not urgent comes as one digest at the end."""

    zone: str = Field(max_length=64, description="The IANA zone of the two times.")
    begins: str = Field(max_length=5, description="Such as 22:00.")
    ends: str = Field(max_length=5, description="Such as 07:00; equal to `begins`: a whole day.")
    days: list[str] | None = Field(
        default=None, min_length=1, max_length=7, description="On which they begin: mon, tue …; null: every day."
    )

    def parsed(self) -> QuietHours:
        """Return the quiet hours; raises InvalidInput."""
        try:
            return parse_quiet(self.model_dump(exclude_none=True))
        except TriggerError as error:
            raise InvalidInput.at(f"/quiet_hours/{error.field}", error.message, code=error.code) from error


class ChannelSettings(Wire):
    """What a channel is made of."""

    kind: str = Field(max_length=40, description="email, webhook or slack.")
    configuration: Configuration = Field(description="Where it sends to, as its kind has it.")
    secrets: dict[str, Secret] = Field(
        default_factory=dict[str, str],
        max_length=8,
        description="Write-only, sealed at rest. One that is not named stays as it is; an empty text removes it.",
    )
    window_seconds: Annotated[float, Strict(), Field(ge=0, le=86_400, allow_inf_nan=False)] = Field(
        default=DEFAULT_WINDOW_SECONDS,
        description="How long after a message the next one leaves at the soonest; what happens meanwhile is folded.",
    )
    messages_an_hour: Annotated[int, Strict(), Field(ge=1, le=36_000)] | None = Field(
        default=None, description="At most so many to each receiver; what is more is folded. Null: the window alone."
    )
    quiet_hours: QuietHoursWire | None = None

    def draft(self) -> ChannelDraft:
        """Return the channel that is asked for; raises InvalidInput for quiet hours that cannot be."""
        return ChannelDraft(
            kind=self.kind,
            configuration=_object(self.configuration),
            secrets=self.secrets,
            window_seconds=self.window_seconds,
            messages_an_hour=self.messages_an_hour,
            quiet=None if self.quiet_hours is None else self.quiet_hours.parsed(),
        )


class ChannelIn(ChannelSettings):
    """A channel to be defined."""

    name: Name


class ReceiverOut(BaseModel):
    """Whom a channel reaches."""

    recipient: str = Field(description="An address; empty where the channel has one receiver.")
    verified_at: Utc | None = Field(description="Null: it gets nothing but tests.")
    tested_at: Utc | None
    unsubscribed_at: Utc | None = Field(description="Since when it gets nothing, by its own wish.")


class HealthOut(BaseModel):
    """How a channel has done."""

    failures: int = Field(description="Tries in a row that came to nothing.")
    last_success_at: Utc | None
    last_failure_at: Utc | None
    last_error: str | None


class ChannelOut(BaseModel):
    """A channel, without its secrets."""

    name: str
    kind: str
    configuration: dict[str, Any]
    secrets: list[str] = Field(description="The names of those that are set; what they are is never told.")
    state: Literal["unverified", "ready", "disabled"] = Field(description="Ready: some receiver is verified.")
    state_reason: str | None
    window_seconds: float
    messages_an_hour: int | None
    quiet_hours: QuietHoursWire | None
    receivers: list[ReceiverOut]
    health: HealthOut
    created_by: str
    revision: int
    created_at: Utc
    updated_at: Utc


class SubscriptionSettings(Wire):
    """Who wants to hear of what."""

    kinds: list[KindName] = Field(min_length=1, max_length=40, description=f"Some of {_KINDS}.")
    channels: list[Name] = Field(min_length=1, max_length=20)
    scope: Scope = Field(default=Scope.TENANT, description="What it is about.")
    target: str | None = Field(
        default=None,
        min_length=1,
        max_length=220,
        description="The schedule, task, workflow or tag; null for the tenant.",
    )
    filter: str = Field(default="", max_length=1_000, description="In the grammar of filters, on what happened.")
    after_failures: Annotated[int, Strict(), Field(ge=1, le=MOST_AFTER)] = Field(
        default=1, description="Only the n-th failure in a row is told, and only a recovery after as many."
    )
    pierces: bool = Field(default=False, description="Whether errors come through the quiet hours of its channels.")
    enabled: bool = True

    def draft(self) -> SubscriptionDraft:
        """Return the subscription that is asked for."""
        return SubscriptionDraft(
            scope=self.scope,
            target=self.target,
            kinds=frozenset(AlertKind(kind) for kind in self.kinds),
            filter=self.filter,
            after_failures=self.after_failures,
            pierces=self.pierces,
            is_enabled=self.enabled,
            channels=tuple(self.channels),
        )


class SubscriptionIn(SubscriptionSettings):
    """A subscription to be made."""

    name: Name


class SubscriptionOut(BaseModel):
    """A subscription."""

    name: str
    kinds: list[str]
    channels: list[str]
    scope: Scope
    target: str | None
    filter: str
    after_failures: int
    pierces: bool
    enabled: bool
    created_by: str
    revision: int
    created_at: Utc
    updated_at: Utc


def channel_out(channel: Channel) -> ChannelOut:
    """Tell a channel."""
    row = channel.row
    return ChannelOut(
        name=row.name,
        kind=row.kind,
        configuration=json.loads(row.configuration),
        secrets=list(channel.secret_names),
        state=channel.state,
        state_reason=row.state_reason,
        window_seconds=row.window_seconds,
        messages_an_hour=row.messages_an_hour,
        quiet_hours=None if row.quiet is None else QuietHoursWire(**json.loads(row.quiet)),
        receivers=[
            ReceiverOut(
                recipient=outlet.recipient,
                verified_at=outlet.verified_at,
                tested_at=outlet.tested_at,
                unsubscribed_at=outlet.unsubscribed_at,
            )
            for outlet in channel.outlets
        ],
        health=HealthOut(
            failures=row.failures,
            last_success_at=row.last_success_at,
            last_failure_at=row.last_failure_at,
            last_error=row.last_error,
        ),
        created_by=row.created_by,
        revision=row.revision,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def subscription_out(row: SubscriptionRow) -> SubscriptionOut:
    """Tell a subscription."""
    return SubscriptionOut(
        name=row.name,
        kinds=row.kinds,
        channels=row.channels,
        scope=Scope(row.scope),
        target=row.target,
        filter=row.filter,
        after_failures=row.after_failures,
        pierces=row.pierces,
        enabled=row.is_enabled,
        created_by=row.created_by,
        revision=row.revision,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
