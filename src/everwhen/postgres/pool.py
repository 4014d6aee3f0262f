"""Two pools, one per group role, and the only two ways to get a connection from them.

    async with db.tenant(tenant_id) as conn:   one transaction that sees this tenant's rows only
    async with db.system() as conn:            one transaction of a role that works for all tenants

Both pools log in as the same role, which owns nothing; the connection's start-up options give it the group role, so no
statement of ours can forget to. A tenant's transaction opens with one round trip that also names the tenant; the
setting ends with the transaction. That round trip is the check of the pooled connection, too: one that died in the pool
is replaced before the caller sees it, which is safe because nothing was done on it yet.

What makes each way to end safe:

* The block raises or is cancelled: rolled back, or the connection is closed.
* Cancelled while committing: a commit is never cancelled, because a server that waits for its standby answers a cancel
  with *success*. The commit is given COMMIT_GRACE to end; then the socket is cut and the outcome stays unknown.
* The connection breaks while committing, or the server says that it stopped waiting for its standby:
  IndeterminateCommitError, and the connection is not used again.
* Nothing answers at all (a frozen server still acknowledges on TCP, and libpq's time-outs see nothing): a watchdog cuts
  the socket after `transaction_seconds`.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, Protocol, Self
from uuid import UUID

import psycopg
from psycopg import AsyncConnection, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.errors import Diagnostic
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow
from psycopg.types.array import ListBinaryDumper
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from everwhen import failpoints
from everwhen.postgres.errors import IndeterminateCommitError, UnsafeRoleError

Role = Literal["everwhen_tenant", "everwhen_system"]

COMMIT_GRACE_SECONDS = 5.0

# A dead peer is noticed in about 10 s. What the connection string says wins; libpq ignores them on a Unix socket.
TCP_DEFAULTS = {
    "keepalives_idle": "3",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "9000",
    "connect_timeout": "5",
}

# What a borrower may have left in its session goes before the next one begins, in the same round trip; a round trip of
# its own costs two fifths of a short transaction. Prepared statements stay, which DISCARD ALL would drop.
_BEGIN = "RESET ALL; CLOSE ALL; UNLISTEN *; BEGIN; SELECT pg_advisory_unlock_all(), now()"
_BEGIN_TENANT = sql.SQL(_BEGIN + ", set_config('everwhen.tenant', {}, true)")
_BEGIN_SYSTEM = sql.SQL(_BEGIN)


SetClock = Callable[[datetime], datetime]
"""Tells what the database's clock shall have said, given what it did. Every decision is by `conn.now`, so this moves
all of a process at once; only tests have one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLimits:
    """Sizes of each of the two pools, and how long anything may take, in seconds."""

    min_size: int = 2
    max_size: int = 10
    borrow_seconds: float = 10.0
    statement_seconds: float = 30.0
    lock_seconds: float = 10.0
    idle_in_transaction_seconds: float = 30.0
    transaction_seconds: float = 60.0


class LastWork(Protocol):
    """What a transaction has gathered to do at its end."""

    async def do(self, conn: "Connection") -> None:
        """Do it; the commit follows."""
        ...


class Connection(AsyncConnection[TupleRow]):
    """A pooled connection.

    `now` is the database's clock at the start of the transaction, UTC: the one clock that decisions use.
    `unreplicated` says that the server gave up waiting for its standby. `last` is what the transaction does right
    before it commits, under a name each: what locks rows that no transaction may wait for while it has others still to
    lock.
    """

    now: datetime
    last: dict[str, LastWork]
    unreplicated: bool = False

    def note(self, notice: Diagnostic) -> None:
        """Notice handler. An exception raised here would only be logged, so the commit asks afterwards."""
        if notice.source_function == "SyncRepWaitForLSN":
            self.unreplicated = True


