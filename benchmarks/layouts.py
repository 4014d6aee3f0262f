"""Which tables should hold what waits and what is leased? Measures layouts for plan, claim, heartbeat and complete.

    python -m benchmarks.layouts [--quick]

The statements are in `layouts/*.sql`; a layout is a list of those files, and a later file overrides the statements of
an earlier one.
Layouts take turns, so that the noise of a shared machine hits all of them; figures are medians of the turns.
"""

import argparse
import asyncio
import contextlib
import dataclasses
import json
import os
import pathlib
import statistics
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator

import psycopg
import uvloop

from benchmarks import layout_probes
from benchmarks.layout_data import columns, held, make, partitions, past, pieces, tenant
from benchmarks.throwaway_postgres import cpu_seconds, server

HERE = pathlib.Path(__file__).parent
RESULTS = HERE / "results" / "layouts.json"
PARTITIONED = ("runs", "attempts", "events", "run_ends")
PINNED = "enable_seqscan=off plan_cache_mode=force_generic_plan"
CUSTOM = "plan_cache_mode=force_custom_plan"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    name: str
    files: tuple[str, ...]
    extra: str = ""  # more DDL
    claim: str = "claim"
    tenants: int = 1
    settings: str = ""  # of each hot connection
    role: str = "tenant"  # tenant | system | owner (superuser: no row-level security)
    per_transaction: bool = False  # set the tenant in each transaction, in a pipeline
    history: bool = False  # also measured on top of the finished runs
    core: bool = True  # also measured in batches of 1, 10 and 500


FKS = "".join(
    f"alter table {t} add foreign key (tenant_id, run_id) references runs (tenant_id, run_id);"
    for t in ("waiting", "leases", "attempts", "run_ends", "events")
)
C = ("common", "hot", "c")
E = (*C, "lanes")
FILL = "alter table runs_p4 set (fillfactor = {});"
LAYOUTS = (
    Layout(name="A", files=("common", "a"), history=True),
    Layout(name="A ff80", files=("common", "a"), extra=FILL.format(80), core=False),
    Layout(name="B ff100", files=("common", "hot", "b"), core=False),
    Layout(name="B ff80", files=("common", "hot", "b"), extra=FILL.format(80), history=True),
    Layout(name="C", files=C, history=True),
    Layout(name="D", files=("common", "d")),
    Layout(name="E counter", files=(*E, "e_counter")),
    Layout(name="E count", files=(*E, "e_count")),
    Layout(name="E counter, 100 lanes", files=(*E, "e_counter"), tenants=100, role="system", core=False),
    Layout(name="E count, 100 lanes", files=(*E, "e_count"), tenants=100, role="system", core=False),
    Layout(name="E count, one row", files=(*C, "c_one_row", "lanes", "e_count"), core=False),
    Layout(name="E count, FKs", files=(*E, "e_count"), extra=FKS, core=False),
    Layout(name="E count, system role", files=(*E, "e_count"), role="system", core=False),
    Layout(name="E count, no RLS", files=(*E, "e_count"), role="owner", core=False),
    Layout(name="E count, tenant per txn", files=(*E, "e_count"), per_transaction=True, core=False),
    Layout(name="E pinned", files=(*E, "e_count", "e_pinned"), settings=PINNED, history=True),
    Layout(name="E pinned, 100 lanes", files=(*E, "e_count", "e_pinned"), settings=PINNED, tenants=100, role="system",
           core=False),
    Layout(name="E count, custom plans", files=(*E, "e_count"), settings=CUSTOM),
    Layout(name="E count, sequence cache 100", files=(*E, "e_count"), core=False,
           extra="alter sequence event_ids cache 100;"),
    Layout(name="C, by pk", files=C, claim="claim_by_pk", core=False),
    Layout(name="C, plain order by", files=C, claim="claim_by_sort", core=False,
           extra="create index waiting_sorted on waiting (tenant_id, queue, priority desc, available_at, run_id);"),
    Layout(name="C, lease_until index", files=C, extra="create index on leases (lease_until);", core=False),
)  # fmt: skip


