import asyncio
import contextlib
import itertools
from datetime import UTC, datetime, timedelta
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from everwhen.postgres import pool as pools
from everwhen.postgres.errors import IndeterminateCommitError, UnsafeRoleError
from everwhen.postgres.pool import Database, PoolLimits, session_conninfo

ALICE, BOB = UUID(int=0xA), UUID(int=0xB)
DEADLINE_SECONDS = 20.0


async def one(conn, query, parameters=()):
    return (await (await conn.execute(query, parameters)).fetchone())[0]


async def until(condition):
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not await condition():  # noqa: ASYNC110 - what happens in the server sets no event here
            await asyncio.sleep(0.005)


@pytest.fixture
async def pool_of_one(server, work_database):
    limits = PoolLimits(min_size=1, max_size=1, borrow_seconds=10)
    async with await Database.open(server.app(work_database), limits=limits) as opened:
        yield opened
    server.clean(work_database)


@pytest.fixture
async def operator(server, work_database):
    async with await psycopg.AsyncConnection.connect(server.superuser(work_database), autocommit=True) as conn:
        yield conn


@pytest.fixture
async def stubborn(server, fresh_database):
    """Every commit that has written to `slow` waits for the advisory lock 1, which the yielded connection holds."""
    with psycopg.connect(server.superuser(fresh_database), autocommit=True) as conn:
        conn.execute("""
            create table everwhen.slow (id int);
            grant select, insert on everwhen.slow to everwhen_system;
            create function everwhen.wait() returns trigger language plpgsql security definer as
              'begin perform pg_advisory_xact_lock(1); return null; end';
            create constraint trigger wait after insert on everwhen.slow deferrable initially deferred
              for each row execute function everwhen.wait()""")
    async with await psycopg.AsyncConnection.connect(server.superuser(fresh_database), autocommit=True) as holder:
        await holder.execute("select pg_advisory_lock(1)")
        yield holder


async def insert_slowly(db):
    async with db.system() as conn:
        await conn.execute("insert into everwhen.slow values (1)")
        await conn.execute("set local lock_timeout = 0")


async def waits_for_the_lock(holder):
    return await one(holder, "select count(*) from pg_locks where locktype = 'advisory' and not granted")


async def rows(holder):
    return await one(holder, "select count(*) from everwhen.slow")


# What a transaction sees ---------------------------------------------------------------------------------------------


async def test_a_tenants_transaction_is_bound_to_it(database):
    async with database.tenant(ALICE) as conn:
        cursor = await conn.execute("select current_user, current_setting('everwhen.tenant')")
        assert await cursor.fetchone() == ("everwhen_tenant", str(ALICE))


async def test_a_transaction_knows_the_databases_clock_in_utc(database):
    async with database.system() as conn:
        now = await one(conn, "select now()")

    assert conn.now == now
    assert conn.now.tzinfo is UTC


async def test_the_tests_own_sessions_are_not_in_utc(database):
    async with database.system() as conn:
        noon = await one(conn, "select timestamptz '2026-07-01 12:00+00'")

    assert noon == datetime(2026, 7, 1, 12, tzinfo=UTC)
    assert noon.utcoffset() == timedelta(hours=-7)


async def test_a_block_that_raises_leaves_nothing(database):
    async def fail():
        async with database.system() as conn:
            await conn.execute("insert into everwhen.tenants values (%s, 'alice', now())", (ALICE,))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()

    async with database.system() as conn:
        assert await one(conn, "select count(*) from everwhen.tenants") == 0


async def test_a_swallowed_database_error_is_not_committed_in_silence(database):
    async def swallow():
        async with database.system() as conn:
            with contextlib.suppress(psycopg.Error):
                await conn.execute("select 1 / 0")

    with pytest.raises(psycopg.errors.InFailedSqlTransaction, match="nothing is committed"):
        await swallow()


async def test_a_session_leaves_nothing_to_the_next_borrower(pool_of_one, operator):
    async with pool_of_one.tenant(ALICE) as conn:
        await conn.execute(f"set everwhen.tenant = '{ALICE}'")
        await conn.execute("set work_mem = '1234kB'")
        await conn.execute("listen gossip")
        await conn.execute("select pg_advisory_lock(77)")
        await conn.execute("declare kept cursor with hold for select 1")
        backend = conn.info.backend_pid

    async with pool_of_one.tenant(BOB) as conn:
        assert conn.info.backend_pid == backend
        assert await one(conn, "select current_setting('everwhen.tenant')") == str(BOB)
        assert await one(conn, "show work_mem") != "1234kB"
        assert await one(conn, "select count(*) from pg_cursors where name = 'kept'") == 0
        assert await one(operator, "select count(*) from pg_locks where locktype = 'advisory'") == 0
    async with pool_of_one.tenant(BOB) as conn:  # UNLISTEN takes effect with the commit
        assert await one(conn, "select count(*) from pg_listening_channels()") == 0


