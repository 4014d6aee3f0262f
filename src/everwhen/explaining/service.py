"""Explanations: find what a name means, gather the facts, have the core account for them and put it into words.

Everything is read in one transaction, and every read is bounded; what is cut off makes an explanation incomplete, never
wrong. A trigger may search long for its neighbours: that runs beside the loop, after the transaction, so that nobody
waits for it.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from everwhen.core import instants, tellings
from everwhen.core.explaining import Account, Facts, RunFacts, Told, account_for
from everwhen.core.instants import Answer, Stretch
from everwhen.core.lifecycle import RunState
from everwhen.core.reasons import Reason
from everwhen.core.tellings import Voice
from everwhen.core.timeline import Segment
from everwhen.explaining import gathering, resolving, store
from everwhen.explaining.model import RevisionRow, TaskPolicy
from everwhen.explaining.remedies import Place, Remedy, remedies_for
from everwhen.explaining.resolving import Found
from everwhen.postgres.pool import Connection, Database
from everwhen.runs.model import ref_of
from everwhen.runs.service import RunView

_LAST: Final = frozenset({Reason.QUEUE_WAITING, Reason.PRIORITY_BEHIND})


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A segment, with its sentence."""

    segment: Segment
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a run started when it did, or why there is none. `state` None: the schedule never intended it.

    `intended_at` to `until` is the span that the segments cover; it is empty for what is on time or still ahead.
    `before` and `after` are the schedule's own instants around one that it does not intend.
    """

    ref: str
    headline: str
    state: RunState | None
    reason: str | None
    intended_at: datetime
    until: datetime
    offset: timedelta
    evaluated_at: datetime
    started_at: datetime | None = None
    run_id: UUID | None = None
    schedule: str | None = None
    task: str | None = None
    queue: str | None = None
    attempts: int = 0
    segments: tuple[Said, ...] = ()
    also: tuple[Said, ...] = ()
    policy: Mapping[str, Any] = field(default_factory=dict[str, Any])
    remedies: tuple[Remedy, ...] = ()
    span: Stretch | None = None
    before: datetime | None = None
    after: datetime | None = None
    is_complete: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """What the transaction came back with."""

    found: Found
    facts: Facts | None
    revision: RevisionRow | None
    task: TaskPolicy | None
    ahead: Mapping[str, Any] = field(default_factory=dict[str, Any])


async def explain(db: Database, *, tenant_id: UUID, tenant: str, ref: str, with_errors: bool = True) -> Explanation:
    """Explain the run that `ref` names, or why there is none; `with_errors`: with what its errors say.

    Raises NotFound for what names nothing of the tenant's, InvalidInput for a name that is no time, or two times.
    """
    async with db.tenant(tenant_id) as conn:
        read = await _read(conn, tenant_id, await resolving.resolve(conn, tenant_id, ref))
    if read.found.view is not None and read.facts is not None:
        facts = read.facts if with_errors else gathering.without_errors(read.facts)
        return await _explain_run(read, read.found.view, facts, tenant=tenant)
    return await asyncio.to_thread(_explain_instant, read, tenant=tenant)


async def _read(conn: Connection, tenant_id: UUID, found: Found) -> _Read:
    view = found.view
    if view is None:
        facts, revision = await _span_facts(conn, tenant_id, found), found.revision
    else:
        facts, revision = await gathering.facts_of(conn, tenant_id, view), await _revision_of(conn, tenant_id, view)
    task = view.row.task if view is not None else revision and revision.task
    policy = None if task is None else await store.get_task_policy(conn, tenant_id=tenant_id, task=task)
    ahead = {} if view is None else await gathering.ahead_of(conn, tenant_id, view)
    return _Read(found=found, facts=facts, revision=revision, task=policy, ahead=ahead)


async def _revision_of(conn: Connection, tenant_id: UUID, view: RunView) -> RevisionRow | None:
    row = view.row
    if row.schedule_uid is None or row.schedule_revision is None:
        return None
    return await store.get_revision(
        conn, tenant_id=tenant_id, schedule_uid=row.schedule_uid, revision=row.schedule_revision
    )


async def _span_facts(conn: Connection, tenant_id: UUID, found: Found) -> Facts | None:
    """Return the facts of an instant that lies in a recorded span, as if it were a run of its own."""
    span, at = found.span, found.at
    if span is None or at is None or found.schedule_uid is None:
        return None
    run = RunFacts(
        state=RunState(span.verdict),
        source="schedule",
        queue="",
        intended_at=at,
        due_at=at,
        planned_at=max(at, span.recorded_at),
        reason=span.reason,
    )
    if span.recorded_at > at:
        run = await gathering.with_schedule(conn, tenant_id, found.schedule_uid, run)
    detail = gathering.read_detail(span.detail)
    event = Told(kind=span.verdict, at=span.recorded_at, reason=span.reason, detail=detail)
    return Facts(run=run, events=[event], attempts=[], blocked=[], observed=[], now=conn.now)


async def _explain_run(read: _Read, view: RunView, facts: Facts, *, tenant: str) -> Explanation:
    row, found = view.row, read.found
    account = _with_ahead(account_for(facts), read)
    voice = Voice(timedelta(seconds=row.utc_offset_seconds or 0))
    ended = gathering.ended_facts(facts)
    if row.reason == Reason.CALENDAR_DST_GAP:
        ended |= await asyncio.to_thread(_missing, found, facts.run.intended_at)
    headline = tellings.headline(facts.run, account, voice=voice, facts=ended, now=facts.now)
    place = Place(
        tenant=tenant,
        at=facts.run.intended_at,
        run=ref_of(row) or str(row.run_id),
        schedule=row.schedule,
        task=row.task,
        queue=row.queue,
        node=gathering.node_of(facts),
    )
    return Explanation(
        ref=ref_of(row) or str(row.run_id),
        headline=_moved(found, row.reason) + headline,
        state=view.state,
        reason=row.reason,
        intended_at=account.since,
        until=account.until,
        started_at=account.until if account.is_started else None,
        offset=voice.offset,
        evaluated_at=facts.now,
        run_id=row.run_id,
        schedule=row.schedule,
        task=row.task,
        queue=row.queue,
        attempts=row.attempts,
        segments=_said(account.segments, voice),
        also=_said(account.also, voice),
        policy=gathering.policy_of(read.revision, read.task),
        remedies=tuple(remedies_for(_to_blame(row.reason, account), place)),
        is_complete=account.is_complete,
    )


def _with_ahead(account: Account, read: _Read) -> Account:
    """Tell how many are ahead now, where that is what a run waits for."""
    last = account.segments[-1] if account.segments else None
    if not read.ahead or last is None or last.reason not in _LAST:
        return account
    told = replace(last, facts={**last.facts, **read.ahead})
    return replace(account, segments=(*account.segments[:-1], told))


def _missing(found: Found, at: datetime) -> dict[str, Any]:
    if found.timing is None:
        return {}
    missing = found.missing
    if missing is None:
        occurrence = instants.occurrence_at(at, found.timing)
        missing = occurrence.missing[0] if occurrence is not None and occurrence.missing else None
    return {} if missing is None else instants.gap_facts(missing, found.timing)


def _moved(found: Found, reason: str | None) -> str:
    """Begin with the gap, where a name means a local time that does not exist, and the run is another instant's."""
    if found.missing is None or found.timing is None or reason == Reason.CALENDAR_DST_GAP:
        return ""
    local = found.missing.isoformat(sep=" ", timespec="minutes")
    return f"{local} does not exist in {found.timing.timezone}; this run stands for it. "


