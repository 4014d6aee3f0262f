"""What queues look like on the wire, in both directions."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field, JsonValue, Strict

from everwhen.core.sentences import sentence_of
from everwhen.core.tellings import Voice
from everwhen.http.fields import Owner, PositiveSeconds, Seconds, Tags, Utc, Wire, within_a_payload
from everwhen.http.reasons import ReasonCode, ReasonSentence
from everwhen.queues.deliveries import DELIVERIES
from everwhen.queues.model import AGEING_SECONDS, DeliveryKind, Line, QueueDraft, QueueRow, Rate, ShareRow
from everwhen.queues.service import Queue

MOST_IN_FLIGHT = 1_000_000
MOST_WEIGHT = 1_000

InFlight = Annotated[int, Strict(), Field(ge=0, le=MOST_IN_FLIGHT)]
Tokens = Annotated[int, Strict(), Field(ge=1, le=MOST_IN_FLIGHT)]
Weight = Annotated[int, Strict(), Field(ge=1, le=MOST_WEIGHT)]
Settings = Annotated[dict[str, JsonValue], AfterValidator(within_a_payload)]


class QueueRateFields(Wire):
    """How fast runs begin at most."""

    tokens: Tokens = Field(description="So many runs …")
    per_seconds: PositiveSeconds = Field(description="… begin in so many seconds.")
    burst: Tokens | None = Field(default=None, description="So many at once after a rest; null: as many as `tokens`.")


class QueueFields(Wire):
    """What a queue is, but for its name; what is left out is as by default."""

    max_in_flight: InFlight | None = Field(
        default=None, description="How many of its runs may be in flight at once; null: no limit of the tenant's."
    )
    rate: QueueRateFields | None = Field(default=None, description="How fast its runs begin at most; null: no limit.")
    delivery: DeliveryKind = Field(default=DeliveryKind.PULL, description="How runs come to its fleet.")
    delivery_settings: Settings = Field(default_factory=dict[str, JsonValue], description="What the delivery needs.")
    ageing_seconds: Seconds | None = Field(
        default=AGEING_SECONDS,
        description=(
            "A run that has waited so long for each step that its priority lies below 9 goes first; 0 or null: never."
        ),
    )
    tags: Tags = ()


class QueueReplacement(QueueFields):
    """What a queue is to be from now on; what is left out becomes the default, but for its owner, which stays."""

    owner: Owner | None = Field(default=None, description="Who declares it; left out, that stays.")


class ShareIn(Wire):
    """A tenant's place at a queue that tenants share."""

    weight: Weight = Field(default=1, description="What it gets of what is handed out there, beside other tenants'.")
    max_in_flight: InFlight | None = Field(
        default=None, description="How many of its runs may be in flight from there at once; null: no limit."
    )


class QueueRateOut(BaseModel):
    """How fast runs begin at most."""

    tokens: int
    per_seconds: float
    burst: int


class RateNowOut(BaseModel):
    """How fast runs of the queue may begin, and what is left of that now."""

    tokens: int
    seconds: float
    burst: int
    left: int = Field(description="How many may begin now.")
    next_at: Utc = Field(description="When the next one may, where none may now.")


class BlockageOut(BaseModel):
    """What keeps runs of a queue waiting."""

    reason: ReasonCode
    reason_sentence: ReasonSentence
    task: str | None = Field(description="The task whose runs it keeps; null: those of all.")
    since: Utc


class LineOut(BaseModel):
    """What stands in the queue now."""

    waiting: int = Field(description="Runs that are due and wait.")
    waiting_is_capped: bool = Field(
        description="True: more wait than were counted, so all that follows from it is more."
    )
    oldest_due_at: Utc | None = Field(description="Since when the one that waits longest does.")
    in_flight: int
    limit: int | None = Field(description="How many may be in flight, by the tenant or the platform; null: no limit.")
    tenant_limit: int | None = Field(
        description="How many runs of the tenant may be in flight at all queues together; null: no limit."
    )
    tenant_in_flight: int | None = Field(description="How many are, where there is such a limit.")
    rate: RateNowOut | None = Field(description="Its rate, and what is left of it; null: it has none.")
    paused: bool = Field(description="It, or the whole tenant, is paused.")
    workers: int = Field(description="Workers that are live and take runs of it, the platform's included.")
    slots: int = Field(description="How many runs these carry out at once, all together.")
    free_slots: int = Field(description="How many more they could take, by their last beats.")
    held_back: int = Field(description="Workers that live and take none: they are cordoned, draining or about to stop.")
    reasons: list[str] = Field(description="What keeps its runs waiting, by the reasons of `why`.")
    waits_for: list[BlockageOut] = Field(description="The same, each with its sentence, and since when.")
    last_asked_at: Utc | None = Field(
        description="When a worker of the tenant asked last; null: none in the last days."
    )
    mean_seconds: float | None = Field(description="How long its latest attempts took; null: there were none lately.")
    drain_seconds: float | None = Field(
        description="When all that waits is under way, as things go now; null: nothing goes, or nothing is known."
    )


