"""Schedules over HTTP."""

# ruff: noqa: FAST003  # the tenant in the path is read by the dependency that grants access

import json
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Path, Query, Request, Response

from everwhen.core.ahead import Touch
from everwhen.core.flex import Flex
from everwhen.core.overlap import Overlap
from everwhen.core.overlap_json import explain_overlap
from everwhen.core.reasons import Reason
from everwhen.core.sentences import sentence_of
from everwhen.core.triggers import Occurrence, Timing, find_seed
from everwhen.core.zones import tz_version
from everwhen.http.access import NAME_PATTERN, Access, Editor, Operator, Reader
from everwhen.http.bodies import ControlRoute
from everwhen.http.fields import Why
from everwhen.http.manners import reads
from everwhen.http.pages import (
    DEFAULT_ITEMS,
    Cursor,
    Limit,
    Page,
    filter_query,
    next_page,
    page_of,
    read_cursor,
    read_number,
)
from everwhen.http.payloads import payloads_shown
from everwhen.http.preconditions import Act, Change, Put, TryOrChange, tag
from everwhen.revisions import ANY, Expected
from everwhen.schedules import looking_ahead, replacing, service
from everwhen.schedules.ahead_api import DEFAULT_DAYS, ChangePlanOut, Days, DryRun, try_change
from everwhen.schedules.catching_up import preview_creation
from everwhen.schedules.listing import SCHEDULES
from everwhen.schedules.model import Revision, RevisionAction, Schedule, Spec
from everwhen.schedules.revisions import Difference, differences
from everwhen.schedules.wire import (
    FieldChange,
    FireOut,
    PauseIn,
    PreviewIn,
    PreviewOut,
    ReasonIn,
    ResumedOut,
    RevisionOut,
    ScheduleChange,
    ScheduleIn,
    ScheduleOut,
    ScheduleReplacement,
    TouchOut,
    changes_of,
    draft_of,
    flex_of,
    overlap_of,
    schedule_out,
    seeded,
    timing_of,
)
from everwhen.schedules.wire_catchup import CatchUpFields, ResumeIn, catch_up_of, preview_out, rule_of

router = APIRouter(route_class=ControlRoute, tags=["schedules"])

ScheduleName = Annotated[str, Path(pattern=NAME_PATTERN, description="The schedule's name.")]
Where = Annotated[str, filter_query(SCHEDULES)]
Count = Annotated[int, Query(ge=1, le=100, description="How many fires to show.")]

_LIST = "schedules"
_REVISIONS = "revisions"
_BUSY: dict[int | str, dict[str, Any]] = {409: {"description": "The state does not allow it, or it is catching up"}}


@router.post("/v1/tenants/{tenant}/schedules", status_code=201, responses={409: {"description": "The name is taken"}})
async def create_schedule(*, tenant: str, body: ScheduleIn, access: Editor, response: Response) -> ScheduleOut:
    """Make a schedule; its first run is the first instant after now, unless it begins in the past."""
    draft = draft_of(body.name, body)
    made = await service.create_schedule(
        access.database, tenant_id=access.tenant_id, draft=draft, change=_change(access, None)
    )
    response.headers["Location"] = f"/v1/tenants/{tenant}/schedules/{made.name}"
    return _tagged(response, made)


@router.get("/v1/tenants/{tenant}/schedules")
async def list_schedules(
    *, request: Request, access: Reader, where: Where = "", limit: Limit = DEFAULT_ITEMS, cursor: Cursor = None
) -> Page[ScheduleOut]:
    """List schedules by name."""
    after = read_cursor(cursor, of=_LIST) or ""
    found = await service.list_schedules(
        access.database, tenant_id=access.tenant_id, after=after, limit=limit, where=where
    )
    return page_of(request, found, of=_LIST, out=schedule_out)


@router.post("/v1/tenants/{tenant}/schedules/preview")
@reads
async def preview_timing(*, body: PreviewIn, access: Reader) -> PreviewOut:
    """Show when a timing that is not saved would fire."""
    timing, flex = seeded(timing_of(body)), flex_of(body.flex)
    overlap = overlap_of(body.overlap)
    found = await _preview(access, timing, body.count, flex=flex, overlap=overlap)
    spec = Spec(timing=timing, catch_up=catch_up_of(body.catch_up or CatchUpFields()), flex=flex)
    past = await preview_creation(access.database, tenant_id=access.tenant_id, spec=spec, since=body.since)
    return found.model_copy(update={"past": past and preview_out(past)})


@router.get("/v1/tenants/{tenant}/schedules/{name}")
async def get_schedule(*, name: ScheduleName, access: Reader, response: Response) -> ScheduleOut:
    """Read one schedule."""
    return _tagged(response, await service.get_schedule(access.database, tenant_id=access.tenant_id, name=name))


