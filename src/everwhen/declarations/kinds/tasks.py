"""Tasks as files declare them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from everwhen.declarations.kinds.protocol import Claim
from everwhen.declarations.kinds.reading import read_spec
from everwhen.declarations.model import Declaration, Kind, Present
from everwhen.postgres.pool import Connection, Database
from everwhen.revisions import Expected
from everwhen.tasks import service
from everwhen.tasks.model import Task, TaskDraft, limits_to_json, retry_to_json
from everwhen.tasks.wire import TaskFields, draft_of

_PLAIN = (
    "queue",
    "priority",
    "timeout_seconds",
    "start_deadline_seconds",
    "total_deadline_seconds",
    "heartbeat_timeout_seconds",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafted:
    """A task, and whether its owner is meant."""

    task: TaskDraft
    has_owner: bool


class Tasks:
    """See `Things`."""

    def read(self, name: str, spec: Mapping[str, Any], claim: Claim) -> Drafted:
        task = draft_of(name, read_spec(TaskFields, spec))
        return Drafted(task=replace(task, owner=claim.owner), has_owner=claim.is_meant)

    def normal(self, draft: Drafted, present: Present | None) -> Mapping[str, Any]:  # noqa: ARG002
        return _normal(draft.task)

    def needs(self, draft: Drafted) -> Sequence[str]:  # noqa: ARG002
        return ()

    def parts(self, present: Present) -> Sequence[str]:  # noqa: ARG002
        return ()

    def notes(self, draft: Drafted, present: Present) -> Sequence[str]:  # noqa: ARG002
        return ()

    async def named(self, conn: Connection, tenant_id: UUID, names: Sequence[str]) -> list[Present]:
        return [_present(task) for task in await service.find_tasks(conn, tenant_id=tenant_id, names=names)]

    async def page(
        self, conn: Connection, tenant_id: UUID, *, owner: str | None, after: str, limit: int
    ) -> list[Present]:
        found = await service.page_tasks(conn, tenant_id=tenant_id, owner=owner, after=after, limit=limit)
        return [_present(task) for task in found]

    async def put(self, whole: Database, tenant_id: UUID, draft: Drafted, *, present: Present | None) -> None:
        if present is None:
            await service.create_task(whole, tenant_id=tenant_id, draft=draft.task)
            return
        expected = Expected(revisions=frozenset({present.revision}))
        await service.replace_task(
            whole, tenant_id=tenant_id, draft=draft.task, has_owner=draft.has_owner, expected=expected
        )

    async def delete(self, whole: Database, tenant_id: UUID, present: Present) -> None:
        expected = Expected(revisions=frozenset({present.revision}))
        await service.delete_task(whole, tenant_id=tenant_id, name=present.name, expected=expected)

    def declared(self, present: Present) -> Declaration:
        spec = TaskFields.model_validate(present.normal).model_dump(mode="json", exclude_defaults=True)
        return Declaration(kind=Kind.TASK, name=present.name, revision=present.revision, owner=present.owner, spec=spec)


def _present(task: Task) -> Present:
    return Present(
        kind=Kind.TASK, name=task.name, revision=task.revision, owner=task.owner, normal=_normal(task), row=task
    )


def _normal(task: Task | TaskDraft) -> dict[str, Any]:
    plain = {field: getattr(task, field) for field in _PLAIN}
    return {**plain, "retry": retry_to_json(task.retry), **limits_to_json(task), "tags": list(task.tags)}
