"""Who works: what workers say of themselves, what people see of it, and what nobody can do by it."""

import asyncio
import uuid
from datetime import timedelta

import pytest

from everwhen import clock
from everwhen.core.fleets import KEPT, LOST, PLATFORM, Wish, WorkerState, state_of
from everwhen.fleets import service
from tests.factories import make_tenant
from tests.people import client_of, token_of

ONE = uuid.UUID(int=1)
TWO = uuid.UUID(int=2)


async def test_a_worker_is_listed_from_its_announcement_to_its_leave(rig):
    said = {"tasks": ["report"], "labels": {"zone": "a"}, "resources": {"gpu": 1}, "version": "2.1", "host": "h"}
    known = await rig.announce(instance=ONE, worker="mailer", **said)
    await rig.beat(ONE, held=1, in_use={"gpu": 1})
    (seen,) = await rig.list()

    assert (known["known"], known["wish"], known["beat_seconds"]) == (True, "active", 10.0)
    assert seen["id"] == known["worker_id"] != str(ONE)
    assert {name: seen[name] for name in said} == said
    assert (seen["name"], seen["state"], seen["slots"], seen["held"]) == ("mailer", "active", 2, 1)
    assert seen["in_use"] == {"gpu": 1}
    await rig.leave(ONE)
    assert await rig.list() == []
    assert not (await rig.beat(ONE))["known"]


async def test_two_processes_of_one_name_do_not_fight(rig):
    first, second = await rig.announce(instance=ONE), await rig.announce(instance=TWO)
    await rig.order(first["worker_id"], "cordon")
    await rig.beat(ONE)
    await rig.beat(TWO)

    assert {worker["id"]: worker["state"] for worker in await rig.list()} == {
        first["worker_id"]: "cordoned",
        second["worker_id"]: "active",
    }
    await rig.leave(TWO)
    assert [worker["id"] for worker in await rig.list()] == [first["worker_id"]]


async def test_what_is_wanted_of_a_worker_outlives_its_next_announcement(rig):
    known = await rig.announce(instance=ONE)
    await rig.order(known["worker_id"], "drain", {"reason": "node maintenance", "exit": True})
    again = await rig.announce(instance=ONE, slots=5)
    (seen,) = await rig.list()

    assert (again["worker_id"], again["wish"], again["exits"]) == (known["worker_id"], "draining", True)
    assert (seen["slots"], seen["order_reason"], seen["ordered_by"]) == (5, "node maintenance", "tester")


async def test_a_worker_is_drained_once_it_has_heard_and_holds_nothing(rig):
    worker = (await rig.announce(instance=ONE))["worker_id"]
    states = [(await rig.order(worker, "drain"))["state"]]
    for heard, held in (("active", 0), ("draining", 1), ("draining", 0)):
        await rig.beat(ONE, heard=heard, held=held)
        states.append((await rig.list())[0]["state"])
    states.append((await rig.order(worker, "uncordon"))["state"])

    assert states == ["draining", "draining", "draining", "drained", "active"]


async def test_one_that_is_not_seen_is_lost_and_forgotten_in_the_end(rig, database, set_row):
    await rig.announce(instance=ONE)
    await set_row(f"last_seen_at = now() - interval '{LOST.total_seconds() + 1} s'")
    assert [worker["state"] for worker in await rig.list("state:lost")] == ["lost"]
    assert (await rig.beat(ONE))["known"]
    assert [worker["state"] for worker in await rig.list()] == ["active"]

    async with database.system() as conn:
        assert await service.sweep_workers(conn, now=conn.now + KEPT - timedelta(minutes=1), limit=10) == 0
        assert await service.sweep_workers(conn, now=conn.now + KEPT + timedelta(minutes=1), limit=10) == 1
    assert not (await rig.beat(ONE))["known"]


