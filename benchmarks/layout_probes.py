"""Single questions: how to insert, what stale plans cost, what a long line costs, whether limits are exact."""

import asyncio
import contextlib
import random
import re
import statistics
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.layout_data import columns, make, past, tenant
from benchmarks.throwaway_postgres import cpu_seconds

STAGE = (
    "create temp table staged (tenant_id uuid, run_id uuid, schedule_id uuid, queue text, priority smallint,"
    " due_at timestamptz, input text) on commit delete rows"
)
STAGE_COLUMNS = "tenant_id, run_id, schedule_id, queue, priority, due_at, input"
STAGE_TYPES = ("uuid", "uuid", "uuid", "text", "int2", "timestamptz", "text")
RUN_COLUMNS = "tenant_id, run_id, schedule_id, task, queue, source, priority, nominal_at, due_at, input"
RUN_TYPES = ("uuid", "uuid", "uuid", "text", "text", "text", "int2", "timestamptz", "timestamptz", "text")


async def copy(connection: Any, target: str, types: tuple[str, ...] | None, rows: list[tuple]) -> None:
    form = " (format binary)" if types else ""
    async with connection.cursor() as cursor, cursor.copy(f"copy {target} from stdin{form}") as stream:
        if types:
            stream.set_types(types)
        for row in rows:
            await stream.write_row(row)


async def unnest(session: Any, rows: list[tuple]) -> None:
    await session.plan(columns(rows))


async def unnest_as_text(session: Any, rows: list[tuple]) -> None:
    """What `%s` sends for a list of strings: an array literal, each element quoted and escaped."""
    await session.call(session.db.sql["plan"].replace(")b::", ")s::"), columns(rows))


async def staged(session: Any, rows: list[tuple]) -> None:
    """COPY into a temporary table, then the very same guarded insert from there."""
    sql = re.sub(r"/\*source\*/.*?/\*end\*/", "staged", session.db.sql["plan"], flags=re.DOTALL)
    async with session.c.transaction():
        await copy(session.c, f"staged ({STAGE_COLUMNS})", STAGE_TYPES, rows)
        await session.c.execute(sql, prepare=True)


async def direct(session: Any, rows: list[tuple]) -> None:
    """COPY into the tables: a duplicate would fail the whole batch."""
    async with session.c.transaction():
        await copy(
            session.c,
            f"runs ({RUN_COLUMNS})",
            None,
            [(t, r, s, "report.build", q, "schedule", p, d, d, i) for t, r, s, q, p, d, i in rows],
        )
        line = [(t, q, p, d, r, 1) for t, r, _, q, p, d, _ in rows]
        types = ("uuid", "text", "int2", "timestamptz", "uuid", "int2")
        await copy(session.c, "waiting (tenant_id, queue, priority, available_at, run_id, attempt)", types, line)
        await copy(
            session.c,
            "events (tenant_id, run_id, kind)",
            ("uuid", "uuid", "text"),
            [(r[0], r[1], "planned") for r in rows],
        )


@contextlib.contextmanager
def timed(bench: Any, into: dict[str, Any], name: str, n: int) -> Iterator[None]:
    server, client, start = cpu_seconds(bench.postmaster), time.process_time(), time.perf_counter()
    yield
    elapsed, client = time.perf_counter() - start, time.process_time() - client
    server = cpu_seconds(bench.postmaster) - server
    into[name] = {
        "rows/s": round(n / elapsed),
        "server us": round(server / n * 1e6, 1),
        "client us": round(client / n * 1e6, 1),
    }


