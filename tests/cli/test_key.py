"""`everwhen key`: making, listing and rotating the keys that seal secrets."""

import asyncio
import json

import pytest
from click.testing import CliRunner

from everwhen.audit import service as audit
from everwhen.audit.model import PLATFORM
from everwhen.cli import main
from everwhen.postgres.pool import Database
from everwhen.sealing.ring import new_entry, read_ring
from everwhen.sealing.service import Sealer
from tests.factories import make_tenant

OLD, NEW = new_entry("old"), new_entry("new")


@pytest.fixture
def key(server, fresh_database, monkeypatch, tmp_path):
    """Call `everwhen key`, with a tenant whose key is wrapped by `old`."""

    async def fill():
        async with await Database.open(server.app(fresh_database)) as database:
            tenant = await make_tenant(database)
            async with database.tenant(tenant.id) as conn:
                await Sealer(read_ring(OLD)).seal(conn, tenant.id, {"a": "b"})

    asyncio.run(fill())
    monkeypatch.setenv("EVERWHEN_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("EVERWHEN_DATABASE_URL", server.app(fresh_database))

    def call(*words, keys=f"{NEW},{OLD}"):
        return CliRunner(env={"EVERWHEN_SEALING_KEYS": keys}).invoke(main, ["key", *words])

    return call


def test_a_new_key_is_printed_as_its_entry(key):
    made = key("new", "k2")

    assert read_ring(made.stdout).first == "k2"
    refused = key("new", "K 2")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "lower-case" in refused.stderr


def test_the_list_says_which_seals_which_opens_and_which_is_missing(key):
    assert [line.split() for line in key("list").stdout.splitlines()[1:]] == [
        ["new", "seals", "0"],
        ["old", "opens", "1"],
    ]
    without = key("list", "-o", "json", keys=NEW)
    assert without.exit_code == 10
    assert json.loads(without.stdout)["items"] == [
        {"name": "new", "state": "seals", "tenant_keys": 0},
        {"name": "old", "state": "missing", "tenant_keys": 1},
    ]


async def told(conninfo):
    """What the platform's audit holds."""
    async with await Database.open(conninfo) as database:
        events, _ = await audit.list_events(database, tenant_id=PLATFORM, text="", limit=10)
    said = [audit.parse_record(event.record) for event in events]
    return [(each["operation"], each["resource"], each["actor"]) for each in said]


def test_after_a_rotation_the_old_key_is_not_needed_and_the_audit_tells_it(key, server, fresh_database):
    stuck = key("rotate", keys=NEW)
    assert stuck.exit_code == 10
    assert "1 are wrapped by old" in stuck.stderr

    assert key("rotate").stdout == "1 tenant keys are now wrapped by new\n"
    assert asyncio.run(told(server.app(fresh_database))) == [("rotate_sealing_keys", "sealing-keys/new", "everwhen")]
    assert key("list", keys=NEW).exit_code == 0


def test_without_keys_the_line_says_what_to_set(key, tmp_path):
    refused = key("list", keys=None)
    assert refused.exit_code == 1
    assert "set EVERWHEN_SEALING_KEYS" in refused.stderr

    (tmp_path / "sealing.keys").write_text(f"{NEW}\n{OLD}\n")
    found = key("list", keys=None)
    assert "opens" in found.stdout, found.stderr
