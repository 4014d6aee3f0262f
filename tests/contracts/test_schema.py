import psycopg
import pytest

from everwhen.postgres import snapshot
from tests.contracts.schema_lint import LINTS, SEEDS
from tests.database import MIGRATED, chosen_bin_dir, run_server


@pytest.fixture(scope="module")
def superuser(server):
    """A connection to the migrated template whose every change is rolled back."""
    with psycopg.connect(server.superuser(MIGRATED)) as conn:
        yield conn
        conn.rollback()


def offenders(conn, lint):
    return [name for (name,) in conn.execute(LINTS[lint]).fetchall()]


def test_schema_sql_is_what_the_migrations_make(server):
    if chosen_bin_dir() is None:
        text = snapshot.dump(server.superuser(MIGRATED))
    else:  # another version spells some things differently: the snapshot is always the wheel's
        with run_server(None) as own:
            text = snapshot.dump(own.superuser(MIGRATED))

    assert snapshot.SCHEMA_FILE.read_text(encoding="utf-8") == text, "run `make schema`"


def test_partitions_do_not_change_the_snapshot(server, fresh_database):
    before = snapshot.dump(server.superuser(fresh_database))
    with psycopg.connect(server.owner(fresh_database)) as conn:
        conn.execute("select everwhen.ensure_week(now())")

    assert snapshot.dump(server.superuser(fresh_database)) == before


@pytest.mark.parametrize("lint", LINTS)
def test_the_catalogue_is_clean(superuser, lint):
    superuser.execute("select everwhen.ensure_week(now())")  # partitions are looked at, too

    assert offenders(superuser, lint) == []
    superuser.rollback()


@pytest.mark.parametrize("lint", LINTS)
def test_the_lint_names_a_seeded_violation(superuser, lint):
    violation, offender = SEEDS[lint]
    superuser.execute(violation)

    assert offender in offenders(superuser, lint)
    superuser.rollback()
