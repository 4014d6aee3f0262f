"""Queues as files declare them: those that are defined. To delete one lets everything about it be as by default."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from everwhen.declarations.kinds.protocol import Claim
from everwhen.declarations.kinds.reading import read_spec
from everwhen.declarations.model import Declaration, Kind, Present
from everwhen.postgres.pool import Connection, Database
from everwhen.queues import service
from everwhen.queues.model import QueueDraft, QueueRow
from everwhen.queues.wire import QueueFields, draft_of, fields_of
from everwhen.revisions import Expected


class Queues:
    """See `Things`."""

    def read(self, name: str, spec: Mapping[str, Any], claim: Claim) -> tuple[str, QueueDraft]:
        draft = draft_of(read_spec(QueueFields, spec))
        return name, replace(draft, owner=claim.owner, has_owner=claim.is_meant)

    def normal(self, draft: tuple[str, QueueDraft], present: Present | None) -> Mapping[str, Any]:  # noqa: ARG002
        said = draft[1]
        rate = said.rate
        return {
            "max_in_flight": said.max_in_flight,
            "rate": rate and {"tokens": rate.tokens, "per_seconds": rate.seconds, "burst": rate.burst},
            "delivery": said.delivery.value,
            "delivery_settings": dict(said.delivery_settings),
            "ageing_seconds": said.ageing_seconds,
            "tags": list(said.tags),
        }

    def needs(self, draft: tuple[str, QueueDraft]) -> Sequence[str]:  # noqa: ARG002
        return ()

    def parts(self, present: Present) -> Sequence[str]:  # noqa: ARG002
        return ()

    def notes(self, draft: tuple[str, QueueDraft], present: Present) -> Sequence[str]:  # noqa: ARG002
        return ()

    async def named(self, conn: Connection, tenant_id: UUID, names: Sequence[str]) -> list[Present]:
        return [_present(row) for row in await service.find_queues(conn, tenant_id=tenant_id, names=names)]

    async def page(
        self, conn: Connection, tenant_id: UUID, *, owner: str | None, after: str, limit: int
    ) -> list[Present]:
        found = await service.page_queues(conn, tenant_id=tenant_id, owner=owner, after=after, limit=limit)
        return [_present(row) for row in found]

    async def put(
        self, whole: Database, tenant_id: UUID, draft: tuple[str, QueueDraft], *, present: Present | None
    ) -> None:
        name, said = draft
        if present is None:
            await service.put_new_queue(whole, tenant_id=tenant_id, name=name, draft=said)
            return
        expected = Expected(revisions=frozenset({present.revision}))
        await service.replace_queue(whole, tenant_id=tenant_id, name=name, draft=said, expected=expected)

    async def delete(self, whole: Database, tenant_id: UUID, present: Present) -> None:
        expected = Expected(revisions=frozenset({present.revision}))
        await service.delete_queue(whole, tenant_id=tenant_id, name=present.name, expected=expected)

    def declared(self, present: Present) -> Declaration:
        spec = QueueFields.model_validate(present.normal).model_dump(mode="json", exclude_defaults=True)
        return Declaration(
            kind=Kind.QUEUE, name=present.name, revision=present.revision, owner=present.owner, spec=spec
        )


def _present(row: QueueRow) -> Present:
    normal = fields_of(row).model_dump(mode="json")
    return Present(kind=Kind.QUEUE, name=row.name, revision=row.revision, owner=row.owner, normal=normal, row=row)
