"""Events as streams tell them."""

import json
from typing import Final
from uuid import UUID

from pydantic import BaseModel, Field, JsonValue

from everwhen.core.filters import Identifier, Values, Vocabulary, Word
from everwhen.core.lifecycle import EventKind
from everwhen.core.sentences import sentence_of
from everwhen.http.fields import Utc
from everwhen.http.reasons import ReasonCode, ReasonSentence
from everwhen.streaming.model import StreamedEvent

EVENTS: Final = Vocabulary(
    fields={
        "run": Identifier(),
        "schedule": Word(),
        "task": Word(),
        "queue": Word(),
        "kind": Word(choices=frozenset(EventKind)),
        "reason": Word(),
    }
)
"""What a stream of events is filtered by."""


class StreamedEventOut(BaseModel):
    """One decision about a run, as a stream tells it."""

    id: int
    at: Utc
    kind: EventKind | str = Field(description="A newer release may know more kinds.")
    attempt: int | None
    reason: ReasonCode | None
    reason_sentence: ReasonSentence
    detail: JsonValue
    run: UUID
    task: str | None = Field(description="Null when the run was withdrawn before it was due.")
    queue: str | None
    schedule: str | None
    due_at: Utc | None


def values_of(event: StreamedEvent) -> Values:
    """Return what an event is filtered by."""
    return {
        "run": str(event.run_id),
        "schedule": event.schedule,
        "task": event.task,
        "queue": event.queue,
        "kind": event.kind,
        "reason": event.reason,
    }


def text_of(event: StreamedEvent) -> str:
    """Return an event as JSON: put into words once, for all who hear it."""
    out = StreamedEventOut(
        id=event.event_id,
        at=event.at,
        kind=event.kind,
        attempt=event.attempt,
        reason=event.reason,
        reason_sentence=sentence_of(event.reason),
        detail=None if event.detail is None else json.loads(event.detail),
        run=event.run_id,
        task=event.task,
        queue=event.queue,
        schedule=event.schedule,
        due_at=event.due_at,
    )
    return out.model_dump_json()
