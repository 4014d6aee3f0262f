"""The server under measurement and the real processes around it. All of it is stopped on any way out.

One PostgreSQL, durable (fsync, synchronous_commit and checksums on), with so much room for WAL that no checkpoint falls
into a measurement. The peers get databases of their own on the same server.
"""

import contextlib
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from everwhen.http.auth import mint_token
from everwhen.http.roles import Role
from everwhen.postgres.embedded import EmbeddedPostgres
from everwhen.postgres.migrate import migrate

Process = "subprocess.Popen[bytes]"

SECRET = "a secret that only the benchmark uses, 32 bytes or more"
TENANT = uuid.UUID(int=7)
QUEUE = "line"
TASK = "noop"
ROOT = Path(__file__).resolve().parent.parent
EVERWHEN = str(Path(sys.executable).with_name("everwhen"))
READY_SECONDS = 20.0
SETTINGS = {
    "shared_buffers": "1GB",
    "max_wal_size": "4GB",
    "min_wal_size": "2GB",
    "checkpoint_timeout": "1h",
    "log_min_messages": "error",
}
HOT_TABLES = ("runs", "waiting", "leases", "attempts", "run_ends", "events")
WORKER_MODULE = '''
"""The no-op task of the benchmark."""
from everwhen.worker import Worker

worker = Worker()


@worker.task("noop")
async def noop(**given: object) -> None:
    pass
'''


