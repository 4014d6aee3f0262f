"""A server that speaks the worker protocol from memory: real HTTP on loopback, in a thread, with scripted mishaps."""

import asyncio
import json
import socket
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import uvicorn

EPOCH = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
TENANT = UUID("00000000-0000-8000-8000-0000000000aa")
TOKEN = "secret-token"
PATIENCE_SECONDS = 45.0  # less than a test may take; a process that starts on a busy machine needs twenty


def wait_until(condition: Callable[[], Any], what: str) -> Any:
    """Return the first true value of the condition; fail when it takes unreasonably long."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what} did not happen"
        time.sleep(0.005)
    return value


class FakeServer:
    """Runs wait in a list, leases in a dict; everything sent is kept for the test to look at."""

    def __init__(self, *, lease_expires: bool = True) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self.lease_expires = lease_expires
        self.waiting: deque[dict[str, Any]] = deque()
        self.leases: dict[str, dict[str, Any]] = {}
        self.reports: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.claims: list[dict[str, Any]] = []
        self.beats: dict[str, int] = defaultdict(int)
        self.details: dict[str, list[Any]] = defaultdict(list)
        self.logs: dict[str, list[bytes]] = defaultdict(list)
        self.log_bytes = 1 << 20
        self.seen: list[str] = []
        self.refused: list[str] = []
        self.cancel: set[str] = set()
        self.gone: set[str] = set()
        self.poison: Any = None
        self.swallowed: set[str] = set()
        self.polls_waiting = 0
        self.workers: dict[str, dict[str, Any]] = {}
        self.said: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.left: list[str] = []
        self.wish: dict[str, Any] = {"wish": "active", "exits": False}
        self.beat_seconds = 1.0
        self.sends_home = True
        self._mishaps: dict[str, deque[tuple[int, dict[str, str], bytes]]] = defaultdict(deque)
        self._numbers = iter(range(1, 1_000_000))
        self._lock = threading.RLock()
        self._start_at = time.monotonic()
        self._uvicorn: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        config = uvicorn.Config(
            self.app,
            host="127.0.0.1",
            port=self.port,
            log_level="critical",
            lifespan="off",
            ws="none",
            loop="asyncio",
            interface="asgi3",
        )
        self._uvicorn = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._uvicorn.run, name="fake-server", daemon=True)
        self._thread.start()
        wait_until(lambda: self._uvicorn is not None and self._uvicorn.started, "the fake server's start")

    def stop(self) -> None:
        if self._uvicorn is None or self._thread is None:
            return
        self._uvicorn.should_exit = self._uvicorn.force_exit = True
        self._thread.join(PATIENCE_SECONDS)
        self._uvicorn = self._thread = None

    def add(self, task: str, given: Any = None, **fields: Any) -> str:
        """Put a run in the queue and return its id."""
        number = next(self._numbers)
        run_id = str(UUID(int=(8 << 76) | (2 << 62) | number))
        run = {"run_id": run_id, "task": task, "queue": "default", "attempt": 1, "max_attempts": 3, "schedule": None}
        run |= {"priority": 0, "nominal_at": None, "deadline_at": None, "input": given, **fields}
        with self._lock:
            self.waiting.append(run)
        return run_id

    def fail(self, path: str, status: int, *, times: int = 1, headers: dict[str, str] | None = None, body: Any = None):
        """Answer the next requests to this path so."""
        content = json.dumps(body or {"title": "scripted", "status": status}).encode()
        self._mishaps[path].extend([(status, headers or {}, content)] * times)

    def report(self, run_id: str) -> dict[str, Any]:
        """Wait for the first accepted report of a run."""
        return wait_until(lambda: self.reports.get(run_id), f"the report of {run_id}")[0]

    async def app(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        path = scope["path"].rpartition("/")[2]
        if "/logs/" in scope["path"]:
            path, body = "logs", self._log_request(scope["path"], body)
        self.seen.append(path)
        authorization = dict(scope["headers"]).get(b"authorization")
        if self._mishaps[path]:
            status, headers, content = self._mishaps[path].popleft()
        elif authorization != f"Bearer {TOKEN}".encode():
            status, headers, content = 401, {}, b'{"title":"Unauthorised","detail":"unknown token"}'
        elif self._poisoned(path, body):
            status, headers, content = 413, {}, b'{"title":"Too large","detail":"a result may have 1 MB"}'
        else:
            request = json.loads(body)
            answer = await self._claim(request, receive) if path == "claim" else getattr(self, f"_{path}")(request)
            status, headers, content = 200, {}, json.dumps(answer).encode()
            if path in self.swallowed:  # carried out, but its answer is lost
                self.swallowed.remove(path)
                status = 502
        all_headers = [(b"content-type", b"application/json"), *((k.encode(), v.encode()) for k, v in headers.items())]
        await send({"type": "http.response.start", "status": status, "headers": all_headers})
        await send({"type": "http.response.body", "body": content})

    def _log_request(self, path: str, body: bytes) -> bytes:
        _, run_id, piece = path.rsplit("/", 2)
        return json.dumps({"run_id": run_id, "piece": int(piece), "data": body.decode("latin-1")}).encode()

    def _logs(self, request: dict[str, Any]) -> dict[str, Any]:
        pieces = self.logs[request["run_id"]]
        if request["piece"] == len(pieces):
            pieces.append(request["data"].encode("latin-1"))
        size = sum(map(len, pieces))
        return {"pieces": len(pieces), "size_bytes": size, "is_capped": size >= self.log_bytes}

    def log(self, run_id: str) -> bytes:
        """What was sent of a run's log."""
        return b"".join(self.logs[run_id])

    def _poisoned(self, path: str, body: bytes) -> bool:
        """Tell whether a batch holds the result that makes it unacceptable as a whole."""
        if path != "complete" or self.poison is None:
            return False
        return any(report["result"] == self.poison for report in json.loads(body)["reports"])

    def now(self) -> datetime:
        return EPOCH + timedelta(seconds=time.monotonic() - self._start_at)

    async def _claim(self, request: dict[str, Any], receive: Any) -> dict[str, Any]:
        hung_up = asyncio.ensure_future(receive())
        runs: list[dict[str, Any]] = []
        self.claims.append(request)
        end = time.monotonic() + request["wait_seconds"]
        self.polls_waiting += 1
        try:
            # A poll whose worker has hung up must take nothing: its runs would be leased to nobody.
            while not hung_up.done() and time.monotonic() < end and not self._held_back(request):
                if runs := self._take(request):
                    break
                await asyncio.sleep(0.01)
        finally:
            self.polls_waiting -= 1
            hung_up.cancel()
        held_back = self._held_back(request)
        return {"runs": runs, "server_time": self.now().isoformat(), "held_back": held_back and not runs}

    def _held_back(self, request: dict[str, Any]) -> bool:
        if not self.sends_home or request["instance"] not in self.workers:
            return False
        said = self.said.get(request["instance"])
        return self.wish["wish"] != "active" or (bool(said) and said[-1]["stopping"])

    def _take(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        runs: list[dict[str, Any]] = []
        now = self.now()
        with self._lock:
            for run in list(self.waiting):
                if (
                    len(runs) < request["limit"]
                    and run["queue"] in request["queues"]
                    and run["task"] in request["tasks"]
                ):
                    self.waiting.remove(run)
                    runs.append(self._grant(run, now, request["lease_seconds"]))
        return runs

    def _grant(self, run: dict[str, Any], now: datetime, seconds: float) -> dict[str, Any]:
        token = f"token-{next(self._numbers)}"
        until = now + timedelta(seconds=seconds)
        self.leases[run["run_id"]] = {"token": token, "until": until}
        times = {"due_at": now.isoformat(), "claimed_at": now.isoformat(), "lease_until": until.isoformat()}
        return run | times | {"tenant_id": str(TENANT), "lease_token": token}

    def _held(self, entry: dict[str, Any]) -> bool:
        lease = self.leases.get(entry["run_id"])
        if lease is None or entry["run_id"] in self.gone or lease["token"] != entry["lease_token"]:
            return False
        return not self.lease_expires or lease["until"] > self.now()

    def _heartbeat(self, request: dict[str, Any]) -> dict[str, Any]:
        results = []
        for entry in request["leases"]:
            run_id = entry["run_id"]
            self.beats[run_id] += 1
            if entry["details"] is not None:
                self.details[run_id].append(entry["details"])
            held = self._held(entry)
            if held:
                self.leases[run_id]["until"] = self.now() + timedelta(seconds=request["lease_seconds"])
            status = "held" if held else "lost"
            until = self.leases[run_id]["until"].isoformat() if held else None
            cancel = run_id in self.cancel
            results.append({"run_id": run_id, "status": status, "lease_until": until, "cancel_requested": cancel})
        return {"results": results}

    def _announce(self, request: dict[str, Any]) -> dict[str, Any]:
        self.workers[request["instance"]] = request
        return self._standing(request)

    def _beat(self, request: dict[str, Any]) -> dict[str, Any]:
        self.said[request["instance"]].append(request)
        return self._standing(request)

    def _leave(self, request: dict[str, Any]) -> dict[str, Any]:
        self.left.append(request["instance"])
        self.workers.pop(request["instance"], None)
        return {"known": False}

    def _standing(self, request: dict[str, Any]) -> dict[str, Any]:
        known = request["instance"] in self.workers
        return {"known": known, "beat_seconds": self.beat_seconds, **(self.wish if known else {})}

    def _complete(self, request: dict[str, Any]) -> dict[str, Any]:
        results = []
        for report in request["reports"]:
            run_id = report["run_id"]
            if self._held(report):
                del self.leases[run_id]
                self.reports[run_id].append(report)
                results.append({"run_id": run_id, "accepted": True, "state": report["outcome"], "code": None})
            else:
                self.refused.append(run_id)
                results.append({"run_id": run_id, "accepted": False, "state": "waiting", "code": "lease.lost"})
        return {"results": results}
