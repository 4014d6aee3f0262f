"""Who declares a thing: what makes it owned, what leaves it alone, and that a whole which is so already stays so."""

from datetime import timedelta

import pytest

from everwhen.schedules.scheduler import Scheduler
from tests.factories import make_task, make_tenant
from tests.people import app_on, client_of, token_of

BASE = "/v1/tenants/acme"
HOURLY = {"kind": "every", "every": "PT1H"}

# where it is, what it is, and what it is to be
THINGS = {
    "task": ("tasks", {"priority": 3}, {"priority": 4}),
    "calendar": ("calendars", {"definition": {"week": ["mon"]}}, {"definition": {"week": ["tue"]}}),
    "workflow": (
        "workflows",
        {"definition": {"nodes": [{"id": "a", "task": "report"}]}},
        {"definition": {"nodes": [{"id": "b", "task": "report"}]}},
    ),
    "schedule": (
        "schedules",
        {"task": "report", "trigger": HOURLY},
        {"task": "report", "trigger": HOURLY, "tags": ["x"]},
    ),
}  # fmt: skip


@pytest.fixture
async def tenant(database):
    made = await make_tenant(database, name="acme")
    await make_task(database, made)
    return made


@pytest.fixture
async def client(database, tenant):
    async with client_of(app_on(database), token_of("admin", tenant_id=tenant.id)) as opened:
        yield opened


async def seen(answer):
    """Owner and revision, as an answer says."""
    assert answer.status_code < 300, answer.text
    return answer.json()["owner"], int(answer.headers["ETag"].strip('"').removeprefix("rev-"))


@pytest.mark.parametrize("thing", THINGS)
async def test_what_is_made_by_hand_has_no_owner_and_what_is_declared_has_its(client, thing):
    kind, what, _ = THINGS[thing]

    assert await seen(await client.post(f"{BASE}/{kind}", json={"name": "x", **what})) == (None, 1)
    assert await seen(await client.post(f"{BASE}/{kind}", json={"name": "y", **what, "owner": "acme/ops"})) == (
        "acme/ops",
        1,
    )
    made = await client.put(
        f"{BASE}/{kind}/z", json={**what, "owner": "a"}, headers={"If-None-Match": "*", "If-Match": ""}
    )
    assert made.status_code == 422  # the client's own If-Match stands beside it
    del client.headers["If-Match"]
    made = await client.put(f"{BASE}/{kind}/z", json={**what, "owner": "a"}, headers={"If-None-Match": "*"})
    assert (made.status_code, await seen(made)) == (201, ("a", 1))
    assert {item["name"]: item["owner"] for item in (await client.get(f"{BASE}/{kind}")).json()["items"]} | {
        "report": None
    } == {"report": None, "x": None, "y": "acme/ops", "z": "a"}
    assert await seen(await client.get(f"{BASE}/{kind}/z")) == ("a", 1)


@pytest.mark.parametrize("thing", THINGS)
async def test_a_whole_that_is_so_already_stays_as_it_is(client, thing):
    kind, what, other = THINGS[thing]
    path = f"{BASE}/{kind}/x"
    await client.post(f"{BASE}/{kind}", json={"name": "x", **what, "owner": "a"})

    assert await seen(await client.put(path, json=what)) == ("a", 1)
    assert await seen(await client.put(path, json={**what, "owner": "a"})) == ("a", 1)
    assert await seen(await client.put(path, json={**what, "owner": "b"})) == ("b", 2)
    assert await seen(await client.put(path, json=other)) == ("b", 3)
    assert await seen(await client.put(path, json={**other, "owner": None})) == (None, 4)
    stale = await client.put(path, json={**other, "owner": None}, headers={"If-Match": '"rev-3"'})
    assert stale.status_code == 412


@pytest.mark.parametrize("thing", THINGS)
async def test_trying_a_whole_keeps_nothing(client, thing):
    kind, what, other = THINGS[thing]
    await client.post(f"{BASE}/{kind}", json={"name": "x", **what})

    tried = await client.put(f"{BASE}/{kind}/x", params={"dry_run": "true"}, json={**other, "owner": "a"})

    assert await seen(tried) == ("a", 2)
    assert await seen(await client.get(f"{BASE}/{kind}/x")) == (None, 1)


@pytest.mark.parametrize("thing", THINGS)
async def test_what_names_no_owner_is_refused(client, thing):
    kind, what, _ = THINGS[thing]
    for owner in ["", " a", "-a", "a b", "a\n", "ä", "x" * 201, 1, ["a"]]:
        answer = await client.post(f"{BASE}/{kind}", json={"name": "x", **what, "owner": owner})
        assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/owner")


