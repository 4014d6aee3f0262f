"""What can be done about dead runs: look at them by group, redrive them, dismiss them.

An end is never changed; what people do about it is a row beside it, its *letter*: open (no row), redriven, dismissed. A
redrive makes a new run with the old one's task and input, linked both ways. The letter is taken in the transaction that
makes the run, by a statement whose row count says who was first: of two redrives at once one makes a run and the other
is refused. A crash before the commit leaves neither; after it, both are there.

A node of a workflow's run is not redriven: what waits for it would not hear of the new run. Its workflow's run is run
again from the node instead.
"""

import json
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from everwhen.core.filters import Moment, Vocabulary, Word, fits, within
from everwhen.core.ids import derived_run_id
from everwhen.core.lifecycle import RunState
from everwhen.core.reasons import Reason
from everwhen.core.targets import SOURCE_NODE
from everwhen.dead_letters import store
from everwhen.dead_letters.model import Group, RedriveRequest
from everwhen.errors import Conflict, FieldError
from everwhen.limits import quotas
from everwhen.lists import LAST_ID, Listed, read_filter
from everwhen.payloads.references import share_payloads
from everwhen.postgres.pool import Connection, Database
from everwhen.runs import service as runs
from everwhen.runs.derived import Making, make_redriven
from everwhen.runs.listing.service import NO_FINGERPRINT, Asked, page_ids
from everwhen.runs.model import RunFilter
from everwhen.runs.service import OnReady, RunView

MOST_COUNTED: Final = 10_000
"""How many runs of a group are looked at to count it."""

MOST_DISMISSED: Final = 1_000
"""How many letters of a group one request dismisses."""

GROUPS: Final = Vocabulary(fields={"task": Word(), "last": Moment()}, short=within("last"))
"""What a filter of groups says."""

OPEN: Final = "open"
REDRIVEN: Final = "redriven"
DISMISSED: Final = "dismissed"


async def list_groups(
    db: Database, *, tenant_id: UUID, letter: str = OPEN, after: str | None = None, limit: int, where: str = ""
) -> Listed[Group]:
    """Look at `limit` groups after `after`, by fingerprint; return those with such letters that a filter finds.

    Counting a group is dear: how many are looked at is bounded, not how many are found.
    """
    async with db.tenant(tenant_id) as conn:
        asked = read_filter(where, GROUPS, now=conn.now)
        found = await store.list_groups(
            conn,
            tenant_id=tenant_id,
            after="" if after == NO_FINGERPRINT else after or "",
            first=after is None,
            letter=letter,
            most_counted=MOST_COUNTED,
            limit=limit + 1,
        )
    counted = [row.group for row in found[:limit]]
    groups = [each for each in counted if each and fits(asked, {"task": each.tasks, "last": each.last_at})]
    following = None if len(found) <= limit else found[limit - 1].fingerprint or NO_FINGERPRINT
    return Listed(rows=groups, following=following, asked=asked)


async def redrive_run(
    db: Database, *, tenant_id: UUID, ref: str, request: RedriveRequest, on_ready: OnReady | None = None
) -> RunView:
    """Make a new run from a dead one, and return it.

    Raises NotFound; Conflict when the run is not dead, was redriven already and is not to be redriven again, is a
    workflow's node, or when the tenant's runs of the day are used up.
    """
    async with db.tenant(tenant_id) as conn:
        dead = (await _dead(conn, tenant_id, ref)).row
        if dead.source == SOURCE_NODE:
            raise await _rerun_instead(conn, tenant_id, dead.run_id)
        letter = await store.get_letter(conn, tenant_id=tenant_id, run_id=dead.run_id)
        made = derived_run_id(tenant_id, dead.run_id, by=f"redrive:{letter.redrives + 1 if letter else 1}", at=conn.now)
        pairs = [(dead.run_id, made)]
        if not await take(conn, tenant_id=tenant_id, pairs=pairs, request=request, named=True):
            raise Conflict(
                f"The run was redriven already, as {dead.redriven_as}; say `again` for another one."
                if dead.redriven_as
                else "Somebody else is redriving the run.",
                code="dead_letter.redriven",
            )
        await quotas.use_one_run(conn, tenant_id=tenant_id, due_at=conn.now)
        making = Making(tenant_id=tenant_id, by=request.by, reason=request.reason, overlap=request.overlap)
        await share_payloads(
            conn, tenant_id=tenant_id, value=request.input if request.has_input else json.loads(dead.input)
        )
        changed = json.dumps(request.input) if request.has_input else None
        await make_redriven(conn, making, pairs, priority=request.priority, input_text=changed, on_ready=on_ready)
        return await runs.read_run(conn, tenant_id=tenant_id, ref=str(made))


