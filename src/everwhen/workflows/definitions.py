"""What can be done with definitions. Each change is a version, which never changes; a run keeps the one of its start.

A definition that says what the latest version says makes no new one: applying a file again changes nothing.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from everwhen.core.dag_json import parse_workflow, workflow_to_json
from everwhen.core.dag_values import MOST_FAULTS, Fault, Node, Workflow, WorkflowError
from everwhen.core.filters import Filter, Moment, Vocabulary, Word, within
from everwhen.core.quotas import Limit
from everwhen.core.retry import RetryPolicy
from everwhen.core.tags import Tagged
from everwhen.core.targets import WORKFLOW_QUEUE, workflow_task
from everwhen.errors import Conflict, FieldError, InvalidInput, NotFound, QuotaUsedUp
from everwhen.limits import quotas
from everwhen.lists import Listed, read_filter, walk
from everwhen.postgres.pool import Connection, Database
from everwhen.revisions import ANY, NONE, Expected, refuse_stale, stale
from everwhen.tags.service import set_tags
from everwhen.targets import service as targets
from everwhen.tasks.model import retry_from_json, retry_to_json
from everwhen.workflows.catalogue import store as catalogue
from everwhen.workflows.model import Change, VersionItem, WorkflowItem, WorkflowRow

ONCE: Final = json.dumps(retry_to_json(RetryPolicy(max_attempts=1)))

WORKFLOWS: Final = Vocabulary(fields={"tag": Word(), "updated": Moment()}, short=within("updated"))
"""What a filter of workflows says."""

_ROOT: Final = "/definition"


async def create_workflow(
    db: Database, *, tenant_id: UUID, name: str, definition: Mapping[str, Any], change: Change
) -> WorkflowRow:
    """Make a workflow.

    Raises InvalidInput with a pointer to each fault, and Conflict when the name is taken or the tenant has as many as
    it may have.
    """
    workflow = read_definition(name, definition)
    async with db.tenant(tenant_id) as conn:
        await _check_tasks(conn, tenant_id, workflow)
        version = await catalogue.insert_workflow(
            conn, tenant_id=tenant_id, name=name, tags=workflow.tags, owner=change.owner, now=conn.now
        )
        if version is None:
            raise Conflict(f"A workflow named {name} exists already.", code="workflow.exists")
        await quotas.refuse_over(conn, Limit.WORKFLOWS, catalogue.count_workflows, tenant_id=tenant_id)
        await catalogue.open_line(conn, tenant_id=tenant_id, queue=WORKFLOW_QUEUE)
        await catalogue.register_task(
            conn, tenant_id=tenant_id, task=workflow_task(name), queue=WORKFLOW_QUEUE, retry=ONCE, now=conn.now
        )
        await set_tags(conn, tenant_id=tenant_id, kind=Tagged.WORKFLOW, name=name, tags=workflow.tags)
        await _write(conn, tenant_id, workflow, version=version, change=change)
        return await _read(conn, tenant_id, name)


async def count_workflows(conn: Connection, *, tenant_id: UUID) -> int:
    """Return how many there are, in the caller's transaction."""
    return await catalogue.count_workflows(conn, tenant_id=tenant_id)


async def put_new_workflow(
    db: Database, *, tenant_id: UUID, name: str, definition: Mapping[str, Any], change: Change
) -> WorkflowRow:
    """Make a workflow as `create_workflow` does; raise PreconditionFailed when the name is taken."""
    try:
        return await create_workflow(db, tenant_id=tenant_id, name=name, definition=definition, change=change)
    except QuotaUsedUp:
        raise
    except Conflict:
        raise stale(NONE, (await get_workflow(db, tenant_id=tenant_id, name=name)).version) from None


async def replace_workflow(  # what a change says
    db: Database,
    *,
    tenant_id: UUID,
    name: str,
    definition: Mapping[str, Any],
    change: Change,
    expected: Expected = ANY,
) -> WorkflowRow:
    """Write the next version, if it says anything else than the latest.

    Raises NotFound, PreconditionFailed when it is not the version that was expected, and InvalidInput.
    """
    async with db.tenant(tenant_id) as conn:
        before = await lock_workflow(conn, tenant_id=tenant_id, name=name)
        if before is None:
            raise unknown()
        refuse_stale(expected, before.version)
        return await change_workflow(conn, before, definition, tenant_id=tenant_id, change=change, expected=expected)


async def lock_workflow(conn: Connection, *, tenant_id: UUID, name: str) -> WorkflowRow | None:
    """Keep other changes of a workflow away until the transaction ends."""
    return await catalogue.lock_workflow(conn, tenant_id=tenant_id, name=name)


