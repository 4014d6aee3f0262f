"""Runs through a real cluster, and what befalls it: the scene that each kind of broker's bar plays.

The API, the reaper and the workers are processes; the relays run here, behind a broker that triples, shuffles and holds
back. Beside it a queue without a broker is worked at all the while, by a worker of its own.
"""

import asyncio
import contextlib
import json
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random  # noqa: TID251  # mischief that is the same each time
from typing import Any

import msgspec

from everwhen.dispatch.brokers.link import Link
from everwhen.dispatch.brokers.protocol import Broker, Published
from everwhen.dispatch.brokers.relay import Relay
from everwhen.postgres.pool import Database, PoolLimits
from everwhen.postgres.wakeups import line_topic, notify
from everwhen.tenants.model import Tenant
from everwhen.worker.brokers.notices import Notice
from tests.broker_servers import NatsServers, Servers, connected, make_broker
from tests.dispatch.scene import fill, rows
from tests.system.fleet import TENANT, Fleet, free_port
from tests.system.test_storm import broken_promises

LEASE_SECONDS = 2.0
HELD_SECONDS = 10 * LEASE_SECONDS
PATIENCE = 120.0


@dataclass
class Mischief:
    """What is done to every message from now on."""

    copies: int = 1
    shuffled: bool = False
    held: float = 0.0
    """Which part of the messages comes ten leases later."""


@dataclass
class Meddler:
    """A broker that does mischief between the relay and the real one."""

    real: Broker
    mischief: Mischief
    rng: Random = field(default_factory=lambda: Random(7))
    later: set[asyncio.Task[None]] = field(default_factory=set)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    async def publish(self, batch: Sequence[Notice]) -> Published:
        held = [each for each in batch if self.rng.random() < self.mischief.held]
        sent = [copy for each in batch if each not in held for copy in self._copies(each)]
        if self.mischief.shuffled:
            self.rng.shuffle(sent)
        published = await self.real.publish(sent) if sent else Published(acknowledged=frozenset())
        if held:
            copies = [copy for each in held for copy in self._copies(each)]
            task = asyncio.create_task(self._send_later(copies))
            self.later.add(task)
            task.add_done_callback(self.later.discard)
        return Published(
            acknowledged=published.acknowledged | {each.message_id for each in held}, homeless=published.homeless
        )

    def _copies(self, notice: Notice) -> list[Notice]:
        """The same, under ids of their own, so that the broker cannot tell."""
        return [
            msgspec.structs.replace(notice, told_at=notice.told_at + timedelta(microseconds=number))
            for number in range(self.mischief.copies)
        ]

    async def _send_later(self, notices: Sequence[Notice]) -> None:
        await asyncio.sleep(HELD_SECONDS)
        with contextlib.suppress(Exception):  # the broker may be away by then: as good as lost
            await self.real.publish(notices)


