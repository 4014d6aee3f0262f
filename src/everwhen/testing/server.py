"""One PostgreSQL for a test session, and an empty Everwhen database on it for each test, in some tens of milliseconds.

The server is Everwhen's own child in a temporary folder, without fsync: it is gone when the session ends. Each database
is a copy of one that the migrations made.
"""

import itertools
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

import psycopg
from psycopg import sql

from everwhen.postgres.cluster import APP, DATABASE, OWNER, SUPERUSER
from everwhen.postgres.embedded import EmbeddedPostgres
from everwhen.postgres.migrate import migrate

TEMPLATE: Final = "everwhen_testing"


@dataclass(frozen=True, slots=True, kw_only=True)
class TestingServer:
    """A running server. Start it from the main thread, once for many tests."""

    __test__ = False  # pytest takes every class for tests whose name begins so

    embedded: EmbeddedPostgres
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    @classmethod
    @contextmanager
    def start(cls) -> Generator[Self]:
        """Run a server for the block."""
        with tempfile.TemporaryDirectory(prefix="ew-testing-") as folder:
            Path(folder).chmod(0o711)
            with EmbeddedPostgres.start(Path(folder) / "data", fast_and_unsafe=True) as embedded:
                migrate(embedded.owner_conninfo)
                server = cls(embedded=embedded)
                server.copy(DATABASE, to=TEMPLATE)
                yield server

    @contextmanager
    def database(self) -> Generator[str]:
        """Make an empty database for the block, and yield how the application logs in to it."""
        name = f"everwhen_testing_{next(self.numbers)}"
        self.copy(TEMPLATE, to=name)
        try:
            yield self.embedded.conninfo(APP, database=name)
        finally:
            with self._superuser() as conn:
                conn.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))

    def copy(self, database: str, *, to: str) -> None:
        """Copy a database that nobody is connected to."""
        with self._superuser() as conn:
            conn.execute(
                sql.SQL("create database {} template {} strategy file_copy owner {}").format(
                    sql.Identifier(to), sql.Identifier(database), sql.Identifier(OWNER)
                )
            )

    @contextmanager
    def _superuser(self) -> "Generator[psycopg.Connection[tuple[object, ...]]]":
        conninfo = self.embedded.conninfo(SUPERUSER, database="postgres")
        with psycopg.connect(conninfo, autocommit=True) as conn:
            yield conn
