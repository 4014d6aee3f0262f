"""Looking ahead over HTTP: the forecast as numbers and as a picture, smoothing, and a change that is only tried."""

# ruff: noqa: FAST003  # the tenant in the path is read by the dependency that grants access

from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from everwhen.core.compare import Move, MoveKind
from everwhen.core.forecast import MOST_HOURS, Forecast
from everwhen.http.access import Access, Editor, Platform, Reader
from everwhen.http.auditing import audited
from everwhen.http.bodies import ControlRoute
from everwhen.http.fields import Instant, Utc
from everwhen.http.plane import ControlPlane
from everwhen.schedules import looking_ahead
from everwhen.schedules.forecast_svg import herd_of, render
from everwhen.schedules.looking_ahead import Looked
from everwhen.schedules.wire import ScheduleChange, changes_of
from everwhen.schedules.wire_catchup import CatchUpPreviewOut, preview_out

router = APIRouter(route_class=ControlRoute, tags=["looking ahead"])

DEFAULT_DAYS: Final = 30
DEFAULT_HOURS: Final = 24
MOST_MOVES: Final = 200
SVG_HEADERS: Final = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}

From = Annotated[Instant | None, Query(alias="from", description="Where it begins, to the minute; left out: now.")]
Hours = Annotated[int, Query(ge=1, le=MOST_HOURS, description="How far to look.")]
Days = Annotated[int, Query(ge=1, le=3660, description="With dry_run: how far to compare.")]
DryRun = Annotated[bool, Query(description="Say what it would do, and keep nothing.")]


class PeakOut(BaseModel):
    """The busiest minute."""

    at: Utc
    due: int


class HerdOut(BaseModel):
    """The minute of the hour at which most becomes due, over all hours."""

    minute: int
    due: int
    share: float = Field(description="Of everything that is due; spread evenly it would be 1/60.")
    sentence: str


class ForecastOut(BaseModel):
    """How many runs become due in each minute; `complete` unless something was not counted to its end."""

    start: Utc
    hours: int
    schedules: int
    due: int
    peak: PeakOut
    herd: HerdOut | None
    complete: bool
    cut: list[str] = Field(description="Schedules that fire too often to be counted to the end, or cannot be read.")
    per_minute: list[int]


class OffsetOut(BaseModel):
    """A schedule's place in its flex window, before and after."""

    schedule: str
    before_seconds: int | None
    after_seconds: int


class SmoothingOut(BaseModel):
    """What smoothing comes to. `more` schedules would change as well: ask again."""

    applied: bool
    before: PeakOut
    after: PeakOut
    changed: list[OffsetOut]
    more: int


class MoveOut(BaseModel):
    """One fire that a change adds, removes or moves."""

    kind: MoveKind
    old_at: Utc | None
    old_local: str | None
    new_at: Utc | None
    new_local: str | None


class ChangePlanOut(BaseModel):
    """What a change would do, until the end of the horizon; at most 200 moves are listed."""

    dry_run: Literal[True] = True
    revision: int = Field(description="The revision that it would make.")
    paused: bool = Field(description="Whether the schedule is paused, so that none of this would run.")
    until: Utc = Field(description="How far the fires were compared: earlier than asked for when there are too many.")
    added: int
    removed: int
    moved: int
    unchanged: int
    moves: list[MoveOut]
    past: CatchUpPreviewOut | None = Field(
        description="What of the new trigger's past would be caught up on, by `catch_up.on_edit`; null: it begins now."
    )
    withdrawn: list[Utc] = Field(description="When the runs that are planned already, and would be withdrawn, are due.")


@router.get("/v1/tenants/{tenant}/forecast")
async def forecast_tenant(*, access: Reader, start: From = None, hours: Hours = DEFAULT_HOURS) -> ForecastOut:
    """Count what becomes due in each minute."""
    return _out(await _look(access.plane, access.tenant_id, start, hours), hours)


