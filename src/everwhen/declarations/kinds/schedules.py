"""Schedules as files declare them. How one begins is declared, too, and means nothing once it is there."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast
from uuid import UUID

from pydantic import ValidationError

from everwhen.calendars.books import load_books
from everwhen.core.differences import same
from everwhen.core.errors import TriggerError
from everwhen.core.flex import FlexMode
from everwhen.core.targets import workflow_of
from everwhen.core.triggers import Timing, bind, calendar_names
from everwhen.declarations.kinds.protocol import Claim
from everwhen.declarations.kinds.reading import plain, read_spec
from everwhen.declarations.model import Declaration, Kind, Present
from everwhen.errors import InvalidInput
from everwhen.postgres.pool import Connection, Database
from everwhen.revisions import Expected
from everwhen.schedules import replacing, service
from everwhen.schedules.model import ScheduleDraft, ScheduleRow, ScheduleState, Spec, parse_spec, spec_to_data
from everwhen.schedules.service import Change
from everwhen.schedules.wire import ScheduleFields, draft_of

_COMPLETED = ("gap", "fold")
_SEED = "hash_seed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafted:
    """A schedule, and whose it is to be."""

    schedule: ScheduleDraft
    claim: Claim


class Schedules:
    """See `Things`."""

    def read(self, name: str, spec: Mapping[str, Any], claim: Claim) -> Drafted:
        schedule = draft_of(name, read_spec(ScheduleFields, spec))
        return Drafted(schedule=replace(schedule, owner=claim.owner), claim=claim)

    def normal(self, draft: Drafted, present: Present | None) -> Mapping[str, Any]:
        schedule, spec = draft.schedule, draft.schedule.spec
        before = None if present is None else _spec_of(present.row)
        if present is not None and before is not None:
            spec = replacing.settled(spec, before, uid=present.row.uid)
        return _normal(schedule, spec=spec_to_data(spec), value=schedule.input)

    def needs(self, draft: Drafted) -> Sequence[str]:  # noqa: ARG002
        return ()

    def parts(self, present: Present) -> Sequence[str]:  # noqa: ARG002
        return ()

    def notes(self, draft: Drafted, present: Present) -> Sequence[str]:
        is_paused = present.row.state == ScheduleState.PAUSED
        if draft.schedule.paused is not None and not is_paused:
            return ("it is declared to begin paused, and is active: pausing and resuming are for whoever operates it",)
        return ()

    async def named(self, conn: Connection, tenant_id: UUID, names: Sequence[str]) -> list[Present]:
        return [_present(row) for row in await replacing.find_schedules(conn, tenant_id=tenant_id, names=names)]

    async def page(
        self, conn: Connection, tenant_id: UUID, *, owner: str | None, after: str, limit: int
    ) -> list[Present]:
        found = await replacing.page_schedules(conn, tenant_id=tenant_id, owner=owner, after=after, limit=limit)
        return [_present(row) for row in found]

    async def put(self, whole: Database, tenant_id: UUID, draft: Drafted, *, present: Present | None) -> None:
        schedule, claim = draft.schedule, draft.claim
        if present is None:
            change = Change(by=claim.by)
            await service.create_schedule(whole, tenant_id=tenant_id, draft=schedule, change=change)
            return
        change = Change(by=claim.by, expected=Expected(revisions=frozenset({present.revision})))
        key: dict[str, Any] = {"tenant_id": tenant_id, "draft": schedule, "change": change}
        await replacing.replace_schedule(whole, **key, has_owner=claim.is_meant)

    async def delete(self, whole: Database, tenant_id: UUID, present: Present) -> None:
        change = Change(by="", expected=Expected(revisions=frozenset({present.revision})))
        await service.delete_schedule(whole, tenant_id=tenant_id, name=present.name, change=change)

    def declared(self, present: Present) -> Declaration:
        row: ScheduleRow = present.row
        whole = _whole(present)
        # What this version cannot read is passed on as it stands.
        spec = next((each for each in _candidates(whole) if _says(each, present)), whole)
        if row.state == ScheduleState.PAUSED and row.state_reason:
            spec = {**spec, "paused": row.state_reason}
        return Declaration(
            kind=Kind.SCHEDULE,
            name=present.name,
            revision=present.revision,
            owner=present.owner,
            spec=spec,
        )


async def timings_of(conn: Connection, tenant_id: UUID, rows: Sequence[ScheduleRow]) -> dict[str, Timing]:
    """Return when schedules fire, by their names, with their calendars as the transaction sees them."""
    specs = {row.name: spec for row in rows if (spec := _spec_of(row)) is not None}
    wanted = {(tenant_id, name) for spec in specs.values() for name in calendar_names(spec.timing)}
    book = (await load_books(conn, wanted)).get(tenant_id, {})
    return {name: bind(spec.timing, book) for name, spec in specs.items()}


def _present(row: ScheduleRow) -> Present:
    spec = _spec_of(row)
    data = json.loads(row.spec) if spec is None else spec_to_data(spec)
    normal = _normal(row, spec=data, value=json.loads(row.input))
    return Present(kind=Kind.SCHEDULE, name=row.name, revision=row.revision, owner=row.owner, normal=normal, row=row)


def _spec_of(row: ScheduleRow) -> Spec | None:
    """Return a stored spec, None when this version cannot read it."""
    try:
        return parse_spec(row.spec)
    except (TriggerError, LookupError, TypeError, ValueError):
        return None


def _normal(stored: ScheduleDraft | ScheduleRow, *, spec: Mapping[str, Any], value: Any) -> dict[str, Any]:
    workflow = workflow_of(stored.task)
    target = {"task": stored.task} if workflow is None else {"workflow": workflow}
    return {**target, **spec, "input": value, "priority": stored.priority, "tags": list(stored.tags)}


def _whole(present: Present) -> dict[str, Any]:
    """Return every field that a document may have, without what is the schedule's own and not declared."""
    fields = {field: value for field, value in present.normal.items() if value is not None}
    flex = fields.get("flex")
    if flex is not None and flex["mode"] == FlexMode.SMOOTH:
        fields["flex"] = {name: value for name, value in flex.items() if name != "offset_seconds"}
    return {**fields, "trigger": _unseeded(fields["trigger"]), "input": plain(present.normal["input"])}


def _unseeded(value: Any) -> Any:
    """Return a trigger without the seeds that are drawn from the schedule's uid."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {key: _unseeded(each) for key, each in fields.items() if key != _SEED}
    return [_unseeded(each) for each in cast("list[Any]", value)] if isinstance(value, list) else value


def _candidates(whole: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield specs that may say the same as the whole one, the shortest first; without what a preset completes."""
    if "preset" in whole:
        trigger = {field: value for field, value in whole["trigger"].items() if field != "dialect"}
        without = {field: value for field, value in whole.items() if field not in _COMPLETED}
        yield _short({**without, "trigger": trigger})
        yield _short({**whole, "trigger": trigger})
    yield _short(whole)


def _short(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields that are not as by default."""
    try:
        fields = ScheduleFields.model_validate(dict(given))
    except ValidationError:  # stored by another version
        return given
    return fields.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def _says(spec: Mapping[str, Any], present: Present) -> bool:
    """Tell whether a document of this spec would change nothing."""
    try:
        draft = Schedules().read(present.name, spec, Claim(owner=None, is_meant=False, by=""))
    except (InvalidInput, TriggerError):
        return False
    return same(Schedules().normal(draft, present), present.normal)
