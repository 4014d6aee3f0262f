"""What can be done with tokens, members and revocations.

A revocation is written and announced in one transaction; every copy of the API acts on it within seconds, whether it
hears the announcement or not (`http/revocations.py`). Revoking a service token also writes one, so that a copy which
remembers the token lets it in no longer. Whoever makes something also forgets a little of what is over: nothing here
needs a role that cleans up.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from everwhen import clock
from everwhen.core.filters import Moment, Vocabulary, Word, within
from everwhen.core.quotas import Limit
from everwhen.errors import Conflict, InvalidInput, NotFound
from everwhen.http.revocations import EVERYWHERE
from everwhen.http.secrets import hash_of, new_service_secret
from everwhen.identity import store
from everwhen.identity.model import Member, Revocation, RevocationWish, ServiceToken, TokenState, TokenWish
from everwhen.limits import quotas
from everwhen.lists import Listed, read_filter, walk
from everwhen.postgres.pool import Connection, Database
from everwhen.postgres.wakeups import notify, queue_topic
from everwhen.revisions import ANY, Expected, refuse_stale, stale

MOST_REVOCATIONS: Final = 10_000
KEPT: Final = timedelta(days=90)
"""How long a token that holds no longer stays in the list."""

TOPIC: Final = queue_topic(None, "revocations")

TOKENS: Final = Vocabulary(
    fields={
        "name": Word(),
        "role": Word(),
        "state": Word(choices=frozenset(TokenState)),
        "by": Word(),
        "created": Moment(),
    },
    short=within("created"),
)
MEMBERS: Final = Vocabulary(fields={"role": Word(), "by": Word(), "changed": Moment()}, short=within("changed"))
REVOCATIONS: Final = Vocabulary(
    fields={"kind": Word(choices=frozenset({"token", "subject"})), "by": Word(), "revoked": Moment()},
    short=within("revoked"),
)
"""What a filter of each list says."""


async def create_token(
    db: Database, *, tenant_id: UUID, wish: TokenWish, lifetime: timedelta
) -> tuple[ServiceToken, str]:
    """Make a service token; return it and its secret, which nobody can be told again."""
    secret = new_service_secret()
    async with db.tenant(tenant_id) as conn:
        await store.sweep_service_tokens(conn, tenant_id=tenant_id, before=conn.now - KEPT)
        made = await store.insert_service_token(
            conn,
            tenant_id=tenant_id,
            token_id=clock.new_id(conn.now),
            name=wish.name,
            roles=wish.roles,
            queues=wish.queues,
            tasks=wish.tasks,
            secret_hash=hash_of(secret),
            created_by=wish.by,
            now=conn.now,
            expires_at=conn.now + lifetime,
        )
        if made is None:
            raise Conflict("There is a token of this name that was not revoked.", code="token.exists")
        await quotas.refuse_over(conn, Limit.TOKENS, count_tokens, tenant_id=tenant_id)
    return made, secret


async def count_tokens(conn: Connection, *, tenant_id: UUID) -> int:
    """Return how many tokens hold, in the caller's transaction."""
    return await store.count_live_tokens(conn, tenant_id=tenant_id, now=conn.now)


async def count_members(conn: Connection, *, tenant_id: UUID) -> int:
    """Return how many members there are, in the caller's transaction."""
    return await store.count_members(conn, tenant_id=tenant_id)


async def list_tokens(
    db: Database, *, tenant_id: UUID, before: UUID, limit: int, where: str = ""
) -> tuple[Listed[ServiceToken], datetime]:
    """Return up to `limit` tokens that the filter `where` finds, the newest first, and the present instant."""
    async with db.tenant(tenant_id) as conn:
        now = conn.now
        found = await walk(
            lambda before, limit: store.list_service_tokens(conn, tenant_id=tenant_id, before=before, limit=limit),
            start=before,
            key=lambda row: row.token_id,
            limit=limit,
            asked=read_filter(where, TOKENS, now=now),
            values=lambda row: {
                "name": row.name,
                "role": row.roles,
                "state": row.state(now),
                "by": row.created_by,
                "created": row.created_at,
            },
        )
    return found, now


async def get_token(db: Database, *, tenant_id: UUID, token_id: UUID) -> tuple[ServiceToken, datetime]:
    """Return one, and the present instant; raise NotFound."""
    async with db.tenant(tenant_id) as conn:
        found, now = await store.get_service_token(conn, tenant_id=tenant_id, token_id=token_id), conn.now
    if found is None:
        raise _no_token()
    return found, now


async def renew_token(
    db: Database, *, tenant_id: UUID, token_id: UUID, lifetime: timedelta, grace: timedelta
) -> tuple[ServiceToken, str]:
    """Give a token a new secret and a new life; the one that it had holds for `grace`."""
    secret = new_service_secret()
    async with db.tenant(tenant_id) as conn:
        renewed = await store.renew_service_token(
            conn,
            tenant_id=tenant_id,
            token_id=token_id,
            secret_hash=hash_of(secret),
            previous_until=conn.now + grace,
            now=conn.now,
            expires_at=conn.now + lifetime,
        )
    if renewed is None:
        raise _no_token()
    return renewed, secret


