"""Real processes on a real, durable server: what the system tests start, kill and look at."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psycopg

from everwhen import clock
from everwhen.core.zones import tz_version
from everwhen.http.auth import mint_token
from everwhen.http.roles import Role
from everwhen.postgres.embedded import EmbeddedPostgres
from everwhen.postgres.migrate import migrate
from tests.database import public_folder
from tests.system.zygote import Forked, Zygote

SECRET = "a secret that is only ever used in tests, 32 bytes or more"
TENANT = uuid.UUID(int=7)
EMPTY: Mapping[str, str] = MappingProxyType({})
EVERWHEN = str(Path(sys.executable).with_name("everwhen"))

Process = subprocess.Popen[bytes] | Forked

WITNESS = '''
"""Each execution leaves one line in a file of its own making: the judge outside of the system."""
import asyncio, os, time
from everwhen.worker import Context, Worker

worker = Worker()

@worker.task("witness")
async def witness(ctx: Context) -> None:
    line = f"{ctx.run_id} {ctx.attempt} {ctx.lease_token}\\n".encode()
    file = os.open(os.environ["WITNESS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, line)
    os.close(file)

@worker.task("holder")
async def holder(ctx: Context) -> None:
    await witness(ctx)
    while not os.path.exists(os.environ["WITNESS"] + ".enough"):
        await asyncio.sleep(0.01)
'''


@dataclass(kw_only=True)
class Fleet:
    """The server, its processes by kind, and a superuser's connection to look with."""

    folder: Path
    server: EmbeddedPostgres
    sql: psycopg.Connection[Any]
    processes: dict[str, list[Process]] = field(default_factory=dict)
    zygote: Zygote | None = None
    """Who starts processes in milliseconds, for whoever starts many; None: they start in the ordinary way."""

    @property
    def witness(self) -> Path:
        return self.folder / "witness"

    def let_go(self) -> None:
        """Let every `holder` end, now and from now on."""
        (self.folder / "witness.enough").touch()

    def serve(self, role: str, *, port: int | None = None, environment: Mapping[str, str] = EMPTY) -> Process:
        """Start one copy of a role, or of several, separated by commas."""
        arguments = ["serve", "--roles", role, *(["--port", str(port)] if port else [])]
        return self._start(role.replace(",", "+"), arguments, environment)

    def work(
        self,
        port: int,
        *,
        lease_seconds: float = 2.0,
        concurrency: int = 50,
        target: str = "witnesses:worker",
        environment: Mapping[str, str] = EMPTY,
        drain_seconds: float = 2.0,
    ) -> Process:
        """Start one worker."""
        options = [
            "--lease-seconds",
            str(lease_seconds),
            "--concurrency",
            str(concurrency),
            "--drain-seconds",
            str(drain_seconds),
        ]
        url = f"http://127.0.0.1:{port}"
        return self._start("worker", ["worker", target, "--url", url, "--queues", "line", *options], environment)

    def run(self, arguments: list[str], *, environment: Mapping[str, str] = EMPTY) -> int:
        """Carry out one command, and return how it ended."""
        return self._start("command", arguments, environment).wait(120)

    def kill(self, process: Process) -> None:
        """Kill -9."""
        process.kill()
        process.wait(10)

    def fetch(self, query: Any, *parameters: Any) -> list[tuple[Any, ...]]:
        return self.sql.execute(query, parameters or None).fetchall()

    def count(self, table: str) -> int:
        return self.fetch(f"select count(*) from everwhen.{table}")[0][0]

    def token(self, role: Role = Role.WORKER) -> str:
        return mint_token(SECRET, subject="system-test", roles=[role], tenant_id=TENANT, now=clock.process_now())

    def stop(self) -> None:
        started = [process for kind in self.processes.values() for process in kind]
        for process in started:
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in started:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                self.kill(process)

    def _start(self, kind: str, arguments: list[str], environment: Mapping[str, str]) -> Process:
        variables = os.environ | {
            "EVERWHEN_DATABASE_URL": self.server.app_conninfo,
            "EVERWHEN_JWT_SECRET": SECRET,
            "EVERWHEN_TOKEN": self.token(),
            "WITNESS": str(self.witness),
            **environment,
        }
        path = self.folder / f"{kind}.log"
        if self.zygote is not None:
            process = self.zygote.start(arguments, folder=self.folder, environment=variables, log=path)
        else:
            log = path.open("ab")
            process = subprocess.Popen([EVERWHEN, *arguments], cwd=self.folder, env=variables, stdout=log, stderr=log)
            log.close()
        self.processes.setdefault(kind, []).append(process)
        return process


@contextmanager
def running_fleet(zygote: Zygote | None = None) -> Iterator[Fleet]:
    """A migrated, durable database with one tenant, one line and two tasks; no process yet."""
    with public_folder() as folder, EmbeddedPostgres.start(folder / "data") as server:
        migrate(server.owner_conninfo)
        (folder / "witnesses.py").write_text(WITNESS)
        with psycopg.connect(server.superuser_conninfo, autocommit=True) as sql:
            fleet = Fleet(folder=folder, server=server, sql=sql, zygote=zygote)
            _define(fleet)
            try:
                yield fleet
            except BaseException:
                _show_logs(folder)
                raise
            finally:
                fleet.stop()


def _define(fleet: Fleet) -> None:
    retry = {"max_attempts": 20, "base_seconds": 0.1, "factor": 2, "cap_seconds": 1, "jitter": "full"}
    fleet.sql.execute("insert into everwhen.tenants values (%s, 'acme', now())", (TENANT,))
    fleet.sql.execute("insert into everwhen.lanes (tenant_id, queue) values (%s, 'line')", (TENANT,))
    for name in ("witness", "holder"):
        fleet.sql.execute(
            "insert into everwhen.tasks values (%s, %s, 'line', 5, %s, 60, null, now(), now())",
            (TENANT, name, json.dumps(retry)),
        )


def define_schedules(fleet: Fleet, count: int, *, trigger: dict[str, Any], task: str = "witness") -> None:
    """Insert many schedules at once, as the API would one by one."""
    catch_up = {"policy": "replay", "grace_seconds": 60, "window_seconds": None}
    spec = json.dumps({"trigger": trigger, "timezone": "UTC", "gap": None, "fold": None, "catch_up": catch_up})
    fleet.sql.execute(
        """
        with made as (
          insert into everwhen.schedules
          select %s, gen_random_uuid(), %s || n, 'active', null, 1, %s, %s, '{}', null, now(), now()
          from generate_series(1, %s) n returning tenant_id, uid)
        insert into everwhen.watermarks (tenant_id, schedule_uid, decided_until, next_at, tz_version)
        select tenant_id, uid, now(), now(), %s from made
        """,
        (TENANT, f"{task}-", task, spec, count, tz_version()),
    )


def wait_until(condition: Callable[[], bool], *, seconds: float, what: str) -> None:
    """Poll with a deadline; say what did not come to pass."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.02)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _show_logs(folder: Path) -> None:
    for log in sorted(folder.glob("*.log")):
        sys.stderr.write(f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}\n")