async def test_there_are_only_so_many_and_lost_ones_make_room(rig, monkeypatch, database):
    monkeypatch.setattr(service, "MOST_WORKERS", 3)
    answers = await asyncio.gather(*(rig.announce(instance=uuid.UUID(int=n), ok=None) for n in range(1, 8)))
    refused = [answer for answer in answers if answer.get("code") == "worker.too_many"]
    assert (len(await rig.list()), len(refused)) == (3, 4)
    lost = (await rig.list())[0]["id"]
    async with database.system() as conn:
        await conn.execute(
            "update everwhen.workers set last_seen_at = now() - interval '1 h' where worker_id = %s", (lost,)
        )

    await rig.announce(instance=uuid.UUID(int=99))
    await rig.announce(instance=uuid.UUID(int=98), ok=409)
    assert lost not in {worker["id"] for worker in await rig.list()}


@pytest.mark.parametrize(
    ("said", "pointer"),
    [
        ({"worker": ""}, "/worker"),
        ({"worker": "a\0b"}, "/worker"),
        ({"worker": "x" * 201}, "/worker"),
        ({"slots": 0}, "/slots"),
        ({"slots": 10**9}, "/slots"),
        ({"queues": []}, "/queues"),
        ({"queues": ["q"] * 65}, "/queues"),
        ({"queues": ["everwhen:workflows"]}, "/queues"),
        ({"tasks": ["t"] * 1001}, "/tasks"),
        ({"tasks": [f"{n:0199}" for n in range(400)]}, "/tasks"),
        ({"labels": {f"l{n}": "x" for n in range(33)}}, "/labels"),
        ({"labels": {"zone": "x" * 101}}, "/labels"),
        ({"labels": {"z\n": "x"}}, "/labels"),
        ({"resources": {f"r{n}": 1 for n in range(17)}}, "/resources"),
        ({"resources": {"gpu": -1}}, "/resources"),
        ({"resources": {"gpu": 1e13}}, "/resources"),
        ({"pid": -1}, "/pid"),
        ({"version": "x" * 101}, "/version"),
    ],
)
async def test_what_cannot_be_is_refused_and_leaves_no_row(rig, said, pointer):
    problem = await rig.announce(instance=ONE, ok=422, **said)

    assert problem["code"] in {"input.invalid", "body.invalid"}
    assert problem["code"] == "body.invalid" or problem["errors"][0]["pointer"] == pointer
    assert await rig.list() == []


@pytest.mark.parametrize(("field", "value"), [("held", -1), ("held", 10**7), ("in_use", {"gpu": -1}), ("heard", "off")])
async def test_a_beat_that_cannot_be_is_refused(rig, field, value):
    await rig.announce(instance=ONE)

    assert (await rig.beat(ONE, ok=422, **{field: value}))["status"] == 422


# Whose a worker is ---------------------------------------------------------------------------------------------------


async def test_another_tenants_worker_token_neither_beats_for_it_nor_takes_it_away(rig, database):
    await rig.announce(instance=ONE)
    other = await make_tenant(database)
    assert not (await rig.beat(ONE, tenant=other.id, heard="draining"))["known"]
    await rig.call("worker", "POST", "/v1/worker/leave", {"instance": str(ONE)}, tenant=other.id)
    await rig.announce(instance=ONE, tenant=other.id, worker="spoofed")

    assert [worker["name"] for worker in await rig.list()] == ["w"]


async def test_the_id_that_people_see_is_of_no_use_to_a_worker(rig):
    worker = (await rig.announce(instance=ONE))["worker_id"]
    assert not (await rig.beat(worker))["known"]
    await rig.leave(worker)
    await rig.announce(instance=worker, worker="spoofed")

    assert sorted(worker["name"] for worker in await rig.list()) == ["spoofed", "w"]


@pytest.mark.parametrize("role", ["worker", "viewer", "auditor"])
async def test_who_may_not_operate_drains_nothing(rig, role):
    worker = (await rig.announce(instance=ONE))["worker_id"]
    for verb in ("drain", "cordon", "uncordon"):
        await rig.order(worker, verb, role=role, ok=403)

    assert [worker["state"] for worker in await rig.list()] == ["active"]


async def test_a_token_announces_only_queues_that_it_may_claim_from(rig):
    await rig.announce(instance=ONE, may=["other"], ok=403)
    await rig.announce(instance=ONE, may=["line"])

    assert len(await rig.list()) == 1