async def test_what_is_left_out_of_a_whole_is_as_by_default(client):
    await client.post(
        f"{BASE}/schedules",
        json={
            "name": "x",
            "task": "report",
            "trigger": HOURLY,
            "timezone": "Europe/Berlin",
            "gap": "shift",
            "flex": {"mode": "hash", "window_seconds": 60},
            "overlap": {"policy": "skip"},
            "catch_up": {"policy": "skip"},
            "pause_after_failures": 3,
            "priority": 9,
            "tags": ["t"],
            "input": {"a": 1},
        },
    )
    await client.post(f"{BASE}/schedules", json={"name": "plain", "task": "report", "trigger": HOURLY})

    changed = (await client.put(f"{BASE}/schedules/x", json={"task": "report", "trigger": HOURLY})).json()
    plain = (await client.get(f"{BASE}/schedules/plain")).json()

    own = {"uid", "name", "revision", "next_at", "created_at", "updated_at"}
    assert {key: changed[key] for key in changed.keys() - own} == {key: plain[key] for key in plain.keys() - own}
    await client.post(f"{BASE}/tasks", json={"name": "t", "queue": "q", "retry": {"factor": 3}, "timeout_seconds": 5})
    task = (await client.put(f"{BASE}/tasks/t", json={})).json()
    assert (task["queue"], task["retry"]["factor"], task["timeout_seconds"]) == ("default", 2.0, None)


async def test_a_whole_leaves_a_pause_and_an_assigned_offset_alone(client):
    what = {"task": "report", "trigger": HOURLY, "flex": {"mode": "smooth", "window_seconds": 600}}
    await client.post(f"{BASE}/schedules", json={"name": "x", **what})
    await client.post(f"{BASE}/forecast/smooth")
    await client.post(f"{BASE}/schedules/x/pause", json={"reason": "why"})
    before = (await client.get(f"{BASE}/schedules/x")).json()

    same = (await client.put(f"{BASE}/schedules/x", json={**what, "paused": None, "since": None})).json()
    tagged = (await client.put(f"{BASE}/schedules/x", json={**what, "tags": ["t"]})).json()
    wider = (
        await client.put(f"{BASE}/schedules/x", json={**what, "flex": {**what["flex"], "window_seconds": 900}})
    ).json()

    assert before["flex"]["offset_seconds"] is not None
    assert (same["revision"], tagged["revision"]) == (before["revision"], before["revision"] + 1)
    assert {before["state"], same["state"], tagged["state"], wider["state"]} == {"paused"}
    assert tagged["flex"] == before["flex"]
    assert "offset_seconds" not in wider["flex"]


async def test_another_owner_moves_no_run_and_stands_in_the_history(client, database, tenant):
    await client.post(
        f"{BASE}/schedules", json={"name": "x", "task": "report", "trigger": {"kind": "every", "every": "PT1M"}}
    )
    async with database.system() as conn:
        now = conn.now
    await Scheduler(database=database, ahead=timedelta(minutes=5), batch=10).tick(now)
    planned = [item["id"] for item in (await client.get(f"{BASE}/runs")).json()["items"]]

    await client.put(
        f"{BASE}/schedules/x", json={"task": "report", "trigger": {"kind": "every", "every": "PT1M"}, "owner": "a"}
    )
    await client.patch(f"{BASE}/schedules/x", json={"owner": "b"})

    assert planned
    assert [item["id"] for item in (await client.get(f"{BASE}/runs")).json()["items"]] == planned
    history = (await client.get(f"{BASE}/schedules/x/revisions")).json()["items"]
    assert [revision["changes"] for revision in history] == [
        [],
        [{"field": "owner", "before": None, "after": "a"}],
        [{"field": "owner", "before": "a", "after": "b"}],
    ]


async def test_what_is_in_an_input_counts_to_the_letter(client):
    what = {"task": "report", "trigger": HOURLY}
    await client.post(f"{BASE}/schedules", json={"name": "x", **what, "input": {"a": 1, "b": 2}})

    revisions = [
        (await client.put(f"{BASE}/schedules/x", json={**what, "input": given})).json()["revision"]
        for given in (
            {"b": 2, "a": 1},
            {"a": 1.0, "b": 2},
            {"a": True, "b": 2},
            {"a": True, "b": 2},
            {"a": 1e25},
            {"a": 1e25},
        )
    ]

    assert revisions == [1, 1, 2, 2, 3, 3]
