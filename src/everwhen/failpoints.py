"""Failpoints: named places in the code at which a test kills, stops, fails or delays this very process.

Correctness after a crash is decided between two statements, and a signal from outside seldom lands there. So the places
that matter have a name, POINTS lists them all, and each costs one look at a module's variable while nothing is armed.

    EVERWHEN_FAILPOINTS_ALLOWED=yes
    EVERWHEN_FAILPOINT=complete.after_commit:kill9:0.01,scheduler.before_commit:stop:3

A failpoint is `name:action[:when]`; several are separated by commas.

    kill9           the process kills itself, as the kernel would for want of memory
    stop            it stops itself (SIGSTOP) until somebody continues it, as a paused machine would
    error           FailpointError is raised there
    sleep[=seconds] the whole process stands still, one second unless told otherwise

`when` is a whole number (the n-th pass fires, once) or a probability with a point in it (each pass fires with it);
without it every pass fires. With EVERWHEN_FAILPOINT_LOG each shot first leaves a line in that file: name, action, pid.

Never by accident: a process that finds EVERWHEN_FAILPOINT and not the permission refuses to start. This module needs
the standard library only, because the worker's SDK passes through it, too.
"""

import os
import secrets
import signal
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

VARIABLE: Final = "EVERWHEN_FAILPOINT"
ALLOWED: Final = "EVERWHEN_FAILPOINTS_ALLOWED"
LOG: Final = "EVERWHEN_FAILPOINT_LOG"

POINTS: Final[Mapping[str, str]] = {
    "scheduler.before_claim": "before a tick locks any schedule",
    "scheduler.after_claim": "schedules are locked, nothing is planned",
    "scheduler.before_commit": "runs and watermarks are written, not committed",
    "scheduler.after_commit": "what was planned is committed, the tick has not ended",
    "catchup.after_claim": "arrears are locked, no step of them is taken",
    "catchup.before_commit": "a step of arrears is written, not committed",
    "claim.before_commit": "leases are written, not committed",
    "claim.after_commit": "leases are granted, the worker has not been told",
    "heartbeat.before_commit": "leases are renewed, not committed",
    "heartbeat.after_commit": "leases are renewed, the worker has not been told",
    "complete.before_commit": "reports are written, not committed",
    "complete.after_commit": "reports are taken, the worker has not been told",
    "reaper.before_commit": "leases that ran out are closed, not committed",
    "reaper.after_commit": "leases that ran out are closed, the tick has not ended",
    "caller.before_post": "a run is leased for an endpoint, nothing is sent",
    "caller.after_post": "an endpoint has answered, nothing is written of it",
    "upload.after_piece": "a piece of a payload is in the store, more of it may come",
    "upload.before_commit": "a payload's row is written, not committed",
    "upload.after_commit": "a payload is committed, its uploader has not been told",
    "log.after_put": "a piece of a log is in the store, the log does not refer to it yet",
    "expiry.before_commit": "runs past their start deadline are ended, not committed",
    "expiry.after_commit": "runs past their start deadline are ended, the tick has not ended",
    "gatekeeper.before_commit": "runs are let in or turned away by their schedules' gates, not committed",
    "gatekeeper.after_commit": "what the gates decided is committed, the tick has not ended",
    "start_workflow.before_commit": "workflows' runs are started and their first nodes released, not committed",
    "start_workflow.after_commit": "workflows' runs are started, the tick has not ended",
    "release_node.before_commit": "nodes of a workflow are released by what ended, or by a free key, not committed",
    "release_node.after_commit": "a node whose key is free is released, the tick has not ended",
    "conduct.before_commit": "a workflow's run is ended or halted, not committed",
    "conduct.after_commit": "a workflow's run is ended or halted, what runs of it has not been stopped",
    "operator.before_commit": "a batch of an operation is made and counted, not committed",
    "operator.after_commit": "a batch of an operation is committed, the tick has not ended",
    "sentinel.before_commit": "findings are opened and closed, not committed",
    "sentinel.after_commit": "findings are opened and closed, the tick has not ended",
    "sealer.before_commit": "events have their links, and the heads have moved, not committed",
    "sealer.after_commit": "events are chained, the tick has not ended",
    "notary.after_note": "heads are noted outside, that is not written",
    "matching.before_commit": "signals are taken and messages gathered, not committed",
    "matching.after_commit": "signals are taken and messages gathered, the tick has not ended",
    "courier.before_send": "a delivery is leased, nothing has been sent",
    "courier.after_send": "a delivery has been sent, nothing of it is written",
    "courier.before_commit": "what came of a delivery is written, not committed",
    "tell.before_commit": "it is written which runs a broker is to be told of, not committed",
    "tell.after_commit": "it is committed which runs a broker is to be told of, it has not been told",
    "relay.after_publish": "a broker has been told of runs, that it has is not written",
    "relay.before_commit": "it is written that a broker has been told of runs, not committed",
    "relay.after_commit": "it is committed that a broker has been told of runs, the tick has not ended",
    "api.before_reply": "the request is carried out and committed, its answer has not been sent",
    "transaction.before_commit": "any transaction, right before its commit",
    "transaction.after_commit": "any transaction, right after its commit",
    "worker.after_claim": "the worker was granted runs and has started none",
    "worker.after_effect": "a task's function has returned, its report has not been made",
    "worker.after_report": "the server has answered reports, the worker has not taken note",
}
"""Every failpoint and what is true there. A test finds each in the code, and sees each fire."""