async def test_workers_of_the_platform_are_the_platforms(rig, database):
    async with client_of(rig.app, token_of("platform", queues=["line"])) as platform:
        body = {"instance": str(ONE), "worker": "shared", "slots": 4, "queues": ["line"]}
        worker = (await platform.post("/v1/worker/announce", json=body)).json()["worker_id"]
        listed = (await platform.get("/v1/workers")).json()["items"]
        ordered = (await platform.post(f"/v1/workers/{worker}/cordon", json={"reason": "why"})).json()
        shown = (await platform.get(f"/v1/workers/{worker}")).json()
    await rig.announce(instance=TWO, worker="own")

    assert ([each["name"] for each in listed], ordered["state"], shown["runs"]) == (["shared"], "cordoned", [])
    assert [each["name"] for each in await rig.list()] == ["own"]
    await rig.order(worker, "uncordon", ok=404)
    async with database.system() as conn:
        rows = await (await conn.execute("select tenant_id, wish from everwhen.workers order by name")).fetchall()
    assert rows == [(rig.tenant.id, "active"), (PLATFORM, "cordoned")]


async def test_a_worker_of_the_platform_needs_a_token_that_names_its_queues(rig):
    async with client_of(rig.app, token_of("platform")) as platform:
        body = {"instance": str(ONE), "worker": "shared", "slots": 4, "queues": ["line"]}

        assert (await platform.post("/v1/worker/announce", json=body)).status_code == 403


# What a fleet has ----------------------------------------------------------------------------------------------------


async def test_a_fleet_is_counted_with_the_platforms_workers(rig, database, set_row):
    for number, queues in enumerate((["line"], ["line", "mails"], ["mails"])):
        instance = uuid.UUID(int=number + 1)
        await rig.announce(instance=instance, queues=queues, slots=10 * (number + 1))
        await rig.beat(instance, held=3)
    async with client_of(rig.app, token_of("platform", queues=["line"])) as platform:
        body = {"instance": str(ONE), "worker": "shared", "slots": 100, "queues": ["line"]}
        await platform.post("/v1/worker/announce", json=body)
    async with database.tenant(rig.tenant.id) as conn:
        fleets = await service.list_fleets(conn, tenant_id=rig.tenant.id, queues=["line", "mails", "none"])

    assert {name: (each.live, each.taking, each.slots, each.free) for name, each in fleets.items()} == {
        "line": (3, 3, 130, 124),
        "mails": (2, 2, 50, 44),
        "none": (0, 0, 0, 0),
    }
    other = await make_tenant(database)
    async with database.tenant(other.id) as conn:
        theirs = await service.list_fleets(conn, tenant_id=other.id, queues=["line", "mails"])
    assert {name: each.slots for name, each in theirs.items()} == {"line": 100, "mails": 0}

    await set_row("wish = 'cordoned'")
    async with database.tenant(rig.tenant.id) as conn:
        fleets = await service.list_fleets(conn, tenant_id=rig.tenant.id, queues=["line"])
    assert (fleets["line"].live, fleets["line"].taking, fleets["line"].free) == (3, 0, 0)


@pytest.mark.parametrize(
    ("told", "held", "is_stopping", "ago", "state"),
    [
        (("active", "active"), 0, False, 0, "active"),
        (("active", "cordoned"), 0, False, 29, "active"),
        (("cordoned", "active"), 3, False, 0, "cordoned"),
        (("draining", "draining"), 1, False, 0, "draining"),
        (("draining", "active"), 0, False, 0, "draining"),
        (("draining", "cordoned"), 0, False, 0, "draining"),
        (("draining", "draining"), 0, False, 0, "drained"),
        (("active", "active"), 0, True, 0, "stopping"),
        (("draining", "draining"), 0, True, 0, "stopping"),
        (("draining", "draining"), 0, True, 31, "lost"),
        (("active", "active"), 0, False, 31, "lost"),
    ],
)
def test_what_a_worker_is(told, held, is_stopping, ago, state):  # noqa: PLR0917  # the columns
    now = clock.process_now()
    wish, heard = map(Wish, told)
    found = state_of(
        wish=wish,
        heard=heard,
        held=held,
        is_stopping=is_stopping,
        last_seen_at=now - timedelta(seconds=ago),
        now=now,
    )

    assert found == WorkerState(state)
