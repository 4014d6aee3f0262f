"""What a change of a schedule does about its past, in the change's own transaction.

    creation   what lies between its beginning and now becomes arrears, if it begins in the past
    edit       what the new trigger intends since the old one's last instant, if its catch-up says so
    pause      what is left is held
    resume     what the pause left behind becomes arrears, and what was held goes on
    deletion   what is left is recorded as skipped

Each stretch begins where the last one ended: at the watermark, or after the last instant that the old trigger intended.
So no instant belongs to two of them.
"""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from everwhen.core.catchup import Cause, Rule
from everwhen.core.planning import Cursor
from everwhen.core.reasons import Reason
from everwhen.core.tally import last_event
from everwhen.core.triggers import start_of
from everwhen.core.zones import add
from everwhen.errors import InvalidInput
from everwhen.postgres.pool import Connection
from everwhen.runs import service as runs
from everwhen.schedules.arrears import store
from everwhen.schedules.arrears.preview import Preview, preview_of, unfinished
from everwhen.schedules.arrears.service import as_arrears, open_arrears, rule_text, stretch
from everwhen.schedules.model import CursorRow, Spec

OLDEST_BEGINNING: Final = timedelta(days=3652)
"""How far back a schedule may begin: runs are kept for ten years."""

_TICK: Final = timedelta(microseconds=1)


def beginning(spec: Spec, since: datetime | None, *, now: datetime) -> datetime | None:
    """Return the instant after which a new schedule's past begins; None: it begins at the present.

    Raises InvalidInput when `since` lies in the future, or farther back than runs are kept.
    """
    if since is None:
        if spec.catch_up.on_creation is None:
            return None
        since = start_of(spec.timing)
        return None if since is None or since > now else max(since, add(now, -OLDEST_BEGINNING)) - _TICK
    if since > now:
        raise InvalidInput.at("/since", "A schedule begins in the past, or now.", code="schedule.since")
    if since < add(now, -OLDEST_BEGINNING):
        raise InvalidInput.at("/since", "A schedule begins at most ten years ago.", code="schedule.since")
    return since - _TICK


async def begin_in_the_past(  # what a schedule's beginning is made of
    conn: Connection, *, tenant_id: UUID, uid: UUID, spec: Spec, since: datetime, is_paused: bool
) -> None:
    """Open arrears for what lies between a new schedule's beginning and now; a pause holds them."""
    begin = planning_cursor(tenant_id, uid, spec, decided_until=since)
    rule = spec.catch_up.on_creation or spec.catch_up
    past = stretch(begin, Cause.CREATION, rule, revision=1, until=conn.now, is_held=is_paused)
    await open_arrears(conn, [past], now=conn.now)


async def edit_past(conn: Connection, cursor: CursorRow, before: Spec, after: Spec) -> Preview | None:
    """Open arrears for what the new trigger intends since the old one's last instant; None: it begins at the present.

    The old one intended nothing there; what has an answer all the same, by one before it, is passed over.
    """
    rule, now = after.catch_up.on_edit, conn.now
    if rule is None or before.timing == after.timing:
        return None
    in_force = cursor.updated_at.astimezone(UTC)
    since = last_event(before.timing, after=in_force, until=now.astimezone(UTC)) or in_force
    answered = await runs.list_answered(
        conn, tenant_id=cursor.tenant_id, schedule_uid=cursor.uid, after=since, until=now
    )
    begin = planning_cursor(cursor.tenant_id, cursor.uid, after, decided_until=since, answered=answered)
    past = stretch(begin, Cause.EDIT, rule, revision=cursor.revision + 1, until=now)
    await open_arrears(conn, [past], now=now)
    found = [] if past is None else [as_arrears(past, after, now=now)]
    return await asyncio.to_thread(preview_of, found, cause=Cause.EDIT, rule=rule)


async def hold_past(conn: Connection, cursor: CursorRow) -> None:
    """Let a pause hold what is left of a schedule's past."""
    await store.hold_arrears(conn, tenant_id=cursor.tenant_id, schedule_uid=cursor.uid)


async def resume_past(conn: Connection, cursor: CursorRow, spec: Spec, *, rule: Rule) -> Preview:
    """Let what was held go on, open arrears for what the pause left behind, and say what becomes of all of it."""
    tenant_id, uid, now = cursor.tenant_id, cursor.uid, conn.now
    found = await unfinished(conn, tenant_id=tenant_id, uid=uid, rule=rule, now=now)
    await store.release_arrears(conn, tenant_id=tenant_id, schedule_uid=uid, rule=rule_text(rule), now=now)
    answered = cursor.answered or ()
    begin = planning_cursor(tenant_id, uid, spec, decided_until=cursor.decided_until, answered=answered)
    gap = stretch(begin, Cause.RESUME, rule, revision=cursor.revision + 1, until=now)
    await open_arrears(conn, [gap], now=now)
    if gap is not None:
        found.append(as_arrears(gap, spec, now=now))
    return await asyncio.to_thread(preview_of, found, cause=Cause.RESUME, rule=rule)


async def drop_past(conn: Connection, cursor: CursorRow) -> None:
    """Run nothing more of a deleted schedule's past."""
    await store.drop_arrears(
        conn,
        tenant_id=cursor.tenant_id,
        schedule_uid=cursor.uid,
        reason=Reason.SCHEDULE_DELETED,
        now=conn.now,
    )


def planning_cursor(
    tenant_id: UUID, uid: UUID, spec: Spec, *, decided_until: datetime, answered: Sequence[datetime] = ()
) -> Cursor:
    """Return what a look at a schedule starts from."""
    return Cursor(
        tenant_id=tenant_id,
        schedule_uid=uid,
        timing=spec.timing,
        flex=spec.flex,
        decided_until=decided_until,
        answered=tuple(answered),
    )
