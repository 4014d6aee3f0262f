"""The watch: looks at what is live and tells what no event would, each once.

    late      due for longer than its schedule's objective before anybody began it
    overdue   a run that will miss its total deadline, as such runs of its schedule took; a workflow's, as its nodes did
    zombie    an attempt that holds its lease and has reported no progress for far longer than such runs take

A run that begins and ends between two looks is late all the same: the trigger on attempts tells of it when its first
attempt is closed. So late is exact, and the watch only makes it prompt.

Only tenants that listen for it cost anything. The row that says that a run was told is written with its signal, so
that any number of notifiers may watch, and one that dies has told or has not.
"""

from datetime import datetime, timedelta
from typing import Final

from everwhen.alerts.watching import store
from everwhen.core.dag_predict import Outlook
from everwhen.core.punctuality import DEFAULT_OBJECTIVE_SECONDS
from everwhen.core.targets import WORKFLOW_QUEUE
from everwhen.errors import NotFound
from everwhen.postgres.pool import Connection, Database
from everwhen.workflows import service as workflows

EVERY: Final = timedelta(seconds=5)
DEPTH: Final = 2_000
"""How many runs of a line, and leases of a tenant, one look sees."""

MOST_TOLD: Final = 500
MOST_FORESEEN: Final = 20
"""How many workflows' runs one look foresees: each is read whole."""

FORGET_AFTER: Final = timedelta(days=30)

_WILL_MISS: Final = frozenset({Outlook.LATE, Outlook.MISSED})


async def watch(db: Database, *, now: datetime) -> int:
    """Look once; return how many signals that made."""
    async with db.system() as conn:
        told = await store.signal_late(
            conn,
            claimed_after=now - 3 * EVERY,
            objective=DEFAULT_OBJECTIVE_SECONDS,
            depth=DEPTH,
            limit=MOST_TOLD,
            now=now,
        )
        told += await _signal_zombies(conn, now)
        told += await store.signal_overdue_runs(conn, depth=DEPTH, limit=MOST_TOLD, now=now)
        await store.forget(conn, before=now - FORGET_AFTER, limit=MOST_TOLD)
        runs = await store.find_with_deadline(conn, queue=WORKFLOW_QUEUE, depth=DEPTH, limit=MOST_FORESEEN)
    for run in runs:
        try:
            view = await workflows.get_workflow_run(db, tenant_id=run.tenant_id, ref=str(run.run_id))
        except NotFound:  # past its retention by now
            continue
        if view.foresight is not None and view.foresight.outlook in _WILL_MISS:
            async with db.system() as conn:
                told += await store.signal_overdue(conn, tenant_id=run.tenant_id, run_id=run.run_id, now=conn.now)
    return told


async def _signal_zombies(conn: Connection, now: datetime) -> int:
    suspects = await store.find_suspects(conn, depth=DEPTH, now=now)
    if not suspects:
        return 0
    keys = {
        "tenant_ids": [each.tenant_id for each in suspects],
        "run_ids": [each.run_id for each in suspects],
    }
    attempts = [each.attempt for each in suspects]
    await store.see_suspects(
        conn,
        **keys,
        attempts=attempts,
        progresses=[each.progress for each in suspects],
        sinces=[each.since for each in suspects],
        now=now,
    )
    return await store.signal_zombies(
        conn, **keys, attempts=attempts, patiences=[each.patience for each in suspects], now=now
    )
