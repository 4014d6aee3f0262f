"""The relay: what waits at a queue that a broker delivers is announced there.

    waiting, due ──tell──> told ──publish──> published ──(taken: the row goes)
                             │                   └──(nobody came for it by then)──> told again, under another id
                             └──(no answer, or a relay that died)──> told again, under the same id

The line itself is the outbox: a run that has to be announced is a row of `waiting` without one of `outbox` that says so
of this attempt, and it was put there by the transaction that decided it. So nothing is announced that was not decided,
nothing that was decided can be forgotten, and a queue without a broker pays nothing for those that have one: no column,
no trigger, no index (docs/decisions/0026-brokers.md). A row of `outbox` is what this role knows of its own doing.

What a notice brings about is a question, not an action: whoever hears it asks for the run's lease, and gets it
or not. So it may be lost, doubled, late or out of order, and all that it changes is when somebody asks.

Invariants

1. For each run one relay publishes at a time: its row of `outbox` is taken by the key, or under its lock, before.
2. No more than `window` runs of a line are told of and not taken. So one tick reads no more than that of any line, a
   broker never holds a backlog, and what is urgent waits behind a window, not behind a million.
3. Nothing is announced before it is due: a broker keeps no time here.
4. What the broker has acknowledged is told again when nobody has taken it by `look_at`, ever more rarely.
5. A broker that is away costs its own lines the notices, nobody else anything: the circuit of each broker is its
   own, brokers are served at the same time, and no transaction is open while one is talked to.

Crash points

* Before the rows are committed: nothing has happened, and any relay's next tick finds the same line.
* Committed, and nothing published: at `look_at`, after LEASE, the rows are told again, under the same ids.
* Published, and that not written: the same. The broker drops the second telling by its id, or delivers both.
* Published, written, and the broker loses it (a stream deleted, a disk gone): at `look_at` it is told again. When the
  relay itself finds that the mailbox is not there, it makes it and tells everything of that line at once.
* A consumer dies before its claim: the broker delivers again. After its claim: the lease runs out, and the next
  attempt is a new row of the line.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from everwhen import failpoints, metrics
from everwhen.dispatch.brokers import store
from everwhen.dispatch.brokers.link import Link
from everwhen.dispatch.brokers.model import BrokeredLine, Telling
from everwhen.postgres.pool import Database
from everwhen.postgres.wakeups import line_topic
from everwhen.roles import Tick
from everwhen.worker.brokers.inbox import BrokerAway

LEASE: Final = timedelta(seconds=30)
"""How long a telling is its relay's; publishing a batch takes less, and is given up before."""

RETRY: Final = timedelta(seconds=2)
"""When it is tried again to publish what a broker that is there did not take."""

MOST_LINES: Final = 500
"""How many lines one tick looks at; the next one goes on behind them."""

NOTE: Final = timedelta(seconds=15)
"""How often it is written down that a broker is as it was."""

FIRST: Final = (UUID(int=0), "")

_Line = tuple[UUID, str]


@dataclass(slots=True)
class _Place:
    """Where the next tick goes on, which lines the last ones saw, and what was written of each broker when."""

    after: _Line = FIRST
    seen: dict[_Line, None] = field(default_factory=dict[_Line, None])
    topics: frozenset[str] = frozenset()
    noted: dict[str, tuple[bool, datetime]] = field(default_factory=dict[str, tuple[bool, datetime]])


