"""Arrears as they are stored: see `everwhen.core.arrears` for what they are."""

import json
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from everwhen.core.arrears import Arrears, Counts
from everwhen.core.catchup import Cause, parse_rule
from everwhen.core.lifecycle import RunState
from everwhen.core.planning import Span
from everwhen.core.reasons import Reason
from everwhen.schedules.model import Spec


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrearsRow:
    """Some arrears. `rule` and `open_span` are JSON text; without a rule they wait for their schedule to be resumed.

    `look_at` is when they are worked on; None: they are finished, or a pause holds them.
    """

    tenant_id: UUID
    schedule_uid: UUID
    arrears_id: int
    cause: str
    revision: int
    rule: str | None
    skip_reason: str
    since: datetime
    until: datetime
    as_of: datetime
    late_before: datetime
    rest_after: datetime
    rest_until: datetime
    begun: bool
    first_run: datetime | None
    last_run: datetime | None
    open_span: str | None
    paced_until: datetime | None
    answered: list[datetime] | None
    runs: int
    coalesced: int
    skipped: int
    missed: int
    failures: int
    last_error: str | None
    look_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionSpec:
    """The spec of a revision as JSON text."""

    uid: UUID
    revision: int
    spec: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewArrears:
    """A stretch that becomes arrears; `rule` is JSON text, None until its schedule is resumed."""

    tenant_id: UUID
    schedule_uid: UUID
    cause: Cause
    revision: int
    rule: str | None
    skip_reason: Reason
    since: datetime
    until: datetime
    late_before: datetime
    is_held: bool = False
    answered: tuple[datetime, ...] = ()


def arrears_from_row(row: ArrearsRow, spec: Spec) -> Arrears:
    """Return what the core works on, in UTC whatever zone the database's session has; the row has a rule."""
    assert row.rule is not None  # it is worked on only then
    return Arrears(
        tenant_id=row.tenant_id,
        schedule_uid=row.schedule_uid,
        timing=spec.timing,
        flex=spec.flex,
        cause=Cause(row.cause),
        rule=parse_rule(json.loads(row.rule)),
        since=row.since.astimezone(UTC),
        stretch_until=row.until.astimezone(UTC),
        after=row.rest_after.astimezone(UTC),
        until=row.rest_until.astimezone(UTC),
        as_of=row.as_of.astimezone(UTC),
        late_before=row.late_before.astimezone(UTC),
        skip_reason=Reason(row.skip_reason),
        begun=row.begun,
        first_run=row.first_run and row.first_run.astimezone(UTC),
        last_run=row.last_run and row.last_run.astimezone(UTC),
        open_span=None if row.open_span is None else _span(json.loads(row.open_span)),
        paced_until=row.paced_until and row.paced_until.astimezone(UTC),
        answered=tuple(at.astimezone(UTC) for at in row.answered or ()),
        counts=Counts(row.runs, row.coalesced, row.skipped, row.missed),
    )


def span_to_json(span: Span | None) -> str | None:
    """Return an open span as JSON text."""
    if span is None:
        return None
    data: dict[str, Any] = {field.name: getattr(span, field.name) for field in fields(span)}
    return json.dumps(data | {"first_at": span.first_at.isoformat(), "last_at": span.last_at.isoformat()})


def _span(data: dict[str, Any]) -> Span:
    return Span(
        first_at=datetime.fromisoformat(data["first_at"]),
        last_at=datetime.fromisoformat(data["last_at"]),
        instants=data["instants"],
        verdict=RunState(data["verdict"]),
        reason=Reason(data["reason"]),
        detail=data["detail"],
    )