async def revoke_token(db: Database, *, tenant_id: UUID, token_id: UUID, by: str, keep: timedelta) -> None:
    """End a service token; raise NotFound. Doing it again changes nothing."""
    async with db.tenant(tenant_id) as conn:
        if await store.get_service_token(conn, tenant_id=tenant_id, token_id=token_id) is None:
            raise _no_token()
        await store.revoke_service_token(conn, tenant_id=tenant_id, token_id=token_id, revoked_by=by, now=conn.now)
        wish = RevocationWish(kind="token", value=str(token_id), reason="The service token was revoked.", by=by)
        await _write_revocation(conn, tenant_id=tenant_id, wish=wish, keep=keep)


async def put_member(
    db: Database, *, tenant_id: UUID, subject: str, roles: list[str], by: str, expected: Expected = ANY
) -> Member:
    """Let somebody in, or say anew what a member may do.

    Raises PreconditionFailed when it is not the revision that was expected, NotFound when one was and nobody is there.
    """
    async with db.tenant(tenant_id) as conn:
        known = await store.get_member(conn, tenant_id=tenant_id, subject=subject)
        if known is not None:
            refuse_stale(expected, known.revision)
        elif expected.revisions is not None and not expected.absent:
            raise _no_member()
        written = await store.put_member(
            conn, tenant_id=tenant_id, subject=subject, roles=roles, by=by, among=expected.among, now=conn.now
        )
        if written is None:  # somebody else was quicker
            raise stale(expected, 1 if known is None else known.revision + 1)
        if known is None:
            await quotas.refuse_over(conn, Limit.MEMBERS, count_members, tenant_id=tenant_id)
        return written


async def list_members(db: Database, *, tenant_id: UUID, after: str, limit: int, where: str = "") -> Listed[Member]:
    """Return up to `limit` members that the filter `where` finds, by their subjects, those after `after`."""
    async with db.tenant(tenant_id) as conn:
        return await walk(
            lambda after, limit: store.list_members(conn, tenant_id=tenant_id, after=after, limit=limit),
            start=after,
            key=lambda row: row.subject,
            limit=limit,
            asked=read_filter(where, MEMBERS, now=conn.now),
            values=lambda row: {"role": row.roles, "by": row.added_by, "changed": row.changed_at},
        )


async def get_member(db: Database, *, tenant_id: UUID, subject: str) -> Member:
    """Return one; raise NotFound."""
    async with db.tenant(tenant_id) as conn:
        found = await store.get_member(conn, tenant_id=tenant_id, subject=subject)
    if found is None:
        raise _no_member()
    return found


async def remove_member(db: Database, *, tenant_id: UUID, subject: str, expected: Expected = ANY) -> None:
    """Let somebody in no longer; raise NotFound, and PreconditionFailed at another revision."""
    async with db.tenant(tenant_id) as conn:
        if not await store.delete_member(conn, tenant_id=tenant_id, subject=subject, among=expected.among):
            known = await store.get_member(conn, tenant_id=tenant_id, subject=subject)
            raise _no_member() if known is None else stale(expected, known.revision)


async def revoke(db: Database, *, tenant_id: UUID | None, wish: RevocationWish, keep: timedelta) -> Revocation:
    """Revoke a token by its id, or a subject's tokens; without a tenant everywhere."""
    async with db.system() if tenant_id is None else db.tenant(tenant_id) as conn:
        return await _write_revocation(conn, tenant_id=tenant_id or EVERYWHERE, wish=wish, keep=keep)


async def list_revocations(
    db: Database, *, tenant_id: UUID | None, after: str, limit: int, where: str = ""
) -> Listed[Revocation]:
    """Return up to `limit` that are in force and that the filter `where` finds, by kind and value."""
    async with db.system() if tenant_id is None else db.tenant(tenant_id) as conn:
        scope, now = tenant_id or EVERYWHERE, conn.now

        async def read(after: str, limit: int) -> Sequence[Revocation]:
            kind, _, value = after.partition(":")
            return await store.list_revocations(
                conn, tenant_id=scope, after_kind=kind, after_value=value, now=now, limit=limit
            )

        return await walk(
            read,
            start=after,
            key=lambda row: f"{row.kind}:{row.value}",
            limit=limit,
            asked=read_filter(where, REVOCATIONS, now=now),
            values=lambda row: {"kind": row.kind, "by": row.revoked_by, "revoked": row.revoked_at},
        )


async def _write_revocation(conn: Connection, *, tenant_id: UUID, wish: RevocationWish, keep: timedelta) -> Revocation:
    until = wish.issued_until or conn.now
    if until > conn.now:
        raise InvalidInput.at("/issued_until", "Only what was issued already can be revoked.", code="revocation.future")
    await store.sweep_revocations(conn, tenant_id=tenant_id, now=conn.now)
    if await store.count_revocations(conn, tenant_id=tenant_id, now=conn.now) >= MOST_REVOCATIONS:
        raise Conflict("There are too many revocations: revoke by subject instead.", code="revocation.too_many")
    written = await store.put_revocation(
        conn,
        tenant_id=tenant_id,
        kind=wish.kind,
        value=wish.value,
        issued_until=until,
        reason=wish.reason,
        by=wish.by,
        now=conn.now,
        expires_at=conn.now + keep,
    )
    await notify(conn, [TOPIC])
    return written


def _no_token() -> NotFound:
    return NotFound("There is no such token.", code="token.unknown")


def _no_member() -> NotFound:
    return NotFound("There is no such member.", code="member.unknown")
