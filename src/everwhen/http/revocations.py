"""Which tokens hold no longer, though nothing about them is wrong: the list that every copy of the API keeps in memory.

What is revoked is one token, by its id, or everything that was issued to a subject up to an instant; within one tenant,
or everywhere. The list is small, since an entry goes when no token that it is about can be alive any more, so a request
asks memory and nothing else.

A copy reads what is new at most every LOOK_SECONDS while requests come, and at once when a wake-up says so. Nobody is
let in by a list that is older than MOST_AGE_SECONDS: such a request waits for a newer one, and is refused (503) where
there is none to be had. So a revocation takes effect MOST_AGE_SECONDS after its commit at the latest, on every copy,
whether the wake-up arrives or not. Rows are read by their instant, with OVERLAP for transactions that committed late;
reading one twice changes nothing.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal
from uuid import UUID

from everwhen.http.principal import Principal

EVERYWHERE: Final = UUID(int=0)
"""The scope of what the platform revokes, in the place of a tenant's id."""

LOOK_SECONDS: Final = 1.0
MOST_AGE_SECONDS: Final = 3.0
PRUNE_SECONDS: Final = 60.0
OVERLAP: Final = timedelta(minutes=2)

What = Literal["token", "subject"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoked:
    """One entry: tokens of this id or subject that were issued by then."""

    tenant_id: UUID
    kind: str
    value: str
    issued_until: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What was revoked since an instant, and the database's clock when it was read."""

    entries: Sequence[Revoked]
    now: datetime


Read = Callable[[datetime | None], Awaitable[News]]


class RevocationList:
    """The list of one process. `woken` tells whether a wake-up has come since it was asked last."""

    def __init__(
        self,
        read: Read,
        *,
        woken: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._woken = woken
        self._clock = clock
        self._entries: dict[tuple[UUID, str, str], Revoked] = {}
        self._read_at = float("-inf")
        self._pruned_at = float("-inf")
        self._since: datetime | None = None
        self._reading: asyncio.Task[None] | None = None

    async def keep_fresh(self) -> None:
        """Come back with a list that is young enough; raise what reading it raised."""
        age = self._clock() - self._read_at
        woken = self._woken()
        if woken or age > MOST_AGE_SECONDS:
            if woken and self._reading is not None:  # it may have looked before the commit that woke us
                await asyncio.shield(self._reading)
            await asyncio.shield(self._begin())
        elif age > LOOK_SECONDS:
            self._begin()

    def forbids(self, principal: Principal) -> bool:
        """Tell whether this credential was revoked."""
        if not self._entries:
            return False
        scopes = {principal.tenant_id or EVERYWHERE, EVERYWHERE}
        wanted = ((scope, *what) for scope in scopes for what in _names(principal))
        return any((found := self._entries.get(key)) and _covers(found, principal) for key in wanted)

    def _begin(self) -> "asyncio.Task[None]":
        if self._reading is None:
            self._reading = asyncio.create_task(self._look())
            self._reading.add_done_callback(self._ended)
        return self._reading

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._reading = None
        if not task.cancelled():
            task.exception()  # whoever waits has it; read ahead of time, nobody may

    async def _look(self) -> None:
        begun = self._clock()
        news = await self._read(self._since)
        for entry in news.entries:
            self._entries[entry.tenant_id, entry.kind, entry.value] = entry
        self._since = news.now - OVERLAP
        self._read_at = begun
        if begun - self._pruned_at > PRUNE_SECONDS:
            self._entries = {key: each for key, each in self._entries.items() if each.expires_at > news.now}
            self._pruned_at = begun


def _names(principal: Principal) -> tuple[tuple[What, str], ...]:
    return ("token", principal.token_id), ("subject", principal.subject)


def _covers(entry: Revoked, principal: Principal) -> bool:
    return principal.issued_at is None or principal.issued_at <= entry.issued_until
