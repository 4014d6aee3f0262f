"""Overlap: may a run of a schedule start while others of the same schedule have not ended?

A run whose schedule does not simply allow everything is *held* behind the schedule's *gate*. From its due instant on
the gate decides about it. A run that the gate has let in is *active* until it ends: while it waits for a worker,
runs, or rests between two attempts.

    held, not due ──> held, due ──> active ──> its end
                          │
                          ├──> skipped     the policy keeps no more of them
                          ├──> coalesced   a later one took its place
                          └──> expired     its start deadline passed first

`decide` looks at one gate: what is active, the due runs of its line, the policy. Policies differ in what becomes of a
run for which there is no room:

    allow              waits for room (there is always room, unless the schedule names a most)
    skip               skipped
    buffer_one         one waits, the others are skipped
    buffer_latest      the latest waits, and takes the place of the one that waited
    buffer_all         they wait in order, up to a most; the others are skipped
    cancel_other       the latest waits; the oldest active ones are asked to stop, as many as it takes
    terminate_other    the same, but they are stopped at once: their leases are revoked
    strict_sequential  they wait in order of their nominal instants, one at a time, whatever comes; none is ever skipped

Invariants

1. Never more than `most_running` are active: `decide` admits no more than there is room for. The caller holds the
gate's
   lock from reading what is active until the decision is written.
2. Every due run of the line gets exactly one verdict, so none is forgotten; waiting is a verdict, with its reason.
3. The line is first come, first served: of two runs that are let in, the one that comes first in the line goes first.
   Under `strict_sequential` the line's order is that of the nominal instants.
4. The answer depends on the arguments alone. Deciding again, after a crash or in a second gatekeeper, gives it again.
5. Asking an active run to stop makes no room; its end does. A run that was asked already is not asked again.

A paused schedule lets none of its own planned runs in; one that a person, a backfill or a redrive asks for is let in.
Under `strict_sequential` with `on_failure: hold` a dead run *holds the line up*: only redrives, runs that were made
from another one, are let in, until one of them succeeds or somebody releases the line.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from everwhen.core.lifecycle import RunState
from everwhen.core.reasons import Reason

MOST_RUNNING: Final = 1_000
"""The most that `max_running` may say."""

MOST_BUFFERED: Final = 1_000
"""The most that `max_buffered` may say."""

DEFAULT_BUFFERED: Final = 100
"""How many runs `buffer_all` keeps waiting when it is not told."""

MOST_NAMED: Final = 10
"""How many of the runs that block another are named with it."""


class OverlapPolicy(StrEnum):
    """What becomes of a run that is due while earlier ones of its schedule have not ended."""

    ALLOW = "allow"
    SKIP = "skip"
    BUFFER_ONE = "buffer_one"
    BUFFER_LATEST = "buffer_latest"
    BUFFER_ALL = "buffer_all"
    CANCEL_OTHER = "cancel_other"
    TERMINATE_OTHER = "terminate_other"
    STRICT_SEQUENTIAL = "strict_sequential"


class OverlapWish(StrEnum):
    """What whoever asks for a run wants of the schedule's overlap policy."""

    RESPECT = "respect"  # as if the schedule had planned it
    WAIT = "wait"  # wait for room, whatever the policy does with a run for which there is none
    IGNORE = "ignore"  # start beside the others, and count for none of them


