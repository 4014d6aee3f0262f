"""Transactions that write events and end when a test says so, and somebody who listens."""

import asyncio
import json
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from everwhen.core.filters import Filter
from everwhen.lists import read_filter
from everwhen.postgres.pool import Database
from everwhen.streaming.hub import Hub, Stream
from everwhen.streaming.model import Place, read_place
from everwhen.streaming.telling import Teller
from everwhen.streaming.wire import EVENTS
from tests.factories import make_run, make_tenant


@dataclass(frozen=True)
class Piece:
    """What a client makes of a piece."""

    name: str | None
    place: str | None
    data: dict | None

    @property
    def event(self) -> int | None:
        return self.data["id"] if self.data is not None and self.name is None else None


def parse(raw: bytes) -> Piece:
    lines = [line.partition(": ") for line in raw.decode().strip().split("\n")]
    said = {name: value for name, _, value in lines if name}
    return Piece(said.get("event"), said.get("id"), json.loads(said["data"]) if "data" in said else None)


class Writer:
    """A transaction that is open until it is told to end."""

    def __init__(self, db: Database, tenant, run_id):
        self._db, self._tenant, self._run_id = db, tenant, run_id
        self._stack = AsyncExitStack()
        self._conn = None
        self.events = []

    async def write(self, *, kind="claimed", run_id=None) -> int:
        if self._conn is None:
            self._conn = await self._stack.enter_async_context(self._db.tenant(self._tenant.id))
        cursor = await self._conn.execute(
            "insert into everwhen.events (tenant_id, run_id, at, kind) values (%s, %s, %s, %s) returning event_id",
            (self._tenant.id, run_id or self._run_id, self._conn.now, kind),
        )
        self.events.append((await cursor.fetchone())[0])
        return self.events[-1]

    async def commit(self) -> list[int]:
        await self._stack.aclose()
        return self.events

    async def roll_back(self) -> None:
        if self._conn is not None:
            await self._conn.execute("rollback; begin")
        await self._stack.aclose()


@dataclass
class Scene:
    """A tenant with a run, and the hub of a process."""

    db: Database
    hub: Hub
    tenant: object
    run_id: object
    allowed: list = field(default_factory=lambda: [True])

    @classmethod
    async def make(cls, db: Database, *, hub: Hub | None = None, **limits) -> "Scene":
        tenant = await make_tenant(db)
        run = await make_run(db, tenant)
        hub = hub or Hub(db, **limits)
        await hub.look(insist=True)
        return cls(db, hub, tenant, run.row.run_id)

    def writer(self) -> Writer:
        return Writer(self.db, self.tenant, self.run_id)

    async def write(self, count=1, **words) -> list[int]:
        writer = self.writer()
        for _ in range(count):
            await writer.write(**words)
        return await writer.commit()

    def teller(self, *, after: str | None = None, follow=True, text: str = "", run_id=None, hub=None) -> Teller:
        hub = hub or self.hub
        asked = read_filter(text, EVENTS, now=None) if text else Filter()
        start = Place(hub.cut) if run_id is None else Place(hub.cut, 0, from_beginning=True)
        stream = Stream(self.tenant.id, asked, read_place(after) if after else start, run_id=run_id)

        async def may_listen():
            return self.allowed[0]

        return Teller(hub, stream, resumes=after is not None, follow=follow, may_listen=may_listen, jitter=lambda: 0.5)

    async def told(self, **words) -> list[Piece]:
        """What a stream tells by now; the events' pieces only."""
        await self.hub.look(insist=True)
        pieces = [parse(raw) async for raw in self.teller(follow=False, **words).pieces()]
        return [piece for piece in pieces if piece.event is not None]


class Listener:
    """Takes pieces as they come."""

    def __init__(self, teller: Teller):
        self.teller, self.pieces = teller, []
        self._changed = asyncio.Event()

    async def run(self):
        async for raw in self.teller.pieces():
            self.pieces.append(parse(raw))
            self._changed.set()
        self._changed.set()

    @property
    def events(self) -> list[int]:
        return [piece.event for piece in self.pieces if piece.event is not None]

    def has(self, name: str) -> bool:
        return any(piece.name == name for piece in self.pieces)

    @property
    def place(self) -> str:
        return [piece.place for piece in self.pieces if piece.place is not None][-1]

    async def until(self, condition):
        async with asyncio.timeout(20):
            while not condition(self):
                self._changed.clear()
                await self._changed.wait()

    async def until_joined(self):
        await eventually(lambda: self.teller._has_joined)


async def eventually(condition):
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  # what it waits for tells nobody
            await asyncio.sleep(0.005)


@asynccontextmanager
async def looking(hub: Hub):
    """Have a hub look again and again, as the feed does."""

    async def look():
        while True:
            await hub.look()
            await asyncio.sleep(0.02)

    task = asyncio.create_task(look())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def listening(teller: Teller):
    listener = Listener(teller)
    task = asyncio.create_task(listener.run())
    try:
        yield listener
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