def policies(connection: psycopg.Connection) -> None:
    own = "tenant_id = nullif(current_setting('everwhen.tenant', true), '')::uuid"
    tables = connection.execute(
        "select relname from pg_class where relkind in ('r', 'p') and relnamespace = 'everwhen'::regnamespace"
    ).fetchall()
    for (table,) in tables:
        connection.execute(
            f"alter table {table} enable row level security, force row level security;"
            f"create policy own on {table} to everwhen_tenant using ({own}) with check ({own});"
            f"create policy every on {table} to everwhen_system using (true) with check (true);"
        )
    connection.execute(
        "grant usage on schema everwhen to everwhen_tenant, everwhen_system;"
        "grant select, insert, update, delete on all tables in schema everwhen to everwhen_tenant, everwhen_system;"
        "grant usage on all sequences in schema everwhen to everwhen_tenant, everwhen_system"
    )


class Database:
    """One layout in one database, behind it `behind` finished runs."""

    def __init__(self, layout: Layout, dsn: str, *, behind: int, number: int) -> None:
        self.layout, self.behind, self.name = layout, behind, f"l{number}_{behind}"
        self.server_dsn, self.dsn = dsn, f"{dsn} dbname={self.name}"
        self.ddl, self.sql = pieces(layout.files)
        self.cursor = 0

    def create(self) -> None:
        with psycopg.connect(f"{self.server_dsn} dbname=postgres", autocommit=True) as c:
            template = f"template history_{self.behind} strategy file_copy"
            c.execute(f"create database {self.name} {template}")
            c.execute(f"alter database {self.name} set search_path = everwhen")
        ddl = self.ddl.removeprefix(pieces(("common",))[0])
        with psycopg.connect(self.dsn, autocommit=True) as c:
            c.execute(f"{ddl};{self.layout.extra};".encode())
            policies(c)
            self.fill_lanes(c)
            c.execute("vacuum analyze")

    def fill_lanes(self, connection: psycopg.Connection) -> None:
        if "fill_lanes" in self.sql:
            connection.execute(self.sql["fill_lanes"].format(n=self.layout.tenants).encode())

    def admin(self) -> psycopg.Connection:
        return psycopg.connect(self.dsn, autocommit=True)

    def analyse(self) -> None:
        """What autovacuum would do by and by; a VACUUM of the whole history would only take time."""
        with self.admin() as c:
            c.execute("analyze" if self.behind else "vacuum analyze")

    def reset(self) -> None:
        """Nothing waits, nothing is leased; without history behind, nothing at all."""
        with self.admin() as c:
            names = c.execute(
                "select relname from pg_class where relkind in ('r', 'p') and not relispartition"
                " and relnamespace = 'everwhen'::regnamespace"
            ).fetchall()
            hot = {"waiting", "leases", "live_runs", "lanes"}
            tables = [name for (name,) in names if name in hot or not self.behind]
            c.execute(f"truncate {', '.join(tables)} cascade" if tables else "select 1")
            if self.behind and self.layout.name == "A":
                c.execute("delete from runs where state <> 'succeeded'")
            self.fill_lanes(c)
            c.execute("vacuum analyze lanes" if "fill_lanes" in self.sql else "select 1")


class Session:
    """One hot connection."""

    def __init__(self, connection: psycopg.AsyncConnection, database: Database) -> None:
        self.c, self.db, self.layout = connection, database, database.layout
        self.empty = 0
        self.alone = True

    async def call(self, sql: str, params: dict[str, object]) -> list[tuple]:
        if not self.layout.per_transaction:
            return await (await self.c.execute(sql, params, prepare=True, binary=True)).fetchall()
        async with self.c.pipeline(), self.c.transaction():
            await self.c.execute("select set_config('everwhen.tenant', %s, true)", (str(tenant(0)),), prepare=True)
            cursor = await self.c.execute(sql, params, prepare=True, binary=True)
        return await cursor.fetchall()

    async def plan(self, given: dict[str, object]) -> int:
        return len(await self.call(self.db.sql["plan"], given))

    async def claim(self, n: int) -> list[tuple]:
        many = self.layout.tenants > 1
        wanted = {
            "tenant": None if many else tenant(0),
            "queue": "default",
            "n": n,
            "worker": "worker-1",
            "lanes": 4,
            "credit": 100.0,
        }
        if self.alone or "pick" not in self.db.sql:
            return await self.call(self.db.sql[self.layout.claim], wanted)
        async with self.c.transaction():
            picked = await self.call(self.db.sql["pick"], wanted)
            keys = {"tenants": [r[0] for r in picked], "runs": [r[1] for r in picked], "worker": "worker-1"}
            return await self.call(self.db.sql["take"], keys) if picked else []

    async def heartbeat(self, leased: list[tuple]) -> int:
        return len(await self.call(self.db.sql["heartbeat"], held(leased)))

    async def complete(self, leased: list[tuple]) -> int:
        return len(await self.call(self.db.sql["complete"], held(leased) | {"states": ["succeeded"] * len(leased)}))

    async def cycles(self, n: int, batch: int) -> int:
        done = 0
        while done < n:
            leased = await self.claim(batch)
            if leased:
                done += await self.complete(leased)
                continue
            self.empty += 1
            if self.empty > 2000:
                raise RuntimeError(f"{self.layout.name}: nothing to claim")
            await asyncio.sleep(0.001)
        return done


