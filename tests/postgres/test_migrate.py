import subprocess
import sys

import psycopg
import pytest

from everwhen.postgres import migrate as migrations
from everwhen.postgres import new_migration
from everwhen.postgres.errors import MigrationError
from everwhen.postgres.migrate import Migration, assert_compatible, check, migrate, packaged_migrations
from tests.database import MIGRATED

STARTERS = 8
STARTER = """
import sys
from everwhen.postgres.migrate import migrate
sys.stdin.readline()  # all at once
print(migrate(sys.argv[1]))
"""

TABLE = Migration(version="0001_table", text="create table everwhen.things (id int)")
INDEX = Migration(
    version="0002_index",
    text="-- everwhen: no-transaction\ncreate unique index concurrently things_id on everwhen.things (id)",
)


@pytest.fixture
def owner(server, empty_database):
    return server.owner(empty_database)


def rows(conninfo, query):
    with psycopg.connect(conninfo, autocommit=True) as conn:
        return conn.execute(query).fetchall()


def run(conninfo, statement):
    with psycopg.connect(conninfo, autocommit=True) as conn:
        conn.execute(statement)


def test_eight_starters_at_once_all_succeed(owner):
    words = [sys.executable, "-c", STARTER, owner]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(words, **pipes) for _ in range(STARTERS)]
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    results = [(*process.communicate(), process.returncode) for process in processes]

    everything = f"{[file.version for file in packaged_migrations()]}\n"
    assert sorted(results) == sorted([(everything, "", 0), *[("[]\n", "", 0)] * (STARTERS - 1)])
    check(owner)


def test_a_second_call_has_nothing_to_do(owner):
    assert migrate(owner) == [file.version for file in packaged_migrations()]
    assert migrate(owner) == []


def test_a_missing_migration_says_what_to_run(owner):
    with pytest.raises(MigrationError, match=r"lacks 0001_.*: run `everwhen migrate`"):
        check(owner)


def test_an_edited_file_is_refused(owner):
    migrate(owner, migrations=[TABLE])
    edited = Migration(version=TABLE.version, text=TABLE.text + " -- better")

    with pytest.raises(MigrationError, match="0001_table was edited after it was applied"):
        migrate(owner, migrations=[edited])


async def test_the_server_starts_on_a_newer_schema_that_does_not_break_it(server, fresh_database, database):
    run(server.owner(fresh_database), "insert into everwhen.schema_migrations values ('9998_new', 'x', false)")

    check(server.owner(fresh_database))
    assert migrate(server.owner(fresh_database)) == []
    async with database.system() as conn:
        await assert_compatible(conn)


def test_the_server_refuses_a_newer_schema_that_breaks_it(server, fresh_database):
    newer = Migration(version="9999_contract", text="-- everwhen: breaking\ndrop table everwhen.leases")
    migrate(server.owner(fresh_database), migrations=[*packaged_migrations(), newer])

    for call in (check, migrate):
        with pytest.raises(MigrationError, match="9999_contract breaks this version: upgrade this server"):
            call(server.owner(fresh_database))


def test_a_file_that_fails_leaves_nothing_and_stops_the_rest(owner):
    failing = Migration(version="0002_fails", text="create table everwhen.more (id int); select 1 / 0")

    with pytest.raises(psycopg.errors.DivisionByZero):
        migrate(owner, migrations=[TABLE, failing])

    assert rows(owner, "select version from everwhen.schema_migrations") == [("0001_table",)]
    assert rows(owner, "select to_regclass('everwhen.more')") == [(None,)]


def test_an_index_is_made_outside_a_transaction_and_an_invalid_leftover_is_replaced(owner):
    migrate(owner, migrations=[TABLE])
    run(owner, "insert into everwhen.things values (1), (1)")
    with pytest.raises(psycopg.errors.UniqueViolation):
        migrate(owner, migrations=[TABLE, INDEX])
    validity = "select indisvalid from pg_index where indexrelid = 'everwhen.things_id'::regclass"
    assert rows(owner, validity) == [(False,)]
    run(owner, "truncate everwhen.things")

    assert migrate(owner, migrations=[TABLE, INDEX]) == ["0002_index"]

    assert rows(owner, validity) == [(True,)]


def test_a_file_outside_a_transaction_holds_one_index_only(owner):
    wrong = Migration(version="0002_wrong", text="-- everwhen: no-transaction\nvacuum everwhen.things")

    with pytest.raises(MigrationError, match="exactly one `create index concurrently`"):
        migrate(owner, migrations=[TABLE, wrong])


def test_a_locked_table_is_given_way_to_and_nothing_is_half_done(owner, monkeypatch):
    monkeypatch.setattr(migrations, "DDL_LOCK_TIMEOUT", "10ms")
    monkeypatch.setattr(migrations, "DDL_ATTEMPTS", 2)
    migrate(owner, migrations=[TABLE])
    widened = Migration(version="0002_widen", text="alter table everwhen.things add column name text")
    with psycopg.connect(owner) as reader:
        reader.execute("select * from everwhen.things")
        with pytest.raises(MigrationError, match="a table stayed locked; nothing of it was applied"):
            migrate(owner, migrations=[TABLE, widened])

    assert migrate(owner, migrations=[TABLE, widened]) == ["0002_widen"]


def test_a_migrator_that_never_ends_is_not_waited_for_for_ever(owner, monkeypatch):
    monkeypatch.setattr(migrations, "LOCK_WAIT_SECONDS", 0.0)
    monkeypatch.setattr(migrations, "PROGRESS_SECONDS", 0.0)
    with psycopg.connect(owner, autocommit=True) as other:
        other.execute("select pg_advisory_lock(%s)", (migrations.LOCK_KEY,))
        with pytest.raises(MigrationError, match="another migration has held the lock"):
            migrate(owner)


def test_waiting_for_another_migrator_is_told(owner, monkeypatch):
    monkeypatch.setattr(migrations, "PROGRESS_SECONDS", 0.0)
    said = []
    with psycopg.connect(owner, autocommit=True) as other:
        other.execute("select pg_advisory_lock(%s)", (migrations.LOCK_KEY,))

        def hear(text):
            said.append(text)
            other.execute("select pg_advisory_unlock_all()")

        migrate(owner, migrations=[TABLE], progress=hear)

    assert said[0] == "waiting for another migration"
    assert said[-1] == "applying 0001_table"


def test_the_applications_login_may_act_as_both_group_roles(server):
    query = """select array_agg(g.rolname::text order by g.rolname) from pg_auth_members m
               join pg_roles g on g.oid = m.roleid join pg_roles a on a.oid = m.member
               where a.rolname = 'everwhen_app'"""

    assert rows(server.superuser(MIGRATED), query) == [(["everwhen_system", "everwhen_tenant"],)]


def test_a_new_migration_gets_the_next_number(tmp_path):
    last = int(packaged_migrations()[-1].version[:4])

    assert new_migration.create("add_labels", folder=tmp_path).name == f"{last + 1:04d}_add_labels.sql"
    with pytest.raises(ValueError, match="must be lower_case_words"):
        new_migration.create("Add Labels", folder=tmp_path)


def test_every_packaged_file_explains_itself():
    assert all(file.text.startswith("-- ") for file in packaged_migrations())