async def change_workflow(
    conn: Connection,
    before: WorkflowRow,
    definition: Mapping[str, Any],
    *,
    tenant_id: UUID,
    change: Change,
    expected: Expected = ANY,
) -> WorkflowRow:
    """Write the next version of a workflow that the caller has locked, as `replace_workflow` does."""
    workflow = read_definition(before.name, definition)
    await _check_tasks(conn, tenant_id, workflow)
    told = json.loads(before.definition)
    if told == workflow_to_json(workflow) and (not change.has_owner or before.owner == change.owner):
        return before
    key: dict[str, Any] = {"tenant_id": tenant_id, "name": before.name, "among": expected.among}
    owned: dict[str, Any] = {"owner": change.owner, "has_owner": change.has_owner}
    version = await catalogue.next_version(conn, **key, **owned, tags=workflow.tags, now=conn.now)
    if version is None:
        raise stale(expected, before.version)
    own = told.get("tags", ())
    await set_tags(conn, tenant_id=tenant_id, kind=Tagged.WORKFLOW, name=before.name, before=own, tags=workflow.tags)
    await _write(conn, tenant_id, workflow, version=version, change=change)
    return await _read(conn, tenant_id, before.name)


async def delete_workflow(db: Database, *, tenant_id: UUID, name: str, expected: Expected = ANY) -> None:
    """Give the name back; its versions stay with what has run by them.

    Raises NotFound, PreconditionFailed when it is not the version that was expected, and Conflict while schedules or
    other workflows use it, or runs of it wait or run.
    """
    async with db.tenant(tenant_id) as conn:
        row = await catalogue.lock_workflow(conn, tenant_id=tenant_id, name=name)
        if row is None:
            raise unknown()
        refuse_stale(expected, row.version)
        task = workflow_task(name)
        await targets.refuse_used(conn, tenant_id=tenant_id, name=task)
        key: dict[str, Any] = {"tenant_id": tenant_id, "name": name}
        if not await catalogue.delete_workflow(conn, **key, among=expected.among, now=conn.now):
            raise stale(expected, row.version)
        await catalogue.withdraw_task(conn, tenant_id=tenant_id, task=task, now=conn.now)
        tags = json.loads(row.definition).get("tags", ())
        await set_tags(conn, **key, kind=Tagged.WORKFLOW, before=tags, tags=())


async def check_definition(
    db: Database, *, tenant_id: UUID, name: str | None, definition: Mapping[str, Any]
) -> Workflow:
    """Say what a definition is, and keep nothing; raise InvalidInput as `create_workflow` does."""
    workflow = read_definition(name, definition)
    async with db.tenant(tenant_id) as conn:
        await _check_tasks(conn, tenant_id, workflow)
    return workflow


async def get_workflow(db: Database, *, tenant_id: UUID, name: str) -> WorkflowRow:
    """Read a workflow with its latest version; raise NotFound."""
    async with db.tenant(tenant_id) as conn:
        return await _read(conn, tenant_id, name)


async def list_workflows(
    db: Database, *, tenant_id: UUID, after: str = "", limit: int, where: str = ""
) -> Listed[WorkflowItem]:
    """Return up to `limit` workflows after `after` that the filter `where` finds, by name; raise InvalidInput."""
    async with db.tenant(tenant_id) as conn:
        asked = read_filter(where, WORKFLOWS, now=conn.now)
        return await walk_workflows(conn, tenant_id=tenant_id, asked=asked, after=after, limit=limit)


async def walk_workflows(
    conn: Connection, *, tenant_id: UUID, asked: Filter, after: str, limit: int
) -> Listed[WorkflowItem]:
    """Return up to `limit` workflows after `after` that a filter finds, by name, in the caller's transaction."""
    tag, key = asked.text("tag"), {"tenant_id": tenant_id}

    async def read(after: str, limit: int) -> Sequence[WorkflowItem]:
        if tag is None:
            return await catalogue.list_workflows(conn, **key, after=after, limit=limit)
        return await catalogue.list_workflows_tagged(conn, **key, tag=tag, after=after, limit=limit)

    return await walk(
        read,
        start=after,
        key=lambda row: row.name,
        limit=limit,
        asked=asked,
        values=lambda row: {"tag": row.tags, "updated": row.updated_at},
    )


async def find_workflows(conn: Connection, *, tenant_id: UUID, names: Sequence[str]) -> list[WorkflowRow]:
    """Return those of these workflows that there are, in the caller's transaction."""
    return await catalogue.list_declared_named(conn, tenant_id=tenant_id, names=names)


async def page_workflows(
    conn: Connection, *, tenant_id: UUID, owner: str | None, after: str, limit: int
) -> list[WorkflowRow]:
    """Return up to `limit` workflows of an owner, or of everybody, after `after`, in the caller's transaction."""
    page: dict[str, Any] = {"tenant_id": tenant_id, "after": after, "limit": limit}
    if owner is None:
        return await catalogue.list_declared(conn, **page)
    return await catalogue.list_declared_of_owner(conn, **page, owner=owner)


