"""The gates: whose runs may start while earlier ones have not ended, decided under the lock of the schedule's gate.

A run of a gated schedule is written into `held`, the gate's line, instead of the line of its queue. Three decide about
it, all by `decide_gates`:

    the gatekeeper          at the instant at which it is due, and at its start deadline
    the end of a run        in the transaction that ends it: the slot is free, and the next one is let in at once
    who asks for a run now  in the transaction that writes it

A run that is let in gets a *slot* (a row in `admitted`) and its place in the line of its queue, in one statement. The
slot is given back by whoever ends the run, since the run is followed (see runs/ends.py).

Invariants

1. Slots are counted, given and given back under the gate's lock, in statements that come after the lock. So there are
   never more than the policy allows, at no commit.
2. A run is in exactly one place: `held`, or the line of its queue, or a lease, or ended. Every move deletes the one row
   and writes the other in one statement; a row that is gone by then was cancelled, and the gate decides again.
3. A held row has an instant at which somebody looks at it (`look_at`: due, then the start deadline), or it waits for
the
   end of a run that has a slot, for a resumed schedule, or for a line that is let go; each of these looks at the line.
4. `decided_at` of a gate never goes back, and events of a decision carry it: whoever is let in after an end is recorded
   as let in no earlier than that end, even if the transaction that lets it in began before.

The order of locks, which keeps any two of these from waiting for each other:

    schedule and watermark  →  places in the line, leases  →  held rows  →  gates by key  →  streaks by key

Who holds a gate never waits for a place in the line or a lease: to stop a run, rows are taken with SKIP LOCKED, and
what is locked is looked at again after RETRY; its end, if that is what it is about, comes back to the gate anyhow. A
held row is locked without its gate only by a cancel, which asks for no gate afterwards.

Crash points. A decision and what it does are one transaction: before its commit nothing has happened, and the rows have
the `look_at` they had, so the next gatekeeper decides the same. The end of a run and the start of the next one are one
transaction, too. A gatekeeper that dies holds no row back: its locks go with its connection.
"""

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar
from uuid import UUID

from everwhen.core import lifecycle
from everwhen.core.lifecycle import Run, RunState, Transition
from everwhen.core.overlap import Admit, Gate, Overlap, OverlapPolicy, Stop, Turn, Verdict, Wait, decide, line_after
from everwhen.core.reasons import Reason
from everwhen.core.retry import RetryPolicy
from everwhen.core.targets import WORKFLOW_QUEUE
from everwhen.dispatch import service as dispatch
from everwhen.dispatch.reports import Closing
from everwhen.errors import Conflict, Unavailable
from everwhen.overlap import store
from everwhen.overlap.model import GateKey, GateRow, HeldRow, OpenLease, Slot
from everwhen.postgres.pool import Connection
from everwhen.postgres.wakeups import line_topic, notify, role_topic
from everwhen.runs.ends import Ended, OnEnded, nobody_follows

ROUNDS: Final = 4
"""How often one decision is taken again at once, because a run was cancelled meanwhile or a stop has made room."""

RETRY: Final = timedelta(milliseconds=50)
"""When to look again at what somebody else had locked."""

MARGIN: Final = 50
"""How many runs of a line are looked at beyond those for which there may be room."""

MOST_ADOPTED: Final = 5_000
"""With how many live runs a schedule may still be given a gate."""

MOST_LEFT_BEHIND: Final = 5_000
"""How many runs the end of a schedule may leave to be skipped."""

GATEKEEPER_TOPIC: Final = role_topic("gatekeeper")

_Keyed = TypeVar("_Keyed", HeldRow, Slot)


@dataclass(slots=True)
class _Tally:
    """What a decision has come to so far. `at` is the instant of its events; it only grows."""

    at: datetime
    ended: list[Ended] = field(default_factory=list[Ended])
    lines: set[tuple[UUID, str]] = field(default_factory=set[tuple[UUID, str]])
    again: set[GateKey] = field(default_factory=set[GateKey])
    later: set[GateKey] = field(default_factory=set[GateKey])
    written: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """One verdict, and whose gate has given it."""

    key: GateKey
    gate: Gate
    verdict: Verdict