# A tenant's setting never reaches another borrower ----------------------------------------------------------------

ENDINGS = st.sampled_from(["commit", "raise", "cancel", "set the session", "database error"])
BORROWERS = st.lists(st.tuples(st.sampled_from([ALICE, BOB]), ENDINGS, st.integers(0, 12)), min_size=2, max_size=12)


async def borrow(db, tenant, ending, seen):
    async with db.tenant(tenant) as conn:
        cursor = await conn.execute("select distinct tenant_id from everwhen.tasks")
        seen.append((tenant, await cursor.fetchall()))
        if ending == "raise":
            raise ZeroDivisionError
        if ending == "set the session":
            await conn.execute(f"set everwhen.tenant = '{tenant}'")
        if ending == "database error":
            await conn.execute("select 1 / 0")


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(borrowers=BORROWERS)
async def test_no_interleaving_shows_a_tenant_anothers_rows(pool_of_one, operator, borrowers):
    await operator.execute("""
        insert into everwhen.tenants values ('00000000-0000-0000-0000-00000000000a', 'alice', now()),
                                            ('00000000-0000-0000-0000-00000000000b', 'bob', now())
        on conflict do nothing""")
    await operator.execute("""
        insert into everwhen.tasks (tenant_id, name, queue, priority, retry, created_at, updated_at)
        select id, 'task', 'queue', 5, '{}', now(), now() from everwhen.tenants on conflict do nothing""")
    seen: list = []

    tasks = [asyncio.create_task(borrow(pool_of_one, tenant, ending, seen)) for tenant, ending, _ in borrowers]
    for task, (_, ending, turns) in zip(tasks, borrowers, strict=True):
        if ending == "cancel":
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    assert all(found == [(tenant,)] for tenant, found in seen)
    async with pool_of_one.system() as conn:  # the pools are whole
        assert await one(conn, "select count(distinct tenant_id) from everwhen.tasks") == 2
    async with pool_of_one.tenant(ALICE) as conn:
        assert await one(conn, "select count(distinct tenant_id) from everwhen.tasks") == 1


# Commits ----------------------------------------------------------------------------------------------------------


async def test_a_cancelled_commit_runs_to_its_end_and_its_connection_is_discarded(server, fresh_database, stubborn):
    limits = PoolLimits(min_size=1, max_size=1)
    async with await Database.open(server.app(fresh_database), limits=limits) as db:
        async with db.system() as conn:
            backend = conn.info.backend_pid
        task = asyncio.create_task(insert_slowly(db))
        await until(lambda: waits_for_the_lock(stubborn))

        task.cancel()
        await asyncio.sleep(0)
        await stubborn.execute("select pg_advisory_unlock(1)")
        with pytest.raises(asyncio.CancelledError):
            await task

        assert await rows(stubborn) == 1
        async with db.system() as conn:
            assert conn.info.backend_pid != backend


async def test_a_cancelled_commit_that_does_not_end_is_cut(server, fresh_database, stubborn, monkeypatch):
    monkeypatch.setattr(pools, "COMMIT_GRACE_SECONDS", 0.05)
    async with await Database.open(server.app(fresh_database)) as db:
        task = asyncio.create_task(insert_slowly(db))
        await until(lambda: waits_for_the_lock(stubborn))

        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_connection_that_breaks_while_committing_leaves_the_outcome_unknown(server, fresh_database, stubborn):
    async with await Database.open(server.app(fresh_database)) as db:
        task = asyncio.create_task(insert_slowly(db))
        await until(lambda: waits_for_the_lock(stubborn))

        await stubborn.execute(
            "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and not granted"
        )
        with pytest.raises(IndeterminateCommitError):
            await task


async def test_the_watchdog_cuts_a_commit_that_nobody_answers(server, fresh_database, stubborn):
    limits = PoolLimits(transaction_seconds=0.3)
    async with await Database.open(server.app(fresh_database), limits=limits) as db:
        with pytest.raises(IndeterminateCommitError):
            await insert_slowly(db)


