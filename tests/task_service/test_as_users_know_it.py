"""The task service, by somebody who knows its description and nothing else: everything goes over HTTP."""

import asyncio
import importlib
import sys
import threading
import time
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from everwhen.clock import process_now
from tests.factories import make_tenant
from tests.people import token_of

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAM = b'#!/bin/sh\necho "hello from $EVERWHEN_DEDUP_ID"\n'
FAILS = b"#!/bin/sh\necho oh no; exit 3\n"
PATIENCE = 45.0
STATUSES = {"created", "waiting", "waiting_for_resource", "running", "success", "failed", "no_resource"}


def form(dedup_id: str = "nightly", *, program: bytes | None = PROGRAM, **fields: str):
    """The arguments of a request with a multipart form."""
    parts = {"dedup_id": (None, dedup_id)} if dedup_id else {}
    parts |= {name: (None, value) for name, value in fields.items()}
    return {"files": parts | ({} if program is None else {"payload": ("program.sh", program)})}


async def until(client, task_id: str, *statuses: str) -> dict:
    """Look at a task until it stands so."""
    deadline = time.monotonic() + PATIENCE
    while True:
        task = (await client.get("/task", params={"id": task_id})).json()
        assert task["status"] in STATUSES
        if task["status"] in statuses:
            return task
        assert time.monotonic() < deadline, task
        await asyncio.sleep(0.1)


@pytest.fixture
def fleet(served, monkeypatch):
    """The example's executor, working."""
    monkeypatch.syspath_prepend(EXAMPLES)
    module = importlib.import_module("task_executor")
    token = token_of("worker", tenant_id=served.tenant.id, subject="fleet", queues=["tasks"])
    options = {"url": served.url, "token": token, "wait_seconds": 1.0, "lease_seconds": 10.0, "drain_seconds": 1.0}
    thread = threading.Thread(target=lambda: module.worker.run(**options), daemon=True)
    thread.start()
    yield module.worker
    module.worker.stop()
    thread.join(30)
    del sys.modules["task_executor"]  # and with it its worker, which works once


async def test_a_program_is_posted_runs_and_its_success_is_in_the_history(ann, fleet):
    posted = await ann.post("/task", **form(schedule="", priority="7"))
    assert posted.status_code == 201, posted.text

    task = await until(ann, posted.json()["id"], "success")

    (run,) = task["history"]
    assert run["outcome"] == "success"
    assert run["scheduled_at"] == task["timestamp"]
    assert run["finished_at"] >= run["scheduled_at"]
    assert (task["priority"], task["dedup_id"], task["user"]) == (7, "nightly", "ann")


async def test_a_program_that_fails_and_one_that_is_none_are_failed_and_not_tried_again(ann, fleet):
    fails = (await ann.post("/task", **form("fails", program=FAILS))).json()["id"]
    garbage = (await ann.post("/task", **form("garbage", program=b"\x00\x01"))).json()["id"]

    for task_id in (fails, garbage):
        task = await until(ann, task_id, "failed")
        assert [(run["outcome"], run["attempts"]) for run in task["history"]] == [("failed", 1)]


async def test_without_a_fleet_it_waits_for_a_resource(ann):
    posted = (await ann.post("/task", **form())).json()

    assert posted["status"] in {"created", "waiting", "waiting_for_resource"}
    await until(ann, posted["id"], "waiting_for_resource")


async def test_the_same_dedup_id_of_the_same_user_is_the_same_task(served, ann):
    first = await ann.post("/task", **form(schedule="0 3 * * *"))
    again = await ann.post("/task", **form(schedule="0 3 * * *"))
    other = await ann.post("/task", **form(schedule="0 4 * * *", priority="9", program=FAILS))
    async with served.client("bob") as bob:
        bobs = await bob.post("/task", **form(schedule="0 3 * * *"))

    assert [answer.status_code for answer in (first, again, other, bobs)] == [201, 200, 200, 201]
    assert first.json()["id"] == again.json()["id"] == other.json()["id"] != bobs.json()["id"]
    assert (first.json()["deduplicated"], again.json()["deduplicated"]) == (False, True)
    assert (again.json()["ignored"], other.json()["ignored"]) == ([], ["schedule", "payload", "priority"])
    assert other.json()["schedule"] == "0 3 * * *"
    assert [task["id"] for task in (await ann.get("/tasks")).json()["items"]] == [first.json()["id"]]
    assert len((await ann.get("/tasks", params={"all": True})).json()["items"]) == 2


async def test_posts_of_one_dedup_id_at_once_make_one_task(served, ann):
    answers = await asyncio.gather(*(ann.post("/task", **form(schedule="0 3 * * *")) for _ in range(8)))

    assert sorted(answer.status_code for answer in answers) == [200] * 7 + [201]
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert len((await ann.get("/tasks")).json()["items"]) == 1


async def test_a_repeated_post_finds_the_task_although_its_time_has_passed(ann):
    at = process_now() + timedelta(seconds=1)
    first = await ann.post("/task", **form(timestamp=at.isoformat()))
    await until(ann, first.json()["id"], "waiting_for_resource")

    again = await ann.post("/task", **form(timestamp=at.isoformat()))

    assert (again.status_code, again.json()["id"], again.json()["ignored"]) == (200, first.json()["id"], [])