@dataclass
class Bar:
    """One cluster, one fleet, and what was seen."""

    kind: str
    fleet: Fleet
    servers: Servers
    db: Database
    mischief: Mischief = field(default_factory=Mischief)
    told: dict[str, Any] = field(default_factory=dict)
    workers: list[Any] = field(default_factory=list)
    feeding: bool = True

    @property
    def tenant(self) -> Tenant:
        return Tenant(id=TENANT, name="acme", created_at=None)  # type: ignore[arg-type]

    async def line_up(self, count: int, *, task: str = "witness", queue: str = "line") -> None:
        """As a request would: the runs, and a wake-up for whoever waits."""
        await fill(self.db, self.tenant, task=task, count=count)
        async with self.db.system() as conn:
            await notify(conn, [line_topic(TENANT, queue)])

    async def all_done(self, what: str, *, queues: Sequence[str] = ("line",), seconds: float = PATIENCE) -> float:
        """Wait until nothing waits and nothing is held at these queues; return how long that took."""
        began = time.monotonic()
        while True:
            (left,) = (
                await rows(
                    self.db,
                    """select (select count(*) from everwhen.waiting where queue = any(%s))
                            + (select count(*) from everwhen.leases where queue = any(%s))""",
                    list(queues),
                    list(queues),
                )
            )[0]
            if left == 0:
                return time.monotonic() - began
            assert time.monotonic() < began + seconds, f"{what}: {left} runs are left after {seconds} s"
            await asyncio.sleep(0.05)

    async def lags(self, since: Any, queue: str) -> list[float]:
        """Seconds from due to claimed of the first attempts since then."""
        found = await rows(
            self.db,
            """select extract(epoch from a.claimed_at - r.due_at)::float8
               from everwhen.attempts a join everwhen.runs r on r.tenant_id = a.tenant_id and r.run_id = a.run_id
               where a.attempt = 1 and r.queue = %s and r.due_at >= %s""",
            queue,
            since,
        )
        return sorted(lag for (lag,) in found)

    async def phase(self, name: str, play: Any) -> None:
        """Play a part, wait until everything is done, and note how it went beside the queue without a broker."""
        (since,) = (await rows(self.db, "select now()"))[0]
        extra = await play(self) or {}
        extra["done_after_seconds"] = round(await self.all_done(name), 2)
        lags = await self.lags(since, "line")
        plain = await self.lags(since, "plain")
        self.told[name] = {
            **extra,
            "runs": len(lags),
            "lag_p50": _at(lags, 0.5),
            "lag_p99": _at(lags, 0.99),
            "by_http_runs": len(plain),
            "by_http_lag_p99": _at(plain, 0.99),
        }
        say(json.dumps({self.kind: {name: self.told[name]}}))

    async def verdict(self) -> None:
        """Nothing lost, nothing granted twice, every promise kept."""
        self.feeding = False
        await self.all_done("the end", queues=("line", "plain"))
        (waiting, runs, ended) = (
            await rows(
                self.db,
                """select (select count(*) from everwhen.waiting), (select count(*) from everwhen.runs),
                          (select count(*) from everwhen.run_ends where state = 'succeeded')""",
            )
        )[0]
        executions = Counter(tuple(text.split()[:2]) for text in self.fleet.witness.read_text().splitlines())
        attempts = await rows(self.db, "select outcome, count(*) from everwhen.attempts group by 1")
        twice = [key for key, count in executions.items() if count > 1]
        summary = {"runs": runs, "lost": runs - ended, "second_grants": len(twice), "attempts": dict(attempts)}
        say(json.dumps({self.kind: summary}))
        assert (waiting, runs - ended, twice) == (0, 0, [])
        assert await asyncio.to_thread(broken_promises, self.fleet) == {}


