"""What can be done with sessions: one begins in exchange for a token, and ends by itself, unused, or when told to."""

from datetime import datetime, timedelta
from uuid import UUID

from everwhen import clock
from everwhen.http.principal import Principal
from everwhen.http.secrets import hash_of
from everwhen.identity import store
from everwhen.identity.directory import stored_principal
from everwhen.postgres.pool import Database


async def begin_session(db: Database, *, principal: Principal, lifetime: timedelta) -> tuple[str, datetime]:
    """Begin a session; return its secret, and when it ends at the latest."""
    secret = clock.new_secret()
    async with db.system() as conn:
        await store.sweep_sessions(conn, now=conn.now)
        await store.insert_session(
            conn,
            session_id=clock.new_id(conn.now),
            secret_hash=hash_of(secret),
            subject=principal.subject,
            principal=stored_principal(principal),
            now=conn.now,
            expires_at=conn.now + lifetime,
        )
        return secret, conn.now + lifetime


async def end_session(db: Database, *, session_id: UUID) -> None:
    """End a session; one that is over already stays so."""
    async with db.system() as conn:
        await store.delete_session(conn, session_id=session_id)
