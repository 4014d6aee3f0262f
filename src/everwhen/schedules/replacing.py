"""A schedule as a whole: made, or made to be all that a draft says, and left alone where it is so already.

How it begins (`since`, `paused`) is read when it is made and at no other time: what it does at present belongs to
whoever operates it. Under `smooth` flex the offset that it was assigned stays while its window does.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from everwhen.core.differences import same
from everwhen.core.flex import FlexMode
from everwhen.errors import Conflict, QuotaUsedUp
from everwhen.postgres.pool import Connection, Database
from everwhen.revisions import NONE, stale
from everwhen.schedules import service, store
from everwhen.schedules.model import CursorRow, Schedule, ScheduleDraft, ScheduleRow, Spec, seed_spec, spec_to_data
from everwhen.schedules.service import Change


async def put_new_schedule(db: Database, *, tenant_id: UUID, draft: ScheduleDraft, change: Change) -> Schedule:
    """Make a schedule as `create_schedule` does; raise PreconditionFailed when the name is taken."""
    try:
        return await service.create_schedule(db, tenant_id=tenant_id, draft=draft, change=change)
    except QuotaUsedUp:
        raise
    except Conflict:
        there = await service.get_schedule(db, tenant_id=tenant_id, name=draft.name)
        raise stale(NONE, there.revision) from None


async def replace_schedule(
    db: Database, *, tenant_id: UUID, draft: ScheduleDraft, has_owner: bool, change: Change
) -> Schedule:
    """Make a schedule all that the draft says, as `update_schedule` does; without `has_owner` its owner stays."""
    async with db.tenant(tenant_id) as conn:
        key: dict[str, Any] = {"tenant_id": tenant_id, "name": draft.name}
        cursor = await service.lock_schedule(conn, **key, change=change)
        if after := differing(cursor, draft, has_owner=has_owner):
            await service.change_schedule(conn, **key, changes=lambda _: after, change=change)
        return await service.read_schedule(conn, **key)


def differing(cursor: CursorRow, draft: ScheduleDraft, *, has_owner: bool) -> dict[str, Any]:
    """Return the fields of the draft that differ from what is stored."""
    spec = settled(draft.spec, service.spec_of(cursor), uid=cursor.uid)
    whole: Mapping[str, tuple[Any, Any, Any]] = {
        "task": (draft.task, draft.task, cursor.task),
        "spec": (spec, spec_to_data(spec), spec_to_data(service.spec_of(cursor))),
        "input": (draft.input, draft.input, json.loads(cursor.input)),
        "priority": (draft.priority, draft.priority, cursor.priority),
        "tags": (draft.tags, list(draft.tags), cursor.tags),
        **({"owner": (draft.owner, draft.owner, cursor.owner)} if has_owner else {}),
    }
    return {field: value for field, (value, wanted, present) in whole.items() if not same(wanted, present)}


def settled(spec: Spec, before: Spec, *, uid: UUID) -> Spec:
    """Return a spec as it would be stored: with what is drawn from the uid, and what it was assigned."""
    own, flex, was = seed_spec(spec, uid), spec.flex, before.flex
    if flex is None or was is None or flex.offset is not None or flex.mode is not FlexMode.SMOOTH:
        return own
    is_same = was.mode is FlexMode.SMOOTH and was.window == flex.window
    return replace(own, flex=was) if is_same else own


async def find_schedules(conn: Connection, *, tenant_id: UUID, names: Sequence[str]) -> list[ScheduleRow]:
    """Return those of these schedules that there are, in the caller's transaction."""
    return await store.list_schedules_named(conn, tenant_id=tenant_id, names=names)


async def page_schedules(
    conn: Connection, *, tenant_id: UUID, owner: str | None, after: str, limit: int
) -> list[ScheduleRow]:
    """Return up to `limit` schedules of an owner, or of everybody, after `after`, in the caller's transaction."""
    page: dict[str, Any] = {"tenant_id": tenant_id, "after": after, "limit": limit}
    if owner is None:
        return await store.list_schedules(conn, **page)
    return await store.list_schedules_of_owner(conn, **page, owner=owner)


async def lock_schedules(conn: Connection, *, tenant_id: UUID, uids: Sequence[UUID]) -> None:
    """Keep other changes away from these schedules until the transaction ends; in the order of the key."""
    await store.lock_for_rezoning(conn, tenant_ids=[tenant_id], uids=uids)


async def lock_schedule_of(conn: Connection, *, tenant_id: UUID, uid: UUID) -> CursorRow | None:
    """Lock a schedule by its uid, for a change, as `service.lock_schedule` does; None when it was deleted."""
    return await store.lock_cursor_of(conn, tenant_id=tenant_id, uid=uid)