def follow(then: OnEnded = nobody_follows) -> OnEnded:
    """Return what has to be told of ended runs: their slots are free. `then` hears of the ends that follow from it."""

    async def on_ended(conn: Connection, ended: Sequence[Ended], now: datetime) -> None:
        states = {each.run_id: RunState(each.state) for each in ended}
        tenant_ids = sorted({each.tenant_id for each in ended})
        slots = await store.find_slots(conn, tenant_ids=tenant_ids, run_ids=states)
        if not slots:
            return
        gates = await store.lock_gates(conn, **_columns({slot.key for slot in slots}))
        await store.free_slots(conn, tenant_ids=tenant_ids, run_ids=states)
        for slot in slots:
            gates = [_after(row, slot.run_id, states[slot.run_id]) if row.key == slot.key else row for row in gates]
        await decide_gates(conn, gates, now=now, is_end=True, then=then)

    return on_ended


async def expect(
    conn: Connection, *, tenant_id: UUID, schedule_uid: UUID, run_id: UUID, then: OnEnded = nobody_follows
) -> None:
    """Decide about a run that the caller has just written into a line; one not due is left to the gatekeeper."""
    gates = await store.lock_gates(conn, tenant_ids=[tenant_id], schedule_uids=[schedule_uid])
    await decide_gates(conn, gates, now=conn.now, looked=[run_id], then=then)
    await notify(conn, [GATEKEEPER_TOPIC])


async def decide_gates(
    conn: Connection,
    gates: Sequence[GateRow],
    *,
    now: datetime,
    looked: Iterable[UUID] = (),
    is_end: bool = False,
    then: OnEnded,
) -> int:
    """Decide about the lines of these gates, which the caller has locked; return how many verdicts were written.

    Of each line the head is looked at, and the runs `looked` wherever they stand. `is_end`: slots have been given back.
    `then` hears of the runs that end.
    """
    tally = _Tally(at=_latest(gates, now))
    looked = list(looked)
    pending = {row.key: row.gate() for row in gates}
    for _ in range(ROUNDS):
        if not pending:
            break
        tally.again.clear()
        await _write(conn, await _verdicts(conn, pending, looked, now=now), tally, now=now)
        pending = {key: pending[key] for key in sorted(tally.again)}
    if later := tally.later | tally.again:
        await store.look_again(conn, **_columns(later), at=now + RETRY, now=now)
    if tally.written or is_end:
        await _mark(conn, {row.key: row.held_up_by for row in gates}, at=tally.at)
    await notify(conn, (line_topic(tenant_id, queue) for tenant_id, queue in tally.lines))
    if tally.ended:
        await then(conn, tally.ended, now)
    return tally.written


async def keep_gate(
    conn: Connection, *, tenant_id: UUID, schedule_uid: UUID, overlap: Overlap, is_paused: bool, now: datetime
) -> None:
    """Write the policy of a schedule that has or had a gate, and have its line decided anew; the caller holds it."""
    await store.save_gate(
        conn,
        tenant_id=tenant_id,
        schedule_uid=schedule_uid,
        policy=overlap.policy,
        max_running=overlap.max_running,
        max_buffered=overlap.max_buffered,
        on_failure=overlap.on_failure,
        is_paused=is_paused,
        now=now,
    )
    await store.reorder_line(conn, tenant_id=tenant_id, schedule_uid=schedule_uid, is_strict=overlap.is_strict)
    await store.look_at_all(conn, tenant_id=tenant_id, schedule_uid=schedule_uid, now=now)
    await notify(conn, [GATEKEEPER_TOPIC])


async def pause_gate(conn: Connection, *, tenant_id: UUID, schedule_uid: UUID, is_paused: bool, now: datetime) -> None:
    """Let in what the schedule planned no longer, or again; the caller holds the schedule, which may have no gate."""
    if await store.pause_gate(conn, tenant_id=tenant_id, schedule_uid=schedule_uid, is_paused=is_paused):
        await store.look_at_all(conn, tenant_id=tenant_id, schedule_uid=schedule_uid, now=now)
        await notify(conn, [GATEKEEPER_TOPIC])


