"""What one stream tells, piece by piece: the past up to the others, then what comes, until a reason ends it.

    reading ──> listening ──> ended
       ^            │
       └────────────┘   it fell behind, or its hub lost track

A stream that reads asks the database for one page at a time and asks for the next one when its reader has taken that.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final

from everwhen.http import sse
from everwhen.postgres.pool import Connection
from everwhen.roles import OUTAGE
from everwhen.streaming import store
from everwhen.streaming.hub import PAGE, STOPPING, Hub, Stream, Told, in_words, read_page
from everwhen.streaming.model import Place, StreamedEvent

BEAT_SECONDS: Final = 15.0
CHECK_SECONDS: Final = 1.0
AWAY_SECONDS: Final = 1.0
RETRY_MILLISECONDS: Final = 2_000
SPREAD_MILLISECONDS: Final = 8_000
"""Over how long those come back who were told that the server stops."""

TOLD: Final = "told"
TOKEN_ENDED: Final = "token.ended"  # noqa: S105  # no secret
READER_LEFT: Final = "reader.left"
UNKNOWN_PLACE: Final = "place.unknown"

_MEANINGS: Final = {
    TOLD: "Everything up to now has been told.",
    TOKEN_ENDED: "The token does not let anybody listen any more.",
    STOPPING: "The server stops; another one goes on from the last id.",
}

MayListen = Callable[[], Awaitable[bool | None]]
"""Says whether the stream may go on; None while that cannot be known, and nothing is told meanwhile."""


class Teller:
    """Tells one stream. `resumes`: its place is one that a client brought along."""

    def __init__(
        self,
        hub: Hub,
        stream: Stream,
        *,
        resumes: bool,
        follow: bool,
        may_listen: MayListen,
        jitter: Callable[[], float],
    ) -> None:
        self.ended: str | None = None
        self._hub = hub
        self._stream = stream
        self._resumes = resumes
        self._follow = follow
        self._may_listen = may_listen
        self._jitter = jitter
        self._has_joined = False
        self._is_sure = not resumes  # that the place is one of this history
        self._until = 0
        self._checked_at = self._told_at = time.monotonic()

    async def pieces(self) -> AsyncGenerator[bytes]:
        """Tell, until the stream ends for one of the reasons of the package."""
        stream = self._stream
        yield sse.come_back_in(RETRY_MILLISECONDS)
        said = {"filter": stream.asked.canonical or None, "resumed": self._resumes}
        yield sse.piece(event="ready", place=str(stream.place), data=json.dumps(said))
        while await self._stands():
            found, place = await (self._heard() if self._has_joined else self._read())
            for told in found:
                yield told.piece
                stream.place = told.place
            stream.place = max(stream.place, place)
            if found:
                self._told_at = time.monotonic()
            elif time.monotonic() - self._told_at >= BEAT_SECONDS:
                self._told_at = time.monotonic()
                yield sse.piece(place=str(stream.place))
        if self.ended == STOPPING:
            yield sse.come_back_in(RETRY_MILLISECONDS + int(self._jitter() * SPREAD_MILLISECONDS))
        reason = self.ended or TOLD
        yield sse.piece(event="end", data=json.dumps({"reason": reason, "detail": _MEANINGS[reason]}))

    async def _stands(self) -> bool:
        """Tell whether the stream goes on; wait for as long as that cannot be known."""
        while self.ended is None:
            self.ended = self._hub.ending
            if time.monotonic() - self._checked_at < CHECK_SECONDS:
                break
            may_listen = await self._may_listen()
            if may_listen is not None:
                self._checked_at = time.monotonic()
                self.ended = self.ended or (None if may_listen else TOKEN_ENDED)
                break
            await asyncio.sleep(AWAY_SECONDS)
        return self.ended is None

    async def _heard(self) -> tuple[list[Told], Place]:
        """Return what the hub has handed out, and how far that is; wait a moment where there is nothing."""
        stream = self._stream
        if not stream.queue and not stream.fell_behind and self._hub.ending is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS):
                    await stream.news.wait()
        stream.news.clear()
        found = list(stream.queue)
        stream.queue.clear()
        if not found and stream.fell_behind:
            self._has_joined = False
        if found or stream.fell_behind:
            return found, found[-1].place if found else stream.place
        return found, Place(self._hub.cut)

    async def _read(self) -> tuple[list[Told], Place]:
        """Return a page from the database, and how far that is; join the others when there is none."""
        stream = self._stream
        if self._is_sure and stream.place >= Place(self._hub.cut):
            if self._follow:
                self._has_joined = await self._hub.join(stream)
            else:
                self.ended = TOLD
            return [], stream.place
        try:
            async with self._hub.reading, self._hub.database.tenant(stream.tenant_id) as conn:
                self._is_sure = await self._is_known(conn)
                if not self._is_sure:
                    return [self._reset()], stream.place
                page = await self._page(conn)
        except OUTAGE:
            await asyncio.sleep(AWAY_SECONDS)
            return [], stream.place
        told = [in_words(each, from_beginning=stream.place.from_beginning) for each in page if stream.means(each)]
        return told, self._after(page)

    async def _is_known(self, conn: Connection) -> bool:
        place, is_of_run = self._stream.place, self._stream.run_id is not None
        return (is_of_run or not place.from_beginning) and await store.is_cut(conn, cut=place.cut)

    def _reset(self) -> Told:
        """Go on from now, or from the beginning of a run, and say so."""
        stream, now = self._stream, self._hub.cut
        stream.place = Place(now) if stream.run_id is None else Place(now, 0, from_beginning=True)
        said = {"reason": UNKNOWN_PLACE, "detail": "There is no such place any more: what came after it is not told."}
        return Told(stream.place, sse.piece(event="reset", place=str(stream.place), data=json.dumps(said)))

    async def _page(self, conn: Connection) -> list[StreamedEvent]:
        stream, place = self._stream, self._stream.place
        if place.from_beginning and stream.run_id is not None:
            return await store.read_history(
                conn,
                tenant_id=stream.tenant_id,
                run_id=stream.run_id,
                cut=place.cut,
                after_event=place.event,
                limit=PAGE,
            )
        self._until = self._hub.cut
        return await read_page(conn, tenant_id=stream.tenant_id, run_id=stream.run_id, after=place, until=self._until)

    def _after(self, page: list[StreamedEvent]) -> Place:
        """Return how far a page has brought the stream."""
        place = self._stream.place
        if len(page) == PAGE:
            return Place(page[-1].cut, page[-1].event_id, from_beginning=place.from_beginning)
        return Place(place.cut if place.from_beginning else self._until)