@router.get(
    "/v1/tenants/{tenant}/forecast.svg",
    response_class=Response,
    responses={200: {"content": {"image/svg+xml": {"schema": {"type": "string"}}}}},
)
async def draw_forecast(*, tenant: str, access: Reader, start: From = None, hours: Hours = DEFAULT_HOURS) -> Response:
    """Draw the forecast: an hour a row, a minute a column, with a table of the hours."""
    looked = await _look(access.plane, access.tenant_id, start, hours)
    picture = render(looked.forecast, title=f"What becomes due: {tenant}")
    return Response(picture, media_type="image/svg+xml", headers=SVG_HEADERS)


@router.get("/v1/forecast")
async def forecast_all(*, access: Platform, start: From = None, hours: Hours = DEFAULT_HOURS) -> ForecastOut:
    """Count what becomes due in each minute, over all tenants."""
    return _out(await _look(access.plane, None, start, hours), hours)


@router.post("/v1/tenants/{tenant}/forecast/smooth")
@audited(resource="schedules")
async def smooth_schedules(
    *, access: Editor, start: From = None, hours: Hours = DEFAULT_HOURS, dry_run: DryRun = False
) -> SmoothingOut:
    """Give the schedules whose flex is `smooth` their offsets, so that the busiest minute is less busy."""
    found = await looking_ahead.try_smoothing(
        access.database, tenant_id=access.tenant_id, start=start, minutes=60 * hours
    )
    if not dry_run:
        await looking_ahead.apply_smoothing(
            access.database, found, tenant_id=access.tenant_id, by=access.principal.subject
        )
    return SmoothingOut(
        applied=not dry_run,
        before=_peak(found.smoothing.before),
        after=_peak(found.smoothing.after),
        changed=[
            OffsetOut(schedule=name, before_seconds=_seconds(before), after_seconds=_seconds(after) or 0)
            for name, (before, after) in found.changed.items()
        ],
        more=found.more,
    )


async def try_change(access: Access, *, name: str, body: ScheduleChange, days: int) -> ChangePlanOut:
    """Say what a change would do."""
    tried = await looking_ahead.try_update(
        access.database,
        tenant_id=access.tenant_id,
        name=name,
        changes=lambda spec: changes_of(body, spec),
        horizon=timedelta(days=days),
    )
    comparison = tried.comparison
    return ChangePlanOut(
        revision=tried.revision,
        paused=tried.paused,
        past=tried.past and preview_out(tried.past),
        until=comparison.until,
        added=comparison.count(MoveKind.ADDED),
        removed=comparison.count(MoveKind.REMOVED),
        moved=comparison.count(MoveKind.MOVED),
        unchanged=comparison.unchanged,
        moves=[move_out(move) for move in comparison.moves[:MOST_MOVES]],
        withdrawn=list(tried.withdrawn),
    )


async def _look(plane: ControlPlane, tenant_id: UUID | None, start: datetime | None, hours: int) -> Looked:
    return await looking_ahead.look(plane.database, tenant_id=tenant_id, start=start, minutes=60 * hours)


def _out(looked: Looked, hours: int) -> ForecastOut:
    found = looked.forecast
    herd = herd_of(found)
    cut = [*found.cut, *looked.unreadable]
    return ForecastOut(
        start=found.start,
        hours=hours,
        schedules=found.schedules,
        due=found.due,
        peak=_peak(found),
        herd=herd and HerdOut(minute=herd.minute, due=herd.due, share=round(herd.share, 4), sentence=herd.sentence),
        complete=looked.whole and not cut,
        cut=cut[:MOST_MOVES],
        per_minute=list(found.counts),
    )


def _peak(found: Forecast) -> PeakOut:
    at, due = found.peak
    return PeakOut(at=at, due=due)


def move_out(move: Move) -> MoveOut:
    """Return a move as the wire has it."""
    return MoveOut(
        kind=move.kind,
        old_at=move.before and move.before.astimezone(UTC),
        old_local=move.before and move.before.isoformat(),
        new_at=move.after and move.after.astimezone(UTC),
        new_local=move.after and move.after.isoformat(),
    )


def _seconds(offset: timedelta | None) -> int | None:
    return None if offset is None else int(offset.total_seconds())
