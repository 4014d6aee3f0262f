"""Prints runs as they are planned, claimed and done, each with its lateness."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from everwhen.postgres.pool import Database
from everwhen.runs import service
from everwhen.runs.model import TailedEvent

POLL_SECONDS: Final = 0.2
OVERLAP: Final = 1_000
"""How many event numbers are read again: a transaction that took its number early may commit late."""

Print = Callable[[str], None]


async def watch(database: Database, tenant_id: UUID, *, show: Print, on_first_success: Callable[[], None]) -> None:
    """Follow the tenant's history until cancelled."""
    seen: set[int] = set()
    after, succeeded, since = 0, False, timedelta(minutes=2)
    while True:
        for event in await service.tail(database, tenant_id=tenant_id, after=max(0, after - OVERLAP), since=since):
            if event.event_id in seen:
                continue
            seen.add(event.event_id)
            after = max(after, event.event_id)
            show(line(event))
            if event.kind == "succeeded" and not succeeded:
                succeeded = True
                on_first_success()
        seen = {number for number in seen if number > after - OVERLAP}
        await asyncio.sleep(POLL_SECONDS)


def line(event: TailedEvent) -> str:
    """Return one aligned line, for example `20:15:05.004  hello@20:15:05  claimed    4 ms late, attempt 1`."""
    name = f"{event.schedule or event.task}@{_clock(event.due_at)[:8]}"
    return f"{_clock(event.at)}  {name:<34} {event.kind:<11} {_remark(event)}".rstrip()


def _remark(event: TailedEvent) -> str:
    apart = event.at - event.due_at
    match event.kind:
        case "planned":
            return f"due in {-apart.total_seconds():.1f} s" if apart < timedelta(0) else "due now"
        case "claimed":
            return f"{_span(apart)} late, attempt {event.attempt}"
        case "succeeded" | "dead":
            return f"{_span(apart)} after it was due"
        case _:
            return event.reason or ""


def _span(apart: timedelta) -> str:
    seconds = max(0.0, apart.total_seconds())
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _clock(instant: datetime) -> str:
    return instant.astimezone().strftime("%H:%M:%S.%f")[:-3]