async def take(
    conn: Connection,
    *,
    tenant_id: UUID,
    pairs: Sequence[tuple[UUID, UUID]],
    request: RedriveRequest,
    named: bool,
) -> set[UUID]:
    """Take dead letters, given as (dead run, new run), in the caller's transaction; return those that were free.

    Workflows' nodes never are.

    `named`: somebody asked for these very runs, so that one that was dismissed is taken as well.
    """
    taken = await store.mark_redriven(
        conn,
        tenant_id=tenant_id,
        run_ids=[dead for dead, _ in pairs],
        made_run_ids=[made for _, made in pairs],
        again=request.again,
        dismissed=named,
        changed_by=request.by,
        reason=request.reason,
        now=conn.now,
    )
    return set(taken)


async def nodes_among(conn: Connection, *, tenant_id: UUID, run_ids: Sequence[UUID]) -> set[UUID]:
    """Return those of these runs that are nodes of workflows' runs."""
    return {each.run_id for each in await store.find_nodes(conn, tenant_id=tenant_id, run_ids=run_ids)}


async def dismiss_run(db: Database, *, tenant_id: UUID, ref: str, by: str, reason: str) -> RunView:
    """Mark a dead run as seen to; raise NotFound, and Conflict when it is not dead or was redriven."""
    return await _set_one(db, tenant_id=tenant_id, ref=ref, state=DISMISSED, by=by, reason=reason)


async def restore_run(db: Database, *, tenant_id: UUID, ref: str, by: str, reason: str | None) -> RunView:
    """Open a dismissed letter again; raise NotFound, and Conflict when the run is not dead or was redriven."""
    return await _set_one(db, tenant_id=tenant_id, ref=ref, state=OPEN, by=by, reason=reason)


async def dismiss_group(db: Database, *, tenant_id: UUID, fingerprint: str, by: str, reason: str) -> tuple[int, bool]:
    """Dismiss the open letters of a group, the latest first; return how many, and whether more are left."""
    async with db.tenant(tenant_id) as conn:
        where = RunFilter(state=RunState.DEAD, fingerprint=fingerprint, letter=OPEN)
        asked = Asked(tenant_id=tenant_id, where=where, schedule_uid=None)
        page = await page_ids(conn, asked, before=LAST_ID, limit=MOST_DISMISSED)
        moved = await store.set_letters(
            conn,
            tenant_id=tenant_id,
            run_ids=page.run_ids,
            state=DISMISSED,
            was=[OPEN],
            changed_by=by,
            reason=reason,
            now=conn.now,
        )
        return len(moved), page.following is not None


async def _set_one(db: Database, *, tenant_id: UUID, ref: str, state: str, by: str, reason: str | None) -> RunView:
    async with db.tenant(tenant_id) as conn:
        run_id = (await _dead(conn, tenant_id, ref)).row.run_id
        await store.set_letters(
            conn,
            tenant_id=tenant_id,
            run_ids=[run_id],
            state=state,
            was=[OPEN, DISMISSED],
            changed_by=by,
            reason=reason,
            now=conn.now,
        )
        view = await runs.read_run(conn, tenant_id=tenant_id, ref=str(run_id))
        if (view.row.letter or OPEN) != state:
            raise Conflict(f"The run was redriven, as {view.row.redriven_as}.", code="dead_letter.redriven")
        return view


async def _dead(conn: Connection, tenant_id: UUID, ref: str) -> RunView:
    view = await runs.read_run(conn, tenant_id=tenant_id, ref=ref)
    if view.state is not RunState.DEAD:
        raise Conflict(f"The run is {view.state}; only a dead run is a dead letter.", code="run.not_dead")
    return view


async def _rerun_instead(conn: Connection, tenant_id: UUID, run_id: UUID) -> Conflict:
    [node] = await store.find_nodes(conn, tenant_id=tenant_id, run_ids=[run_id])
    detail = (
        f"The run is the node {node.node} of a workflow's run, which would not hear of a new one. Run that again from"
        f" the node: everwhen workflow rerun {node.workflow_run_id} --from {node.node}"
    )
    code = Reason.WORKFLOW_RERUN_INSTEAD
    return Conflict(detail, code=code, errors=(FieldError(code=code, pointer="path:run", detail=detail),))
