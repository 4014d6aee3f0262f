"""`everwhen verify`: what it prints, its exit code, and a dump instead of a live database."""

import asyncio
import json
import os
import subprocess

import psycopg
import pytest
from click.testing import CliRunner
from psycopg.conninfo import conninfo_to_dict

from everwhen.cli import main
from everwhen.core.lifecycle import RunState
from everwhen.postgres.host import find_bin_dir
from everwhen.postgres.pool import Database
from everwhen.verify.promises import PROMISES, QUIESCENT
from tests.factories import make_run, make_tenant


@pytest.fixture
def populated(server, fresh_database):
    """A database with a run in each place."""

    async def fill():
        async with await Database.open(server.app(fresh_database)) as database:
            tenant = await make_tenant(database)
            for state in (RunState.PLANNED, RunState.SUCCEEDED, RunState.DEAD, RunState.RETRYING):
                await make_run(database, tenant, state=state)

    asyncio.run(fill())
    return fresh_database


@pytest.fixture
def verify(server, populated, monkeypatch):
    monkeypatch.setenv("EVERWHEN_DATABASE_URL", server.app(populated))
    return lambda *words: CliRunner().invoke(main, ["verify", *words])


def damage(server, name):
    with psycopg.connect(server.superuser(name), autocommit=True) as conn:
        conn.execute("delete from everwhen.run_ends where state = 'dead'")


def test_each_promise_is_printed_with_its_count_and_the_exit_code_is_zero(verify):
    result = verify()

    assert result.exit_code == 0, result.output
    for promise in PROMISES:
        assert f"ok         0  {promise.name}  ({' '.join(promise.invariants)})" in result.stdout
    assert "every promise holds" in result.stderr


def test_a_broken_promise_is_shown_with_its_first_offenders_and_the_exit_code_is_ten(verify, server, populated):
    damage(server, populated)

    result = verify("--seed", "x")

    assert result.exit_code == 10
    assert "fail       1  runs_in_no_place" in result.stdout
    assert "neither waits, nor is held, nor is leased, nor has ended" in result.stdout
    assert result.stderr.endswith("promises are broken (seed x)\n")


def test_json_says_the_same_for_programs(verify, server, populated):
    damage(server, populated)

    result = verify("-o", "json", "--quiescent", "--all")
    document = json.loads(result.stdout)

    assert result.exit_code == 10
    assert (document["kind"], document["holds"]) == ("Verification", False)
    assert [promise["name"] for promise in document["promises"]] == [p.name for p in (*PROMISES, QUIESCENT)]
    (lost,) = [promise for promise in document["promises"] if promise["name"] == "runs_in_no_place"]
    assert (lost["violations"], lost["invariants"], len(lost["first"])) == (1, ["I30"], 1)


@pytest.mark.parametrize("form", ["custom", "plain"])
def test_a_dump_is_checked_in_a_server_of_its_own(server, populated, tmp_path, form):
    damage(server, populated)
    file = tmp_path / "dump"
    given = conninfo_to_dict(server.superuser(populated))
    environment = os.environ | {"PGHOST": str(given["host"]), "PGPORT": str(given["port"])}
    environment |= {"PGUSER": str(given["user"]), "PGPASSWORD": str(given["password"])}
    words = ["--format", form, "--no-owner", "--file", str(file), populated]
    subprocess.run([str(find_bin_dir() / "pg_dump"), *words], env=environment, check=True, timeout=60)

    result = CliRunner().invoke(main, ["verify", "--dump", str(file), "-o", "json"])

    assert result.exit_code == 10, result.output
    broken = {p["name"] for p in json.loads(result.stdout)["promises"] if p["violations"]}
    assert "runs_in_no_place" in broken


def test_what_is_no_dump_is_refused_in_one_line(tmp_path):
    file = tmp_path / "dump"
    file.write_text("this is no SQL;")

    result = CliRunner().invoke(main, ["verify", "--dump", str(file)])

    assert result.exit_code == 1
    assert "cannot be restored" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
