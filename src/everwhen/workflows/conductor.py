"""The conductor: the role that performs workflows' runs. It starts them, halts them, stops what runs, and ends them.

    due           ──> claimed as a worker claims, and started: see starting.py
    cancelled     ──> halted, whoever asked for it and however: the wish is found on the run's lease
    deadline over ──> halted
    halted        ──> what still waits is ended, what runs is stopped, again and again until all has: see stopping.py
    all ended     ──> ended, with what follows from it
    a key is free ──> the node that has waited longest for it is released

What happens between two nodes is not its business: see life.py. The run's lease is the conductor's own. It does not run
out: what would be lost with it is in the rows, and any copy goes on.

Safe in any number of copies. A run is taken with SKIP LOCKED, one a transaction, and looked at anew under its lock; a
copy that dies leaves `look_at` where it was, and the next tick of any copy finds it. Each batch is bounded.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import psycopg
import structlog

from everwhen import failpoints
from everwhen.core.dag import Halt
from everwhen.core.lifecycle import AttemptOutcome, EventKind, RunState, Transition
from everwhen.core.reasons import Reason
from everwhen.core.targets import WORKFLOW_QUEUE
from everwhen.dispatch.model import Lease
from everwhen.dispatch.reports import Closing
from everwhen.dispatch.service import Claim, claim_on, close
from everwhen.dispatch.sharing import Round
from everwhen.postgres.pool import Database
from everwhen.roles import Tick
from everwhen.runs.ends import OnEnded, nobody_follows
from everwhen.workflows import store
from everwhen.workflows.ledger import Ledger
from everwhen.workflows.life import HALT_REASONS, OnReady, halt_nodes, proceed, settle
from everwhen.workflows.model import KeyedNode, RunKey
from everwhen.workflows.outcomes import result_of
from everwhen.workflows.releasing import release_keyed
from everwhen.workflows.starting import start_runs
from everwhen.workflows.stopping import stop_nodes
from everwhen.workflows.versions import load_version

WORKER: Final = "everwhen"
"""Who holds a workflow's run, as it is shown."""

LEASE_SECONDS: Final = 10 * 365 * 86_400.0
STOP_AGAIN: Final = timedelta(seconds=1)

BAD_ROW: Final = (psycopg.DataError, psycopg.IntegrityError)
PUT_OFF: Final = timedelta(minutes=10)

_EVENTS: Final = {
    RunState.SUCCEEDED: (EventKind.SUCCEEDED, AttemptOutcome.SUCCEEDED),
    RunState.DEAD: (EventKind.DEAD, AttemptOutcome.FAILED),
    RunState.CANCELLED: (EventKind.CANCELLED, AttemptOutcome.CANCELLED),
}

log = structlog.get_logger("everwhen.workflows")


