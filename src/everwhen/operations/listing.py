"""Lists of operations, and of what one is about."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from everwhen.core.bulk import OperationKind, OperationState
from everwhen.core.filters import Moment, Vocabulary, Word, within
from everwhen.lists import LAST_ID, Listed, read_filter, walk
from everwhen.operations import store
from everwhen.operations.model import FIRST_SEQ, ItemRow, ItemState, OperationRow
from everwhen.operations.service import read_operation
from everwhen.postgres.pool import Database

OPERATIONS: Final = Vocabulary(
    fields={
        "kind": Word(choices=frozenset(OperationKind)),
        "state": Word(choices=frozenset(OperationState)),
        "by": Word(),
        "created": Moment(),
    },
    short=within("created"),
)
"""What a filter of operations says."""

ITEMS: Final = Vocabulary(fields={"state": Word(choices=frozenset(ItemState)), "reason": Word()})
"""What a filter of an operation's items says."""


async def list_operations(
    db: Database, *, tenant_id: UUID, before: UUID = LAST_ID, limit: int, where: str = ""
) -> Listed[OperationRow]:
    """Return up to `limit` operations with ids below `before` that the filter `where` finds, the newest first."""
    async with db.tenant(tenant_id) as conn:
        return await walk(
            lambda before, limit: store.list_operations(conn, tenant_id=tenant_id, before=before, limit=limit),
            start=before,
            key=lambda row: row.id,
            limit=limit,
            asked=read_filter(where, OPERATIONS, now=conn.now),
            values=lambda row: {
                "kind": row.kind,
                "state": row.state,
                "by": row.requested_by,
                "created": row.created_at,
            },
        )


async def list_items(
    db: Database, *, tenant_id: UUID, operation_id: UUID, after: int = FIRST_SEQ, limit: int, where: str = ""
) -> Listed[ItemRow]:
    """Return up to `limit` items after one of them that the filter `where` finds, in their order; raise NotFound."""
    async with db.tenant(tenant_id) as conn:
        await read_operation(conn, tenant_id, operation_id)
        asked = read_filter(where, ITEMS, now=conn.now)
        state, key = asked.text("state"), {"tenant_id": tenant_id, "operation_id": operation_id}

        async def read(after: int, limit: int) -> Sequence[ItemRow]:
            if state is None:
                return await store.list_items(conn, **key, after=after, limit=limit)
            return await store.list_items_in_state(conn, **key, state=state, after=after, limit=limit)

        return await walk(
            read,
            start=after,
            key=lambda row: row.seq,
            limit=limit,
            asked=asked,
            values=lambda row: {"state": row.state, "reason": row.reason},
        )