async def test_a_delay_and_a_timestamp_say_when(ann):
    soon = (await ann.post("/task", **form("a", delay="3600"))).json()
    at = process_now().replace(microsecond=0) + timedelta(days=2)
    later = (await ann.post("/task", **form("b", timestamp=at.isoformat()))).json()
    unix = (await ann.post("/task", **form("c", timestamp=str(int(at.timestamp()))))).json()

    assert (soon["status"], later["status"]) == ("created", "created")
    assert datetime.fromisoformat(later["timestamp"]) == datetime.fromisoformat(unix["timestamp"]) == at
    assert later["next_at"] == later["timestamp"]
    assert timedelta(minutes=59) < datetime.fromisoformat(soon["timestamp"]) - process_now() <= timedelta(hours=1)


async def test_what_waits_is_replaced_by_a_new_payload_and_priority(ann):
    task_id = (await ann.post("/task", **form())).json()["id"]
    old = (await until(ann, task_id, "waiting_for_resource"))["history"][0]

    changed = await ann.put("/task", **form("", id=task_id, priority="9", program=FAILS))

    assert changed.status_code == 200, changed.text
    new, was = changed.json()["history"]
    assert (was["run_id"], was["outcome"], new["outcome"]) == (old["run_id"], "cancelled", "waiting_for_resource")
    assert changed.json()["payload"]["digest"] != ""
    assert changed.json()["priority"] == 9


async def test_what_runs_ends_under_the_old_definition_and_the_next_runs_by_the_new(ann, fleet, tmp_path):
    gate = tmp_path / "gate"
    program = f"#!/bin/sh\nwhile [ ! -e {gate} ]; do sleep 0.1; done\n".encode()
    task_id = (await ann.post("/task", **form(program=program))).json()["id"]
    await until(ann, task_id, "running")

    changed = await ann.put("/task", params={"id": task_id}, **form("", program=FAILS, delay="1"))
    assert [run["outcome"] for run in changed.json()["history"]] == ["running"]
    gate.touch()

    task = await until(ann, task_id, "failed")
    assert [run["outcome"] for run in task["history"]] == ["failed", "success"]


async def test_a_new_schedule_decides_from_now_on_and_what_waited_is_cancelled(ann):
    task_id = (await ann.post("/task", **form())).json()["id"]
    await until(ann, task_id, "waiting_for_resource")

    changed = (await ann.put("/task", **form(schedule="0 3 1 1 *", program=None))).json()

    assert (changed["id"], changed["schedule"], changed["timestamp"]) == (task_id, "0 3 1 1 *", None)
    assert [run["outcome"] for run in changed["history"]] == ["cancelled"]
    assert (changed["status"], changed["next_at"][5:]) == ("created", "01-01T03:00:00Z")


async def test_one_that_has_run_runs_again_only_by_a_new_time(ann, fleet):
    task_id = (await ann.post("/task", **form())).json()["id"]
    await until(ann, task_id, "success")

    changed = (await ann.put("/task", **form("", id=task_id, priority="1", program=None))).json()
    assert (changed["status"], changed["next_at"], len(changed["history"])) == ("success", None, 1)
    again = (await ann.put("/task", **form("", id=task_id, delay="0", program=None))).json()
    assert again["next_at"] is not None
    deadline = time.monotonic() + PATIENCE
    while len((await until(ann, task_id, "success"))["history"]) < 2:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)


async def test_disabled_it_makes_no_runs_and_enabled_it_goes_on(ann):
    task_id = (await ann.post("/task", **form(schedule="* * * * *"))).json()["id"]
    once = (await ann.post("/task", **form("once"))).json()["id"]
    await until(ann, once, "waiting_for_resource")

    for each in (task_id, once):
        disabled = await ann.put("/task/status", json={"id": each, "status": "disable"})
        assert (disabled.status_code, disabled.json()["enabled"], disabled.json()["next_at"]) == (200, False, None)
    again = await ann.put("/task/status", params={"id": once}, json={"status": "disable"})
    assert (again.status_code, again.json()["status"]) == (200, "created")
    assert [run["outcome"] for run in (await ann.get("/task", params={"id": once})).json()["history"]] == ["cancelled"]
    enabled = await ann.put("/task/status", json={"id": task_id, "status": "enable"})
    assert (enabled.json()["enabled"], enabled.json()["next_at"] is None) == (True, False)


async def test_deleted_it_is_gone_and_its_history_can_be_read(ann):
    task_id = (await ann.post("/task", **form())).json()["id"]
    await until(ann, task_id, "waiting_for_resource")

    assert (await ann.delete("/task", params={"id": task_id})).status_code == 204
    gone = (await ann.get("/task", params={"id": task_id})).json()

    assert gone["deleted_at"] is not None
    assert [run["outcome"] for run in gone["history"]] == ["cancelled"]
    assert (await ann.get("/tasks")).json()["items"] == []
    for answer in (
        await ann.delete("/task", params={"id": task_id}),
        await ann.put("/task", **form("", id=task_id, priority="1", program=None)),
        await ann.put("/task/status", json={"id": task_id, "status": "enable"}),
    ):
        assert (answer.status_code, answer.json()["code"]) == (404, "task_service.unknown")
    anew = await ann.post("/task", **form())
    assert (anew.status_code, anew.json()["id"] == task_id) == (201, False)


