"""Applies the numbered SQL files of `migrations/`, forward only.

One session advisory lock, on a connection of its own, admits one migrator at a time; it dies with the connection. The
row in everwhen.schema_migrations is written first inside the file's transaction, so a second migrator that got past the
lock all the same (its holder's connection died) collides on the primary key before it changes anything.

The head of a file may hold
    -- everwhen: breaking            an older server refuses to start on a schema that has this file
    -- everwhen: no-transaction      one `create index concurrently`; an invalid leftover of a crash is dropped first
"""

import hashlib
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import resources
from typing import Any, LiteralString, cast

import psycopg
from psycopg import AsyncConnection, Connection, sql

from everwhen.postgres.errors import MigrationError

LOCK_KEY = int.from_bytes(b"everwhen", "big") >> 1
LOCK_WAIT_SECONDS = 300.0
LOCK_POLL_SECONDS = 0.2
PROGRESS_SECONDS = 5.0
DDL_LOCK_TIMEOUT = "3s"  # DDL that waits makes everybody behind it wait, too: rather give way and come again
DDL_ATTEMPTS = 20

_FILE_NAME = re.compile(r"^\d{4}_[a-z0-9_]+\.sql$")
_INDEX_NAME = re.compile(
    r"create\s+(?:unique\s+)?index\s+concurrently\s+(?:if\s+not\s+exists\s+)?([a-z0-9_]+)", re.IGNORECASE
)
_APPLIED = "select version, sha256, breaking from everwhen.schema_migrations order by version"
_INSERT = "insert into everwhen.schema_migrations (version, sha256, breaking) values (%s, %s, %s)"
_NO_SCHEMA = (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName)
_GROUP_ROLES = ("everwhen_tenant", "everwhen_system")
_LOCK_TIMEOUT = "select set_config('lock_timeout', %s, false)"
_MEMBERSHIP = """
select g.rolname, exists (select from pg_auth_members m join pg_roles a on a.oid = m.member
                          where m.roleid = g.oid and a.rolname = %s)
from pg_roles g where g.rolname = any (%s)"""
_INVALID = """
select 1 from pg_index i join pg_class c on c.oid = i.indexrelid
where c.relname = %s and c.relnamespace = 'everwhen'::regnamespace and not i.indisvalid"""
_TABLE = """
create schema if not exists everwhen;
create table if not exists everwhen.schema_migrations (
  version    text primary key,
  sha256     text not null,
  breaking   boolean not null,
  applied_at timestamptz not null default clock_timestamp()
)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One file: its name without `.sql`, and its text."""

    version: str
    text: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    def has(self, header: str) -> bool:
        return re.search(rf"^--\s*everwhen:\s*{header}\s*$", self.text, re.MULTILINE) is not None


def packaged_migrations() -> list[Migration]:
    """The files that this version ships, in order. A bad name or a number given twice is an error."""
    folder = resources.files("everwhen.postgres") / "migrations"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    for file, following in zip(files, [*files[1:], None], strict=True):
        if not _FILE_NAME.match(file.name) or (following and file.name[:4] == following.name[:4]):
            raise MigrationError(f"migrations/{file.name}: the name must be NNNN_name.sql, each number once")
    return [Migration(version=file.name.removesuffix(".sql"), text=file.read_text("utf-8")) for file in files]


