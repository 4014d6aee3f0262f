"""How many requests each tenant sends: counted in memory, and written down every FLUSH_SECONDS.

What a process has counted and not written when it dies is lost: it is for people to look at, and nothing is decided by
it. A write that fails is tried again with the next one. Of more than MOST_TENANTS at once the others are not counted.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import psycopg
import structlog

FLUSH_SECONDS: Final = 10.0
MOST_TENANTS: Final = 10_000

log = structlog.get_logger("everwhen.limits")


@dataclass(slots=True)
class Requests:
    """Requests of one tenant: to the control API (`refused` ones among them), and of workers."""

    requests: int = 0
    refused: int = 0
    worker_requests: int = 0


Write = Callable[[Mapping[UUID, Requests]], Awaitable[None]]


class Tally:
    """The counts of this process."""

    def __init__(self, write: Write, *, seconds: float = FLUSH_SECONDS) -> None:
        self._write = write
        self._seconds = seconds
        self._counts: dict[UUID, Requests] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None

    def count(self, tenant_id: UUID, *, is_work: bool, is_refused: bool) -> None:
        """Count a request."""
        found = self._counts.get(tenant_id)
        if found is None:
            if len(self._counts) >= MOST_TENANTS:
                return
            found = self._counts[tenant_id] = Requests()
            self._write_later()
        if is_work:
            found.worker_requests += 1
            return
        found.requests += 1
        found.refused += is_refused

    async def flush(self) -> None:
        """Write down what was counted; keep it when that fails."""
        counts, self._counts = self._counts, {}
        if not counts:
            return
        try:
            await self._write(counts)
        except (psycopg.Error, TimeoutError, OSError) as error:
            log.warning("tally.kept", error=type(error).__name__)
            for tenant_id, each in counts.items():
                found = self._counts.setdefault(tenant_id, Requests())
                found.requests += each.requests
                found.refused += each.refused
                found.worker_requests += each.worker_requests
            self._write_later()

    def _write_later(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._begin)

    def _begin(self) -> None:
        self._timer = None
        self._writing = asyncio.get_running_loop().create_task(self.flush())
