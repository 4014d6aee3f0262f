"""The cost of a hot statement does not depend on statistics: its plan, made while the tables were empty, stays right.

Each is run on empty tables, so that a plan is made and kept; then the tables are filled, never analysed, and it is run
again. What counts is how many pages it touches for a row: a number that does not depend on the machine or its load.
"""

import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from everwhen.calendars import store as calendars
from everwhen.core.ids import scheduled_run_id
from everwhen.dispatch import store as dispatch
from everwhen.dispatch.model import Lease
from everwhen.runs import store as runs
from everwhen.schedules import store as schedules
from tests.database import TestServer

TENANT = uuid.UUID(int=7)
ROWS = 3_000
BATCH = 100
MOST_PAGES_A_ROW = 60
MOST_PAGES_A_CALL = 400
NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
FILL = """
    insert into everwhen.runs
    select '{tenant}', (substr(everwhen.first_run_id('{now}')::text, 1, 14) || '8' || lpad(to_hex(n), 3, '0') || '-8' ||
                        substr(md5(n::text), 1, 3) || '-' || substr(md5(n::text), 4, 12))::uuid,
           null, null, 'api', 'report', 'line', 5, null, null, '{now}', '{now}', null, '{{}}'
    from generate_series({first}, {last}) n;
    insert into everwhen.waiting
    select tenant_id, queue, priority, due_at, run_id, task from everwhen.runs r
    where not exists (select from everwhen.events e where e.run_id = r.run_id)
    on conflict do nothing;
    insert into everwhen.schedules
    select '{tenant}', gen_random_uuid(), 's' || n, 'active', null, 1, 'report', '{{}}', '{{}}', null, now(), now()
    from generate_series({first}, {last}) n;
    insert into everwhen.watermarks (tenant_id, schedule_uid, decided_until, next_at)
    select tenant_id, uid, '{now}', '{now}' from everwhen.schedules on conflict do nothing;
"""
DEFINE = """
    insert into everwhen.tenants values ('{tenant}', 'acme', now());
    insert into everwhen.tasks values ('{tenant}', 'report', 'line', 5, '{{}}', 60, null, now(), now());
    insert into everwhen.lanes (tenant_id, queue, max_in_flight) values ('{tenant}', 'line', 100000);
    select everwhen.ensure_week('{now}');
"""


