"""Tasks, as operations change them."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from pydantic import BaseModel

from everwhen.core.bulk import Verb
from everwhen.core.filters import Filter
from everwhen.lists import Listed
from everwhen.operations.kinds.protocol import Found, Standing, Wish
from everwhen.postgres.pool import Connection
from everwhen.tasks import service
from everwhen.tasks.model import TASKS
from everwhen.tasks.wire import task_out


class Tasks:
    """See `Things`."""

    vocabulary = TASKS
    folder = "tasks"
    told_as: Mapping[Verb, str] = {Verb.TAG: "update_task", Verb.UNTAG: "update_task"}

    async def find(self, conn: Connection, tenant_id: UUID, asked: Filter, *, after: str, limit: int) -> Listed[Found]:
        page = await service.walk_tasks(conn, tenant_id=tenant_id, asked=asked, after=after, limit=limit)
        rows = [Found(name=row.name, uid=None, created_at=row.created_at) for row in page.rows]
        return Listed(rows=rows, following=page.following, asked=asked)

    async def lock(self, conn: Connection, tenant_id: UUID, items: Sequence[tuple[str, UUID | None]]) -> None:
        for name in sorted(name for name, _ in items):
            await service.lock_task(conn, tenant_id=tenant_id, name=name)

    async def stand(self, conn: Connection, tenant_id: UUID, name: str, uid: UUID | None) -> Standing | None:  # noqa: ARG002
        task = await service.lock_task(conn, tenant_id=tenant_id, name=name)
        if task is None:
            return None
        says = {"tag": task.tags, "queue": task.queue, "updated": task.updated_at}
        return Standing(name=name, uid=None, created_at=task.created_at, says=says, tags=task.tags, row=task)

    def already(self, verb: Verb, now: Standing) -> bool:  # noqa: ARG002
        return False

    async def look(self, conn: Connection, tenant_id: UUID, now: Standing) -> BaseModel:
        (task,) = await service.find_tasks(conn, tenant_id=tenant_id, names=[now.name])
        return task_out(task)

    async def change(self, conn: Connection, tenant_id: UUID, now: Standing, wish: Wish) -> None:
        await service.retag_task(conn, tenant_id=tenant_id, name=now.name, tags=wish.tags)