@dataclass(frozen=True, slots=True, kw_only=True)
class Relay:
    """The role. `batch` bounds what one tick publishes at each broker; `again` is when a first look is taken."""

    database: Database
    links: Mapping[str, Link]
    window: int = 1_000
    batch: int = 500
    again: timedelta = timedelta(seconds=60)
    name: str = "relay"
    interval: timedelta = timedelta(seconds=1)
    place: _Place = field(default_factory=_Place)

    @property
    def topics(self) -> frozenset[str]:
        """What wakes this role besides its own name: that something waits at a line which it serves."""
        return self.place.topics

    async def tick(self, now: datetime) -> Tick:
        """Announce what is due in the next lines, at each broker."""
        if not self.links:
            return Tick()
        lines, is_last = await self._lines(now)
        ticks = await asyncio.gather(*(self._serve(link, lines, now) for link in self.links.values()))
        due = [line.next_due for line in lines if line.next_due is not None and not line.is_paused]
        return Tick(
            done=sum(tick.done for tick in ticks),
            more=not is_last or any(tick.more for tick in ticks),
            next_at=min(due, default=None),
        )

    async def close(self) -> None:
        """Let go of the brokers."""
        for link in self.links.values():
            await link.close()

    async def _lines(self, now: datetime) -> tuple[list[BrokeredLine], bool]:
        tenant_id, queue = self.place.after
        async with self.database.system() as conn:
            lines = await store.read_lines(
                conn,
                brokers=list(self.links),
                after_tenant_id=tenant_id,
                after_queue=queue,
                window=self.window,
                limit=MOST_LINES,
                now=now,
            )
        is_last = len(lines) < MOST_LINES
        self.place.after = FIRST if is_last else (lines[-1].tenant_id, lines[-1].queue)
        self.place.seen.update({(line.tenant_id, line.queue): None for line in lines})
        if is_last:
            self.place.topics = frozenset(line_topic(*line) for line in self.place.seen)
            self.place.seen = {}
        return lines, is_last

    async def _serve(self, link: Link, lines: Sequence[BrokeredLine], now: datetime) -> Tick:
        if link.is_open:
            await self._note(link, now)
            return Tick()
        mine = [line for line in lines if line.broker == link.kind]
        try:
            for tenant_id, queue in await link.prepare([(line.tenant_id, line.queue) for line in mine]):
                async with self.database.system() as conn:
                    await store.look_now(conn, tenant_id=tenant_id, queue=queue, now=now)
            told, more = await self._tell(link, mine, now)
            failpoints.hit("tell.after_commit")
            if told:
                await self._publish(link, told, now)
        except BrokerAway:
            await self._note(link, now)
            return Tick()
        await self._note(link, now)
        return Tick(done=len(told), more=more)

    async def _tell(self, link: Link, lines: Sequence[BrokeredLine], now: datetime) -> tuple[list[Telling], bool]:
        """Take what is to be announced: first what was told before and has to be told again, then what is new."""
        async with self.database.system() as conn:
            await store.forget_undelivered(conn, broker=link.kind, limit=self.batch, now=now)
            looked = await store.tell_again(conn, broker=link.kind, look_at=now + LEASE, limit=self.batch, now=now)
        again: list[Telling] = [each for each in looked if each.still_waits]
        metrics.NOTICES_AGAIN.labels(link.kind).inc(len(again))
        if len(looked) == self.batch:
            return again, True
        rooms = await self._rooms(link, lines)
        if not rooms:
            return again, False
        limit = self.batch - len(again)
        async with self.database.system() as conn:
            new = await store.tell_new(
                conn,
                tenant_ids=[line.tenant_id for line, _ in rooms],
                queues=[line.queue for line, _ in rooms],
                brokers=[line.broker for line, _ in rooms],
                rooms=[min(room, max(1, limit // len(rooms))) for _, room in rooms],
                look_at=now + LEASE,
                limit=limit,
                now=now,
            )
            failpoints.hit("tell.before_commit")
        return [*again, *new], bool(new)

    async def _rooms(self, link: Link, lines: Sequence[BrokeredLine]) -> list[tuple[BrokeredLine, int]]:
        """Return how many more runs each line may be told of; a full window is looked through for what was taken."""
        rooms: list[tuple[BrokeredLine, int]] = []
        for line in lines:
            if line.is_paused or not link.has((line.tenant_id, line.queue)):
                continue
            room = line.window - line.told
            if room <= 0:
                async with self.database.system() as conn:
                    room += await store.forget_taken(
                        conn, tenant_id=line.tenant_id, queue=line.queue, limit=line.window
                    )
            if room > 0:
                rooms.append((line, room))
        return rooms

    async def _publish(self, link: Link, told: Sequence[Telling], now: datetime) -> None:
        try:
            published = await link.publish([each.notice for each in told])
        except BrokerAway:  # what it did not take is tried again before long
            await self._mark(link, told, frozenset(), now)
            raise
        failpoints.hit("relay.after_publish")
        await self._mark(link, told, published.acknowledged, now)

    async def _mark(self, link: Link, told: Sequence[Telling], acknowledged: frozenset[str], now: datetime) -> None:
        taken = [each for each in told if each.notice.message_id in acknowledged]
        left = [each for each in told if each.notice.message_id not in acknowledged]
        async with self.database.system() as conn:
            await store.mark_published(
                conn, **_keys(taken), again_seconds=self.again.total_seconds(), now=max(conn.now, now)
            )
            await store.mark_unpublished(conn, **_keys(left), look_at=max(conn.now, now) + RETRY)
            failpoints.hit("relay.before_commit")
        metrics.NOTICES.labels(link.kind, "published").inc(len(taken))
        metrics.NOTICES.labels(link.kind, "refused").inc(len(left))
        failpoints.hit("relay.after_commit")

    async def _note(self, link: Link, now: datetime) -> None:
        """Write down how the broker is found, when that changes and every now and then."""
        is_away, at = self.place.noted.get(link.kind, (None, now))
        if is_away == link.is_away and now - at < NOTE:
            return
        async with self.database.system() as conn:
            await store.note_broker(conn, broker=link.kind, is_away=link.is_away, detail=link.detail, now=now)
        self.place.noted[link.kind] = (link.is_away, now)


def _keys(telling: Sequence[Telling]) -> dict[str, Any]:
    told = sorted(telling, key=lambda each: (each.tenant_id, each.run_id))  # as claims lock them
    return {
        "tenant_ids": [each.tenant_id for each in told],
        "run_ids": [each.run_id for each in told],
        "told_ats": [each.told_at for each in told],
    }