async def adopt_runs(conn: Connection, *, tenant_id: UUID, schedule_uid: UUID, now: datetime) -> int:
    """Give slots to the live runs of a schedule that had no gate; the caller holds the schedule, and no gate yet.

    A run moves between the line and a lease while we look, so it is looked for until neither has any.

    Raises:
        Conflict: there are more than MOST_ADOPTED.
        Unavailable: the runs change hands too fast.
    """
    mine: dict[str, UUID] = {"tenant_id": tenant_id, "schedule_uid": schedule_uid}
    adopted = 0
    for _ in range(ROUNDS):
        found = [*await store.adopt_lined_up(conn, **mine), *await store.adopt_leased(conn, **mine)]
        if not found:
            return adopted
        adopted += len(found)
        if adopted > MOST_ADOPTED:
            raise Conflict(
                f"More than {MOST_ADOPTED} runs of the schedule have not ended: wait, or cancel some.",
                code="schedule.busy",
            )
        await store.take_slots(conn, **mine, run_ids=found, at=now)
    raise Unavailable("The schedule's runs change hands too fast; try again.", code="run.busy")


async def leave_behind(
    conn: Connection, *, tenant_id: UUID, schedule_uid: UUID, now: datetime, then: OnEnded = nobody_follows
) -> int:
    """Skip what a schedule planned, is due and was not let in, because it is deleted; return how many."""
    mine: dict[str, UUID] = {"tenant_id": tenant_id, "schedule_uid": schedule_uid}
    gates = await store.lock_gates(conn, tenant_ids=[tenant_id], schedule_uids=[schedule_uid])
    if not gates:
        return 0
    run_ids = await store.find_left_behind(conn, **mine, now=now, limit=MOST_LEFT_BEHIND)
    tally = _Tally(at=_latest(gates, now))
    turns = [
        _Asked(
            key=gates[0].key,
            gate=gates[0].gate(),
            verdict=Turn(run_id=run_id, state=RunState.SKIPPED, reason=Reason.SCHEDULE_DELETED),
        )
        for run_id in run_ids
    ]
    await _turn_away(conn, turns, tally)
    if tally.ended:
        await then(conn, tally.ended, now)
    return tally.written


async def release_line(conn: Connection, *, tenant_id: UUID, schedule_uid: UUID, now: datetime) -> bool:
    """Let a line go on that a dead run holds up; False when none did."""
    if not await store.release_gate(conn, tenant_id=tenant_id, schedule_uid=schedule_uid):
        return False
    await store.look_at_all(conn, tenant_id=tenant_id, schedule_uid=schedule_uid, now=now)
    await notify(conn, [GATEKEEPER_TOPIC])
    return True


async def _verdicts(
    conn: Connection, gates: Mapping[GateKey, Gate], looked: Sequence[UUID], *, now: datetime
) -> list[tuple[_Asked, HeldRow | None]]:
    """Return the verdicts of each gate, those on held runs with their rows."""
    columns = _columns(gates)
    limits = [_most_looked_at(gates[key]) for key in sorted(gates)]
    lines = _by_gate(await store.read_line(conn, **columns, limits=limits, looked=looked, now=now))
    if not lines:
        return []
    slots = _by_gate(await store.read_slots(conn, **_columns(lines)))
    found: list[tuple[_Asked, HeldRow | None]] = []
    for key, line in lines.items():
        rows = {row.run_id: row for row in line}
        active = [slot.run() for slot in slots.get(key, ())]
        verdicts = decide(gates[key], active=active, line=[row.run() for row in line], now=now)
        found += ((_Asked(key=key, gate=gates[key], verdict=each), rows.get(each.run_id)) for each in verdicts)
    return found


def _most_looked_at(gate: Gate) -> int:
    return (gate.overlap.most_running or 0) + (gate.overlap.most_waiting or 0) + MARGIN


async def _write(
    conn: Connection,
    found: Sequence[tuple[_Asked, HeldRow | None]],
    tally: _Tally,
    *,
    now: datetime,
) -> None:
    asked = [each for each, _ in found]
    await _turn_away(conn, [each for each in asked if isinstance(each.verdict, Turn)], tally)
    await _admit(conn, [each for each in asked if isinstance(each.verdict, Admit)], tally, now=now)
    await _keep(conn, [(each, row) for each, row in found if isinstance(each.verdict, Wait)], tally, now=now)
    await _stop(conn, [each for each in asked if isinstance(each.verdict, Stop)], tally)