class Bench:
    def __init__(self, dsn: str, postmaster: int, *, quick: bool, target: pathlib.Path) -> None:
        self.dsn, self.postmaster, self.quick = dsn, postmaster, quick
        self.behind = 50_000 if quick else 1_000_000
        self.rows = 3_000 if quick else 5_000
        self.turns = 1 if quick else 3
        self.values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        self.databases: dict[tuple[str, int], Database] = {}
        self.probes: dict[str, object] = {}
        self.target, self.begun = target, time.perf_counter()

    def add(self, layout: str, name: str, value: float) -> None:
        self.values[layout][name].append(value)

    @contextlib.contextmanager
    def measure(self, db: Database, name: str, n: int) -> Iterator[None]:
        where = f"{db.layout.name} | {db.behind}"
        with db.admin() as c:
            lsn = c.execute("select pg_current_wal_insert_lsn()").fetchone()[0]
            used, own, start = cpu_seconds(self.postmaster), time.process_time(), time.perf_counter()
            yield
            elapsed, own = time.perf_counter() - start, time.process_time() - own
            used = cpu_seconds(self.postmaster) - used
            wal = c.execute("select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), %s)", (lsn,)).fetchone()[0]
        self.add(where, f"{name} rows/s", n / elapsed)
        self.add(where, f"{name} server us", used / n * 1e6)
        self.add(where, f"{name} client us", own / n * 1e6)
        self.add(where, f"{name} wal", float(wal) / n)

    @contextlib.asynccontextmanager
    async def sessions(self, db: Database, n: int, settings: str | None = None) -> AsyncIterator[list[Session]]:
        wanted = (db.layout.settings if settings is None else settings).split()
        options = " ".join(f"-c {s}" for s in (*wanted, f"everwhen.tenant={tenant(0)}"))
        user = {"owner": "postgres", "tenant": "worker", "system": "scheduler"}[db.layout.role]
        dsn = f"{db.dsn} user={user} options='{options}'"
        opened = [await psycopg.AsyncConnection.connect(dsn, autocommit=True) for _ in range(n)]
        made = [Session(c, db) for c in opened]
        for session in made:
            session.alone = n == 1
        try:
            yield made
        finally:
            for c in opened:
                await c.close()

    def template(self, behind: int) -> None:
        name = f"history_{behind}"
        with psycopg.connect(f"{self.dsn} dbname=postgres", autocommit=True) as c:
            c.execute(f"create database {name}")
            c.execute(f"alter database {name} set search_path = everwhen")
        ddl, statements = pieces(("common",))
        with psycopg.connect(f"{self.dsn} dbname={name}", autocommit=True) as c:
            c.execute("create schema everwhen")
            c.execute(f"{ddl};{partitions(PARTITIONED)}".encode())
            if behind:
                c.execute(statements["history"].replace("{n}", str(behind)).encode())
            c.execute("vacuum analyze")

    def create(self) -> None:
        with psycopg.connect(f"{self.dsn} dbname=postgres", autocommit=True) as c:
            c.execute("create role everwhen_tenant; create role everwhen_system")
            c.execute(
                "create role worker login in role everwhen_tenant; create role scheduler login in role everwhen_system"
            )
        for behind in (0, self.behind):
            self.template(behind)
            for number, layout in enumerate(LAYOUTS):
                if not behind or layout.history:
                    db = Database(layout, self.dsn, behind=behind, number=number)
                    db.create()
                    self.databases[layout.name, behind] = db
        with psycopg.connect(f"{self.dsn} dbname=postgres", autocommit=True) as c:
            c.execute("checkpoint")

    async def fill(self, db: Database, n: int, *, batch: int = 500, measured: bool = False) -> None:
        chunks = [columns(make(batch, past(), db.layout.tenants)) for _ in range(n // batch)]
        async with self.sessions(db, 1) as (session,):
            await session.plan(chunks.pop())
            with self.measure(db, f"plan b{batch}", n - batch) if measured else contextlib.nullcontext():
                for chunk in chunks:
                    await session.plan(chunk)

    async def hundred(self, db: Database) -> None:
        """The key figures: plan in batches of 500, cycles of 100 with one and with four connections."""
        db.reset()
        n = self.rows
        await self.fill(db, 2 * n + 500, measured=True)
        db.analyse()
        async with self.sessions(db, 1) as opened:
            await opened[0].cycles(500, 100)
            with self.measure(db, "cycle b100 c1", n - 500):
                await opened[0].cycles(n - 500, 100)
        async with self.sessions(db, 4) as opened:
            with self.measure(db, "cycle b100 c4", n):
                await asyncio.gather(*(s.cycles(n // 4, 100) for s in opened))
            self.add(f"{db.layout.name} | {db.behind}", "empty claims c4", sum(s.empty for s in opened))

    async def batches(self, db: Database) -> None:
        for batch in (1, 10, 500):
            n = min(self.rows // 2, batch * 300)
            db.reset()
            await self.fill(db, n + 500)
            db.analyse()
            async with self.sessions(db, 1) as (session,):
                with self.measure(db, f"cycle b{batch} c1", n):
                    await session.cycles(n, batch)
            if batch < 500:
                await self.fill(db, n, batch=batch, measured=True)

    async def steps(self, db: Database) -> None:
        """Claim, heartbeat and complete apart, with everything leased in between."""
        db.reset()
        n = self.rows // 2
        await self.fill(db, n + 500)
        db.analyse()
        async with self.sessions(db, 1) as (session,):
            leased = await session.claim(100)
            with self.measure(db, "claim b100", n):
                held_ = [await session.claim(100) for _ in range(n // 100)]
            for step in ("heartbeat", "complete"):
                await getattr(session, step)(leased)
                with self.measure(db, f"{step} b100", n):
                    for chunk in held_:
                        await getattr(session, step)(chunk)

    async def run(self, turns: int) -> None:
        for turn in range(turns):
            for db in self.databases.values():
                if db.layout.core or turn < 2:
                    await self.hundred(db)
                if db.layout.core and turn == 0:
                    await self.steps(db)
            self.save()
            print(f"turn {turn + 1} of {turns} done", flush=True)
        for db in self.databases.values():
            if db.layout.core and turns:
                await self.batches(db)
        self.save()
        self.probes = await layout_probes.run(self)
        self.save()

    def save(self) -> None:
        """After each turn: what is measured is not lost when a later step fails."""
        load = [round(x, 1) for x in os.getloadavg()]
        result = {"load": load, "seconds": round(time.perf_counter() - self.begun), "probes": self.probes}
        self.target.write_text(json.dumps(result | {"medians": self.medians()}, indent=1) + "\n")

    def medians(self) -> dict[str, dict[str, float]]:
        return {k: {n: round(statistics.median(v), 1) for n, v in names.items()} for k, names in self.values.items()}


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one turn, few rows, 50,000 finished runs behind")
    parser.add_argument("--probes", action="store_true", help="the single questions only")
    arguments = parser.parse_args()
    quick = arguments.quick
    target = RESULTS.with_suffix(".quick.json") if quick or arguments.probes else RESULTS
    with server() as (dsn, postmaster):
        bench = Bench(dsn, postmaster, quick=quick, target=target)
        bench.create()
        print(f"created after {time.perf_counter() - bench.begun:.0f} s", flush=True)
        await bench.run(turns=0 if arguments.probes else bench.turns)


if __name__ == "__main__":
    uvloop.run(main())
