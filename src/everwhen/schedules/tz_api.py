"""Releases of the tz database over HTTP: which is in use, and what another one would do."""

# ruff: noqa: FAST003  # the tenant in the path is read by the dependency that grants access

import base64
import binascii
from datetime import timedelta
from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter
from pydantic import Field, Strict

from everwhen.core.compare import Comparison, MoveKind
from everwhen.core.zones import tz_version
from everwhen.errors import InvalidInput
from everwhen.http.access import Editor, Reader
from everwhen.http.bodies import ControlRoute
from everwhen.http.fields import Utc, Wire
from everwhen.http.manners import reads
from everwhen.schedules import tz_review
from everwhen.schedules.ahead_api import MoveOut, move_out
from everwhen.schedules.tz_report import ScheduleMoves

router = APIRouter(route_class=ControlRoute, tags=["tz database"])

MOST_ARCHIVE_CHARACTERS: Final = 1_000_000
MOST_DAYS: Final = 3_660
MOST_MOVES: Final = 20
"""How many moves of each schedule are listed."""


class PlannedWithOut(Wire):
    """How many of the tenant's schedules were planned with a release; null: before releases were recorded."""

    release: str | None
    schedules: int


class TzOut(Wire):
    """The release of the tz database that this server plans with, and those that schedules were planned with."""

    release: str
    planned_with: list[PlannedWithOut]


class TzReviewIn(Wire):
    """Another release, and how far to look."""

    archive: Annotated[
        str,
        Field(
            max_length=MOST_ARCHIVE_CHARACTERS,
            description="A tzdata wheel, or a zip of zone files, in base64.",
        ),
    ]
    days: Annotated[int, Strict(), Field(ge=1, le=MOST_DAYS)] = 730
    after: UUID | None = Field(default=None, description="Go on after this schedule: `following` of an earlier answer.")


class ScheduleMovesOut(Wire):
    """What the release does to one schedule; `error` says why it cannot be told. At most 20 moves are listed."""

    name: str
    timezone: str
    error: str | None
    added: int
    removed: int
    moved: int
    unchanged: int
    compared_until: Utc
    moves: list[MoveOut]


class TzReviewOut(Wire):
    """What a release would do once this server runs on it: schedules whose fires move, with the moves."""

    old: str
    new: str
    start: Utc
    until: Utc
    looked: int = Field(description="How many schedules were looked at.")
    affected: list[ScheduleMovesOut]
    following: UUID | None = Field(description="Send it as `after` to go on; null: there is nothing left.")
    complete: bool = Field(description="False when the tenant has more schedules than can be read at once.")


@router.get("/v1/tenants/{tenant}/tz")
async def get_tz(*, access: Reader) -> TzOut:
    """Say which release of the tz database is in use, and whether every schedule is planned by it."""
    found = await tz_review.planned_with(access.database, tenant_id=access.tenant_id)
    return TzOut(
        release=tz_version(),
        planned_with=[PlannedWithOut(release=each.tz_version, schedules=each.schedules) for each in found],
    )


@router.post("/v1/tenants/{tenant}/tz/review")
@reads
async def review_tz(*, access: Editor, body: TzReviewIn) -> TzReviewOut:
    """List the schedules whose fires another release would move, calendars included. Nothing is changed."""
    found = await tz_review.review_release(
        access.database,
        tenant_id=access.tenant_id,
        archive=_decoded(body.archive),
        horizon=timedelta(days=body.days),
        after=body.after,
    )
    return TzReviewOut(
        old=found.releases.old.version,
        new=found.releases.new.version[:100],
        start=found.releases.after,
        until=found.releases.until,
        looked=found.looked,
        affected=[_out(each) for each in found.affected],
        following=found.following,
        complete=found.whole,
    )


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput.at("/archive", "archive is no base64.", code="tz.archive") from None


def _out(each: ScheduleMoves) -> ScheduleMovesOut:
    comparison = each.comparison or Comparison(moves=(), unchanged=0, until=each.after, cut=True)
    return ScheduleMovesOut(
        name=each.name,
        timezone=each.timezone,
        error=each.error,
        added=comparison.count(MoveKind.ADDED),
        removed=comparison.count(MoveKind.REMOVED),
        moved=comparison.count(MoveKind.MOVED),
        unchanged=comparison.unchanged,
        compared_until=comparison.until,
        moves=[move_out(move) for move in comparison.moves[:MOST_MOVES]],
    )