async def _turn_away(conn: Connection, turns: Sequence[_Asked], tally: _Tally) -> None:
    if not turns:
        return
    said = {each.verdict.run_id: each.verdict for each in turns if isinstance(each.verdict, Turn)}
    taken = await store.turn_away(
        conn,
        tenant_ids=sorted({each.key.tenant_id for each in turns}),
        run_ids=list(said),
        states=[turn.state for turn in said.values()],
        reasons=[turn.reason for turn in said.values()],
        details=[_blocked_by(turn) for turn in said.values()],
        at=tally.at,
    )
    _note(turns, {each.run_id for each in taken}, tally)
    tally.ended += (
        Ended(
            tenant_id=each.tenant_id,
            run_id=each.run_id,
            state=said[each.run_id].state,
            reason=said[each.run_id].reason,
        )
        for each in taken
    )


async def _admit(conn: Connection, admits: Sequence[_Asked], tally: _Tally, *, now: datetime) -> None:
    if not admits:
        return
    taken = await store.admit_runs(
        conn,
        tenant_ids=sorted({each.key.tenant_id for each in admits}),
        run_ids=[each.verdict.run_id for each in admits],
        details=[_allowed(each.gate) for each in admits],
        at=tally.at,
        now=now,
    )
    _note(admits, {each.run_id for each in taken}, tally)
    tally.lines |= {(each.tenant_id, each.queue) for each in taken}


async def _keep(
    conn: Connection,
    waits: Sequence[tuple[_Asked, HeldRow | None]],
    tally: _Tally,
    *,
    now: datetime,
) -> None:
    """Write why runs wait, where that is new; whoever waited for the same before is left alone."""
    said = {
        row.run_id: (each.key.tenant_id, each.verdict)
        for each, row in waits
        if row is not None and isinstance(each.verdict, Wait) and _is_news(each.verdict, row, now=now)
    }
    if not said:
        return
    tally.written += await store.keep_waiting(
        conn,
        tenant_ids=sorted({tenant_id for tenant_id, _ in said.values()}),
        run_ids=list(said),
        reasons=[wait.reason for _, wait in said.values()],
        details=[_blocked_by(wait) for _, wait in said.values()],
        at=tally.at,
    )


def _is_news(wait: Wait, row: HeldRow, *, now: datetime) -> bool:
    return row.reason != wait.reason or (row.look_at is not None and row.look_at <= now)


async def _stop(conn: Connection, stops: Sequence[_Asked], tally: _Tally) -> None:
    """Have active runs stopped: those that nobody holds end here; the others are asked, or lose their lease.

    A workflow's run is asked, whatever the policy: its conductor stops its nodes, see workflows/stopping.py.
    """
    if not stops:
        return
    keys = {each.verdict.run_id: each for each in stops}
    by = {each.verdict.run_id: each.verdict.by for each in stops if isinstance(each.verdict, Stop)}
    tenant_ids = sorted({each.key.tenant_id for each in stops})
    cancelled = await store.cancel_lined_up(conn, tenant_ids=tenant_ids, **_reason_to_stop(by), at=tally.at)
    ended = [
        Ended(
            tenant_id=each.tenant_id,
            run_id=each.run_id,
            state=RunState.CANCELLED,
            reason=Reason.OVERLAP_CANCELLED_OTHER,
        )
        for each in cancelled
    ]
    left = {run_id: each for run_id, each in keys.items() if run_id not in {end.run_id for end in ended}}
    hard = [run for run, each in left.items() if each.gate.overlap.policy is OverlapPolicy.TERMINATE_OTHER]
    composed = set(await store.find_workflow_runs(conn, tenant_ids=tenant_ids, run_ids=list(left)))
    hard = [run for run in hard if run not in composed]  # what runs of a workflow is its conductor's to revoke
    ended += await _revoke(conn, tenant_ids, hard, tally)
    soft = {run: by[run] for run in left if run not in hard}
    asked = await store.ask_to_stop(conn, tenant_ids=tenant_ids, **_reason_to_stop(soft), at=tally.at) if soft else []
    await store.mark_stopping(conn, tenant_ids=tenant_ids, run_ids=[each.run_id for each in asked], at=tally.at)
    await store.free_slots(conn, tenant_ids=tenant_ids, run_ids=[end.run_id for end in ended])
    done = {end.run_id for end in ended}
    tally.again |= {keys[run_id].key for run_id in done}
    tally.later |= {keys[run_id].key for run_id in keys.keys() - done - {each.run_id for each in asked}}
    tally.lines |= {(each.tenant_id, WORKFLOW_QUEUE) for each in asked if each.run_id in composed}
    tally.ended += ended
    tally.written += len(ended) + len(asked)