class FailpointError(RuntimeError):
    """What the action `error` raises: a defect, as far as everybody else is concerned."""


class Action(StrEnum):
    """What happens at a failpoint."""

    KILL9 = "kill9"
    STOP = "stop"
    ERROR = "error"
    SLEEP = "sleep"


@dataclass(slots=True, kw_only=True)
class Trap:
    """One armed failpoint. `nth` and `probability` say which passes fire; neither: all of them."""

    action: Action
    seconds: float = 1.0
    nth: int | None = None
    probability: float | None = None
    passes: int = field(default=0, init=False)

    def fires(self) -> bool:
        """Count a pass and say whether it is one that fires."""
        self.passes += 1
        if self.nth is not None:
            return self.passes == self.nth
        return self.probability is None or secrets.randbelow(1 << 30) < self.probability * (1 << 30)


_traps: Mapping[str, Trap] | None = None


def hit(name: str) -> None:
    """Pass a failpoint. `name` is a literal, one of POINTS."""
    if _traps is not None:
        _spring(name, _traps)


def arm_from_environment() -> list[str]:
    """Arm what the environment asks for and return the names; raise ValueError when it may not, or makes no sense."""
    global _traps  # noqa: PLW0603  # one process, one set of traps: what makes a pass cheap
    asked = os.environ.get(VARIABLE, "").strip()
    if not asked:
        return []
    if os.environ.get(ALLOWED) != "yes":
        raise ValueError(f"{VARIABLE} is set, which makes this process fail on purpose: unset it, or set {ALLOWED}=yes")
    _traps = parse(asked)
    return sorted(_traps)


@contextmanager
def armed(text: str) -> Generator[Mapping[str, Trap]]:
    """Arm these failpoints for a block: what tests use. The traps count their passes."""
    global _traps  # noqa: PLW0603  # as above
    before, _traps = _traps, parse(text)
    try:
        yield _traps
    finally:
        _traps = before


def parse(text: str) -> dict[str, Trap]:
    """Read `name:action[:when]`, separated by commas; raise ValueError that names what is wrong."""
    traps: dict[str, Trap] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, trap = _parse_one(part)
        traps[name] = trap
    return traps


def _parse_one(part: str) -> tuple[str, Trap]:
    name, _, rest = part.partition(":")
    what, _, when = rest.partition(":")
    word, _, seconds = what.partition("=")
    if name not in POINTS:
        raise ValueError(f"{VARIABLE}: there is no failpoint {name!r}; there are {', '.join(POINTS)}")
    try:
        trap = Trap(action=Action(word), seconds=float(seconds or 1.0))
        if "." in when:
            trap.probability = float(when)
        elif when:
            trap.nth = int(when)
    except ValueError as error:
        raise ValueError(f"{VARIABLE}: {part!r} is not name:action[:when] ({error})") from error
    if not (
        0.0 <= trap.seconds <= 3600.0
        and 0.0 <= (trap.probability or 0.0) <= 1.0
        and (trap.nth is None or trap.nth >= 1)
    ):
        raise ValueError(f"{VARIABLE}: {part!r} is out of range")
    return name, trap


def _spring(name: str, traps: Mapping[str, Trap]) -> None:
    trap = traps.get(name)
    if trap is None or not trap.fires():
        return
    _note(name, trap.action)
    match trap.action:
        case Action.KILL9:
            os.kill(os.getpid(), signal.SIGKILL)
        case Action.STOP:
            os.kill(os.getpid(), signal.SIGSTOP)
        case Action.ERROR:
            raise FailpointError(name)
        case Action.SLEEP:
            time.sleep(trap.seconds)


def _note(name: str, action: Action) -> None:
    """Leave a line where the process that reads it survives this one."""
    if path := os.environ.get(LOG):
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(file, f"{name} {action} {os.getpid()}\n".encode())
        finally:
            os.close(file)
