"""Holds inputs to the payloads that they refer to: in the transaction that writes an input, they have to be there.

Whoever writes an input shares the rows of its payloads first. A deletion locks the row and looks who refers to it, so
one of the two waits for the other: either the input finds no payload, or the deletion finds the input.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from everwhen.core.payloads import BadReferenceError, Reference, references_in
from everwhen.errors import FieldError, InvalidInput
from everwhen.payloads import store
from everwhen.postgres.pool import Connection

MOST_REFERENCES: Final = 20
SOON: Final = timedelta(0)


def read_references(value: Any, *, pointer: str = "/input") -> list[Reference]:
    """Return the payloads that an input refers to; raise InvalidInput for what only looks like a reference."""
    try:
        found = list(references_in(value, pointer=pointer))
    except BadReferenceError as error:
        raise InvalidInput.at(error.pointer, f"{error}.", code="payload.reference") from error
    if len({reference.digest for reference in found}) > MOST_REFERENCES:
        detail = f"An input refers to at most {MOST_REFERENCES} payloads."
        raise InvalidInput.at(pointer, detail, code="payload.too_many")
    return found


async def share_payloads(conn: Connection, *, tenant_id: UUID, value: Any, pointer: str = "/input") -> list[str]:
    """Return the digests that an input refers to, whose payloads stay until the caller's transaction ends.

    Raises InvalidInput when one of them is not there.
    """
    found = read_references(value, pointer=pointer)
    if not found:
        return []
    digests = sorted({reference.digest for reference in found})
    there = set(await store.share_payloads(conn, tenant_id=tenant_id, digests=digests))
    missing = [reference for reference in found if reference.digest not in there]
    if missing:
        raise InvalidInput(
            "There is no such payload: upload it first.", code="payload.unknown", errors=_errors(missing)
        )
    return digests


async def set_payloads(conn: Connection, *, tenant_id: UUID, schedule_uid: UUID, value: Any) -> None:
    """Note which payloads a schedule's input refers to; None: it refers to nothing any more. Raise InvalidInput."""
    digests = await share_payloads(conn, tenant_id=tenant_id, value=value)
    dropped = await store.delete_users(conn, tenant_id=tenant_id, schedule_uid=schedule_uid, kept=digests)
    if dropped:
        await store.look_again(conn, tenant_id=tenant_id, digests=dropped, look_at=conn.now + SOON)
    if digests:
        await store.insert_users(conn, tenant_id=tenant_id, digests=digests, schedule_uid=schedule_uid)


def _errors(missing: Sequence[Reference]) -> tuple[FieldError, ...]:
    detail = "There is no payload of this digest: upload it first."
    return tuple(FieldError(code="payload.unknown", pointer=each.pointer, detail=detail) for each in missing)
