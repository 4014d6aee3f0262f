"""`everwhen worker list` and its like against a live server: who works, orders, and tables whose columns line up."""

import asyncio
import re
import uuid

import pytest

from everwhen.fleets import service as fleets
from everwhen.fleets.model import Announced, Beat
from everwhen.postgres.pool import Database

NAMES = ["mailer-with-quite-a-long-name", "m2", "m3"]


@pytest.fixture
def crew(server, work_database, shell):
    """Three workers: two of an old version, one of which holds a run, and one of a new one."""

    async def work():
        async with await Database.open(server.app(work_database)) as db:
            async with db.system() as conn:
                (tenant_id,) = await (await conn.execute("select id from everwhen.tenants")).fetchone()
            for number, name in enumerate(NAMES):
                said = Announced(
                    instance=uuid.UUID(int=number + 1),
                    name=name,
                    sdk="1",
                    version="2.4.1" if name == "m3" else "2.4.0",
                    host=f"node-{number}",
                    pid=None,
                    slots=20,
                    tasks=None,
                    queues=["mails"],
                    labels={"zone": "b" if name == "m3" else "a"},
                    resources={"gpu": 2.0},
                )
                await fleets.announce(db, tenant_id=tenant_id, said=said)
                beat = Beat(
                    instance=said.instance,
                    held=int(name == "m2"),
                    in_use={"gpu": 0.5},
                    heard=fleets.Wish.ACTIVE,
                    is_stopping=False,
                )
                await fleets.beat(db, tenant_id=tenant_id, said=beat)

    asyncio.run(work())


def cells(table):
    """Return the rows of a table, cut where its header's columns begin; every cell has to begin there."""
    header, *lines = table.rstrip("\n").split("\n")
    starts = [found.start() for found in re.finditer(r"(?:(?<=  )|^)\S", header)]
    for line in lines:
        assert all(line[start - 1 : start] in {"", " "} for start in starts if start), (header, line)
    ends = [*starts[1:], None]
    return [[line[start:end].strip() for start, end in zip(starts, ends, strict=True)] for line in [header, *lines]]


def test_workers_are_listed_in_columns_that_line_up(shell, crew):
    header, *rows = cells(shell("worker", "list").stdout)

    assert header == ["NAME", "STATE", "HOLDS", "QUEUES", "LABELS", "VERSION", "HOST", "SEEN", "ID"]
    assert [row[:7] for row in rows] == [
        [NAMES[0], "active", "0/20", "mails", "zone=a", "2.4.0", "node-0"],
        ["m2", "active", "1/20", "mails", "zone=a", "2.4.0", "node-1"],
        ["m3", "active", "0/20", "mails", "zone=b", "2.4.1", "node-2"],
    ]
    assert cells(shell("worker", "list", "--filter", "label:zone=b").stdout)[1][0] == "m3"


def test_one_worker_is_shown_by_its_name_or_its_id(shell, crew):
    (found,) = shell.json("worker", "get", "m2")["items"]
    assert shell.json("worker", "get", found["id"])["items"][0]["name"] == "m2"
    assert (found["resources"], found["in_use"], found["runs"]) == ({"gpu": 2.0}, {"gpu": 0.5}, [])
    assert "There is no worker of the name nobody" in shell("worker", "get", "nobody", exit_code=3).stderr


def test_a_replacement_is_followed_by_the_versions(shell, crew):
    shell("worker", "drain", "--filter", "version:2.4.0", "--yes", "--reason", "replaced")
    header, old, new = cells(shell("worker", "versions").stdout)

    assert header == ["VERSION", "WORKERS", "TAKING", "HELD BACK", "LOST", "HOLDS", "NEWEST"]
    assert (old[:6], new[:6]) == (["2.4.0", "2", "0", "2", "0", "1/40"], ["2.4.1", "1", "1", "0", "0", "0/20"])
    assert [each["version"] for each in shell.json("worker", "versions", "--filter", "label:zone=b")["items"]] == [
        "2.4.1"
    ]


def test_orders_are_given_by_name_and_by_filter_and_taken_back(shell, crew):
    cordoned = cells(shell("worker", "cordon", "m3", "--reason", "looked at").stdout)
    assert cordoned[1][:2] == ["m3", "cordoned"]
    shell("worker", "drain", "--filter", "label:zone=a", "--yes", "--exit")
    assert {each["name"]: (each["state"], each["exits"]) for each in shell.json("worker", "list")["items"]} == {
        NAMES[0]: ("draining", True),
        "m2": ("draining", True),
        "m3": ("cordoned", False),
    }
    shell("worker", "uncordon", *NAMES)
    assert {each["state"] for each in shell.json("worker", "list")["items"]} == {"active"}

    waited = shell("worker", "drain", "m2", "--wait", "--timeout", "0", exit_code=7)
    assert waited.stderr == "everwhen: gave up waiting; 1 not empty: m2 holds 1\n"


def test_who_orders_says_whom_and_may_do_so(shell, crew):
    assert "name workers, by name or id, or say --filter" in shell("worker", "drain", exit_code=2).stderr
    assert "role" in shell("worker", "cordon", "m2", who="viewer", exit_code=4).stderr