@dataclass
class Watched:
    """A connection in a role, under whose statements the server writes their plans."""

    conn: psycopg.AsyncConnection[Any]
    plans: list[dict[str, Any]] = field(default_factory=list)

    async def pages(self, call: Callable[[], Awaitable[Any]]) -> tuple[int, Any]:
        """Return how many pages the call touched, and its result."""
        self.plans.clear()
        result = await call()
        touched = [plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"] for plan in self.plans]
        return sum(touched), result


async def watched(server: TestServer, database: str, role: str) -> Watched:
    """Log in as the superuser, whom auto_explain asks for, and act as the role, with a session as the pools have it."""
    conn = await psycopg.AsyncConnection.connect(server.superuser(database), autocommit=True, prepare_threshold=0)
    made = Watched(conn)
    conn.add_notice_handler(lambda notice: _collect(made, notice.message_primary or ""))
    for statement in (
        "load 'auto_explain'",
        "set auto_explain.log_level = 'notice'",
        "set auto_explain.log_min_duration = 0",
        "set auto_explain.log_analyze = on",
        "set auto_explain.log_buffers = on",
        "set auto_explain.log_format = 'json'",
        "set plan_cache_mode = 'force_generic_plan'",
        "set enable_hashjoin = off",
        "set enable_mergejoin = off",
        "set enable_seqscan = off",
        f"set everwhen.tenant = '{TENANT}'",
        f"set role {role}",
    ):
        await conn.execute(statement)
    return made


def _collect(made: Watched, message: str) -> None:
    _, _, plan = message.partition("plan:\n")
    if plan:
        made.plans.append(json.loads(plan))


@pytest.fixture
async def tenant(server: TestServer, fresh_database: str) -> AsyncIterator[Watched]:
    """A connection of the tenant's role."""
    made = await watched(server, fresh_database, "everwhen_tenant")
    yield made
    await made.conn.close()


@pytest.fixture
async def system(server: TestServer, fresh_database: str) -> AsyncIterator[Watched]:
    """A connection of the system's role."""
    made = await watched(server, fresh_database, "everwhen_system")
    yield made
    await made.conn.close()


@pytest.fixture
def run_as_superuser(server: TestServer, fresh_database: str) -> Callable[[str], None]:
    """Run SQL apart from the watched connection."""

    def run(sql: str, *, first: int = 2, last: int = ROWS) -> None:
        with psycopg.connect(server.superuser(fresh_database), autocommit=True) as conn:
            conn.execute(sql.format(tenant=TENANT, now=NOW.isoformat(), first=first, last=last))

    return run


def claim(conn: psycopg.AsyncConnection[Any], *, is_aged: bool = False) -> Awaitable[list[Lease]]:
    return (dispatch.claim_aged if is_aged else dispatch.claim_runs)(
        conn,
        tenant_ids=[TENANT],
        queues=["line"],
        quotas=[BATCH],
        tasks=["report"],
        capped=(),
        limit=BATCH,
        worker="w",
        lease_seconds=30,
        deadline_grace_seconds=5,
        now=NOW + timedelta(seconds=1),
    )


def share(conn: psycopg.AsyncConnection[Any]) -> Awaitable[Any]:
    return dispatch.lock_lanes_with_work(
        conn,
        queues=["line"],
        tasks=["report"],
        instance=None,
        labels="{}",
        free="{}",
        after=uuid.UUID(int=0),
        most=512,
        limit=64,
        now=NOW,
    )


def renew(conn: psycopg.AsyncConnection[Any], leases: list[Lease]) -> Awaitable[Any]:
    return dispatch.renew_leases(
        conn,
        tenant_ids=[lease.tenant_id for lease in leases],
        run_ids=[lease.run_id for lease in leases],
        tokens=[lease.lease_token for lease in leases],
        details=[None for _ in leases],
        started_ats=[None for _ in leases],
        allowed=None,
        lease_seconds=30,
        deadline_grace_seconds=5,
        now=NOW,
    )


def close(conn: psycopg.AsyncConnection[Any], leases: list[Lease]) -> Awaitable[Any]:
    leases = sorted(leases, key=lambda lease: lease.run_id)
    none = [None for _ in leases]
    return dispatch.close_attempts(
        conn,
        tenant_ids=[TENANT],
        run_ids=[lease.run_id for lease in leases],
        tokens=[lease.lease_token for lease in leases],
        verdicts=[1 for _ in leases],
        states=["succeeded"],
        kinds=["succeeded"],
        reasons=[None],
        outcomes=["succeeded"],
        available_ats=none,
        failures=none,
        errors=none,
        results=none,
        started_ats=none,
        expires_ats=none,
        fingerprints=none,
        details=none,
        now=NOW,
    )


def refuse(conn: psycopg.AsyncConnection[Any], leases: list[Lease]) -> Awaitable[Any]:
    return dispatch.record_refusals(
        conn,
        tenant_ids=[lease.tenant_id for lease in leases],
        run_ids=[lease.run_id for lease in leases],
        reasons=["lease.lost" for _ in leases],
        details=["{}" for _ in leases],
        allowed=None,
        now=NOW,
    )


def keys(leases: list[Lease]) -> dict[str, list[uuid.UUID]]:
    return {"tenant_ids": [lease.tenant_id for lease in leases], "run_ids": [lease.run_id for lease in leases]}


async def test_dispatch_touches_few_pages_whatever_the_statistics_say(tenant: Watched, run_as_superuser) -> None:
    conn = tenant.conn
    run_as_superuser(DEFINE)
    for leases in (await claim(conn), []):  # plans are made now, with nothing in any table
        await renew(conn, leases)
        await dispatch.lock_leases(conn, **keys(leases), judged=keys(leases)["run_ids"], allowed=None)
        await close(conn, leases)
        await refuse(conn, leases)
        await dispatch.find_states(conn, **keys(leases), allowed=None)
        await dispatch.count_in_flight(conn, tenant_ids=[TENANT], queues=["line"])
        await dispatch.next_due(conn, tenant_id=TENANT, queues=["line"], now=NOW)
        await runs.cancel_waiting(
            conn, tenant_id=TENANT, run_id=TENANT, reason="cancel.requested", detail="{}", now=NOW
        )
        await runs.get_run(conn, tenant_id=TENANT, run_id=TENANT)

    run_as_superuser(FILL)
    held = [lease for _ in range(15) for lease in await claim(conn)]
    batch = held[700 : 700 + BATCH]
    costs = {"claim_runs": await tenant.pages(lambda: claim(conn))}
    costs["renew_leases"] = await tenant.pages(lambda: renew(conn, batch))
    judged = keys(batch)["run_ids"]
    costs["lock_leases"] = await tenant.pages(
        lambda: dispatch.lock_leases(conn, **keys(batch), judged=judged, allowed=None)
    )
    costs["close_attempts"] = await tenant.pages(lambda: close(conn, batch))
    costs["find_states"] = await tenant.pages(lambda: dispatch.find_states(conn, **keys(batch), allowed=None))
    costs["record_refusals"] = await tenant.pages(lambda: refuse(conn, batch))

    assert all(result == BATCH or len(result) == BATCH for _, result in costs.values())
    assert {name: pages for name, (pages, _) in costs.items() if pages > MOST_PAGES_A_ROW * BATCH} == {}
    one = held[-1].run_id
    single = {
        "next_due": lambda: dispatch.next_due(conn, tenant_id=TENANT, queues=["line"], now=NOW),
        "get_run": lambda: runs.get_run(conn, tenant_id=TENANT, run_id=one),
        "cancel_waiting": lambda: runs.cancel_waiting(
            conn, tenant_id=TENANT, run_id=one, reason="cancel.requested", detail="{}", now=NOW
        ),
    }
    pages = {name: (await tenant.pages(call))[0] for name, call in single.items()}
    assert {name: touched for name, touched in pages.items() if touched > MOST_PAGES_A_CALL} == {}


MANY = """
    insert into everwhen.tenants
    select lpad(to_hex(n), 32, '0')::uuid, 'many-' || n, now() from generate_series(1000, 2999) n;
    insert into everwhen.lanes (tenant_id, queue)
    select id, 'line' from everwhen.tenants where name like 'many-%';
"""


async def test_lanes_in_which_nothing_waits_cost_a_shared_claim_nothing(system: Watched, run_as_superuser) -> None:
    conn = system.conn
    run_as_superuser(DEFINE)
    await share(conn)  # its plan is made now, with nothing in any table
    run_as_superuser(FILL)
    alone, (lane,) = await system.pages(lambda: share(conn))
    run_as_superuser(MANY)
    among_many, found = await system.pages(lambda: share(conn))

    assert lane.tenant_id == TENANT
    assert found == [lane]
    assert among_many <= alone + 10
    assert among_many <= 60


async def test_a_line_that_grows_old_is_claimed_in_few_pages(tenant: Watched, run_as_superuser) -> None:
    conn = tenant.conn
    run_as_superuser(DEFINE)
    await claim(conn)
    await claim(conn, is_aged=True)
    run_as_superuser(FILL)
    young = await claim(conn)
    run_as_superuser("update everwhen.lanes set ageing_seconds = 0.1")
    told = await claim(conn)

    pages, leases = await tenant.pages(lambda: claim(conn, is_aged=True))

    assert (young[0].has_old, told[0].has_old, leases[0].has_old) == (False, True, True)
    assert len(leases) == BATCH
    assert pages <= MOST_PAGES_A_ROW * BATCH


async def test_planning_touches_few_pages_whatever_the_statistics_say(system: Watched, run_as_superuser) -> None:
    conn = system.conn
    run_as_superuser(DEFINE)

    async def lock() -> list[Any]:
        async with conn.transaction():
            return await schedules.lock_due(conn, horizon=NOW, limit=BATCH)

    def insert(due: list[Any]) -> Awaitable[int]:
        at = [NOW for _ in due]
        return runs.insert_planned(
            conn,
            tenant_ids=[row.tenant_id for row in due],
            schedule_uids=[row.schedule_uid for row in due],
            run_ids=[scheduled_run_id(TENANT, row.schedule_uid, nominal_at=NOW, due_at=NOW) for row in due],
            nominal_ats=at,
            due_ats=at,
            utc_offsets=[0 for _ in due],
            tz_version="2026f",
            now=NOW,
        )

    def advance(due: list[Any]) -> Awaitable[int]:
        return schedules.advance_watermarks(
            conn,
            tenant_ids=[row.tenant_id for row in due],
            uids=[row.schedule_uid for row in due],
            old=[row.decided_until for row in due],
            new=[NOW + timedelta(minutes=1) for _ in due],
            next=[NOW + timedelta(minutes=2) for _ in due],
            tz_version="2026f",
        )

    run_as_superuser(FILL, first=1, last=1)
    only = await lock()
    await insert(only)
    await advance(only)
    run_as_superuser(FILL)

    locked, due = await system.pages(lock)
    inserted, made = await system.pages(lambda: insert(due))
    advanced, moved = await system.pages(lambda: advance(due))

    assert len(due) == made == moved == BATCH
    costs = {"lock_due": locked, "insert_planned": inserted, "advance_watermarks": advanced}
    assert {name: pages for name, pages in costs.items() if pages > MOST_PAGES_A_ROW * BATCH} == {}


CALENDARS = """
    insert into everwhen.calendars
    select '{tenant}', 'c' || n, 1, now(), now() from generate_series({first}, {last}) n;
    insert into everwhen.calendar_versions
    select tenant_id, name, 1, null, '{{}}', true, 'tester', null, now() from everwhen.calendars
    on conflict do nothing;
"""


async def test_calendars_are_found_in_few_pages_whatever_the_statistics_say(system: Watched, run_as_superuser) -> None:
    conn = system.conn
    names = [f"c{number}" for number in range(1, BATCH + 1)]
    wanted: dict[str, Any] = {"tenant_ids": [TENANT] * BATCH, "names": names}
    run_as_superuser(DEFINE)
    run_as_superuser(CALENDARS, first=1, last=1)
    await calendars.find_calendars(conn, **wanted)
    await calendars.read_in_force(conn, **wanted)
    run_as_superuser(CALENDARS)

    found, keys = await system.pages(lambda: calendars.find_calendars(conn, **wanted))
    read, rows = await system.pages(lambda: calendars.read_in_force(conn, **wanted))
    taken, _ = await system.pages(lambda: calendars.take_change(conn))

    assert len(keys) == len(rows) == BATCH
    assert found <= 10 * BATCH
    assert read <= 10 * BATCH
    assert taken <= 10


async def test_a_statement_that_the_statistics_can_turn_is_found_out(tenant: Watched, run_as_superuser) -> None:
    """The join that the hot path once was: right on paper, and a hundred times too dear."""
    conn = tenant.conn
    turned = """
        update everwhen.leases l set lease_until = now()
        from unnest(%(tenant_ids)s::uuid[], %(run_ids)s::uuid[]) as b (tenant_id, run_id)
        where l.tenant_id = b.tenant_id and l.run_id = b.run_id
    """
    run_as_superuser(DEFINE)
    run_as_superuser(FILL, first=1, last=1)
    await conn.execute(turned, keys(await claim(conn)))
    run_as_superuser(FILL)
    held = [lease for _ in range(15) for lease in await claim(conn)]

    await tenant.pages(lambda: conn.execute(turned, keys(held[:BATCH])))

    rows = _rows_walked(tenant.plans[-1]["Plan"])
    assert rows > 10 * BATCH


def _rows_walked(node: dict[str, Any]) -> int:
    removed = node.get("Rows Removed by Join Filter", 0) + node.get("Rows Removed by Filter", 0)
    return removed + sum(_rows_walked(child) for child in node.get("Plans", ()))
