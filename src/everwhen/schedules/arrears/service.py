"""Arrears of a schedule: what becomes of them when they are opened, and what is left of them."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from everwhen.core.arrears import Arrears, overdue, skip_reason_of
from everwhen.core.catchup import CatchUpPolicy, Cause, Rule, parse_rule, rule_to_json
from everwhen.core.planning import Cursor
from everwhen.core.tally import last_event
from everwhen.postgres.fetch import instants_text
from everwhen.postgres.pool import Connection
from everwhen.schedules.arrears import store
from everwhen.schedules.arrears.model import ArrearsRow, NewArrears
from everwhen.schedules.model import Spec

MOST_TOLD: Final = 100
"""How many unfinished arrears of one schedule a preview looks at."""


def overdue_arrears(cursor: Cursor, spec: Spec, *, revision: int, now: datetime) -> NewArrears | None:
    """Return the arrears that an outage left behind a schedule's watermark; None: it is not behind."""
    until = overdue(cursor, now=now, grace=spec.catch_up.grace, rule=spec.catch_up)
    if until is None:
        return None
    return NewArrears(
        tenant_id=cursor.tenant_id,
        schedule_uid=cursor.schedule_uid,
        cause=Cause.OUTAGE,
        revision=revision,
        rule=rule_text(spec.catch_up),
        skip_reason=skip_reason_of(Cause.OUTAGE),
        since=cursor.decided_until,
        until=until,
        late_before=now - spec.catch_up.grace,
        answered=_within(cursor, until),
    )


def stretch(  # what a stretch is made of
    cursor: Cursor, cause: Cause, rule: Rule | None, *, revision: int, until: datetime, is_held: bool = False
) -> NewArrears | None:
    """Return what lies between a cursor and an instant as arrears; None when there is nothing in it."""
    since, until = cursor.decided_until.astimezone(UTC), until.astimezone(UTC)
    if since >= until or (last := last_event(cursor.timing, after=since, until=until)) is None:
        return None
    return NewArrears(
        tenant_id=cursor.tenant_id,
        schedule_uid=cursor.schedule_uid,
        cause=cause,
        revision=revision,
        rule=None if rule is None else rule_text(rule),
        skip_reason=skip_reason_of(cause),
        since=since,
        until=last,
        late_before=until,
        is_held=is_held,
        answered=_within(cursor, last),
    )


def _within(cursor: Cursor, until: datetime) -> tuple[datetime, ...]:
    return tuple(at for at in cursor.answered if cursor.decided_until < at <= until)


def unfinished_grace(cursor: Cursor, *, revision: int, until: datetime) -> NewArrears | None:
    """Return what is merely late as arrears that run all of it, as if in time: there is too much of it for one look."""
    rule = Rule(policy=CatchUpPolicy.REPLAY, priority_offset=0)
    return stretch(cursor, Cause.OUTAGE, rule, revision=revision, until=until)


def rule_text(rule: Rule) -> str:
    """Return a rule as it is stored."""
    return json.dumps(rule_to_json(rule))


async def open_arrears(conn: Connection, arrears: Sequence[NewArrears | None], *, now: datetime) -> None:
    """Write new arrears, in the transaction that moves the watermark past them."""
    found = [each for each in arrears if each is not None]
    if not found:
        return
    await store.insert_arrears(
        conn,
        tenant_ids=[each.tenant_id for each in found],
        schedule_uids=[each.schedule_uid for each in found],
        causes=[each.cause.value for each in found],
        revisions=[each.revision for each in found],
        rules=[each.rule for each in found],
        skip_reasons=[each.skip_reason.value for each in found],
        sinces=[each.since for each in found],
        untils=[each.until for each in found],
        late_befores=[each.late_before for each in found],
        helds=[each.is_held for each in found],
        answered=[instants_text(each.answered) for each in found],
        now=now,
    )


async def list_arrears(
    conn: Connection, *, tenant_id: UUID, schedule_uid: UUID, before: int, limit: int
) -> list[ArrearsRow]:
    """Return arrears of a schedule, the newest first."""
    return await store.list_arrears(conn, tenant_id=tenant_id, schedule_uid=schedule_uid, before=before, limit=limit)


async def list_unfinished(conn: Connection, *, tenant_id: UUID, schedule_uid: UUID) -> list[ArrearsRow]:
    """Return what is left of a schedule's past, the oldest first."""
    return await store.list_unfinished(conn, tenant_id=tenant_id, schedule_uid=schedule_uid, limit=MOST_TOLD)


def as_arrears(new: NewArrears, spec: Spec, *, now: datetime) -> Arrears:
    """Return new arrears as the core works on them; they have a rule."""
    assert new.rule is not None  # it is known when they are told about
    return Arrears(
        tenant_id=new.tenant_id,
        schedule_uid=new.schedule_uid,
        timing=spec.timing,
        flex=spec.flex,
        cause=new.cause,
        rule=parse_rule(json.loads(new.rule)),
        since=new.since.astimezone(UTC),
        stretch_until=new.until,
        after=new.since.astimezone(UTC),
        until=new.until,
        as_of=now.astimezone(UTC),
        late_before=new.late_before.astimezone(UTC),
        skip_reason=new.skip_reason,
        answered=tuple(at.astimezone(UTC) for at in new.answered),
    )
