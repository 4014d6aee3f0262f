"""Writes schema.sql: what the migrations amount to, for people to read and for a test to compare.

    python -m everwhen.postgres.snapshot

The text is pg_dump's, of a scratch server, without what depends on the moment or on pg_dump's version: comments,
session settings, and the partitions, which follow the calendar and look like their parents.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from everwhen.postgres.embedded import EmbeddedPostgres
from everwhen.postgres.host import find_bin_dir
from everwhen.postgres.migrate import migrate

SCHEMA_FILE = Path(__file__).with_name("schema.sql")

_HEADER = "-- Generated from migrations/ by `make schema`; do not edit.\n\n"
_NOISE = re.compile(r"^(--.*|SET .*;|SELECT pg_catalog\.set_config.*|\\(un)?restrict.*)\n", re.MULTILINE)
_BLANK_LINES = re.compile(r"\n{3,}")
_PARTITIONS = (
    "select relname from pg_class where relnamespace = 'everwhen'::regnamespace and relispartition and relkind = 'r'"
)


def dump(conninfo: str) -> str:
    """The text of schema.sql for the database at `conninfo` (a superuser's)."""
    with psycopg.connect(conninfo) as conn:
        partitions = [name for (name,) in conn.execute(_PARTITIONS).fetchall()]
    words = ["--schema-only", "--no-owner", "--schema=everwhen", "--exclude-table=everwhen.schema_migrations"]
    words += [f"--exclude-table=everwhen.{name}" for name in partitions]
    done = subprocess.run(  # noqa: S603 - a fixed program of our own installation
        [str(find_bin_dir() / "pg_dump"), *words],
        check=True,
        capture_output=True,
        text=True,
        env=_environment(conninfo),
    )
    return _HEADER + _BLANK_LINES.sub("\n\n", _NOISE.sub("", done.stdout)).strip() + "\n"


def _environment(conninfo: str) -> dict[str, str]:
    """The connection as libpq's variables, so that no password stands on a command line."""
    given = conninfo_to_dict(conninfo)
    names = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD", "dbname": "PGDATABASE"}
    return {"PATH": os.environ.get("PATH", os.defpath)} | {
        variable: str(given[key]) for key, variable in names.items() if key in given
    }


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="ew-") as folder:
        Path(folder).chmod(0o711)
        with EmbeddedPostgres.start(Path(folder) / "data", fast_and_unsafe=True) as server:
            migrate(server.owner_conninfo)
            SCHEMA_FILE.write_text(dump(server.superuser_conninfo), encoding="utf-8")
    sys.stdout.write(f"wrote {SCHEMA_FILE}\n")


if __name__ == "__main__":
    main()
