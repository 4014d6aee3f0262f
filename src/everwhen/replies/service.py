"""Answers that are given again, so that a request which is repeated does its work once.

One transaction holds all of it: the key is taken, the work is done, the answer is kept, and one commit makes all three
true. There is no state *in flight* that a crash could leave behind: the key is held by a lock of the transaction, which
dies with it.

    two requests at once     the second finds the key held: 409, try again
    a crash before the commit    nothing is done, nothing is kept, the key is free
    a crash after it             the next request with the key gets the answer that was made then
    a refusal (4xx, 5xx)         nothing was done, so nothing is kept: the next request is judged anew
    the same key, another request    422, as long as the answer is kept (KEPT)
"""

import json
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from everwhen.errors import InFlight, InvalidInput
from everwhen.postgres.pool import Connection
from everwhen.replies import store
from everwhen.replies.model import Keyed, Reply

KEPT: Final = timedelta(hours=24)


async def take(conn: Connection, *, tenant_id: UUID, keyed: Keyed) -> Reply | None:
    """Take a key for this transaction; return the answer that is kept under it, or None: then do the work.

    Raises InFlight when another request holds it, and InvalidInput when it stands for another request.
    """
    taken = await store.take_key(
        conn,
        tenant_id=tenant_id,
        principal=keyed.principal,
        operation=keyed.operation,
        key=keyed.key,
        now=conn.now,
    )
    if taken.status is None:
        if not taken.is_free:
            raise _in_flight()
        return None
    if taken.fingerprint != keyed.fingerprint:
        raise InvalidInput("This idempotency key stands for another request.", code="idempotency.key_reused")
    return Reply(status=taken.status, headers=json.loads(taken.headers or "{}"), body=taken.body or b"")


async def keep(conn: Connection, *, tenant_id: UUID, keyed: Keyed, reply: Reply) -> None:
    """Keep the answer with what it answers; raise InFlight when another request was answered meanwhile."""
    written = await store.keep_reply(
        conn,
        tenant_id=tenant_id,
        principal=keyed.principal,
        operation=keyed.operation,
        key=keyed.key,
        fingerprint=keyed.fingerprint,
        status=reply.status,
        headers=json.dumps(reply.headers),
        body=reply.body,
        now=conn.now,
        expires_at=conn.now + KEPT,
    )
    if not written:
        raise _in_flight()


async def sweep(conn: Connection, *, now: datetime, limit: int) -> int:
    """Delete up to `limit` answers whose time is over; return how many."""
    return await store.drop_expired(conn, now=now, limit=limit)


def _in_flight() -> InFlight:
    return InFlight("A request with this key is under way: repeat yours in a moment.", code="idempotency.in_flight")
