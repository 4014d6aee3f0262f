"""Who is alive, who dies and who stops: processes under random faults, from outside and at named failpoints."""

import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random  # noqa: TID251  # a run of chaos is drawn by its printed seed

from everwhen.failpoints import ALLOWED, LOG, VARIABLE
from tests.system.zygote import Forked

LEASE_SECONDS = 2.0
STOP_SECONDS = 3 * LEASE_SECONDS
FAULT_EVERY = (1.5, 4.5)

FAILPOINTS = {
    "scheduler": (
        "scheduler.before_claim",
        "scheduler.after_claim",
        "catchup.after_claim",
        "catchup.before_commit",
        "scheduler.before_commit",
        "scheduler.after_commit",
    ),
    "conductor": (
        "start_workflow.before_commit",
        "start_workflow.after_commit",
        "release_node.before_commit",
        "release_node.after_commit",
        "conduct.before_commit",
        "conduct.after_commit",
    ),
    "reaper": ("reaper.before_commit", "reaper.after_commit", "expiry.before_commit", "expiry.after_commit"),
    "api": (
        "claim.before_commit",
        "claim.after_commit",
        "complete.before_commit",
        "complete.after_commit",
        "heartbeat.before_commit",
        "heartbeat.after_commit",
        "release_node.before_commit",
        "api.before_reply",
    ),
    "worker": ("worker.after_claim", "worker.after_effect", "worker.after_report"),
    "others": (
        "gatekeeper.before_commit",
        "gatekeeper.after_commit",
        "sentinel.before_commit",
        "sentinel.after_commit",
    ),
    "any": ("transaction.before_commit", "transaction.after_commit"),
}
MOST_PASSES = {"scheduler": 12, "conductor": 10, "reaper": 10, "api": 60, "worker": 25, "others": 15, "any": 60}

Process = subprocess.Popen[bytes] | Forked
Start = Callable[[dict[str, str]], Process]


@dataclass
class Place:
    """A place in the fleet: always one process, started anew when it dies. `kind` says which failpoints it has."""

    name: str
    kind: str
    start: Start
    process: Process | None = None
    stopped_at: float | None = None
    by_us: bool = False


@dataclass
class Faults:
    """Draws faults by a seed, carries them out, and counts them."""

    seed: int
    log: Path
    places: list[Place] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    armed: bool = False

    def __post_init__(self) -> None:
        self.random = Random(self.seed)  # as above
        self.next_fault = 0.0
        self.first: list[Place] = []

    def arm(self) -> None:
        """Let faults begin: first everybody is killed once, one after the other, and comes back with a failpoint."""
        self.armed = True
        self.first = list(self.places)

    def start_all(self) -> None:
        """Start a process at each place."""
        for place in self.places:
            self._start(place)

    def step(self, now: float) -> None:
        """Look after every process once, and let a fault happen when it is time."""
        for place in self.places:
            self._look_after(place, now)
        if self.armed and now >= self.next_fault:
            self.next_fault = now + (1.0 if self.first else self.random.uniform(*FAULT_EVERY))
            if self.first:
                self._kill(self.first.pop(0))
            else:
                self._strike(self.random.choice(self.places), now)

    def heal(self) -> None:
        """No more faults: continue who is stopped, and replace everybody by a process without failpoints."""
        self.armed = False
        for place in self.places:
            if place.process is not None and place.process.poll() is None:
                place.process.send_signal(signal.SIGCONT)
                place.process.terminate()
        for place in self.places:
            if place.process is not None:
                _wait(place.process)
            place.stopped_at = None
            self._start(place)

    def failpoints(self) -> Counter[str]:
        """Return how often each failpoint fired, by what it did."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return Counter(f"{name} {action}" for name, action, _ in (line.split() for line in lines))

    def _look_after(self, place: Place, now: float) -> None:
        process = place.process
        assert process is not None
        status = process.poll()
        if status is not None:
            if not place.by_us:
                self.counts[
                    f"ended by itself: {'SIGKILL at a failpoint' if status == -signal.SIGKILL else status}"
                ] += 1
            self._start(place)
        elif place.stopped_at is None and _is_stopped(process.pid):
            self.counts["SIGSTOP at a failpoint"] += 1
            place.stopped_at = now
        elif place.stopped_at is not None and now - place.stopped_at >= STOP_SECONDS:
            place.stopped_at = None
            process.send_signal(signal.SIGCONT)

    def _strike(self, place: Place, now: float) -> None:
        process = place.process
        assert process is not None
        if process.poll() is not None or place.stopped_at is not None:
            return
        if self.random.random() < 0.6:
            self._kill(place)
        else:
            self.counts["SIGSTOP"] += 1
            self.counts[f"SIGSTOP {place.kind}"] += 1
            place.stopped_at = now
            process.send_signal(signal.SIGSTOP)

    def _kill(self, place: Place) -> None:
        self.counts["SIGKILL"] += 1
        self.counts[f"SIGKILL {place.kind}"] += 1
        place.by_us = True
        assert place.process is not None
        place.process.kill()

    def _start(self, place: Place) -> None:
        place.by_us, place.stopped_at = False, None
        place.process = place.start(self._failpoint(place.kind) if self.armed else {})

    def _failpoint(self, kind: str) -> dict[str, str]:
        family = kind if kind in FAILPOINTS and self.random.random() < 0.85 else "any"
        if kind == "worker":
            family = "worker"
        name = self.random.choice(FAILPOINTS[family])
        action = "kill9" if self.random.random() < 0.7 else "stop"
        nth = self.random.randint(1, MOST_PASSES[family])
        return {VARIABLE: f"{name}:{action}:{nth}", ALLOWED: "yes", LOG: str(self.log)}


def _is_stopped(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


def _wait(process: Process) -> None:
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(15)


def now() -> float:
    """Return seconds that only grow."""
    return time.monotonic()
