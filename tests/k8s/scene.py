"""A platform and its executor on a cluster: what users post, what becomes of it, and what is left in the cluster.

The platform is one process with every role that a run passes through, on a durable PostgreSQL; the executor is a
process of its own. Leases are short, so that what is lost is found out in seconds.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from everwhen.http.roles import Role
from tests.k8s.cluster import PATIENCE_SECONDS
from tests.k8s.objects import Namespace
from tests.system.fleet import Fleet, Process, running_fleet

PORT = 8484
LEASE_SECONDS = 6
_ROLES = "api,scheduler,reaper,observer,porter"


@dataclass(kw_only=True)
class Scene:
    """Somebody's tasks, the executor that runs them, and the namespace in which it does."""

    fleet: Fleet
    namespace: Namespace
    user: httpx2.Client
    kubeconfig: Path | None = None
    """By which executors log in to the cluster, if they do."""

    executors: list[Process] = field(default_factory=list)
    posted: int = 0

    def start_executor(self, kind: str, *options: str, lease_seconds: float = LEASE_SECONDS) -> Process:
        """Start one more executor; what it logs is in `executor.log` of the fleet's folder."""
        environment = {
            "EVERWHEN_URL": self.url,
            "EVERWHEN_TOKEN": self.fleet.token(),
            "EVERWHEN_LEASE_SECONDS": str(lease_seconds),
            "EVERWHEN_WAIT_SECONDS": "1",
            "EVERWHEN_DRAIN_SECONDS": "1",
        }
        if self.kubeconfig is not None:
            environment["KUBECONFIG"] = str(self.kubeconfig)
        started = self.fleet._start("executor", ["executor", kind, *options], environment)
        self.executors.append(started)
        return started

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{PORT}"

    def post(self, script: str, **fields: str) -> str:
        """Post a shell script; return the task's id."""
        self.posted += 1
        parts = {"dedup_id": f"{self.namespace.name}-{self.posted}", **fields}
        form: dict[str, Any] = {name: (None, value) for name, value in parts.items()}
        form["payload"] = ("program.sh", f"#!/bin/sh\n{script}\n".encode())
        answer = self.user.post("/task", files=form)
        assert answer.status_code == 201, answer.text
        return answer.json()["id"]

    def task(self, task_id: str) -> dict[str, Any]:
        return self.user.get("/task", params={"id": task_id}).raise_for_status().json()

    def run_of(self, task_id: str) -> str:
        """Return the id of a task's latest run, once it has one."""
        self.eventually(lambda: bool(self.task(task_id)["history"]), lambda: "the task has a run")
        return self.task(task_id)["history"][0]["run_id"]

    def until(self, task_id: str, *statuses: str) -> dict[str, Any]:
        """Wait until a task stands so; return it."""
        seen: list[dict[str, Any]] = []

        def stands_so() -> bool:
            seen[:] = [self.task(task_id)]
            return seen[0]["status"] in statuses

        self.eventually(stands_so, lambda: f"{statuses}, but {seen}")
        return seen[0]

    def attempts(self, task_id: str) -> list[dict[str, Any]]:
        """Return the attempts at a task's latest run, the first first."""
        path = f"{self._run(task_id)}/attempts"
        return sorted(self.user.get(path).raise_for_status().json()["items"], key=lambda each: each["attempt"])

    def explanation(self, task_id: str) -> dict[str, Any]:
        return self.user.get(f"{self._run(task_id)}/explain").raise_for_status().json()

    def log(self, task_id: str, **query: str) -> str:
        """Return what the latest attempt has printed."""
        answer = self.user.get(f"{self._run(task_id)}/attempts/latest/logs", params=query)
        return answer.raise_for_status().text

    def cancel(self, task_id: str) -> None:
        self.user.post(f"{self._run(task_id)}/cancel", json={}).raise_for_status()

    def until_nothing_is_left(self) -> None:
        """Wait until the executor has removed all that it has made."""
        self.eventually(lambda: not self.namespace.left(), lambda: f"nothing is left, but {self.namespace.left()}")

    def eventually(self, condition: Callable[[], bool], what: Callable[[], str]) -> None:
        """Wait with a deadline; say what did not come to pass."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert time.monotonic() < deadline, f"not within {PATIENCE_SECONDS} s: {what()}"
            time.sleep(0.1)

    def stop_executors(self) -> None:
        """End those that still run."""
        for process in self.executors:
            if process.poll() is None:
                process.terminate()
                process.wait(60)

    def _run(self, task_id: str) -> str:
        return f"/v1/tenants/acme/runs/{self.run_of(task_id)}"


@contextmanager
def running_platform() -> Iterator[tuple[Fleet, httpx2.Client]]:
    """Start a platform, and log in as somebody who may post, look and operate."""
    with running_fleet() as fleet:
        fleet.serve(_ROLES, port=PORT, environment={"EVERWHEN_PAYLOAD_URL": str(fleet.folder / "payloads")})
        token = fleet.token(Role.ADMIN)
        headers = {"Authorization": f"Bearer {token}"}
        with httpx2.Client(base_url=f"http://127.0.0.1:{PORT}", headers=headers, trust_env=False, timeout=60) as user:
            _wait_until_ready(user)
            yield fleet, user


def _wait_until_ready(user: httpx2.Client) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            if user.get("/healthz/ready").is_success:
                return
        except httpx2.HTTPError:
            pass
        assert time.monotonic() < deadline, "the API is not ready"
        time.sleep(0.1)