async def test_the_watchdog_cuts_a_statement_that_nobody_answers(server, work_database):
    limits = PoolLimits(transaction_seconds=0.2)
    async with await Database.open(server.app(work_database), limits=limits) as db:
        with pytest.raises(psycopg.OperationalError):
            async with db.system() as conn:
                await conn.execute("select pg_sleep(60)")
        async with db.system() as conn:
            assert await one(conn, "select 1") == 1


async def test_a_commit_that_stopped_waiting_for_its_standby_is_not_believed(server, fresh_database):
    async with (
        await psycopg.AsyncConnection.connect(server.superuser(fresh_database), autocommit=True) as operator,
        await Database.open(server.app(fresh_database)) as db,
    ):
        await operator.execute("alter system set synchronous_standby_names = 'a_standby_that_is_gone'")
        await operator.execute("select pg_reload_conf()")

        async def write_until_a_commit_waits():
            # A reload is heard by each process of the server in its own time: the first commits may not wait yet.
            for number in itertools.count():
                async with db.system() as conn:
                    await conn.execute("set local synchronous_commit = on")
                    await conn.execute(
                        "insert into everwhen.tenants values (%s, %s, now())", (UUID(int=number + 1), f"t{number}")
                    )

        async def cancelled():
            query = "select count(pg_cancel_backend(pid)) from pg_stat_activity where wait_event = 'SyncRep'"
            return await one(operator, query)

        task = asyncio.create_task(write_until_a_commit_waits())
        try:
            await until(cancelled)
            with pytest.raises(IndeterminateCommitError, match="stopped waiting for its standby"):
                await task
        finally:
            task.cancel()
            await operator.execute("alter system reset synchronous_standby_names")
            await operator.execute("select pg_reload_conf()")


# Opening and borrowing --------------------------------------------------------------------------------------------


async def test_a_connection_that_died_in_the_pool_is_replaced_unseen(pool_of_one, operator):
    for _ in range(3):
        await operator.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'everwhen %'"
        )
        async with pool_of_one.system() as conn:
            assert await one(conn, "select 1") == 1


async def test_a_pool_that_is_exhausted_gives_up(server, work_database):
    limits = PoolLimits(min_size=1, max_size=1, borrow_seconds=0.1)
    async with await Database.open(server.app(work_database), limits=limits) as db, db.system():
        with pytest.raises(psycopg.OperationalError, match="couldn't get a connection"):
            async with db.system():
                pass


@pytest.mark.parametrize("power", ["superuser", "bypassrls"])
async def test_a_login_above_the_law_is_refused(server, work_database, operator, power):
    await operator.execute(f"create role too_strong login password 'x' {power} in role everwhen_tenant")
    await operator.execute(f"grant connect on database {work_database} to public")
    try:
        with pytest.raises(UnsafeRoleError, match=r"login too_strong (is a superuser|has BYPASSRLS)"):
            await Database.open(make_conninfo(server.app(work_database), user="too_strong", password="x"))
    finally:
        await operator.execute("drop role too_strong")


async def test_a_login_without_the_group_role_is_refused(server, work_database, operator):
    await operator.execute("create role stranger login password 'x'")
    await operator.execute(f"grant connect on database {work_database} to stranger")
    try:
        with pytest.raises(psycopg.OperationalError, match='permission denied to set role "everwhen_tenant"'):
            await Database.open(make_conninfo(server.app(work_database), user="stranger", password="x"))
    finally:
        await operator.execute(f"revoke connect on database {work_database} from stranger")
        await operator.execute("drop role stranger")


def test_a_dead_peer_is_noticed_by_default_and_what_is_given_wins():
    conninfo = session_conninfo(
        "host=a,b port=1,2 tcp_user_timeout=77 options='-c statement_timeout=5'",
        role="everwhen_tenant",
        limits=PoolLimits(),
    )

    words = conninfo_to_dict(conninfo)
    assert words["keepalives_idle"] == "3"
    assert words["tcp_user_timeout"] == "77"
    assert words["target_session_attrs"] == "read-write"
    assert words["options"].index("statement_timeout=30000") < words["options"].index("statement_timeout=5 ")
    assert words["options"].endswith("-c role=everwhen_tenant")


def test_one_host_is_taken_as_it_is():
    words = conninfo_to_dict(session_conninfo("host=a", role="everwhen_system", limits=PoolLimits()))

    assert "target_session_attrs" not in words
