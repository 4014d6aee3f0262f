"""Stopping what is left of a workflow's run that is halted: what waits is ended, what runs is asked to stop or revoked.

Revoked, that is: its lease is taken back whatever its holder does, is what runs under a workflow's run that a schedule
with the policy `terminate_other` replaces by a later one. The workflow's run itself is never revoked: its conductor
halts it, its finally-nodes have their turn, and the slot of the schedule is free when it has ended.

No workflow's run may be locked meanwhile: what ends here takes such a lock of its own, see life.py.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from everwhen.core import lifecycle
from everwhen.core.lifecycle import Run, RunState, Transition
from everwhen.core.retry import RetryPolicy
from everwhen.dispatch.reports import Closing
from everwhen.dispatch.service import close
from everwhen.postgres.pool import Connection
from everwhen.runs.ends import Ended, OnEnded
from everwhen.workflows import store
from everwhen.workflows.ledger import Ledger
from everwhen.workflows.life import HALT_REASONS
from everwhen.workflows.model import HeldNode

MOST_STOPPED: Final = 1_000


async def stop_nodes(conn: Connection, ledger: Ledger, *, on_ended: OnEnded) -> None:
    """Stop up to MOST_STOPPED of the nodes that are live; finally-nodes are left alone. The halt is committed."""
    graph, tenant_id = ledger.workflow.graph, ledger.run.tenant_id
    assert ledger.standing.halt is not None
    reason = HALT_REASONS[ledger.standing.halt]
    live = await store.list_live_nodes(conn, **ledger.key, limit=MOST_STOPPED)
    run_ids = sorted(each.node_run_id for each in live if not graph.nodes[each.node].is_finally)
    stopped = await store.stop_waiting(conn, tenant_id=tenant_id, run_ids=run_ids, reason=reason, now=ledger.now)
    if await store.is_replaced(conn, **ledger.key):
        await _revoke(conn, tenant_id, run_ids, now=ledger.now, on_ended=on_ended)
    await store.stop_running(conn, tenant_id=tenant_id, run_ids=run_ids, reason=reason, now=ledger.now)
    if stopped:
        ends = [Ended(tenant_id=tenant_id, run_id=each, state=RunState.CANCELLED, reason=reason) for each in stopped]
        await on_ended(conn, ends, ledger.now)


async def _revoke(
    conn: Connection, tenant_id: UUID, run_ids: Sequence[UUID], *, now: datetime, on_ended: OnEnded
) -> None:
    """Take the leases of these runs back, but for those of sub-workflows and those that somebody has locked."""
    held = await store.lock_held_nodes(conn, tenant_id=tenant_id, run_ids=run_ids)
    # A claim may have committed after this look began, in a transaction that began later.
    at = max((now, *(each.claimed_at for each in held)))
    closings = [closing for each in held if (closing := _revoked(tenant_id, each, at=at)) is not None]
    await close(conn, closings, now=at, on_ended=on_ended)


def _revoked(tenant_id: UUID, held: HeldNode, *, at: datetime) -> Closing | None:
    run = Run(state=RunState.RUNNING, failures=held.failures, lease_token=held.lease_token)
    # To revoke a lease asks no policy and draws no jitter.
    decision = lifecycle.decide(run, lifecycle.Revoked(held.lease_token), now=at, policy=RetryPolicy(), jitter=0.0)
    if not isinstance(decision, Transition):
        return None
    return Closing(tenant_id=tenant_id, run_id=held.run_id, lease_token=held.lease_token, transition=decision)