class ShareOut(BaseModel):
    """A tenant's place at a queue, as the platform says. The revision 0 says that it never did."""

    weight: int
    max_in_flight: int | None
    revision: int
    changed_by: str | None
    changed_at: Utc | None


class QueueOut(BaseModel):
    """A queue. One that tasks only name is as by default, and has the revision 0 if it was never defined."""

    name: str
    defined: bool
    max_in_flight: int | None
    rate: QueueRateOut | None
    delivery: DeliveryKind
    delivery_settings: dict[str, JsonValue]
    has_endpoint: bool = Field(description="Whether its runs are posted to an HTTP endpoint.")
    ageing_seconds: float | None
    tags: list[str]
    owner: str | None = Field(description="Who declares it; null: nobody, it was made by hand.")
    weight: int = Field(description="Its tenant's share, where tenants share the queue.")
    revision: int
    created_at: Utc | None
    updated_at: Utc | None
    line: LineOut | None = Field(description="What stands in it now; null in the answer to a change.")


def draft_of(fields: QueueFields) -> QueueDraft:
    """Return the draft of a queue; raise InvalidInput for settings that its delivery does not take."""
    rate = fields.rate
    owner = fields.owner if isinstance(fields, QueueReplacement) else None
    return QueueDraft(
        max_in_flight=fields.max_in_flight,
        rate=rate and Rate(tokens=rate.tokens, seconds=rate.per_seconds, burst=rate.burst or rate.tokens),
        delivery=fields.delivery,
        delivery_settings=DELIVERIES[fields.delivery].read(fields.delivery_settings),
        ageing_seconds=fields.ageing_seconds or None,
        tags=fields.tags,
        owner=owner,
        has_owner="owner" in fields.model_fields_set,
    )


def queue_out(queue: Queue) -> QueueOut:
    """Return a queue as the wire has it."""
    row, rate = queue.row, queue.row.rate
    settings: dict[str, Any] = json.loads(row.delivery_settings)
    return QueueOut(
        name=row.name,
        defined=row.is_defined,
        max_in_flight=row.max_in_flight,
        rate=rate and QueueRateOut(tokens=rate.tokens, per_seconds=rate.seconds, burst=rate.burst),
        delivery=DeliveryKind(row.delivery),
        delivery_settings=settings,
        has_endpoint=row.has_endpoint,
        ageing_seconds=row.ageing_seconds,
        tags=row.tags,
        owner=row.owner,
        weight=row.weight,
        revision=row.revision,
        created_at=row.created_at,
        updated_at=row.updated_at,
        line=queue.line and line_out(queue.line),
    )


def line_out(line: Line) -> LineOut:
    """Return what stands in a queue as the wire has it."""
    return LineOut(
        waiting=line.waiting,
        waiting_is_capped=line.is_capped,
        oldest_due_at=line.oldest_due_at,
        in_flight=line.in_flight,
        limit=line.limit,
        tenant_limit=line.tenant_limit,
        tenant_in_flight=line.tenant_in_flight,
        rate=None if line.rate is None else RateNowOut.model_validate(line.rate),
        paused=line.is_paused,
        workers=line.workers,
        slots=line.slots,
        free_slots=line.free_slots,
        held_back=line.held_back,
        reasons=line.reasons,
        waits_for=[_blockage_out(each) for each in line.blockages],
        last_asked_at=line.last_asked_at,
        mean_seconds=line.mean_seconds,
        drain_seconds=line.drain_seconds,
    )


def _blockage_out(blockage: Mapping[str, Any]) -> BlockageOut:
    reason = blockage["reason"]
    return BlockageOut(
        reason=reason,
        reason_sentence=sentence_of(reason) and Voice().sentence(reason, blockage["facts"]),
        task=blockage["task"] or None,
        since=blockage["since"],
    )


def share_out(share: ShareRow) -> ShareOut:
    """Return a tenant's place at a queue as the wire has it."""
    return ShareOut(
        weight=share.weight,
        max_in_flight=share.max_in_flight,
        revision=share.revision,
        changed_by=share.changed_by,
        changed_at=share.changed_at,
    )


def fields_of(row: QueueRow) -> QueueFields:
    """Return what is there in the form that a change takes."""
    rate = row.rate
    settings: dict[str, Any] = json.loads(row.delivery_settings)
    return QueueFields(
        max_in_flight=row.max_in_flight,
        rate=rate and QueueRateFields(tokens=rate.tokens, per_seconds=rate.seconds, burst=rate.burst),
        delivery=DeliveryKind(row.delivery),
        delivery_settings=settings,
        ageing_seconds=row.ageing_seconds,
        tags=tuple(row.tags),
    )