def migrate(
    conninfo: str,
    *,
    app_role: str | None = "everwhen_app",
    migrations: Sequence[Migration] | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> list[str]:
    """Bring the schema up to this version and let `app_role` act as the two group roles; return what was applied.

    Connect as the schema's owner. Any number of processes may call this at once: one applies, the others wait.
    Raises MigrationError when a file was edited after it was applied or the schema is newer and breaking.
    """
    files = packaged_migrations() if migrations is None else list(migrations)
    with psycopg.connect(conninfo, autocommit=True) as guard, psycopg.connect(conninfo, autocommit=True) as conn:
        _acquire_lock(guard, progress)
        conn.execute("set statement_timeout = 0")
        conn.execute(_TABLE)
        missing = _missing(conn.execute(_APPLIED).fetchall(), files)
        for file in missing:
            progress(f"applying {file.version}")
            _apply_with_patience(conn, file)
        _grant(conn, app_role)
    return [file.version for file in missing]


def check(conninfo: str) -> None:
    """Raise MigrationError unless this server may run on the schema that the database has."""
    rows: list[Any] = []
    with suppress(*_NO_SCHEMA), psycopg.connect(conninfo, autocommit=True) as conn:
        rows = conn.execute(_APPLIED).fetchall()
    _judge(rows, packaged_migrations())


async def assert_compatible(conn: AsyncConnection[Any]) -> None:
    """The same on an open connection (a transaction of the system role will do)."""
    rows: list[Any] = []
    with suppress(*_NO_SCHEMA):
        rows = await (await conn.execute(_APPLIED)).fetchall()
    _judge(rows, packaged_migrations())


def _judge(applied: Sequence[Any], files: Sequence[Migration]) -> None:
    if missing := _missing(applied, files):
        raise MigrationError(f"the schema lacks {', '.join(file.version for file in missing)}: run `everwhen migrate`")


def _missing(applied: Sequence[Any], files: Sequence[Migration]) -> list[Migration]:
    """The files that are not applied; refuse a schema that does not belong to these files."""
    ours = {file.version: file.sha256 for file in files}
    for version, digest, breaking in applied:
        if ours.get(version, digest) != digest:
            raise MigrationError(
                f"migration {version} was edited after it was applied: restore the file; changes go into a new one"
            )
        if version not in ours and breaking:
            raise MigrationError(f"the schema is newer, and {version} breaks this version: upgrade this server")
    done = {row[0] for row in applied}
    return [file for file in files if file.version not in done]


def _acquire_lock(guard: Connection[Any], progress: Callable[[str], None]) -> None:
    started = said = time.monotonic()
    while True:
        row = guard.execute("select pg_try_advisory_lock(%s)", (LOCK_KEY,)).fetchone()
        now = time.monotonic()
        if row and row[0]:
            return
        if now - started > LOCK_WAIT_SECONDS:
            raise MigrationError(f"another migration has held the lock for {LOCK_WAIT_SECONDS:.0f} s: look at that one")
        if now - said > PROGRESS_SECONDS:
            progress("waiting for another migration")
            said = now
        time.sleep(LOCK_POLL_SECONDS)


def _apply_with_patience(conn: Connection[Any], file: Migration) -> None:
    for attempt in range(1, DDL_ATTEMPTS + 1):
        try:
            return _apply(conn, file)
        except psycopg.errors.LockNotAvailable as error:
            if attempt == DDL_ATTEMPTS:
                raise MigrationError(f"{file.version}: a table stayed locked; nothing of it was applied") from error
            time.sleep(min(0.1 * attempt, 1.0))
    return None


def _apply(conn: Connection[Any], file: Migration) -> None:
    row = (file.version, file.sha256, file.has("breaking"))
    text = sql.SQL(cast("LiteralString", file.text))  # a file of the package, not input
    if file.has("no-transaction"):
        conn.execute(_LOCK_TIMEOUT, ("0",))  # it waits for old transactions, and nobody behind it
        _drop_invalid_leftover(conn, file)
        conn.execute(text)
        conn.execute(_INSERT, row)
        return
    conn.execute(_LOCK_TIMEOUT, (DDL_LOCK_TIMEOUT,))
    with conn.transaction():
        conn.execute(_INSERT, row)
        conn.execute(text)


def _drop_invalid_leftover(conn: Connection[Any], file: Migration) -> None:
    found = _INDEX_NAME.findall(file.text)
    if len(found) != 1:
        raise MigrationError(f"{file.version}: a no-transaction file holds exactly one `create index concurrently`")
    if conn.execute(_INVALID, found).fetchone():
        conn.execute(sql.SQL("drop index concurrently {}").format(sql.Identifier("everwhen", found[0])))


def _grant(conn: Connection[Any], app_role: str | None) -> None:
    """Grant what is not granted yet: a repeated GRANT would collide with that of a neighbouring database."""
    for group, granted in conn.execute(_MEMBERSHIP, (app_role, list(_GROUP_ROLES))).fetchall():
        name = sql.Identifier(group)
        conn.execute(sql.SQL("grant usage on schema everwhen to {}").format(name))
        conn.execute(sql.SQL("grant select on everwhen.schema_migrations to {}").format(name))
        if app_role and not granted:
            conn.execute(sql.SQL("grant {} to {}").format(name, sql.Identifier(app_role)))