def _explain_instant(read: _Read, *, tenant: str) -> Explanation:
    found, now = read.found, read.found.now
    assert found.at is not None
    assert found.schedule is not None
    voice = Voice(found.schedule.timing.zone.local(found.at).utcoffset() or timedelta())
    intended = instants.occurrence_at(found.at, found.schedule.timing) is not None
    facts, span = read.facts if intended else None, None
    if facts is not None and found.span is not None:
        account = account_for(facts)
        answer = Answer(opening="", reason=None, state=facts.run.state)
        spans = [Stretch(first_at=s.first_at, last_at=s.last_at, instants=s.instants) for s in found.spans]
        span = instants.joined(spans, found.at, found.schedule.timing)
        headline = _span_headline(span, facts, account, voice)
        reason: str | None = facts.run.reason
    else:
        answer = instants.answer_for(found.at, found.schedule, now=now)
        account = _waited(found.at, answer, now)
        reason = answer.reason
        headline = f"{answer.opening} {voice.sentence(reason, answer.facts)}" if reason else answer.opening
    place = Place(tenant=tenant, at=found.at, run=None, schedule=found.schedule.name, task=None)
    return Explanation(
        ref=f"{found.schedule.name}@{found.local}",
        headline=headline,
        state=answer.state,
        reason=reason,
        intended_at=found.at,
        until=account.until,
        offset=voice.offset,
        evaluated_at=now,
        schedule=found.schedule.name,
        task=read.revision and read.revision.task,
        segments=_said(account.segments, voice),
        policy=gathering.policy_of(read.revision, read.task),
        remedies=tuple(remedies_for(_to_blame(reason, account), place)),
        span=span,
        before=answer.before,
        after=answer.after,
        is_complete=answer.is_complete,
    )


def _span_headline(span: Stretch, facts: Facts, account: Account, voice: Voice) -> str:
    ended = gathering.ended_facts(facts)
    told = tellings.headline(facts.run, account, voice=voice, facts=ended, now=facts.now)
    state, rest = told.split(". ", 1)
    among = f"one of {span.instants:,} instants from {voice.instant(span.first_at)} to {voice.instant(span.last_at)}"
    return f"{state}, {among}. {rest}"


def _waited(at: datetime, answer: Answer, now: datetime) -> Account:
    until = max(at, now) if answer.waits else at
    segment = Segment(since=at, until=until, reason=answer.reason or "", facts=answer.facts)
    segments = (segment,) if until > at else ()
    return Account(since=at, until=until, segments=segments, also=(), is_complete=answer.is_complete)


def _said(segments: Iterable[Segment], voice: Voice) -> tuple[Said, ...]:
    return tuple(Said(segment=each, sentence=voice.sentence(each.reason, each.facts)) for each in segments)


def _to_blame(reason: str | None, account: Account) -> list[str]:
    """The reasons to act on: how it ended, then what cost most time, then what blocked it besides."""
    found = [] if reason is None else [reason]
    found += tellings.worst(account.segments) if account.lateness > tellings.ON_TIME else []
    return [*found, *(each.reason for each in account.also)]