def _reason_to_stop(by: Mapping[UUID, UUID]) -> dict[str, Any]:
    return {
        "run_ids": list(by),
        "reason": Reason.OVERLAP_CANCELLED_OTHER,
        "details": [json.dumps({"by": str(other)}) for other in by.values()],
    }


async def _revoke(conn: Connection, tenant_ids: Sequence[UUID], run_ids: Sequence[UUID], tally: _Tally) -> list[Ended]:
    """Take the leases of these runs back, as far as nobody else has them locked; return which runs have ended."""
    if not run_ids:
        return []
    leases = await store.lock_leases_to_revoke(conn, tenant_ids=tenant_ids, run_ids=run_ids)
    # A claim may have committed while we waited for the gate, in a transaction that began after ours.
    tally.at = max((tally.at, *(lease.claimed_at for lease in leases)))
    closings = [closing for lease in leases if (closing := _revoked(lease, at=tally.at)) is not None]
    closed = await dispatch.close(conn, closings, now=tally.at, on_ended=nobody_follows)
    return [
        Ended(tenant_id=tenant_id, run_id=run_id, state=RunState.CANCELLED, reason=Reason.OVERLAP_CANCELLED_OTHER)
        for tenant_id, run_id in sorted((closing.tenant_id, closing.run_id) for closing in closed)
    ]


def _revoked(lease: OpenLease, *, at: datetime) -> Closing | None:
    run = Run(state=RunState.RUNNING, failures=lease.failures, lease_token=lease.lease_token)
    # To revoke a lease asks no policy and draws no jitter.
    decision = lifecycle.decide(run, lifecycle.Revoked(lease.lease_token), now=at, policy=RetryPolicy(), jitter=0.0)
    if not isinstance(decision, Transition):
        return None
    return Closing(tenant_id=lease.tenant_id, run_id=lease.run_id, lease_token=lease.lease_token, transition=decision)


def _note(asked: Sequence[_Asked], taken: set[UUID], tally: _Tally) -> None:
    """Count what was written. Whose row was gone has to decide again: another one may come in its place."""
    tally.written += len(taken)
    tally.again |= {each.key for each in asked if each.verdict.run_id not in taken}


async def _mark(conn: Connection, held_up: Mapping[GateKey, UUID | None], *, at: datetime) -> None:
    ordered = sorted(held_up)
    await store.mark_decided(conn, **_columns(ordered), held_up_by=[held_up[key] for key in ordered], at=at)


def _latest(gates: Iterable[GateRow], now: datetime) -> datetime:
    return max((now, *(row.decided_at for row in gates)))


def _after(row: GateRow, run_id: UUID, state: RunState) -> GateRow:
    return dataclasses.replace(row, held_up_by=line_after(row.gate(), ended=run_id, state=state))


def _blocked_by(verdict: Turn | Wait) -> str:
    return json.dumps({"blocked_by": [str(run_id) for run_id in verdict.blocked_by]})


def _allowed(gate: Gate) -> str | None:
    most = gate.overlap.most_running
    return None if most is None else json.dumps({"most_running": most})


def _columns(keys: Iterable[GateKey]) -> dict[str, list[UUID]]:
    ordered = sorted(keys)
    return {"tenant_ids": [key.tenant_id for key in ordered], "schedule_uids": [key.schedule_uid for key in ordered]}


def _by_gate(rows: Iterable[_Keyed]) -> dict[GateKey, list[_Keyed]]:
    found: dict[GateKey, list[_Keyed]] = {}
    for row in rows:
        found.setdefault(row.key, []).append(row)
    return found
