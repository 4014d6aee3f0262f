"""What all streams of a process share: one look at what is new, and the handing out of it.

`look` is called by the feed's role, and by a stream that begins while nobody else listens. It does nothing twice at
once: a stream joins under the same lock, so it is told the next stretch from its first event, or reads it by itself.
"""

import asyncio
import contextlib
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

import structlog

from everwhen import metrics
from everwhen.core.filters import Filter, fits
from everwhen.errors import RateExceeded, Unavailable
from everwhen.http import sse
from everwhen.postgres.pool import Connection, Database
from everwhen.streaming import store
from everwhen.streaming.model import Place, StreamedEvent
from everwhen.streaming.wire import text_of, values_of

MOST_IN_ALL: Final = 1_000
MOST_OF_ONE: Final = 100
MOST_QUEUED: Final = 256
PAGE: Final = 500
MOST_TOLD: Final = 2_000
"""How many events of a tenant one look hands out; of more than that each stream reads by itself."""

CUT_SECONDS: Final = 10.0
"""How old the last cut may get while things are written that nobody listens to: it bounds how long a stretch is."""

AT_ONCE: Final = 4
"""How many streams of a process read by themselves at the same time."""

STOPPING: Final = "server.stopping"
READER_SLOW: Final = "reader.slow"

log = structlog.get_logger("everwhen.streams")


@dataclass(frozen=True, slots=True)
class Told:
    """An event in words, and its place."""

    place: Place
    piece: bytes


@dataclass(eq=False, slots=True)
class Stream:
    """One stream: whose it is, what it is about, how far it is, and what waits for its reader."""

    tenant_id: UUID
    asked: Filter
    place: Place
    run_id: UUID | None = None
    queue: deque[Told] = field(default_factory=deque[Told])
    fell_behind: bool = False
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def offer(self, told: Told) -> bool:
        """Put an event into the queue; False when it is full, or the event was told before."""
        if told.place <= (self.queue[-1].place if self.queue else self.place):
            return True
        if len(self.queue) >= MOST_QUEUED:
            return False
        self.queue.append(told)
        self.news.set()
        return True

    def means(self, event: StreamedEvent) -> bool:
        """Tell whether the stream is about this event."""
        return self.run_id in {None, event.run_id} and fits(self.asked, values_of(event))


