"""A real PostgreSQL as our own child process.

There is no pg_ctl and no exit handler between us and the server, because neither runs when a process is killed:

* Our normal end, SIGINT, SIGTERM: whoever started the server calls `stop()` (the context manager does).
* Our SIGKILL or crash: the kernel sends the server SIGINT (Linux, PR_SET_PDEATHSIG) and drops our lock on the data
  directory. (See host.py for how it is asked for.)
* The next start on the directory, whatever happened before, also where the kernel knows no such signal: cluster.py.

The server gets a session of its own: Ctrl-C at a terminal reaches only us, and we stop the server after everything that
uses it. The kernel ties the death signal to the *thread* that forked, so start the server from the main thread.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

import psycopg
from psycopg.conninfo import make_conninfo

from everwhen.postgres import cluster as clusters
from everwhen.postgres.cluster import APP, DATABASE, MIGRATOR, OWNER, SUPERUSER, Cluster
from everwhen.postgres.errors import EmbeddedServerError
from everwhen.postgres.host import default_data_dir, find_bin_dir, server_user

__all__ = ["EmbeddedPostgres", "attach", "default_data_dir"]

START_SECONDS = 60.0
STOP_SECONDS = 5.0
POLL_SECONDS = 0.02
WATCH_SECONDS = 0.25

SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "shared_buffers": "256MB",
        "max_connections": "200",
        "max_wal_size": "2GB",
        "checkpoint_timeout": "15min",
        "autovacuum_naptime": "10s",
        "wal_compression": "pglz",
        "jit": "off",  # our statements are short; compiling them costs more than running them
        "timezone": "UTC",
        "log_timezone": "UTC",
        "password_encryption": "scram-sha-256",
        "idle_in_transaction_session_timeout": "60s",
    }
)
FAST_AND_UNSAFE: Mapping[str, str] = MappingProxyType(
    {
        "fsync": "off",
        "full_page_writes": "off",
        "synchronous_commit": "off",
        "shared_buffers": "64MB",
        "dynamic_shared_memory_type": "mmap",  # a killed server leaves nothing in /dev/shm
    }
)


class EmbeddedPostgres:
    """A running server on one data directory. Make it with `start`, end it with `stop` or a `with` block."""

    def __init__(self, cluster: Cluster, process: "subprocess.Popen[bytes]", *, lock: int) -> None:
        self._cluster = cluster
        self._process = process
        self._lock: int | None = lock

    @classmethod
    def start(
        cls,
        data_dir: Path,
        *,
        bin_dir: Path | None = None,
        settings: Mapping[str, str] = MappingProxyType({}),
        fast_and_unsafe: bool = False,
    ) -> Self:
        """Start the server, making its data directory first if need be; return when it accepts connections.

        Raises DataDirectoryInUseError when another process runs a server there, EmbeddedServerError when it cannot be
        made or does not come up within START_SECONDS. Call it from the main thread.
        """
        if threading.current_thread() is not threading.main_thread():
            raise EmbeddedServerError("start the embedded server from the main thread: the server ends with its thread")
        cluster = clusters.open_cluster(data_dir.absolute(), bin_dir=bin_dir or find_bin_dir(), user=server_user())
        lock = clusters.lock(cluster)
        try:
            chosen = {**SETTINGS, **(FAST_AND_UNSAFE if fast_and_unsafe else {}), **settings}
            clusters.prepare(cluster, settings=chosen, fast_and_unsafe=fast_and_unsafe)
            server = cls(cluster, _spawn(cluster), lock=lock)
        except BaseException:
            os.close(lock)
            raise
        try:
            server.wait_until_ready()
        except BaseException:
            server.stop()
            raise
        return server

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def owner_conninfo(self) -> str:
        """For migrations: acts as everwhen_owner, which owns the database and everything in it."""
        return make_conninfo(self.conninfo(MIGRATOR), options=f"-c role={OWNER}")

    @property
    def app_conninfo(self) -> str:
        """For the server's pools: everwhen_app, which owns nothing and is subject to row-level security."""
        return self.conninfo(APP)

    @property
    def superuser_conninfo(self) -> str:
        """For tests and `everwhen db` only."""
        return self.conninfo(SUPERUSER)

    def conninfo(self, role: str, *, database: str = DATABASE) -> str:
        return self._cluster.conninfo(role, database=database)

    def poll(self) -> int | None:
        """Return the server's exit status, or None while it runs."""
        return self._process.poll()

    async def wait(self) -> int:
        """Return the exit status once the server has ended, whoever ended it."""
        while (status := self.poll()) is None:  # noqa: ASYNC110 - no platform-independent event tells a child's death
            await asyncio.sleep(WATCH_SECONDS)
        return status

    def wait_until_ready(self) -> None:
        """Return when the server answers; raise with the end of its log when it ends or takes too long."""
        conninfo = make_conninfo(self.conninfo(SUPERUSER, database="postgres"), connect_timeout=5)
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.poll() is not None:
                raise EmbeddedServerError(f"PostgreSQL ended while starting:\n{self._cluster.log_tail()}")
            with contextlib.suppress(psycopg.OperationalError), psycopg.connect(conninfo):
                return
            time.sleep(POLL_SECONDS)
        raise EmbeddedServerError(f"PostgreSQL is not ready after {START_SECONDS:.0f} s:\n{self._cluster.log_tail()}")

    def stop(self) -> None:
        """End the server (fast, then at once, then killed: bounded) and release its data directory. May be repeated."""
        if self._lock is None:
            return
        try:
            self._end()
        finally:
            os.close(self._lock)
            self._lock = None

    def _end(self) -> None:
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
            if self.poll() is not None:
                break
            self._process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_SECONDS)
        clusters.stop_orphans(self._cluster)  # a server that was killed, by us or by others, leaves its children

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def attach(data_dir: Path, *, role: str = SUPERUSER) -> str:
    """How to connect to the server that another process runs in this data directory (for `everwhen db`)."""
    return clusters.running_cluster(data_dir.absolute(), user=server_user()).conninfo(role)


def _spawn(cluster: Cluster) -> "subprocess.Popen[bytes]":
    with cluster.log.open("ab") as log:
        return subprocess.Popen(  # noqa: S603 - a fixed program of our own installation
            [str(cluster.bin_dir / "postgres"), "-D", str(cluster.pgdata)],
            preexec_fn=cluster.user.becoming(signal.SIGINT),  # noqa: PLW1509 - there is no other place for it
            start_new_session=True,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=clusters.server_environment(),
        )