class OnFailure(StrEnum):
    """What a dead run does to the line behind it, under `strict_sequential`."""

    CONTINUE = "continue"
    HOLD = "hold"


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """The overlap policy of a schedule.

    `max_running` None: no limit under `allow`, else one. `max_buffered` counts for `buffer_all` only.
    """

    policy: OverlapPolicy = OverlapPolicy.ALLOW
    max_running: int | None = None
    max_buffered: int | None = None
    on_failure: OnFailure = OnFailure.CONTINUE

    @property
    def is_gated(self) -> bool:
        """Whether runs are held until they are let in."""
        return self.policy is not OverlapPolicy.ALLOW or self.max_running is not None

    @property
    def is_strict(self) -> bool:
        """Whether the line is in order of the nominal instants."""
        return self.policy is OverlapPolicy.STRICT_SEQUENTIAL

    @property
    def most_running(self) -> int | None:
        """How many may be active at once; None: any number."""
        if self.max_running is None and self.is_gated:
            return 1
        return self.max_running

    @property
    def most_waiting(self) -> int | None:
        """How many may wait for room; None: any number."""
        match self.policy:
            case OverlapPolicy.SKIP:
                return 0
            case OverlapPolicy.BUFFER_ONE | OverlapPolicy.BUFFER_LATEST:
                return 1
            case OverlapPolicy.BUFFER_ALL:
                return DEFAULT_BUFFERED if self.max_buffered is None else self.max_buffered
            case OverlapPolicy.CANCEL_OTHER | OverlapPolicy.TERMINATE_OTHER:
                return self.most_running
            case OverlapPolicy.ALLOW | OverlapPolicy.STRICT_SEQUENTIAL:
                return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """What a decision needs to know of a schedule. `held_up_by` is the dead run that holds the line up."""

    overlap: Overlap
    is_paused: bool = False
    held_up_by: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveRun:
    """A run that was let in and has not ended; `is_stopping` when it was asked to stop."""

    run_id: UUID
    is_stopping: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRun:
    """A run in the line of a gate.

    `deadline` is the reason with which it ends at `expires_at`. `is_planned`: its schedule planned it. `is_patient`:
    whoever asked for it wants it to wait for room, whatever the policy does. `origin_run_id` is the run that it was
    made from.
    """

    run_id: UUID
    due_at: datetime
    expires_at: datetime | None = None
    deadline: Reason = Reason.START_DEADLINE
    is_planned: bool = True
    is_patient: bool = False
    origin_run_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Admit:
    """Let the run in."""

    run_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """End the run before it was let in: skipped, coalesced or expired. `blocked_by` are the runs in its way."""

    run_id: UUID
    state: RunState
    reason: Reason
    blocked_by: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Keep the run in the line. `blocked_by` are the runs, or some of them, that have to end first."""

    run_id: UUID
    reason: Reason
    blocked_by: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Have an active run stopped, in favour of `by`."""

    run_id: UUID
    by: UUID


Verdict = Admit | Turn | Wait | Stop


def decide(gate: Gate, *, active: Sequence[ActiveRun], line: Sequence[HeldRun], now: datetime) -> list[Verdict]:
    """Answer every due run of the line, which comes in its order; `active` comes oldest first.

    The verdicts on the line keep its order; the stops come last.
    """
    due = [run for run in line if run.due_at <= now]
    late = {run.run_id for run in due if run.expires_at is not None and run.expires_at <= now}
    verdicts: list[Verdict] = [_expired(run) for run in due if run.run_id in late]
    shut = {run.run_id: reason for run in due if (reason := _shut_out(gate, run)) is not None}
    shut = _whole_line(gate, due, shut)
    verdicts += [Wait(run_id=run.run_id, reason=shut[run.run_id], blocked_by=_holder(gate, shut[run.run_id]))
                 for run in due if run.run_id in shut and run.run_id not in late]  # fmt: skip
    candidates = [run for run in due if run.run_id not in late and run.run_id not in shut]
    most = gate.overlap.most_running
    room = len(candidates) if most is None else max(0, most - len(active))
    return verdicts + _serve(gate.overlap, candidates, room=room, active=active, asleep=len(shut))


def _serve(
    overlap: Overlap, candidates: Sequence[HeldRun], *, room: int, active: Sequence[ActiveRun], asleep: int
) -> list[Verdict]:
    """Answer those that only want room."""
    if overlap.policy in {OverlapPolicy.CANCEL_OTHER, OverlapPolicy.TERMINATE_OTHER}:
        return _replace(overlap, candidates, room=room, active=active)
    admitted, behind = candidates[:room], candidates[room:]
    blocking = (*(run.run_id for run in active), *(run.run_id for run in admitted))[:MOST_NAMED]
    patient = [run for run in behind if run.is_patient]
    others = [run for run in behind if not run.is_patient]
    kept, turned = _kept(overlap, others, asleep=asleep)
    verdicts: list[Verdict] = [Admit(run_id=run.run_id) for run in admitted]
    verdicts += [Wait(run_id=run.run_id, reason=Reason.LIMIT_SCHEDULE, blocked_by=blocking) for run in patient]
    waiting = Reason.LIMIT_SCHEDULE if overlap.policy is OverlapPolicy.ALLOW else Reason.OVERLAP_BUFFERED
    verdicts += [Wait(run_id=run.run_id, reason=waiting, blocked_by=blocking) for run in kept]
    return verdicts + [_turned(overlap, run, kept, blocking) for run in turned]