async def test_lists_and_histories_have_pages(ann):
    made = [(await ann.post("/task", **form(f"t{number}", delay="60"))).json()["id"] for number in range(5)]

    seen, path = [], "/tasks?limit=2"
    while path:
        page = (await ann.get(path)).json()
        seen += [task["id"] for task in page["items"]]
        path = page["next"]

    assert seen == made
    assert (await ann.get("/task", params={"id": made[0], "limit": 1})).json()["next"] is None


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"dedup_id": ""}, "/dedup_id"),
        ({"dedup_id": "a\nb"}, "/dedup_id"),
        ({"dedup_id": "x" * 201}, "/dedup_id"),
        ({"program": None}, "/payload"),
        ({"schedule": "every day"}, "/schedule"),
        ({"schedule": "0 0 30 2 *"}, "/schedule"),
        ({"schedule": "0 0 * * *", "delay": "5"}, "/schedule"),
        ({"delay": "5", "timestamp": "2100-01-01T00:00:00Z"}, "/timestamp"),
        ({"delay": "-1"}, "/delay"),
        ({"delay": "PT1M"}, "/delay"),
        ({"delay": "9" * 12}, "/delay"),
        ({"timestamp": "tomorrow"}, "/timestamp"),
        ({"timestamp": "2026-01-01T00:00:00"}, "/timestamp"),
        ({"timestamp": "2020-01-01T00:00:00Z"}, "/timestamp"),
        ({"timestamp": "9999-12-31T23:59:59Z"}, "/timestamp"),
        ({"priority": "10"}, "/priority"),
        ({"priority": "high"}, "/priority"),
        ({"colour": "red"}, "/colour"),
        ({"id": "x"}, "/id"),
    ],
)
async def test_what_does_not_fit_is_refused_where_it_stands_and_leaves_nothing(served, ann, fields, pointer):
    answer = await ann.post("/task", **form(**({"dedup_id": "x"} | fields)))

    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert answer.json()["errors"][0]["pointer"] == pointer
    assert (await ann.get("/tasks")).json()["items"] == []
    async with served.database.system() as conn:
        kept = await (await conn.execute("select 1 from everwhen.payload_objects where state = 'kept'")).fetchall()
    assert kept == []


async def test_another_tenants_task_is_like_one_that_is_not_there(served, ann, database):
    task_id = (await ann.post("/task", **form(delay="60"))).json()["id"]
    nobodys = "01a22915-06ff-70da-a75e-79f816daceb5"
    headers = {"Request-Id": "same"}
    other = await make_tenant(database, name="stranger")
    async with served.client("ann", tenant=other) as stranger:
        for method, path, more in (
            ("GET", "/task", {}),
            ("DELETE", "/task", {}),
            ("PUT", "/task", form("", priority="1", program=None)),
            ("PUT", "/task/status", {"json": {"status": "disable"}}),
        ):
            theirs, none = [
                await stranger.request(method, path, params={"id": each}, headers=headers, **more)
                for each in (task_id, nobodys)
            ]
            assert (theirs.status_code, theirs.content) == (404, none.content)
        assert (await stranger.get("/tasks", params={"all": True})).json()["items"] == []
        assert (await stranger.post("/task", **form(delay="60"))).status_code == 201  # the same dedup_id, of its own


@pytest.mark.parametrize(("role", "allowed"), [("viewer", "r"), ("operator", "ro"), ("editor", "roe"), ("worker", "")])
async def test_a_role_may_do_what_it_may_do_elsewhere(served, ann, role, allowed):
    task_id = (await ann.post("/task", **form(delay="60"))).json()["id"]
    async with served.client(role, role=role) as client:
        reads = [await client.get("/task", params={"id": task_id}), await client.get("/tasks")]
        operates = [await client.put("/task/status", json={"id": task_id, "status": "disable"})]
        edits = [
            await client.post("/task", **form("other", delay="60")),
            await client.put("/task", **form("", id=task_id, priority="1", program=None)),
            await client.delete("/task", params={"id": task_id}),
        ]

    for kind, answers in (("r", reads), ("o", operates), ("e", edits)):
        assert {answer.status_code == 403 for answer in answers} == {kind not in allowed}, kind


async def test_a_payload_goes_when_its_task_is_gone(served, ann):
    task_id = (await ann.post("/task", **form(delay="3600"))).json()["id"]
    await ann.delete("/task", params={"id": task_id})

    deadline = time.monotonic() + PATIENCE
    while True:
        async with served.database.system() as conn:
            left = await (await conn.execute("select 1 from everwhen.payloads")).fetchall()
        if not left:
            return
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)