@dataclass(kw_only=True)
class Cluster:
    """The server, a superuser's connection to look with, and the processes that were started."""

    folder: Path
    server: EmbeddedPostgres
    sql: psycopg.Connection[Any]
    processes: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def serve(self, role: str, *, port: int | None = None, **settings: str) -> "subprocess.Popen[bytes]":
        """Start one copy of a role; `settings` are EVERWHEN_ variables in lower case."""
        arguments = ["serve", "--roles", role, *(["--port", str(port)] if port else [])]
        extra = {f"EVERWHEN_{name.upper()}": value for name, value in settings.items()}
        return self.start([EVERWHEN, *arguments], name=role, environment=extra)

    def serve_api(self) -> tuple["subprocess.Popen[bytes]", str]:
        """Start the API and wait until it is ready; return it with its address."""
        port = _free_port()
        process, url = self.serve("api", port=port), f"http://127.0.0.1:{port}"
        self.wait(lambda: _answers(f"{url}/healthz/ready"), seconds=READY_SECONDS, what=f"{url} is ready")
        return process, url

    def work(self, url: str, *, concurrency: int) -> "subprocess.Popen[bytes]":
        """Start one worker with the no-op task."""
        options = ["--url", url, "--queues", QUEUE, "--concurrency", str(concurrency), "--drain-seconds", "1"]
        environment = {"EVERWHEN_TOKEN": self.token()}
        return self.start([EVERWHEN, "worker", "noop_worker:worker", *options], name="worker", environment=environment)

    def start(
        self, command: list[str], *, name: str, environment: dict[str, str], cwd: Path | None = None
    ) -> "subprocess.Popen[bytes]":
        """Start a process of ours; it dies with us, whatever happens."""
        given = {"EVERWHEN_DATABASE_URL": self.server.app_conninfo, "EVERWHEN_JWT_SECRET": SECRET, **environment}
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd=cwd or self.folder,
                env=_clean_environment() | given,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_die_with_parent,  # noqa: PLW1509  # this process has one thread
            )
        self.processes.append(process)
        return process

    def stop(self, *processes: "subprocess.Popen[bytes]") -> None:
        """End these processes, or all; politely first."""
        ending = list(processes) or list(self.processes)
        for process in ending:
            process.terminate()
        for process in ending:
            try:
                process.wait(8)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(5)
            self.processes.remove(process)

    def wait(self, condition: Callable[[], bool], *, seconds: float, what: str, poll: float = 0.02) -> None:
        """Poll with a deadline; raise TimeoutError, or at once RuntimeError when a process of ours has ended."""

        def met() -> bool:
            if ended := [process.args for process in self.processes if process.poll() is not None]:
                raise RuntimeError(f"ended while waiting for {what}: {ended[0]}")
            return condition()

        wait_until(met, seconds=seconds, what=what, poll=poll)

    def fetch(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query of the superuser's."""
        return self.sql.execute(query, parameters or None).fetchall()

    def value(self, query: str, *parameters: Any) -> Any:
        """Return the only value of a query."""
        return self.fetch(query, *parameters)[0][0]

    def token(self, role: Role = Role.WORKER) -> str:
        """Make a token of the tenant."""
        return mint_token(SECRET, subject="bench", roles=[role], tenant_id=TENANT, now=datetime.now(UTC))

    def operator_token(self) -> str:
        """Make a token that may ask for runs."""
        return self.token(Role.OPERATOR)

    def reset(self) -> None:
        """Forget every schedule and run, and write dirty pages now rather than during the next measurement."""
        self.sql.execute("set session_replication_role = replica")
        names = (*HOT_TABLES, "spans", "watermarks", "schedule_revisions", "schedules")
        self.sql.execute("truncate " + ", ".join(f"everwhen.{name}" for name in names) + " cascade")
        self.sql.execute("set session_replication_role = origin")
        self.sql.execute("vacuum analyze")
        self.sql.execute("checkpoint")

    def logs(self) -> str:
        """Return the end of each log, for an error."""
        return "\n".join(
            f"--- {log.name}\n{log.read_text(errors='replace')[-1500:]}" for log in sorted(self.folder.glob("*.log"))
        )

    def fresh_database(self, name: str) -> dict[str, str]:
        """Make an empty database; return the variables by which libpq and asyncpg find it, by socket."""
        self.drop_database(name)
        self.sql.execute(f'create database "{name}"')
        self.sql.execute("checkpoint")
        given = conninfo_to_dict(self.server.superuser_conninfo)
        words = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD"}
        return {variable: str(given[key]) for key, variable in words.items()} | {"PGDATABASE": name}

    def drop_database(self, name: str) -> None:
        """Drop it, so that autovacuum does not tidy it up during what is measured next."""
        self.sql.execute(f'drop database if exists "{name}" with (force)')


@contextmanager
def running_cluster() -> Iterator[Cluster]:
    """A migrated database with one tenant, one line and one task; no process yet."""
    folder = Path(tempfile.mkdtemp(prefix="ew-bench-"))
    folder.chmod(0o755)
    cluster = None
    try:
        with EmbeddedPostgres.start(folder / "data", settings=SETTINGS) as server:
            migrate(server.owner_conninfo)
            (folder / "noop_worker.py").write_text(WORKER_MODULE)
            with psycopg.connect(server.superuser_conninfo, autocommit=True) as sql:
                cluster = Cluster(folder=folder, server=server, sql=sql)
                _define(cluster)
                try:
                    yield cluster
                finally:
                    cluster.stop(*cluster.processes)
    except BaseException as error:
        if cluster is not None and not isinstance(error, KeyboardInterrupt | SystemExit):
            sys.stderr.write(cluster.logs() + "\n")
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _define(cluster: Cluster) -> None:
    retry = {"max_attempts": 5, "base_seconds": 1, "factor": 2, "cap_seconds": 60, "jitter": "full"}
    cluster.sql.execute("set jit = off")
    cluster.sql.execute("insert into everwhen.tenants (id, name, created_at) values (%s, 'bench', now())", (TENANT,))
    cluster.sql.execute("insert into everwhen.lanes (tenant_id, queue) values (%s, %s)", (TENANT, QUEUE))
    cluster.sql.execute(
        "insert into everwhen.tasks (tenant_id, name, queue, priority, retry, timeout_seconds, created_at, updated_at)"
        " values (%s, %s, %s, 5, %s, 60, now(), now())",
        (TENANT, TASK, QUEUE, json.dumps(retry)),
    )
    for days in (-1, 0, 1):
        cluster.sql.execute("select everwhen.ensure_week(now() + make_interval(days => %s))", (days,))


def wait_until(condition: Callable[[], bool], *, seconds: float, what: str, poll: float = 0.02) -> None:
    """Poll with a deadline; say what did not come to pass."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:g} s: {what}")
        time.sleep(poll)


def exit_on_sigterm() -> None:
    """Make SIGTERM unwind the stack as Ctrl-C does, so that everything is stopped."""

    def end(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)


def _clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("EVERWHEN_", "PG", "PYTHON"))}


def _die_with_parent() -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:
            return response.status == 200
    except OSError:
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