def say(text: str) -> None:
    """Tell whoever runs the bars."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _at(values: Sequence[float], part: float) -> float | None:
    return round(values[min(len(values) - 1, int(len(values) * part))], 3) if values else None


@contextlib.asynccontextmanager
async def staged(kind: str, fleet: Fleet, servers: Servers) -> AsyncIterator[Bar]:
    """Everything that has to run: two relays, the API, a reaper, two listening workers and one that asks."""
    setting = {"nats": "EVERWHEN_NATS_URL", "rabbitmq": "EVERWHEN_RABBITMQ_URL"}[kind]
    url = ",".join(servers.address.urls)
    async with await Database.open(fleet.server.app_conninfo, limits=PoolLimits(min_size=1, max_size=8)) as db:
        _define(fleet, kind)
        fleet.let_go()
        bar = Bar(kind=kind, fleet=fleet, servers=servers, db=db)
        port = free_port()
        fleet.serve("api", port=port, environment={setting: url, "EVERWHEN_NATS_REPLICAS": str(servers.count)})
        fleet.serve("reaper")
        async with connected(make_broker(servers)) as first:  # a cluster needs a while until it takes anything
            for _ in range(300):
                with contextlib.suppress(Exception):
                    await first.ensure(first.mailbox(TENANT, "line"))
                    break
                await asyncio.sleep(0.2)
        listening = {"EVERWHEN_VIA": kind, "EVERWHEN_BROKER_URL": url}
        bar.workers = [fleet.work(port, lease_seconds=LEASE_SECONDS, environment=listening) for _ in range(2)]
        plain = ["worker", "witnesses:worker", "--url", f"http://127.0.0.1:{port}", "--queues", "plain"]
        fleet._start("plain", [*plain, "--lease-seconds", "10"], {})
        tasks = [asyncio.create_task(_relay(bar)) for _ in range(2)]
        tasks.append(asyncio.create_task(_feed_plain(bar)))
        try:
            await fill(db, bar.tenant, task="witness", count=2)
            await fill(db, bar.tenant, task="holder", count=2)
            await bar.all_done("the first runs")  # everybody is there
            yield bar
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _define(fleet: Fleet, kind: str) -> None:
    fleet.sql.execute("insert into everwhen.lanes (tenant_id, queue) values (%s, 'plain')", (TENANT,))
    fleet.sql.execute("update everwhen.tasks set queue = 'plain' where name = 'holder'")
    fleet.sql.execute(
        """insert into everwhen.queues (tenant_id, name, delivery, created_at, updated_at)
           values (%s, 'line', %s, now(), now())""",
        (TENANT, kind),
    )


async def _relay(bar: Bar) -> None:
    """A relay in this process, which does mischief."""

    def make() -> Any:
        return Meddler(make_broker(bar.servers), bar.mischief)

    relay = Relay(
        database=bar.db, links={bar.kind: Link(kind=bar.kind, make=make)}, batch=200, again=timedelta(seconds=15)
    )
    try:
        while True:
            async with bar.db.system() as conn:
                now = conn.now
            tick = await relay.tick(now)
            await asyncio.sleep(0 if tick.more else 0.05)
    finally:
        await relay.close()


async def _feed_plain(bar: Bar) -> None:
    """A run at the queue without a broker, ten times a second."""
    while bar.feeding:
        await bar.line_up(1, task="holder", queue="plain")
        await asyncio.sleep(0.1)


# The parts ------------------------------------------------------------------------------------------------------------


async def calm(bar: Bar) -> None:
    """As it is on any day."""
    for _ in range(10):
        await bar.line_up(20)
        await asyncio.sleep(0.2)


async def meddled_with(bar: Bar) -> dict[str, Any]:
    """Every message three times, in any order, a tenth of them ten leases late."""
    bar.mischief.copies, bar.mischief.shuffled, bar.mischief.held = 3, True, 0.1
    await bar.line_up(300)
    await bar.all_done("meddled with")
    await asyncio.sleep(HELD_SECONDS + 1)  # the late ones arrive, when nobody waits for them any more
    bar.mischief.copies, bar.mischief.shuffled, bar.mischief.held = 1, False, 0.0
    return {"copies": 3, "late_seconds": HELD_SECONDS}


async def leader_killed(bar: Bar) -> dict[str, Any]:
    """The server that leads what is stored is killed while runs come in, and started again."""
    victim = await leader(bar)
    await bar.line_up(50)
    bar.servers.kill(victim)
    killed_at = (await rows(bar.db, "select now()"))[0][0]
    for _ in range(20):
        await bar.line_up(10)
        await asyncio.sleep(0.1)
    await bar.all_done("the leader is killed")
    bar.servers.start(victim)
    lags = await bar.lags(killed_at, "line")
    return {"killed": victim, "recovered_after_seconds": round(max(lags), 2)}


async def stream_deleted(bar: Bar) -> dict[str, Any]:
    """What holds the messages is deleted while they lie in it."""
    for worker in bar.workers:
        worker.send_signal(19)
    await asyncio.sleep(0.5)
    await bar.line_up(200)
    await _published(bar, 200)
    async with connected(make_broker(bar.servers)) as broker:
        box = broker.mailbox(TENANT, "line")
        if bar.kind == "nats":
            await broker._jetstream.delete_stream(box.stream)
        else:
            async with broker._side_channel() as channel:
                await channel.queue_delete(box.name)
    began = time.monotonic()
    for worker in bar.workers:
        worker.send_signal(18)
    await bar.all_done("the stream is deleted")
    return {"recovered_after_seconds": round(time.monotonic() - began, 2)}


async def leader(bar: Bar) -> int:
    """Which server leads the stream, or the queue."""
    async with connected(make_broker(bar.servers)) as broker:
        if isinstance(bar.servers, NatsServers):
            info = await broker._jetstream.stream_info(broker.prefix)
            return int(info.cluster.leader.removeprefix("n"))
        name = broker.mailbox(TENANT, "line").name
    found = await asyncio.to_thread(bar.servers.ctl, "list_queues", "name", "leader", "--silent")  # type: ignore[attr-defined]
    leaders = dict(text.split("\t") for text in found.splitlines() if "\t" in text)
    return bar.servers.names.index(leaders[name])  # type: ignore[attr-defined]


async def _published(bar: Bar, count: int) -> None:
    deadline = time.monotonic() + PATIENCE
    query = "select count(*) from everwhen.outbox where published_at is not null"
    while (await rows(bar.db, query))[0][0] < count:
        assert time.monotonic() < deadline, "not everything was published"
        await asyncio.sleep(0.05)