async def inserts(bench: Any) -> dict[str, Any]:
    """COPY needs a role that row-level security leaves alone (`COPY FROM` refuses it): so all run as one here."""
    db, found = bench.databases["E count, no RLS", 0], {}
    for batch in (10, 100, 500, 5000):
        n = min(20_000, batch * 100) if not bench.quick else min(5000, batch * 50)
        for write in (unnest, unnest_as_text, staged, direct):
            db.reset()
            chunks = [make(batch, past(), 1) for _ in range(n // batch + 1)]
            async with bench.sessions(db, 1) as (session,):
                await session.c.execute(STAGE)
                await write(session, chunks.pop())
                with timed(bench, found, f"{write.__name__} b{batch}", n // batch * batch):
                    for chunk in chunks:
                        await write(session, chunk)
    return found


async def stale(bench: Any) -> dict[str, Any]:
    """Generic plans made while the tables were empty, then 20,000 rows leased and nothing analysed."""
    found, n = {}, 4000 if bench.quick else 20_000
    for name in ("A", "B ff80", "C", "C, by pk", "D", "E count", "E count, custom plans", "E pinned"):
        db = bench.databases[name, 0]
        db.reset()
        with db.admin() as c:
            c.execute("vacuum analyze")
        async with bench.sessions(db, 1) as (session,):
            for _ in range(12):
                await session.plan(columns(make(2, past(), 1)))
                await session.cycles(2, 2)
            await bench.fill(db, n)
            leased = []
            with timed(bench, found, f"{name}: claim b100", n // 100 * 100):
                while len(leased) < n // 100 * 100:
                    leased += await session.claim(100)
            for step, batch, size in (("heartbeat", 100, 2000), ("complete", 10, 1000), ("complete", 100, 1000)):
                with timed(bench, found, f"{name}: {step} b{batch}", size):
                    for i in range(0, size, batch):
                        await getattr(session, step)(leased[i : i + batch])
                if step == "complete":
                    del leased[:size]
            with db.admin() as c:
                c.execute("analyze")
            with timed(bench, found, f"{name}: complete b100 analysed", 1000):
                for i in range(0, 1000, 100):
                    await session.complete(leased[i : i + 100])
    return found


async def latency(session: Any, n: int, times: int = 30) -> float:
    """Median milliseconds of a claim, rolled back."""
    taken = []
    for _ in range(times):
        await session.c.execute("begin")
        start = time.perf_counter()
        await session.claim(n)
        taken.append(time.perf_counter() - start)
        await session.c.execute("rollback")
    return round(statistics.median(taken) * 1e3, 2)


LINE = """insert into waiting (tenant_id, queue, priority, available_at, run_id, attempt)
select '{tenant}', 'default', i % 10, now() + interval '{at}' + i * interval '1 ms',
       (lpad(to_hex((extract(epoch from now()) * 1000)::bigint), 12, '0') || substr(md5(i::text), 1, 20))::uuid, 1
from generate_series(1, {n}) i"""


HELD = """insert into leases
select %s, gen_random_uuid(), 1, 'default', 5, 'worker-2', now(), now() from generate_series(1, %s)"""


async def long_lines(bench: Any) -> dict[str, Any]:
    """Claim latency by what else is in the line."""
    found, many = {}, 100_000 if bench.quick else 1_000_000
    for name in ("C", "C, plain order by", "E counter", "E count", "E pinned"):
        db = bench.databases[name, 0]
        for what, extra, at in (
            ("200 ready", 0, ""),
            ("200 ready, many in the future", many, "1 hour"),
            ("many ready", many, "-1 hour"),
        ):
            db.reset()
            await bench.fill(db, 1000)
            with db.admin() as c:
                c.execute("delete from waiting where run_id not in (select run_id from waiting limit 200)")
                if extra:
                    c.execute(LINE.format(tenant=tenant(0), at=at, n=extra).encode())
                c.execute("vacuum analyze waiting")
            async with bench.sessions(db, 1) as (session,):
                found[f"{name}: {what}"] = [await latency(session, n) for n in (1, 100)]
        db.reset()
    return found


async def many_lanes(bench: Any) -> dict[str, Any]:
    """Claim latency with one busy lane among many idle ones, and with much in flight in that lane."""
    found = {}
    for name in ("E counter, 100 lanes", "E count, 100 lanes", "E pinned, 100 lanes"):
        db = bench.databases[name, 0]
        for lanes in (1, 100, 1000):
            db.reset()
            with db.admin() as c:
                c.execute("truncate lanes")
                c.execute(db.sql["fill_lanes"].format(n=lanes).encode())
                c.execute(LINE.format(tenant=tenant(0), at="-1 hour", n=200).encode())
                c.execute("vacuum analyze lanes, waiting")
                c.execute("update lanes set virtual_time = 1 where tenant_id = %s", (tenant(0),))
            async with bench.sessions(db, 1) as (session,):
                found[f"{name.split(',')[0]}: {lanes} lanes"] = await latency(session, 100)
        for held in (1000, 10_000):
            with db.admin() as c:
                c.execute("truncate lanes, leases")
                c.execute(HELD, (tenant(0), held))
                c.execute(db.sql["fill_lanes"].format(n=1).encode())
            async with bench.sessions(db, 1) as (session,):
                found[f"{name.split(',')[0]}: 1 lane, {held} in flight"] = await latency(session, 100)
        db.reset()
    return found


async def limits(bench: Any) -> dict[str, Any]:
    """A limit of 10, four connections claiming and completing at random: the most that was ever seen in flight."""
    found = {}
    for name in ("E counter", "E count", "E pinned"):
        db = bench.databases[name, 0]
        db.reset()
        await bench.fill(db, 20_000)
        with db.admin() as c:
            c.execute("update lanes set max_in_flight = 10")
        end, most, full, looks = time.monotonic() + (1 if bench.quick else 4), 0, 0, 0

        async def work(session: Any, end: float = end) -> int:
            done, rng = 0, random.Random(7)
            while time.monotonic() < end:
                leased = await session.claim(rng.randint(1, 7))
                done += await session.complete(leased) if leased else 0
            return done

        async with bench.sessions(db, 5) as opened:
            tasks = [asyncio.create_task(work(s)) for s in opened[:4]]
            while time.monotonic() < end:
                held = (await opened[4].call("select count(*) from leases", {}))[0][0]
                most, full, looks = max(most, held), full + (held == 10), looks + 1
            done = sum(await asyncio.gather(*tasks))
        found[name] = {"most in flight": most, "looks": looks, "done": done}
    return found


async def sizes(bench: Any) -> dict[str, Any]:
    """Bytes of table and of indexes per finished run, in the template that holds the history."""
    with bench.databases["C", bench.behind].admin() as c:
        rows = c.execute(bench.databases["C", bench.behind].sql["sizes"].encode()).fetchall()
    return {name: [round(t / bench.behind), round(i / bench.behind)] for name, t, i in rows if t > bench.behind}


async def run(bench: Any) -> dict[str, Any]:
    probes = (inserts, stale, long_lines, many_lanes, limits, sizes)
    with bench.databases["C", 0].admin() as c:
        c.execute("alter system set autovacuum = off")
        c.execute("select pg_reload_conf()")
    found = {}
    for probe in probes:
        found[probe.__name__] = await probe(bench)
        print(f"{probe.__name__} done", flush=True)
    return found