@router.patch("/v1/tenants/{tenant}/schedules/{name}", responses=_BUSY)
async def update_schedule(  # noqa: PLR0913  # what a change says
    *,
    name: ScheduleName,
    body: ScheduleChange,
    access: Editor,
    expected: TryOrChange,
    response: Response,
    dry_run: DryRun = False,
    days: Days = DEFAULT_DAYS,
) -> ScheduleOut | ChangePlanOut:
    """Make the next revision. What is due stays as it is; what was planned ahead is decided anew.

    With `dry_run` nothing is kept, and the answer lists the fires that would be added, removed and moved.
    """
    if dry_run:
        return await try_change(access, name=name, body=body, days=days)
    changed = await service.update_schedule(
        access.database,
        tenant_id=access.tenant_id,
        name=name,
        changes=lambda spec: changes_of(body, spec),
        change=_change(access, body.reason, expected),
    )
    return _tagged(response, changed)


@router.put(
    "/v1/tenants/{tenant}/schedules/{name}",
    responses={**_BUSY, 201: {"model": ScheduleOut, "description": "There was none, and it was made"}},
)
async def replace_schedule(
    *, name: ScheduleName, body: ScheduleReplacement, access: Editor, expected: Put, response: Response
) -> ScheduleOut:
    """Say all that a schedule is, unless it is so already; or, with `If-None-Match: *`, make it.

    Whether it is paused stays as it is.
    """
    change = _change(access, body.reason, expected)
    key: dict[str, Any] = {"tenant_id": access.tenant_id, "draft": draft_of(name, body), "change": change}
    if expected.absent:
        response.status_code = 201
        return _tagged(response, await replacing.put_new_schedule(access.database, **key))
    has_owner = "owner" in body.model_fields_set
    return _tagged(response, await replacing.replace_schedule(access.database, **key, has_owner=has_owner))


@router.delete("/v1/tenants/{tenant}/schedules/{name}", status_code=204, responses=_BUSY)
async def delete_schedule(*, name: ScheduleName, access: Editor, expected: Change, reason: Why = None) -> None:
    """End a schedule; its history stays, its name is free."""
    await service.delete_schedule(
        access.database,
        tenant_id=access.tenant_id,
        name=name,
        change=_change(access, reason, expected),
        on_ended=access.plane.on_ended,
    )


@router.post("/v1/tenants/{tenant}/schedules/{name}/pause", responses=_BUSY)
async def pause_schedule(
    *, name: ScheduleName, body: PauseIn, access: Operator, expected: Act, response: Response
) -> ScheduleOut:
    """Stop planning, with a reason, for good or until an instant."""
    paused = await service.pause_schedule(
        access.database,
        tenant_id=access.tenant_id,
        name=name,
        change=_change(access, body.reason, expected),
        until=body.until,
    )
    return _tagged(response, paused)


@router.post("/v1/tenants/{tenant}/schedules/{name}/resume", responses=_BUSY)
async def resume_schedule(
    *, name: ScheduleName, access: Operator, expected: Act, response: Response, body: ResumeIn | None = None
) -> ResumedOut:
    """Plan again from now on, and say what becomes of the instants in between: by default they are skipped."""
    resumed = await service.resume_schedule(
        access.database,
        tenant_id=access.tenant_id,
        name=name,
        change=_change(access, body and body.reason, expected),
        rule=None if body is None or body.catch_up is None else rule_of(body.catch_up),
    )
    tag(response, resumed.schedule.revision)
    return ResumedOut(**schedule_out(resumed.schedule).model_dump(), left_behind=preview_out(resumed.left_behind))


@router.post("/v1/tenants/{tenant}/schedules/{name}/release", responses=_BUSY)
async def release_schedule(
    *, name: ScheduleName, access: Operator, expected: Act, response: Response, body: ReasonIn | None = None
) -> ScheduleOut:
    """Let the line of a strictly sequential schedule go on that a dead run holds up."""
    change = _change(access, body and body.reason, expected)
    key: dict[str, Any] = {"tenant_id": access.tenant_id, "name": name}
    return _tagged(response, await service.release_schedule(access.database, **key, change=change))


