"""Calendars as files declare them: by their latest version."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from everwhen.calendars import service
from everwhen.calendars.model import CalendarDraft, CalendarRow
from everwhen.calendars.wire import CalendarFields, draft_of
from everwhen.core.calendar_json import definition_to_json
from everwhen.declarations.kinds.protocol import Claim
from everwhen.declarations.kinds.reading import read_spec
from everwhen.declarations.model import Declaration, Kind, Present
from everwhen.postgres.pool import Connection, Database
from everwhen.revisions import Expected


class Calendars:
    """See `Things`."""

    def read(self, name: str, spec: Mapping[str, Any], claim: Claim) -> tuple[str, CalendarDraft]:
        draft = draft_of(read_spec(CalendarFields, spec), by=claim.by)
        return name, replace(draft, owner=claim.owner, has_owner=claim.is_meant)

    def normal(self, draft: tuple[str, CalendarDraft], present: Present | None) -> Mapping[str, Any]:  # noqa: ARG002
        said = draft[1]
        since = said.effective_from and said.effective_from.isoformat()
        return {"definition": definition_to_json(said.definition), "effective_from": since}

    def needs(self, draft: tuple[str, CalendarDraft]) -> Sequence[str]:  # noqa: ARG002
        return ()

    def parts(self, present: Present) -> Sequence[str]:  # noqa: ARG002
        return ()

    def notes(self, draft: tuple[str, CalendarDraft], present: Present) -> Sequence[str]:  # noqa: ARG002
        return ()

    async def named(self, conn: Connection, tenant_id: UUID, names: Sequence[str]) -> list[Present]:
        return [_present(row) for row in await service.find_calendars(conn, tenant_id=tenant_id, names=names)]

    async def page(
        self, conn: Connection, tenant_id: UUID, *, owner: str | None, after: str, limit: int
    ) -> list[Present]:
        found = await service.page_calendars(conn, tenant_id=tenant_id, owner=owner, after=after, limit=limit)
        return [_present(row) for row in found]

    async def put(
        self, whole: Database, tenant_id: UUID, draft: tuple[str, CalendarDraft], *, present: Present | None
    ) -> None:
        name, said = draft
        key: dict[str, Any] = {"tenant_id": tenant_id, "name": name, "draft": said}
        if present is None:
            await service.create_calendar(whole, **key)
        else:
            await service.replace_calendar(whole, **key, expected=Expected(revisions=frozenset({present.revision})))

    async def delete(self, whole: Database, tenant_id: UUID, present: Present) -> None:
        expected = Expected(revisions=frozenset({present.revision}))
        await service.delete_calendar(whole, tenant_id=tenant_id, name=present.name, expected=expected)

    def declared(self, present: Present) -> Declaration:
        spec = CalendarFields.model_validate(present.normal).model_dump(mode="json", exclude_defaults=True)
        return Declaration(
            kind=Kind.CALENDAR, name=present.name, revision=present.revision, owner=present.owner, spec=spec
        )


def _present(row: CalendarRow) -> Present:
    since = row.effective_from and row.effective_from.isoformat()
    normal = {"definition": json.loads(row.definition), "effective_from": since}
    return Present(kind=Kind.CALENDAR, name=row.name, revision=row.version, owner=row.owner, normal=normal, row=row)
