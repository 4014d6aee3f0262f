"""A scratch server of our own that holds what a dump holds: to look at a copy without touching anything.

The dump is pg_dump's, custom format or plain SQL, of the database or of the schema `everwhen` alone. The server lives
in a temporary folder and goes with it. Roles are not part of a dump, so those that the schema is granted to are made
first; nobody can connect but through the folder's socket.
"""

import os
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

from everwhen.postgres.embedded import EmbeddedPostgres
from everwhen.postgres.errors import EmbeddedServerError
from everwhen.postgres.host import find_bin_dir
from everwhen.postgres.migrate import migrate

CUSTOM_FORMAT: Final = b"PGDMP"
MOST_SECONDS: Final = 3600.0


@contextmanager
def restored(dump: Path) -> Generator[EmbeddedPostgres]:
    """Run a server that holds the dump, for the block; raise EmbeddedServerError when it cannot be read."""
    with dump.open("rb") as file:
        is_custom = file.read(len(CUSTOM_FORMAT)) == CUSTOM_FORMAT
    with tempfile.TemporaryDirectory(prefix="ew-verify-") as folder:
        Path(folder).chmod(0o711)
        with EmbeddedPostgres.start(Path(folder) / "data", fast_and_unsafe=True) as server:
            migrate(server.owner_conninfo)  # makes the roles; what the schema is, the dump says
            with psycopg.connect(server.superuser_conninfo, autocommit=True) as conn:
                conn.execute("drop schema everwhen cascade")
            _restore(server.superuser_conninfo, dump, is_custom=is_custom)
            yield server


def _restore(conninfo: str, dump: Path, *, is_custom: bool) -> None:
    given = conninfo_to_dict(conninfo)
    database = str(given["dbname"])
    program, *words = (
        ["pg_restore", "--no-owner", "--exit-on-error", "--dbname", database, str(dump)]
        if is_custom
        else ["psql", "--quiet", "--no-psqlrc", "--set", "ON_ERROR_STOP=1", "--dbname", database, "--file", str(dump)]
    )
    done = subprocess.run(  # noqa: S603 - a fixed program of our own installation
        [str(find_bin_dir() / program), *words],
        check=False,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=MOST_SECONDS,
        env={
            "PATH": os.environ.get("PATH", os.defpath),
            "PGHOST": str(given["host"]),
            "PGPORT": str(given["port"]),
            "PGUSER": str(given["user"]),
            "PGPASSWORD": str(given["password"]),
        },
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no word why"])[-1]
        raise EmbeddedServerError(f"{dump} cannot be restored: {last[:300]}")
