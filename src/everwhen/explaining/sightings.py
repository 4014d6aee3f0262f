"""Writes down, every few seconds, who has asked this process for runs: how it is known that a line has live workers.

A claim pays nothing for it: the lines at which claims wait are in the process's memory anyway (`dispatch.lines`). What
a crash loses is one interval's worth, and the next one says it again.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Protocol
from uuid import UUID

from everwhen.explaining import store
from everwhen.postgres.pool import Database
from everwhen.roles import Tick

PLATFORM: Final = UUID(int=0)
"""Whose workers those of the platform are: they take the runs of every tenant."""

MOST_TASKS: Final = 2_000
"""How many tasks of one queue are remembered; a fleet that knows more counts as one that knows all."""

MOST_LINES: Final = 5_000

Asked = tuple[UUID | None, tuple[str, ...], tuple[str, ...] | None]


class Askers(Protocol):
    """What knows in a process whose runs are asked for: the lines at which claims wait, or the caller's endpoints."""

    def seen(self) -> Sequence[Asked]:
        """Return whose runs were asked for since the last call: (tenant, queues, tasks)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Sightings:
    """The role; it runs in every process that serves the API or calls endpoints, whose memory it reads."""

    database: Database
    lines: Askers
    server_id: UUID
    name: str = "sightings"
    interval: timedelta = timedelta(seconds=5)

    async def tick(self, now: datetime) -> Tick:
        """Write what was seen since the last tick."""
        seen = by_queue(self.lines.seen())
        if not seen:
            return Tick()
        async with self.database.system() as conn:
            done = await store.record_sightings(
                conn,
                server_id=self.server_id,
                tenant_ids=[tenant_id for tenant_id, _ in seen],
                queues=[queue for _, queue in seen],
                tasks=[_text(tasks) for tasks in seen.values()],
                now=now,
            )
        return Tick(done=done)


def by_queue(asked: Iterable[Asked]) -> dict[tuple[UUID, str], frozenset[str] | None]:
    """Join claims to what each queue's fleet knows: the tasks of all its claims, None if one of them takes anything."""
    seen: dict[tuple[UUID, str], frozenset[str] | None] = {}
    for tenant_id, queues, tasks in asked:
        for queue in queues:
            key = tenant_id or PLATFORM, queue
            if key in seen:
                seen[key] = _both(seen[key], tasks)
            elif len(seen) < MOST_LINES:
                seen[key] = _both(frozenset(), tasks)
    return seen


def _both(known: frozenset[str] | None, tasks: Sequence[str] | None) -> frozenset[str] | None:
    if known is None or tasks is None:
        return None
    both = known | frozenset(tasks)
    return both if len(both) <= MOST_TASKS else None


def _text(tasks: frozenset[str] | None) -> str | None:
    return None if tasks is None else json.dumps(sorted(tasks))
