"""Lists of schedules: by a tag along its key, by their names otherwise; what else a filter asks is checked row by row.

What is checked stands in the head of a schedule, so that whatever a filter passes over costs little.
"""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from everwhen.core.filters import Filter, Values, Vocabulary, Word
from everwhen.core.targets import workflow_of
from everwhen.lists import Listed, Read, read_filter, walk
from everwhen.postgres.pool import Connection
from everwhen.schedules import store
from everwhen.schedules.model import CursorRow, ScheduleHead, ScheduleRow, ScheduleState

SCHEDULES: Final = Vocabulary(
    fields={
        "tag": Word(),
        "state": Word(choices=frozenset({ScheduleState.ACTIVE, ScheduleState.PAUSED})),
        "task": Word(),
        "workflow": Word(),
    }
)


async def list_rows(conn: Connection, *, tenant_id: UUID, text: str, after: str, limit: int) -> Listed[ScheduleRow]:
    """Return up to `limit` schedules after `after` that a filter finds, by name; raise InvalidInput."""
    asked = read_filter(text, SCHEDULES, now=conn.now)
    if not asked.terms:
        page: dict[str, Any] = {"tenant_id": tenant_id}
        return await walk(
            lambda after, limit: store.list_schedules(conn, **page, after=after, limit=limit),
            start=after,
            key=lambda row: row.name,
            limit=limit,
        )
    found = await list_heads(conn, tenant_id=tenant_id, asked=asked, after=after, limit=limit)
    names = [head.name for head in found.rows]
    rows = await store.list_schedules_named(conn, tenant_id=tenant_id, names=names)
    return Listed(rows=rows, following=found.following, asked=asked)


async def list_heads(
    conn: Connection, *, tenant_id: UUID, asked: Filter, after: str, limit: int
) -> Listed[ScheduleHead]:
    """Return the heads of up to `limit` schedules after `after` that a filter finds, by name."""
    return await walk(
        _along(conn, tenant_id, asked),
        start=after,
        key=lambda head: head.name,
        limit=limit,
        asked=asked,
        values=said_of,
    )


def _along(conn: Connection, tenant_id: UUID, asked: Filter) -> Read[str, ScheduleHead]:
    tag = asked.text("tag")

    async def read(after: str, limit: int) -> Sequence[ScheduleHead]:
        if tag is None:
            return await store.list_heads(conn, tenant_id=tenant_id, after=after, limit=limit)
        return await store.list_heads_tagged(conn, tenant_id=tenant_id, tag=tag, after=after, limit=limit)

    return read


def said_of(head: ScheduleHead | CursorRow) -> Values:
    """Return what a filter compares a schedule by."""
    workflow = workflow_of(head.task)
    return {
        "tag": head.tags,
        "state": head.state,
        "task": None if workflow else head.task,
        "workflow": workflow,
    }
