"""Using a task or a workflow, and deleting one that nobody uses.

    whoever begins to use it     holds it (`hold`), writes that he does, commits
    whoever deletes it           locks it, waits for them, looks who uses it (`refuse_used`), deletes it

So of the two one is first, and the other is refused. A run that somebody asks for holds nothing, since that would cost
each run a lock: one that is accepted at the very moment of the deletion is carried out by what its task last said.
"""

import json
from collections.abc import Collection, Iterable
from typing import Any, Final
from uuid import UUID

from everwhen.core.targets import workflow_of
from everwhen.errors import Conflict
from everwhen.postgres.pool import Connection
from everwhen.targets import store
from everwhen.targets.model import Users

MOST_NAMED: Final = 5
MOST_COUNTED: Final = 1_000


async def hold(conn: Connection, *, tenant_id: UUID, names: Collection[str]) -> frozenset[str]:
    """Keep tasks from being deleted until the transaction ends; return the names of those that there are."""
    return frozenset(await store.share_targets(conn, tenant_id=tenant_id, names=sorted(set(names))))


async def refuse_used(conn: Connection, *, tenant_id: UUID, name: str) -> None:
    """Let nobody begin to use a task, and raise Conflict when somebody does: it is about to be deleted."""
    await store.lock_target(conn, tenant_id=tenant_id, name=name)
    users = await _users(conn, tenant_id=tenant_id, name=name)
    if users.any:
        kind = "task" if workflow_of(name) is None else "workflow"
        told = {
            "schedules": users.schedules[:MOST_NAMED],
            "workflows": users.workflows[:MOST_NAMED],
            "runs": users.runs,
        }
        raise Conflict(f"The {kind} is in use: {_said(users)}.", code=f"{kind}.in_use", told={"used_by": told})


async def _users(conn: Connection, *, tenant_id: UUID, name: str) -> Users:
    workflow = workflow_of(name)
    node = json.dumps({"task": name} if workflow is None else {"workflow": workflow})
    most: dict[str, Any] = {"tenant_id": tenant_id, "limit": MOST_NAMED + 1}
    defined = await store.list_workflows_of(conn, **most, node=node)
    running = await store.list_running_workflows_of(conn, **most, node=node)
    return Users(
        schedules=await store.list_schedules_of(conn, **most, name=name),
        workflows=sorted({*defined, *running}),
        runs=await store.count_runs_of(conn, tenant_id=tenant_id, name=name, limit=MOST_COUNTED),
    )


def _said(users: Users) -> str:
    parts = [_named("schedule", users.schedules), _named("workflow", users.workflows)]
    if users.runs:
        count = f"{users.runs} or more" if users.runs == MOST_COUNTED else str(users.runs)
        parts.append("1 run waits or runs" if users.runs == 1 else f"{count} runs wait or run")
    return "; ".join(filter(None, parts))


def _named(kind: str, names: Iterable[str]) -> str:
    found = list(names)
    if not found:
        return ""
    more = ", …" if len(found) > MOST_NAMED else ""
    return f"{kind}{'s' if len(found) > 1 else ''} {', '.join(found[:MOST_NAMED])}{more}"
