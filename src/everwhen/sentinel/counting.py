"""From starts to counts: which day and which bucket each belongs to. Pure."""

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from uuid import UUID

from everwhen.core.punctuality import BUCKETS, NEVER, bucket_of
from everwhen.sentinel.model import CountedDay, MissedSpan, Start

Key = tuple[UUID, UUID]


def count_days(
    starts: Iterable[Start], missed: Iterable[MissedSpan], objectives: Mapping[Key, float]
) -> list[CountedDay]:
    """Count starts and missed instants by schedule and UTC day; `objectives` are seconds by (tenant, schedule)."""
    late: dict[tuple[Key, date], int] = {}
    buckets: dict[tuple[Key, date], list[int]] = {}

    def count(key: Key, due_at: datetime, bucket: int, *, is_late: bool, instants: int = 1) -> None:
        place = key, due_at.astimezone(UTC).date()
        buckets.setdefault(place, [0] * BUCKETS)[bucket] += instants
        late[place] = late.get(place, 0) + is_late * instants

    for start in starts:
        if start.counts:
            key = start.tenant_id, start.schedule_uid
            lateness = None if start.started_at is None else (start.started_at - start.due_at).total_seconds()
            count(key, start.due_at, bucket_of(lateness), is_late=lateness is None or lateness > objectives[key])
    for span in missed:
        count((span.tenant_id, span.schedule_uid), span.first_at, NEVER, is_late=True, instants=span.instants)
    return [
        CountedDay(
            tenant_id=key[0],
            schedule_uid=key[1],
            day=day,
            on_time=sum(counts) - late[key, day],
            late=late[key, day],
            buckets=counts,
        )
        for (key, day), counts in buckets.items()
    ]