@router.get("/v1/tenants/{tenant}/schedules/{name}/revisions")
async def list_revisions(
    *, request: Request, name: ScheduleName, access: Reader, limit: Limit = DEFAULT_ITEMS, cursor: Cursor = None
) -> Page[RevisionOut]:
    """List what a schedule was, oldest first, with who changed it and why."""
    after = read_number(cursor, of=_REVISIONS)
    found = await service.list_revisions(
        access.database, tenant_id=access.tenant_id, name=name, after=max(0, after - 1), limit=limit + 2
    )
    # The one before the page is read as well: the first of the page is told by what it changed of it.
    before = found.pop(0) if after and found and found[0].revision == after else None
    following = next_page(request, found, limit=limit, of=_REVISIONS, key=lambda revision: str(revision.revision))
    pairs = zip([before, *found], found[:limit], strict=False)
    return Page(items=[_revision_out(old, new) for old, new in pairs], next=following)


@router.get("/v1/tenants/{tenant}/schedules/{name}/preview")
async def preview_schedule(*, name: ScheduleName, access: Reader, count: Count = 5) -> PreviewOut:
    """Show when a schedule fires next, paused or not."""
    schedule = await service.get_schedule(access.database, tenant_id=access.tenant_id, name=name)
    spec = schedule.spec
    return await _preview(access, spec.timing, count, flex=spec.flex, overlap=spec.overlap, uid=schedule.uid)


async def _preview(
    access: Access,
    timing: Timing,
    count: int,
    *,
    flex: Flex | None,
    overlap: Overlap,
    uid: UUID | None = None,
) -> PreviewOut:
    seen = await looking_ahead.preview(
        access.database, tenant_id=access.tenant_id, timing=timing, count=count, flex=flex, uid=uid
    )
    fires = sum(occurrence.skipped is None for occurrence in seen.occurrences)
    return PreviewOut(
        sentence=seen.sentence,
        overlap=explain_overlap(overlap),
        fires_per_year=seen.frequency.fires,
        fires_per_year_exact=seen.frequency.exact,
        transitions=[_touch_out(touch) for touch in seen.touches],
        hash_seed=find_seed(timing.trigger) or None,
        neighbours_complete=seen.neighbours.whole,
        tz_version=tz_version(),
        timezone=timing.timezone,
        gap=timing.effective_gap,
        fold=timing.effective_fold,
        items=[
            _fire_out(occurrence, due_at=due_at, neighbours=seen.neighbours.at.get(occurrence.nominal_at))
            for occurrence, due_at in zip(seen.occurrences, seen.dues, strict=True)
        ],
        exhausted=fires < count,
    )


def _change(access: Access, reason: str | None, expected: Expected = ANY) -> service.Change:
    return service.Change(by=access.principal.subject, reason=reason, expected=expected)


def _tagged(response: Response, schedule: Schedule) -> ScheduleOut:
    tag(response, schedule.revision)
    return schedule_out(schedule)


def _revision_out(before: Revision | None, revision: Revision) -> RevisionOut:
    return RevisionOut(
        revision=revision.revision,
        action=RevisionAction(revision.action),
        task=revision.task,
        spec=json.loads(revision.spec),
        input=json.loads(revision.input),
        priority=revision.priority,
        tags=revision.tags,
        owner=revision.owner,
        changed_by=revision.changed_by,
        reason=revision.reason,
        changed_at=revision.changed_at,
        tz_version=revision.tz_version,
        changes=[_change_out(change) for change in ([] if before is None else differences(before, revision))],
        paused_until=revision.paused_until,
    )


def _change_out(change: Difference) -> FieldChange:
    if change.field == "input" and not payloads_shown():
        return FieldChange(field=change.field, before=None, after=None)
    return FieldChange(field=change.field, before=change.before, after=change.after)


def _touch_out(touch: Touch) -> TouchOut:
    return TouchOut(
        at=touch.at,
        offset_before_seconds=int(touch.before.total_seconds()),
        offset_after_seconds=int(touch.after.total_seconds()),
        skipped=touch.skipped,
        moved=touch.moved,
        doubled=touch.doubled,
        once=touch.once,
    )


def _fire_out(occurrence: Occurrence, *, due_at: datetime | None, neighbours: int | None) -> FireOut:
    fires = occurrence.skipped is None
    named = {
        "dst_gap": bool(occurrence.missing),
        "dst_fold": occurrence.repeated,
        "excluded": occurrence.skipped is Reason.CALENDAR_EXCLUDED,
        "rolled": occurrence.due_at != occurrence.nominal_at,
        "flexed": fires and due_at != occurrence.due_at,
    }
    flags: list[Any] = [name for name, is_set in named.items() if is_set]
    return FireOut(
        at=occurrence.nominal_at,
        local=occurrence.local.isoformat(),
        verdict="fires" if fires else "skipped",
        reason=occurrence.skipped,
        reason_sentence=sentence_of(occurrence.skipped),
        flags=flags,
        due_at=due_at,
        neighbours=neighbours,
    )