class Database:
    """The two pools. Open it with `await Database.open(…)`, close it, or use it in an `async with` block."""

    def __init__(
        self,
        tenant_pool: AsyncConnectionPool[Connection],
        system_pool: AsyncConnectionPool[Connection],
        limits: PoolLimits,
        set_clock: SetClock | None = None,
    ) -> None:
        self._set_clock = set_clock
        self._tenant_pool = tenant_pool
        self._system_pool = system_pool
        self._limits = limits

    @classmethod
    async def open(cls, conninfo: str, *, limits: PoolLimits | None = None, set_clock: SetClock | None = None) -> Self:
        """Connect as the application's login. `set_clock` is for tests that move time: see SetClock.

        Raises UnsafeRoleError when that login could bypass the isolation of tenants, OperationalError when there is no
        server.
        """
        limits = limits or PoolLimits()
        tenant_pool = await open_pool(conninfo, role="everwhen_tenant", limits=limits)
        try:
            system_pool = await open_pool(conninfo, role="everwhen_system", limits=limits)
        except BaseException:
            await tenant_pool.close()
            raise
        return cls(tenant_pool, system_pool, limits, set_clock)

    async def close(self) -> None:
        await self._tenant_pool.close()
        await self._system_pool.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    @asynccontextmanager
    async def tenant(self, tenant_id: UUID) -> AsyncGenerator[Connection]:
        """One transaction bound to this tenant: committed when the block ends, rolled back when it raises."""
        begin = _BEGIN_TENANT.format(sql.Literal(str(UUID(str(tenant_id)))))
        async with self._transaction(self._tenant_pool, begin) as conn:
            yield conn

    @asynccontextmanager
    async def system(self) -> AsyncGenerator[Connection]:
        """One transaction of the system role: committed when the block ends, rolled back when it raises."""
        async with self._transaction(self._system_pool, _BEGIN_SYSTEM) as conn:
            yield conn

    @asynccontextmanager
    async def _transaction(
        self, pool: AsyncConnectionPool[Connection], begin: sql.SQL | sql.Composed
    ) -> AsyncGenerator[Connection]:
        conn = await self._begun(pool, begin)
        watchdog = asyncio.get_running_loop().call_later(self._limits.transaction_seconds, cut, conn)
        try:
            yield conn
            for work in conn.last.values():
                await work.do(conn)
            failpoints.hit("transaction.before_commit")
            await _commit(conn)
            failpoints.hit("transaction.after_commit")
        except BaseException:
            await _abandon(conn)
            raise
        finally:
            watchdog.cancel()
            await pool.putconn(conn)

    async def _begun(self, pool: AsyncConnectionPool[Connection], begin: sql.SQL | sql.Composed) -> Connection:
        """Borrow a connection on which the transaction has begun, discarding those that died in the pool."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._limits.borrow_seconds
        while True:
            conn = await pool.getconn(max(0.0, deadline - loop.time()))
            watchdog = loop.call_at(deadline, cut, conn)
            try:
                now = await _begin(conn, begin)
                conn.now = now if self._set_clock is None else self._set_clock(now)
                conn.last = {}
            except BaseException as error:
                await conn.close()
                await pool.putconn(conn)
                if not isinstance(error, psycopg.OperationalError):
                    raise
            else:
                return conn
            finally:
                watchdog.cancel()


async def open_pool(conninfo: str, *, role: Role, limits: PoolLimits | None = None) -> AsyncConnectionPool[Connection]:
    """Open one pool whose sessions act as `role`. Its connections are in autocommit mode: use it through Database."""
    limits = limits or PoolLimits()
    conninfo = session_conninfo(conninfo, role=role, limits=limits)
    async with await Connection.connect(conninfo, autocommit=True) as conn:
        await refuse_unsafe_role(conn, role=role)
    pool = AsyncConnectionPool(
        conninfo,
        connection_class=Connection,
        kwargs={"autocommit": True},
        min_size=limits.min_size,
        max_size=limits.max_size,
        timeout=limits.borrow_seconds,
        configure=_configure,
        reconnect_timeout=limits.borrow_seconds,
        name=role,
        open=False,
    )
    try:
        await pool.open(wait=True, timeout=limits.borrow_seconds)
    except PoolTimeout:
        await pool.close()
        raise
    return pool


def session_conninfo(conninfo: str, *, role: Role, limits: PoolLimits) -> str:
    """Add what every session of a pool has; what the connection string itself says wins, except for the role."""
    given = conninfo_to_dict(conninfo)
    ours = {
        "statement_timeout": f"{limits.statement_seconds * 1000:.0f}",
        "lock_timeout": f"{limits.lock_seconds * 1000:.0f}",
        "idle_in_transaction_session_timeout": f"{limits.idle_in_transaction_seconds * 1000:.0f}",
        "timezone": "UTC",
        # Planned once and kept: planning a hot statement costs more than running it on one row. Statements are written
        # so that no statistics can turn them (dispatch/queries.sql); no table is walked through for want of rows.
        "plan_cache_mode": "force_generic_plan",
        "enable_seqscan": "off",
        "enable_hashjoin": "off",
        "enable_mergejoin": "off",
    }
    options = [
        *(f"-c {name}={value}" for name, value in ours.items()),
        str(given.get("options") or ""),
        f"-c role={role}",
    ]
    defaults: dict[str, str] = {**TCP_DEFAULTS, "application_name": f"everwhen {role.removeprefix('everwhen_')}"}
    if "," in str(given.get("host") or ""):
        defaults["target_session_attrs"] = "read-write"
    return make_conninfo(conninfo, **{**defaults, **given, "options": " ".join(filter(None, options))})


async def refuse_unsafe_role(conn: AsyncConnection[Any], *, role: str) -> None:
    """Raise UnsafeRoleError unless row-level security binds both the login and the role that the session acts as."""
    cursor = await conn.execute(
        "select session_user::text, current_user::text, bool_or(rolsuper), bool_or(rolbypassrls)"
        " from pg_catalog.pg_roles where rolname in (session_user, current_user)"
    )
    row = await cursor.fetchone()
    assert row is not None
    login, current, superuser, bypass = row
    if superuser or bypass:
        power = "is a superuser" if superuser else "has BYPASSRLS"
        raise UnsafeRoleError(
            f"the database login {login} {power}, so the isolation of tenants would not hold: connect as a role made"
            " with NOSUPERUSER NOBYPASSRLS NOINHERIT (see docs/operate/postgres.md)"
        )
    if current != role:
        raise UnsafeRoleError(f"the session acts as {current} instead of {role}: a pooler dropped the start-up options")


async def _configure(conn: Connection) -> None:
    conn.add_notice_handler(conn.note)
    # Arrays carry most of what we write. As text each element is searched for characters to escape; binary is 3 to 15
    # times cheaper. The last dumper registered is the one that a plain placeholder takes.
    conn.adapters.register_dumper(list, ListBinaryDumper)


async def _begin(conn: Connection, begin: sql.SQL | sql.Composed) -> datetime:
    cursor = await conn.execute(begin)
    while cursor.nextset():
        pass
    row = await cursor.fetchone()
    assert row is not None
    return row[1].astimezone(UTC)


async def _commit(conn: Connection) -> None:
    if conn.pgconn.transaction_status == TransactionStatus.INERROR:
        # The server would answer COMMIT with a friendly ROLLBACK.
        raise psycopg.errors.InFailedSqlTransaction(
            "the block swallowed an error of the database: nothing is committed"
        )
    commit = asyncio.ensure_future(conn.commit())
    try:
        await asyncio.shield(commit)
    except asyncio.CancelledError:
        await _let_commit_end(conn, commit)
        raise
    except psycopg.OperationalError as error:
        if _outcome_is_unknown(error):
            raise IndeterminateCommitError("the connection broke while committing: the outcome is unknown") from error
        raise
    if conn.unreplicated:
        raise IndeterminateCommitError(
            "committed here, but the server stopped waiting for its standby: a failover may lose the transaction"
        )


async def _let_commit_end(conn: Connection, commit: "asyncio.Future[None]") -> None:
    """Wait for a commit whose caller was cancelled, never cancelling it; cut the socket when it takes too long."""
    timer = asyncio.get_running_loop().call_later(COMMIT_GRACE_SECONDS, cut, conn)
    try:
        while not commit.done():
            with contextlib.suppress(asyncio.CancelledError, psycopg.Error):
                await asyncio.shield(commit)
    finally:
        timer.cancel()
        await conn.close()


def _outcome_is_unknown(error: psycopg.Error) -> bool:
    return error.sqlstate is None or error.sqlstate.startswith(("08", "57P")) or error.sqlstate == "40003"


async def _abandon(conn: Connection) -> None:
    """Roll back, or close the connection where that is not possible at once or not safe."""
    if conn.unreplicated or conn.pgconn.transaction_status in {TransactionStatus.ACTIVE, TransactionStatus.UNKNOWN}:
        await conn.close()
        return
    try:
        await conn.rollback()
    except psycopg.Error:  # the caller is told why it ends here, not why the connection cannot be kept
        await conn.close()
    except BaseException:
        await conn.close()
        raise


def cut(conn: AsyncConnection[Any]) -> None:
    """End the conversation at the socket: whoever waits on it gets an OperationalError now, and no cancel is sent."""
    with contextlib.suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(conn.fileno())) as duplicate:
        duplicate.shutdown(socket.SHUT_RDWR)
