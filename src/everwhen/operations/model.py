"""An operation: bulk work as a thing of its own, with its request, its items and how far it is."""

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from everwhen.core.backfill import Include
from everwhen.core.bulk import Limits, OperationKind, Progress
from everwhen.core.overlap import OverlapWish

FIRST_SEQ: Final = -(1 << 62)
"""Before every item."""


class ItemOrder(StrEnum):
    """Which items come first."""

    OLDEST = "oldest"
    NEWEST = "newest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill:
    """Which instants to fill: of a schedule, from `start` on and before `end`. `id` tells backfills apart."""

    id: str
    schedule: str
    schedule_uid: UUID
    start: datetime
    end: datetime
    include: Include
    only: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What an operation is to do. `filter` says to what, canonically; `backfill` to which instants instead.

    `tags` are what is to be given, or taken away; `until` is when a pause ends.
    """

    kind: OperationKind
    filter: str | None
    backfill: Backfill | None
    order: ItemOrder
    priority: int | None
    overlap: OverlapWish
    limits: Limits
    plan_token: str
    tags: tuple[str, ...] = ()
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRow:
    """An operation as it is stored. `request` is JSON text; `listed` a digest of the items that were listed so far."""

    tenant_id: UUID
    id: UUID
    kind: str
    state: str
    state_reason: str | None
    request: str
    requested_by: str
    reason: str
    created_at: datetime
    changed_by: str
    changed_reason: str | None
    changed_at: datetime
    finished_at: datetime | None
    moved_at: datetime
    total: int
    done: int
    skipped: int
    succeeded: int
    dead: int
    ended: int
    canary_passed: bool
    listed_until: datetime | None
    listed: bytes
    listed_count: int
    rate_at: datetime
    seen_seq: int
    next_at: datetime | None
    read_at: datetime

    @property
    def progress(self) -> Progress:
        """How far it is."""
        return Progress(
            total=self.total,
            done=self.done,
            skipped=self.skipped,
            succeeded=self.succeeded,
            dead=self.dead,
            ended=self.ended,
            canary_passed=self.canary_passed,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One item that is left: a run, an instant, or a thing by its name, and its uid where it has one."""

    seq: int
    run_id: UUID | None
    nominal_at: datetime | None
    utc_offset_seconds: int | None
    name: str | None
    uid: UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemRow:
    """One item, and what has become of it; `detail` is the code of what refused it."""

    seq: int
    run_id: UUID | None
    nominal_at: datetime | None
    utc_offset_seconds: int | None
    name: str | None
    state: str
    reason: str | None
    detail: str | None
    made_run_id: UUID | None


class ItemState(StrEnum):
    """What has become of an item."""

    LEFT = "left"
    DONE = "done"  # its run has not ended, as far as was seen
    SKIPPED = "skipped"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class DoneItem:
    """An item whose run has not ended, as far as was seen."""

    seq: int
    made_run_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a look at ends found; `last_seq` None: there was nothing to look at."""

    looked: int
    last_seq: int | None
    succeeded: int
    dead: int
    ended: int


def request_to_json(request: Request) -> str:
    """Return a request as it is stored."""
    return json.dumps(asdict(request), default=_plain)


def parse_request(text: str) -> Request:
    """Read what `request_to_json` made."""
    data = json.loads(text)
    return Request(
        kind=OperationKind(data["kind"]),
        filter=data["filter"],
        backfill=None if data["backfill"] is None else _backfill(data["backfill"]),
        order=ItemOrder(data["order"]),
        priority=data["priority"],
        overlap=OverlapWish(data.get("overlap", OverlapWish.WAIT)),
        limits=Limits(**data["limits"]),
        plan_token=data["plan_token"],
        tags=tuple(data.get("tags", ())),
        until=None if data.get("until") is None else datetime.fromisoformat(data["until"]),
    )


def _backfill(data: dict[str, Any]) -> Backfill:
    return Backfill(
        id=data["id"],
        schedule=data["schedule"],
        schedule_uid=UUID(data["schedule_uid"]),
        start=datetime.fromisoformat(data["start"]),
        end=datetime.fromisoformat(data["end"]),
        include=Include(data["include"]),
        only=tuple(data["only"]),
    )


def _plain(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
