"""Starting a workflow's run: its row, a row for each node, and the release of what needs nothing.

A rerun is a later generation: a run of its own, over the same version, that keeps the ends of the nodes it does not
begin again from. Their rows are copied, and say whose run to look at for the result; the earlier generation stays as it
was.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import psycopg
import structlog

from everwhen.core.dag import rerun, start
from everwhen.core.dag_values import MOST_NESTED, WorkflowError
from everwhen.core.reasons import Reason
from everwhen.core.targets import workflow_of
from everwhen.core.zones import add
from everwhen.dispatch.model import Lease
from everwhen.postgres.pool import Connection
from everwhen.workflows import store
from everwhen.workflows.catalogue import store as catalogue
from everwhen.workflows.ledger import Ledger
from everwhen.workflows.life import OnReady, proceed, settle, take
from everwhen.workflows.model import (
    LatestVersion,
    NodeRow,
    Starting,
    WorkflowRunRow,
    counts_of,
)
from everwhen.workflows.versions import Version, keep_version, load_version

Latest = dict[tuple[UUID, str], LatestVersion]

log = structlog.get_logger("everwhen.workflows")

USUAL_PRIORITY: Final = 5
"""The priority of a workflow among the tasks: a run with another one was given it, and its nodes have it, too."""


async def start_runs(
    conn: Connection, leases: Sequence[Lease], *, now: datetime, on_ready: OnReady
) -> list[tuple[Lease, Reason]]:
    """Start runs that the conductor has claimed; return those that cannot be, each with the reason."""
    found = await store.read_starting(
        conn, tenant_ids=[lease.tenant_id for lease in leases], run_ids=[lease.run_id for lease in leases]
    )
    about = {(each.tenant_id, each.run_id): each for each in found}
    latest = await _latest(conn, leases)
    refused: list[tuple[Lease, Reason]] = []
    for lease in leases:
        starting = about[lease.tenant_id, lease.run_id]
        if (starting.parent_nesting or 0) + 1 > MOST_NESTED:
            refused.append((lease, Reason.WORKFLOW_NESTED))
        elif not await _start(conn, lease, starting, latest, now=now, on_ready=on_ready):
            refused.append((lease, Reason.WORKFLOW_UNREADABLE))
    return refused


async def _start(
    conn: Connection, lease: Lease, starting: Starting, latest: Latest, *, now: datetime, on_ready: OnReady
) -> bool:
    """Return False, with nothing written, when the definition cannot be read or its rows cannot be written."""
    try:
        async with conn.transaction():  # a savepoint: one that cannot be started holds up nobody else
            if starting.has_row:
                await _start_rerun(conn, lease, starting, now=now, on_ready=on_ready)
            else:
                await _start_anew(conn, lease, starting, latest, now=now, on_ready=on_ready)
    except (WorkflowError, ValueError, psycopg.DataError, psycopg.IntegrityError) as error:
        log.exception("workflow.unreadable", run_id=str(lease.run_id), error=str(error))
        return False
    return True


async def _start_anew(
    conn: Connection, lease: Lease, starting: Starting, latest: Latest, *, now: datetime, on_ready: OnReady
) -> None:
    name = _workflow(lease)
    row = latest[lease.tenant_id, name]
    version = keep_version(row.tenant_id, row.workflow, row.version, definition=row.definition)
    await store.insert_run(
        conn,
        tenant_id=lease.tenant_id,
        run_id=lease.run_id,
        workflow=name,
        version=row.version,
        root_run_id=lease.run_id,
        generation=1,
        rerun_of=None,
        rerun_nodes=None,
        nesting=0 if starting.parent_nesting is None else starting.parent_nesting + 1,
        priority=_priority(starting),
        lease_token=lease.lease_token,
        started_at=now,
        deadline_at=_deadline(version, lease),
    )
    ledger = await _ledger(conn, lease, version, now=now)
    for node in version.workflow.nodes:
        ledger.add(NodeRow(node=node.id))
    await proceed(ledger, await take(ledger, start(version.workflow), is_whole=False))
    await settle(ledger, on_ready=on_ready)


async def _start_rerun(conn: Connection, lease: Lease, starting: Starting, *, now: datetime, on_ready: OnReady) -> None:
    run = await _run(conn, lease)
    assert run.rerun_of is not None
    version = await load_version(conn, tenant_id=run.tenant_id, workflow=run.workflow, version=run.version)
    await store.start_run(
        conn,
        tenant_id=run.tenant_id,
        run_id=run.run_id,
        lease_token=lease.lease_token,
        priority=_priority(starting),
        deadline_at=_deadline(version, lease),
        now=now,
    )
    ledger = await _ledger(conn, lease, version, now=now)
    before = await store.read_all_nodes(conn, tenant_id=run.tenant_id, run_id=run.rerun_of)
    found = rerun(version.workflow, {row.node: row.progress() for row in before}, run.rerun_nodes or [])
    reset = set(found.reset)
    for row in before:
        tally = counts_of(found.states[row.node].tally)
        ledger.add(NodeRow(node=row.node, tally=tally) if row.node in reset else _kept(row))
    kept = sorted(row.node for row in before if row.node not in reset and row.instances is not None)
    await ledger.write_nodes()
    await store.keep_instances(conn, **ledger.key, rerun_of=run.rerun_of, nodes=kept)
    await proceed(ledger, await take(ledger, found.advance, is_whole=True))
    await settle(ledger, on_ready=on_ready)


def _kept(row: NodeRow) -> NodeRow:
    """Return a node's row for the next generation, which keeps how it ended."""
    return replace(row, node_run_id=None, kept_run_id=row.node_run_id or row.kept_run_id, concurrency_key=None)


async def _latest(conn: Connection, leases: Iterable[Lease]) -> Latest:
    wanted = sorted({(lease.tenant_id, _workflow(lease)) for lease in leases})
    found = await catalogue.latest_versions(
        conn, tenant_ids=[tenant_id for tenant_id, _ in wanted], workflows=[name for _, name in wanted]
    )
    return {(each.tenant_id, each.workflow): each for each in found}


async def _ledger(conn: Connection, lease: Lease, version: Version, *, now: datetime) -> Ledger:
    ledger = Ledger.open(conn, await _run(conn, lease), version, now=now)
    ledger.look_at = ledger.run.deadline_at
    return ledger


async def _run(conn: Connection, lease: Lease) -> WorkflowRunRow:
    run = await store.get_run(conn, tenant_id=lease.tenant_id, run_id=lease.run_id)
    assert run is not None
    return run


def _workflow(lease: Lease) -> str:
    name = workflow_of(lease.task)
    assert name is not None  # nothing else waits at this queue
    return name


def _priority(starting: Starting) -> int | None:
    own = None if starting.priority == USUAL_PRIORITY else starting.priority
    return starting.parent_priority if own is None else own


def _deadline(version: Version, lease: Lease) -> datetime | None:
    seconds = version.workflow.deadline_seconds
    return None if seconds is None else add(lease.due_at, timedelta(seconds=seconds))