async def list_versions(db: Database, *, tenant_id: UUID, name: str, after: int = 0, limit: int) -> list[VersionItem]:
    """Return up to `limit` versions after this one, oldest first; raise NotFound."""
    async with db.tenant(tenant_id) as conn:
        await _read(conn, tenant_id, name)
        return await catalogue.list_versions(conn, tenant_id=tenant_id, workflow=name, after=after, limit=limit)


async def get_definition(db: Database, *, tenant_id: UUID, name: str, version: int) -> dict[str, Any]:
    """Return what a version says; raise NotFound."""
    async with db.tenant(tenant_id) as conn:
        await _read(conn, tenant_id, name)
        text = await catalogue.get_definition(conn, tenant_id=tenant_id, workflow=name, version=version)
    if text is None:
        raise NotFound("The workflow has no such version.", code="workflow.unknown")
    return json.loads(text)


def read_definition(name: str | None, definition: Mapping[str, Any]) -> Workflow:
    """Read a definition that a caller sent; raise InvalidInput with up to MOST_FAULTS pointers."""
    if name is not None and definition.get("name", name) != name:
        message = f"the definition is named otherwise; leave the name out, or say {name}"
        raise _invalid([Fault("workflow.name", message, "/name")])
    try:
        return parse_workflow({**definition, **({} if name is None else {"name": name})})
    except WorkflowError as error:
        raise _invalid(error.faults) from error


async def _write(conn: Connection, tenant_id: UUID, workflow: Workflow, *, version: int, change: Change) -> None:
    queues = sorted({node.queue for node in workflow.nodes if node.queue is not None})
    if queues:
        await catalogue.open_lines(conn, tenant_id=tenant_id, queues=queues)
    await catalogue.insert_version(
        conn,
        tenant_id=tenant_id,
        workflow=workflow.name,
        version=version,
        definition=json.dumps(workflow_to_json(workflow)),
        changed_by=change.by,
        reason=change.reason,
        now=conn.now,
    )


async def _check_tasks(conn: Connection, tenant_id: UUID, workflow: Workflow) -> None:
    """Refuse nodes of what is not there, and retry policies that do not fit together, or ask for too many attempts."""
    names = sorted({_target(node) for node in workflow.nodes})
    await targets.hold(conn, tenant_id=tenant_id, names=names)
    found = await catalogue.read_tasks(conn, tenant_id=tenant_id, names=names)
    retries = {each.name: each.retry for each in found}
    if faults := tuple(_task_faults(workflow, retries))[:MOST_FAULTS]:
        raise _invalid(faults)
    asked: list[int | None] = [(node.retry or {}).get("max_attempts") for node in workflow.nodes]
    if any(asked):
        limits = await quotas.read(conn, tenant_id=tenant_id)
        for index, attempts in enumerate(asked):
            if attempts is not None:
                quotas.refuse_attempts(limits, attempts, pointer=f"{_ROOT}/nodes/{index}/retry/max_attempts")


def _task_faults(workflow: Workflow, retries: Mapping[str, str]) -> Iterable[Fault]:
    for index, node in enumerate(workflow.nodes):
        pointer = f"/nodes/{index}"
        if _target(node) not in retries:
            kind = "task" if node.workflow is None else "workflow"
            message = f"there is no {kind} named {node.task or node.workflow}: create it first"
            yield Fault(f"{kind}.unknown", message, f"{pointer}/{kind}")
        elif node.workflow is not None and node.workflow == workflow.name:
            yield Fault("workflow.nested", "a workflow cannot be a part of itself", f"{pointer}/workflow")
        elif node.retry is not None:
            try:
                retry_from_json(json.loads(retries[_target(node)]) | dict(node.retry))
            except ValueError as error:
                yield Fault("workflow.retry", f"with what its task says: {error}", f"{pointer}/retry")


def _target(node: Node) -> str:
    return node.task or workflow_task(node.workflow or "")


def _invalid(faults: Iterable[Fault]) -> InvalidInput:
    errors = tuple(
        FieldError(code=fault.code, pointer=f"{_ROOT}{fault.pointer}", detail=fault.message) for fault in faults
    )
    return InvalidInput(errors[0].detail, code=errors[0].code, errors=errors)


async def _read(conn: Connection, tenant_id: UUID, name: str) -> WorkflowRow:
    row = await catalogue.get_workflow(conn, tenant_id=tenant_id, name=name)
    if row is None:
        raise unknown()
    return row


def unknown() -> NotFound:
    """Return the answer to whoever names a workflow that is not there."""
    return NotFound("There is no workflow of this name.", code="workflow.unknown")
