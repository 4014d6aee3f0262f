"""A real PostgreSQL for the tests: one unsafe and fast server per test process, one migrated template, clones of it."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from everwhen.postgres.cluster import APP, MIGRATOR, OWNER, SUPERUSER
from everwhen.postgres.embedded import EmbeddedPostgres
from everwhen.postgres.migrate import migrate

BIN_DIR_VARIABLE = "EVERWHEN_TEST_PG_BIN"
MIGRATED = "everwhen"  # for tests that read the catalogue and change nothing
TEMPLATE = "everwhen_template"  # a copy that nobody is connected to, or it could not be cloned
# So that a statement that leans on the session's zone is found out: ours are in UTC. It has no summer time, which would
# mislead Python: that takes two instants of one zone from each other by the clock on its wall.
SESSION_OPTIONS = "-c timezone=America/Phoenix"
TEST_SETTINGS = {"max_connections": "60", "autovacuum": "off", "log_min_messages": "error"}


def chosen_bin_dir() -> Path | None:
    """The server to test against: the wheel's, or the one that EVERWHEN_TEST_PG_BIN names."""
    name = os.environ.get(BIN_DIR_VARIABLE)
    return Path(name) if name else None


@contextmanager
def public_folder() -> Iterator[Path]:
    """A temporary folder that the server's user can traverse; pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="ew-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, kw_only=True)
class TestServer:
    """One server, its migrated template, and the databases cloned from it."""

    __test__ = False

    embedded: EmbeddedPostgres
    seeded: list[str] = field(default_factory=list)
    cleaners: dict[str, psycopg.Connection] = field(default_factory=dict)

    def superuser(self, database: str) -> str:
        return self.embedded.conninfo(SUPERUSER, database=database)

    def owner(self, database: str) -> str:
        return make_conninfo(self.embedded.conninfo(MIGRATOR, database=database), options=f"-c role={OWNER}")

    def app(self, database: str) -> str:
        return make_conninfo(self.embedded.conninfo(APP, database=database), options=SESSION_OPTIONS)

    def create(self, database: str, *, template: str = TEMPLATE) -> None:
        """Clone the migrated template, or make an empty database from `template0`."""
        name = sql.Identifier(database)
        with psycopg.connect(self.superuser("postgres"), autocommit=True) as conn:
            conn.execute(
                sql.SQL("create database {} template {} strategy file_copy owner {}").format(
                    name, sql.Identifier(template), sql.Identifier(OWNER)
                )
            )

    def drop(self, database: str) -> None:
        with psycopg.connect(self.superuser("postgres"), autocommit=True) as conn:
            conn.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(database)))

    def clean(self, database: str) -> None:
        """Empty what tests have written; what migrations have written stays."""
        try:
            self._clean(database)
        except psycopg.OperationalError:  # a test has ended every connection
            self.cleaners.pop(database).close()
            self._clean(database)

    def _clean(self, database: str) -> None:
        # One connection for all tests: in a new one the server reads its catalogue anew, which takes as long as a test.
        if database not in self.cleaners:
            self.cleaners[database] = psycopg.connect(self.superuser(database), autocommit=True)
        conn = self.cleaners[database]
        conn.execute("set session_replication_role = replica")  # no triggers, no foreign keys
        for table in _filled_tables(conn):
            if table not in self.seeded:
                conn.execute(sql.SQL("delete from {}").format(sql.Identifier("everwhen", table)))


@contextmanager
def run_server(bin_dir: Path | None = None) -> Iterator[TestServer]:
    """Start a server with a migrated template."""
    with (
        public_folder() as folder,
        EmbeddedPostgres.start(
            folder / "data", bin_dir=bin_dir, settings=TEST_SETTINGS, fast_and_unsafe=True
        ) as embedded,
    ):
        server = TestServer(embedded=embedded)
        migrate(server.owner(MIGRATED))
        with psycopg.connect(server.superuser(MIGRATED), autocommit=True) as conn:
            server.seeded.extend(_filled_tables(conn))
        server.create(TEMPLATE, template=MIGRATED)
        yield server
        for conn in server.cleaners.values():
            conn.close()


def _filled_tables(conn: psycopg.Connection) -> list[str]:
    tables = conn.execute(
        "select relname from pg_class where relnamespace = 'everwhen'::regnamespace"
        " and relkind in ('r', 'p') and not relispartition"
    ).fetchall()
    if not tables:
        return []
    probes = [
        sql.SQL("select {} where exists (select from {})").format(sql.Literal(name), sql.Identifier("everwhen", name))
        for (name,) in tables
    ]
    return [name for (name,) in conn.execute(sql.SQL(" union all ").join(probes)).fetchall()]