class Hub:
    """The streams of one process."""

    def __init__(self, database: Database, *, most_of_one: int = MOST_OF_ONE, most_in_all: int = MOST_IN_ALL) -> None:
        self.database = database
        self.reading = asyncio.Semaphore(AT_ONCE)
        self.ending: str | None = None
        self.looks = 0
        self._most_of_one = most_of_one
        self._most_in_all = most_in_all
        self._heard = asyncio.Event()
        self._listening: dict[UUID, set[Stream]] = {}
        self._admitted: Counter[UUID] = Counter()
        self._lock = asyncio.Lock()
        self._cut = 0

    @property
    def cut(self) -> int:
        """Up to where everything has been handed out."""
        return self._cut

    @property
    def is_heard(self) -> bool:
        """Whether anybody listens."""
        return bool(self._listening)

    def admit(self, tenant_id: UUID) -> None:
        """Count a stream in; raise RateExceeded or Unavailable when there are too many."""
        if self.ending is not None or self._admitted.total() >= self._most_in_all:
            raise Unavailable("This server holds as many streams as it can; try again.", code="streams.full")
        if self._admitted[tenant_id] >= self._most_of_one:
            detail = f"The tenant has {self._most_of_one} streams open here; close one, or come back later."
            told = {"bucket": "streams", "shared_by": "all streams of the tenant", "violated_policies": ["streams"]}
            raise RateExceeded(detail, told=told, retry_after=5)
        self._admitted[tenant_id] += 1
        metrics.STREAMS.inc()

    def dismiss(self, stream: Stream, *, reason: str) -> None:
        """Count a stream out: nobody reads it any more."""
        self._leave(stream)
        self._admitted[stream.tenant_id] -= 1
        self._admitted += Counter[UUID]()  # forgets those at 0
        metrics.STREAMS.dec()
        metrics.STREAMS_ENDED.labels(reason).inc()
        if reason == READER_SLOW:
            log.warning("stream.dropped", reason=reason, tenant_id=str(stream.tenant_id))

    async def join(self, stream: Stream) -> bool:
        """Hand the stream what comes from now on; False when it has to read on by itself first."""
        async with self._lock:
            if stream.place < Place(self._cut) or self.ending is not None:
                return False
            stream.fell_behind = False
            self._listening.setdefault(stream.tenant_id, set()).add(stream)
            self._heard.set()
        return True

    async def wait_until_heard(self, seconds: float) -> None:
        """Come back when somebody listens, or after so many seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._heard.wait()

    def close(self) -> None:
        """End all streams: the server stops."""
        self.ending = STOPPING
        for stream in [stream for streams in self._listening.values() for stream in streams]:
            stream.news.set()

    async def look(self, *, insist: bool = False) -> int:
        """Hand out what has been committed since the last look, and return how much that was.

        With `insist` what was committed before the call lies before `cut` afterwards, whoever listens.
        """
        async with self._lock:
            self.looks += 1
            found = await self._find(insist=insist)
            if found is None:
                return 0
            until, tenant_ids = found
            told = 0
            for tenant_id in tenant_ids:
                told += await self._tell(tenant_id, until=until)
            self._cut = until
            return told

    async def _find(self, *, insist: bool) -> tuple[int, list[UUID]] | None:
        """Return the next cut, and of whom there is anything before it; None when nothing is new to anybody here."""
        tenant_ids = list(self._listening)
        async with self.database.system() as conn:
            last = await store.find_last_cut(conn, known=self._cut)
            if last is None or not last.knows:
                self._lose_track()
                return await _next_cut(conn), []
            news = await store.find_news(conn, cut=self._cut, tenant_ids=tenant_ids) if tenant_ids else []
            is_stale = not last.settled and (insist or last.age_seconds >= CUT_SECONDS)
            if not news and not is_stale:
                self._cut = max(self._cut, last.cut)  # nothing of anybody here lies between the two
                return None
            until = await _next_cut(conn)
            # Asked again: what was committed while the cut was taken lies before it, too.
            return until, await store.find_news(conn, cut=self._cut, tenant_ids=tenant_ids) if tenant_ids else []

    async def _tell(self, tenant_id: UUID, *, until: int) -> int:
        place, told = Place(self._cut), 0
        while told < MOST_TOLD:
            async with self.database.tenant(tenant_id) as conn:
                found = await read_page(conn, tenant_id=tenant_id, run_id=None, after=place, until=until)
            for event in found:
                self._hand_out(event, tenant_id)
            told += len(found)
            if len(found) < PAGE:
                return told
            place = Place(found[-1].cut, found[-1].event_id)
        for stream in list(self._listening.get(tenant_id, ())):
            self._fall_behind(stream)
        return told

    def _hand_out(self, event: StreamedEvent, tenant_id: UUID) -> None:
        told: Told | None = None
        for stream in list(self._listening.get(tenant_id, ())):
            if stream.means(event):
                told = told or in_words(event)
                if not stream.offer(told):
                    self._fall_behind(stream)

    def _lose_track(self) -> None:
        """Have all streams find out by themselves how they go on: our last cut is gone."""
        for stream in [stream for streams in self._listening.values() for stream in streams]:
            self._fall_behind(stream)

    def _fall_behind(self, stream: Stream) -> None:
        self._leave(stream)
        stream.fell_behind = True
        stream.news.set()

    def _leave(self, stream: Stream) -> None:
        streams = self._listening.get(stream.tenant_id, set())
        streams.discard(stream)
        if not streams:
            self._listening.pop(stream.tenant_id, None)
        if not self._listening:
            self._heard.clear()


async def read_page(
    conn: Connection, *, tenant_id: UUID, run_id: UUID | None, after: Place, until: int
) -> list[StreamedEvent]:
    """Return a page of what comes after a place, up to a cut."""
    return await store.read_stretches(
        conn,
        tenant_id=tenant_id,
        run_id=run_id,
        after_cut=after.cut,
        after_event=after.event,
        until=until,
        limit=PAGE,
    )


def in_words(event: StreamedEvent, *, from_beginning: bool = False) -> Told:
    """Put an event into words, with its place."""
    place = Place(event.cut, event.event_id, from_beginning=from_beginning)
    return Told(place, sse.piece(data=text_of(event), place=str(place)))


async def _next_cut(conn: Connection) -> int:
    await store.lock_cuts(conn)
    return await store.take_cut(conn)