def _kept(overlap: Overlap, others: Sequence[HeldRun], *, asleep: int) -> tuple[Sequence[HeldRun], Sequence[HeldRun]]:
    """Part those that may wait from those that may not."""
    most = overlap.most_waiting
    if most is None:
        return others, ()
    if overlap.policy is OverlapPolicy.BUFFER_LATEST:
        return others[len(others) - most :] if len(others) > most else others, others[:-most]
    most = max(0, most - asleep)
    return others[:most], others[most:]


def _turned(overlap: Overlap, run: HeldRun, kept: Sequence[HeldRun], blocking: tuple[UUID, ...]) -> Turn:
    if overlap.policy is OverlapPolicy.BUFFER_LATEST:
        return _replaced(run, by=kept[-1])
    buffers = overlap.policy in {OverlapPolicy.BUFFER_ONE, OverlapPolicy.BUFFER_ALL}
    reason = Reason.OVERLAP_BUFFER_FULL if buffers else Reason.OVERLAP_PREVIOUS_RUNNING
    return Turn(run_id=run.run_id, state=RunState.SKIPPED, reason=reason, blocked_by=blocking)


def _replace(
    overlap: Overlap, candidates: Sequence[HeldRun], *, room: int, active: Sequence[ActiveRun]
) -> list[Verdict]:
    """Let the latest in, and have the oldest active ones stopped in their favour."""
    most = overlap.most_running or 1
    patient = [run for run in candidates if run.is_patient]
    pushing = [run for run in candidates if not run.is_patient]
    kept, replaced = pushing[max(0, len(pushing) - most) :], pushing[: max(0, len(pushing) - most)]
    admitted, behind = kept[:room], kept[room:]
    still_room = max(0, room - len(admitted))
    verdicts: list[Verdict] = [_replaced(run, by=kept[-1]) for run in replaced]
    verdicts += [Admit(run_id=run.run_id) for run in (*admitted, *patient[:still_room])]
    stopping = [run for run in active if run.is_stopping]
    stops = [run for run in active if not run.is_stopping][: max(0, len(behind) - len(stopping))]
    blocking = tuple(run.run_id for run in (*stopping, *stops))[:MOST_NAMED]
    verdicts += [Wait(run_id=run.run_id, reason=Reason.OVERLAP_STOPPING, blocked_by=blocking) for run in behind]
    running = tuple(run.run_id for run in active)[:MOST_NAMED]
    verdicts += [
        Wait(run_id=run.run_id, reason=Reason.LIMIT_SCHEDULE, blocked_by=running) for run in patient[still_room:]
    ]
    return verdicts + [Stop(run_id=run.run_id, by=behind[-1].run_id) for run in stops]


def _replaced(run: HeldRun, *, by: HeldRun) -> Turn:
    return Turn(run_id=run.run_id, state=RunState.COALESCED, reason=Reason.OVERLAP_SUPERSEDED, blocked_by=(by.run_id,))


def _expired(run: HeldRun) -> Turn:
    return Turn(run_id=run.run_id, state=RunState.EXPIRED, reason=run.deadline)


def _shut_out(gate: Gate, run: HeldRun) -> Reason | None:
    """Say what keeps this run out even if there were room."""
    if gate.held_up_by is not None and run.origin_run_id is None:
        return Reason.OVERLAP_LINE_HELD
    return Reason.SCHEDULE_PAUSED if gate.is_paused and run.is_planned else None


def _whole_line(gate: Gate, due: Sequence[HeldRun], shut: dict[UUID, Reason]) -> dict[UUID, Reason]:
    """Where order is strict, nobody passes by one who is shut out, except what mends a line that is held up."""
    if not gate.overlap.is_strict or gate.held_up_by is not None:
        return shut
    first = next((number for number, run in enumerate(due) if run.run_id in shut), len(due))
    return shut | {run.run_id: Reason.SCHEDULE_PAUSED for run in due[first:]}


def _holder(gate: Gate, reason: Reason) -> tuple[UUID, ...]:
    return (gate.held_up_by,) if reason is Reason.OVERLAP_LINE_HELD and gate.held_up_by is not None else ()


def line_after(gate: Gate, *, ended: UUID, state: RunState) -> UUID | None:
    """Return which dead run holds the line up once this active run has ended."""
    if not gate.overlap.is_strict or gate.overlap.on_failure is OnFailure.CONTINUE:
        return None
    if state is RunState.DEAD:
        return ended
    return None if state is RunState.SUCCEEDED else gate.held_up_by