@dataclass(frozen=True, slots=True, kw_only=True)
class Conductor:
    """The role. `batch` bounds how many runs one tick starts, and how many it looks at."""

    database: Database
    on_ready: OnReady
    on_ended: OnEnded = nobody_follows
    batch: int = 50
    name: str = "conductor"
    interval: timedelta = timedelta(seconds=1)
    turn: Round = field(default_factory=Round)

    async def tick(self, now: datetime) -> Tick:
        """Start what is due by `now`, and look at what wants to be looked at."""
        started = await self._start(now)
        looked = await self._each(await self._wanted(now), now, self._look)
        async with self.database.system() as conn:
            keyed = await store.find_keyed(conn, limit=self.batch)
        released = [await self._release(each) for each in keyed]
        async with self.database.system() as conn:
            instants = [await store.next_due(conn, now=now), await store.next_look(conn, now=now)]
        done = started + looked + sum(released)
        full = self.batch in {started, looked, len(keyed)}
        return Tick(done=done, more=full and done > 0, next_at=min(filter(None, instants), default=None))

    async def _start(self, now: datetime) -> int:
        async with self.database.system() as conn:
            if not await store.find_due(conn, now=now):
                return 0
            claim = Claim(
                tenant_id=None,
                queues=(WORKFLOW_QUEUE,),
                tasks=None,
                worker=WORKER,
                limit=self.batch,
                lease_seconds=LEASE_SECONDS,
            )
            leases = (await claim_on(conn, claim, turn=self.turn, now=now)).leases
            refused = await start_runs(conn, leases, now=now, on_ready=self.on_ready)
            closings = [_refusal(lease, reason) for lease, reason in refused]
            await close(conn, closings, now=now, on_ended=self.on_ended)
            failpoints.hit("start_workflow.before_commit")
        failpoints.hit("start_workflow.after_commit")
        return len(leases)

    async def _wanted(self, now: datetime) -> list[RunKey]:
        async with self.database.system() as conn:
            looks = await store.find_looks(conn, now=now, limit=self.batch)
            cancelled = await store.find_cancelled(conn, limit=self.batch)
        return list(dict.fromkeys([*looks, *cancelled]))

    async def _each(self, keys: list[RunKey], now: datetime, act: Callable[[RunKey, datetime], Awaitable[bool]]) -> int:
        """Act on each; one that cannot be written is put off and named, and stops nobody else."""
        done = 0
        for key in keys:
            try:
                done += await act(key, now)
            except BAD_ROW as error:
                log.exception("workflow.put_off", run_id=str(key.run_id), error=str(error))
                async with self.database.system() as conn:
                    await store.put_off(conn, tenant_id=key.tenant_id, run_id=key.run_id, until=now + PUT_OFF)
        return done

    async def _look(self, key: RunKey, now: datetime) -> bool:
        """Look at one run: end it, or halt it, or stop what runs of it."""
        async with self.database.system() as conn:
            run = await store.take_run(conn, tenant_id=key.tenant_id, run_id=key.run_id)
            if run is None or run.ended_at is not None or run.started_at is None:
                return False
            version = await load_version(conn, tenant_id=run.tenant_id, workflow=run.workflow, version=run.version)
            ledger = Ledger.open(conn, run, version, now=now)
            if ledger.outcome is not None:
                await self._end(ledger, ledger.outcome)
                is_stopping = False
            else:
                is_stopping = await self._halt(ledger)
            failpoints.hit("conduct.before_commit")
        failpoints.hit("conduct.after_commit")
        if is_stopping:
            async with self.database.system() as conn:
                await stop_nodes(conn, ledger, on_ended=self.on_ended)
        return True

    async def _halt(self, ledger: Ledger) -> bool:
        """Halt a run if it is time to; return whether something of it has to be stopped."""
        why = await self._why_halted(ledger)
        if why is not None:
            await proceed(ledger, await halt_nodes(ledger, why))
        is_stopping = ledger.standing.halt in {Halt.CANCEL, Halt.DEADLINE} and _is_open(ledger)
        ledger.look_at = ledger.now + STOP_AGAIN if is_stopping else _later(ledger)
        await settle(ledger, on_ready=self.on_ready)
        return is_stopping

    async def _why_halted(self, ledger: Ledger) -> Halt | None:
        if ledger.standing.halt in {Halt.CANCEL, Halt.DEADLINE}:
            return None
        if await store.is_cancel_requested(ledger.conn, **ledger.key):
            return Halt.CANCEL
        deadline = ledger.run.deadline_at
        return Halt.DEADLINE if deadline is not None and deadline <= ledger.now else None

    async def _end(self, ledger: Ledger, state: RunState) -> None:
        run = ledger.run
        assert run.lease_token is not None
        kind, outcome = _EVENTS[state]
        halted = ledger.standing.halt
        reason = None
        if state is not RunState.SUCCEEDED:
            reason = Reason.WORKFLOW_NODE_FAILED if halted is None else HALT_REASONS[halted]
        closing = Closing(
            tenant_id=run.tenant_id,
            run_id=run.run_id,
            lease_token=run.lease_token,
            transition=Transition(to=state, event=kind, outcome=outcome, reason=reason),
            result=await result_of(ledger),
            started_at=run.started_at,
        )
        ledger.look_at = None
        await ledger.write(ended_at=ledger.now)
        if not await close(ledger.conn, [closing], now=ledger.now, on_ended=self.on_ended):
            log.error("workflow.lease_lost", run_id=str(run.run_id))

    async def _release(self, keyed: KeyedNode) -> int:
        """Release the node that has waited longest for a key, if nobody has taken it meanwhile."""
        async with self.database.system() as conn:
            run = await store.take_run(conn, tenant_id=keyed.tenant_id, run_id=keyed.run_id)
            if run is None or run.ended_at is not None:
                return 0
            version = await load_version(conn, tenant_id=run.tenant_id, workflow=run.workflow, version=run.version)
            ledger = Ledger.open(conn, run, version, now=conn.now)
            await ledger.load([(keyed.node, keyed.instance)])
            row = ledger.rows[keyed.node, keyed.instance]
            if not row.is_held or ledger.room() == 0:
                return 0
            key, node_run_id = keyed.concurrency_key, ledger.run_id_of(row)
            if not await store.take_key(conn, tenant_id=run.tenant_id, key=key, node_run_id=node_run_id):
                return 0
            ended = await release_keyed(ledger, row)
            if ended or row.node_run_id is None:
                await store.free_keys(conn, tenant_ids=[run.tenant_id], node_run_ids=[node_run_id])
            await proceed(ledger, ended)
            await settle(ledger, on_ready=self.on_ready)
        failpoints.hit("release_node.after_commit")
        return 1


def _is_open(ledger: Ledger) -> bool:
    """Whether an ordinary node has not ended."""
    return ledger.standing.ordinary.ended < ledger.workflow.ordinary


def _later(ledger: Ledger) -> datetime | None:
    """Return when to look at a run again that is not being stopped: at its deadline, if it is still ahead."""
    deadline = ledger.run.deadline_at
    is_ahead = deadline is not None and deadline > ledger.now
    return deadline if is_ahead and ledger.standing.halt in {None, Halt.FAIL_FAST} else None


def _refusal(lease: Lease, reason: Reason) -> Closing:
    transition = Transition(to=RunState.DEAD, event=EventKind.DEAD, outcome=AttemptOutcome.FAILED, reason=reason)
    return Closing(tenant_id=lease.tenant_id, run_id=lease.run_id, lease_token=lease.lease_token, transition=transition)
