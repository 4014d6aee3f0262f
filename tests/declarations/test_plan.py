"""What documents come to: told whole, kept nothing of, refused as the real change would be, and within bounds."""

import asyncio

import pytest

from everwhen.declarations import comparing, trying
from everwhen.declarations.model import Kind
from tests.factories import make_task, make_tenant
from tests.people import app_on, client_of, token_of

BASE = "/v1/tenants/acme"
PLAN = f"{BASE}/declarations/plan"
CRON = {"kind": "cron", "expr": "30 2 * * *"}
OPEN = dict.fromkeys(("tue", "wed", "thu", "fri", "sat", "sun"), "open")


def document(kind, name, **spec):
    return {"kind": kind, "name": name, "spec": spec}


def schedule(name, **more):
    return document("Schedule", name, **({"task": "report", "trigger": CRON} | more))


def graph(*nodes):
    return {"definition": {"nodes": [{"id": node.get("id", "a"), **node} for node in nodes]}}


@pytest.fixture
async def tenant(database):
    made = await make_tenant(database, name="acme")
    await make_task(database, made)
    return made


@pytest.fixture
async def client(database, tenant):
    async with client_of(app_on(database), token_of("admin", tenant_id=tenant.id)) as opened:
        yield opened


@pytest.fixture
def plan(client):
    async def ask(*documents, status=200, **more):
        answer = await client.post(PLAN, json={"documents": list(documents), **more})
        assert answer.status_code == status, answer.text
        return answer.json() if status != 200 else {item["name"]: item for item in answer.json()["items"]}

    return ask


async def counts(client):
    """How many things there are, by kind."""
    pages = [(await client.get(f"{BASE}/{kind}")).json() for kind in ("calendars", "tasks", "workflows", "schedules")]
    return [len(page["items"]) for page in pages]


async def test_a_directory_of_new_things_is_planned_in_the_order_in_which_they_need_each_other(client, plan):
    found = await plan(
        schedule("s", task=None, workflow="outer", calendars={"open": ["de"]}),
        document("Workflow", "outer", **graph({"workflow": "inner"})),
        document("Workflow", "inner", **graph({"task": "load"})),
        document("Task", "load", queue="q"),
        document("Calendar", "de", definition={"week": ["mon"]}),
        owner="git",
    )

    assert {item["action"] for item in found.values()} == {"create"}, found
    assert sorted(found, key=lambda name: found[name]["step"]) == ["de", "load", "inner", "outer", "s"]
    assert list(found) == ["de", "load", "inner", "outer", "s"]
    assert found["s"]["fires"]["added"] >= 1
    assert found["s"]["fires"]["next_before"] is None
    assert await counts(client) == [0, 1, 0, 0]


async def test_a_change_tells_its_fields_its_revision_and_its_fires(client, plan):
    await client.post(
        f"{BASE}/schedules", json={"name": "s", "task": "report", "trigger": CRON, "timezone": "Europe/Berlin"}
    )

    found = await plan(schedule("s", trigger={**CRON, "expr": "45 2 * * *"}, timezone="Europe/Berlin", priority=7))

    item = found["s"]
    assert (item["action"], item["revision"]) == ("update", 1)
    assert item["changes"] == [
        {"field": "trigger.expr", "before": "30 2 * * *", "after": "45 2 * * *"},
        {"field": "priority", "before": None, "after": 7},
    ]
    assert (item["fires"]["moved"], item["fires"]["added"], item["fires"]["removed"]) == (7, 0, 0)
    assert [item["fires"][side][11:16] for side in ("next_before", "next_after")] == ["02:30", "02:45"]
    assert len(item["fires"]["moves"]) == 5
    assert (await client.get(f"{BASE}/schedules/s")).json()["revision"] == 1


async def test_what_is_the_same_is_unchanged_however_it_is_written(client, plan):
    await client.post(f"{BASE}/tasks", json={"name": "t", "retry": {"max_attempts": 5}})
    await client.post(f"{BASE}/calendars", json={"name": "de", "definition": {"week": ["tue", "mon"]}})
    await client.post(f"{BASE}/workflows", json={"name": "w", **graph({"task": "t"})})
    await client.post(f"{BASE}/schedules", json={"name": "s", "task": "t", "trigger": CRON, "input": {"a": 1, "b": 2}})

    found = await plan(
        document("Task", "t", queue="default", retry={"factor": 2}),
        document("Calendar", "de", definition={"week": {"mon": "open", "tue": "open"}, "days": []}),
        document("Workflow", "w", definition={"name": "w", "nodes": [{"id": "a", "task": "t", "needs": []}]}),
        schedule("s", task="t", trigger={**CRON, "dialect": "vixie", "seconds": False}, input={"b": 2, "a": 1.0}),
    )

    assert {item["action"] for item in found.values()} == {"unchanged"}, found
    assert all(item["changes"] == [] for item in found.values())


async def test_what_cannot_be_is_refused_with_its_pointer_and_holds_nothing_else_up(client, plan):
    await client.post(f"{BASE}/calendars", json={"name": "used", "definition": {}, "owner": "git"})
    await client.post(
        f"{BASE}/schedules", json={"name": "user", "task": "report", "trigger": CRON, "calendars": {"open": ["used"]}}
    )

    found = await plan(
        document("Task", "typo", quue="q"),
        document("Task", "range", priority=10, retry={"max_attemps": 3}),
        document("Calendar", "bad", definition={"week": ["mo"]}),
        document("Workflow", "loop", **graph({"task": "report", "needs": ["a"]})),
        document("Workflow", "lost", **graph({"task": "nobody"})),
        schedule("cron", trigger={"kind": "cron", "expr": "61 * * * *"}),
        schedule("feb", trigger={"kind": "cron", "expr": "0 0 30 2 *"}),
        schedule("task", task="nobody"),
        schedule("both", workflow="x"),
        schedule("cal", calendars={"open": ["nobody"]}),
        schedule("ok"),
        schedule("ok"),
        owner="git",
        absent=[{"kind": "Calendar", "name": "used"}],
    )  # fmt: skip

    told = {name: (error["code"], error["pointer"]) for name, item in found.items() for error in item["errors"][:1]}
    assert told == {
        "typo": ("field.unknown", "/spec/quue"),
        "range": ("field.invalid", "/spec/priority"),
        "bad": ("calendar.weekday", "/spec/definition/week/0"),
        "loop": ("workflow.self_edge", "/spec/definition/nodes/0/needs/0"),
        "lost": ("task.unknown", "/spec/definition/nodes/0/task"),
        "cron": ("trigger.cron.value", "/spec/trigger/expr"),
        "feb": told["feb"],
        "task": ("task.unknown", "/spec/task"),
        "both": ("field.invalid", ""),
        "cal": ("calendar.unknown", "/spec/calendars"),
        "used": ("calendar.in_use", ""),
        "ok": ("declaration.twice", ""),
    }
    assert found["typo"]["errors"][0]["detail"] == "There is no such field: did you mean queue?"
    assert found["range"]["errors"][1]["detail"].endswith("did you mean max_attempts?")
    assert all(item["action"] == "refused" for name, item in found.items() if name != "user")
    assert await counts(client) == [1, 1, 0, 1]


async def test_a_thing_of_somebody_else_or_of_nobody_is_not_taken_over(client, plan):
    for name, owner in (("hand", None), ("theirs", "other"), ("own", "git")):
        await client.post(f"{BASE}/tasks", json={"name": name, "owner": owner})
    documents = [
        document("Task", name, priority=priority) for name, priority in (("hand", 5), ("theirs", 6), ("own", 5))
    ]

    refused = await plan(*documents, owner="git")
    adopted = await plan(*documents, owner="git", adopt=True)
    unasked = await plan(*documents)

    assert {name: item["action"] for name, item in refused.items()} == {
        "hand": "refused",
        "theirs": "refused",
        "own": "unchanged",
    }
    assert refused["hand"]["errors"] == [
        {"code": "declaration.owned", "pointer": "", "detail": "It was made by hand: adopt it to take it over."}
    ]
    assert refused["theirs"]["errors"][0]["detail"].startswith("It belongs to other")
    assert [change["field"] for change in adopted["hand"]["changes"]] == ["owner"]
    assert [change["field"] for change in adopted["theirs"]["changes"]] == ["priority", "owner"]
    assert {name: item["action"] for name, item in unasked.items()} == {
        "hand": "unchanged",
        "theirs": "update",
        "own": "unchanged",
    }


async def test_what_is_absent_is_deleted_where_it_is_the_owners(client, plan):
    await client.post(f"{BASE}/calendars", json={"name": "de", "definition": {}, "owner": "git"})
    for name, owner in (("mine", "git"), ("theirs", "other"), ("hand", None)):
        body = {"name": name, "task": "report", "trigger": CRON, "owner": owner, "calendars": {"open": ["de"]}}
        await client.post(f"{BASE}/schedules", json=body)
    absent = [{"kind": "Schedule", "name": name} for name in ("mine", "theirs", "hand", "gone")]

    found = await plan(owner="git", absent=absent)

    assert {name: item["action"] for name, item in found.items()} == {
        "mine": "delete", "theirs": "refused", "hand": "refused", "gone": "unchanged",
    }  # fmt: skip
    assert (found["mine"]["fires"]["removed"], found["mine"]["fires"]["next_after"]) == (7, None)
    assert (await plan(absent=absent, status=422))["code"] == "input.invalid"


async def test_a_calendar_may_go_with_its_last_user(client, plan):
    await client.post(f"{BASE}/calendars", json={"name": "de", "definition": {}, "owner": "git"})
    for name in ("stays", "goes"):
        body = {"name": name, "task": "report", "trigger": CRON, "owner": "git", "calendars": {"open": ["de"]}}
        await client.post(f"{BASE}/schedules", json=body)

    found = await plan(
        schedule("stays"),
        owner="git",
        absent=[{"kind": "Calendar", "name": "de"}, {"kind": "Schedule", "name": "goes"}],
    )

    assert {name: item["action"] for name, item in found.items()} == {
        "stays": "update",
        "goes": "delete",
        "de": "delete",
    }
    assert [found[name]["step"] for name in ("stays", "goes", "de")] == sorted(item["step"] for item in found.values())


async def test_everything_of_an_owner_goes_in_the_order_in_which_nobody_needs_it_any_more(client, plan):
    for kind, name, body in (
        ("tasks", "load", {}),
        ("workflows", "part", graph({"task": "load"})),
        ("workflows", "whole", graph({"workflow": "part"})),
        ("schedules", "nightly", {"workflow": "whole", "trigger": CRON}),
    ):
        made = await client.post(f"{BASE}/{kind}", json={"name": name, "owner": "git", **body})
        assert made.status_code == 201, made.text
    everything = [
        {"kind": kind, "name": name}
        for kind, name in (("Task", "load"), ("Workflow", "part"), ("Workflow", "whole"), ("Schedule", "nightly"))
    ]

    found = await plan(owner="git", absent=everything)

    assert {item["action"] for item in found.values()} == {"delete"}
    steps = [found[name]["step"] for name in ("nightly", "whole", "part", "load")]
    assert steps == sorted(set(steps))
    refused = await plan(owner="git", absent=everything[:1])
    assert (refused["load"]["action"], refused["load"]["errors"][0]["code"]) == ("refused", "task.in_use")
    assert "workflow part" in refused["load"]["errors"][0]["detail"]


async def test_a_calendar_tells_what_it_does_to_the_schedules_that_use_it(client, plan):
    await client.post(f"{BASE}/calendars", json={"name": "de", "definition": {}})
    for name in ("a", "b", "own"):
        body = {"name": name, "task": "report", "trigger": CRON, "calendars": {"open": ["de"]}}
        await client.post(f"{BASE}/schedules", json=body)

    found = await plan(
        document("Calendar", "de", definition={"week": ["mon", "tue", "wed", "thu", "fri", "sat"]}),
        schedule("own", calendars={"open": ["de"]}, trigger={**CRON, "expr": "45 2 * * *"}),
    )

    assert (found["de"]["users"], found["de"]["fires"]["removed"], found["de"]["fires"]["unchanged"]) == (2, 2, 12)
    # Of the one that changes itself, both changes are told together.
    assert (found["own"]["fires"]["removed"], found["own"]["fires"]["moved"]) == (1, 6)


async def test_a_plan_of_a_calendar_is_remembered_by_nobody(client, plan):
    await client.post(f"{BASE}/calendars", json={"name": "de", "definition": {}})
    body = {"task": "report", "trigger": CRON, "calendars": {"open": ["de"]}}
    await client.post(f"{BASE}/schedules", json={"name": "s", **body})
    await plan(document("Calendar", "de", definition={"week": []}), schedule("t", calendars={"open": ["de"]}))

    changed = await client.put(
        f"{BASE}/calendars/de", json={"definition": {"week": {"mon": [["00:00", "23:00"]], **OPEN}}}
    )

    assert changed.json()["version"] == 2
    fires = (await client.get(f"{BASE}/schedules/s/preview", params={"count": 2})).json()["items"]
    assert [fire["verdict"] for fire in fires] == ["fires"] * 2


async def test_a_paused_schedule_says_so_and_a_beginning_changes_nothing_later(client, plan):
    await client.post(f"{BASE}/schedules", json={"name": "off", "task": "report", "trigger": CRON, "paused": "why"})
    await client.post(f"{BASE}/schedules", json={"name": "on", "task": "report", "trigger": CRON})

    found = await plan(
        schedule("off", priority=1),
        schedule("on", paused="later", since="2026-01-01T00:00:00Z"),
        schedule("new", paused="x"),
    )

    assert (found["off"]["is_paused"], found["new"]["is_paused"]) == (True, True)
    assert (found["on"]["action"], len(found["on"]["notes"])) == ("unchanged", 1)


async def test_what_a_plan_is_asked_is_bounded(plan):
    refused = await plan(*[schedule(f"s{n}") for n in range(1001)], status=422)
    assert refused["errors"][0]["pointer"] == "/documents"
    for wrong, pointer in (
        ({"kind": "Job", "name": "x", "spec": {}}, "/documents/0/kind"),
        ({"kind": "Task", "name": "a b", "spec": {}}, "/documents/0/name"),
        ({"kind": "Task", "name": "x"}, "/documents/0/spec"),
        ({"kind": "Task", "name": "x", "spec": {}, "labels": 1}, "/documents/0/labels"),
    ):
        assert (await plan(wrong, status=422))["errors"][0]["pointer"] == pointer


async def test_fires_are_looked_at_within_a_budget(plan, monkeypatch):
    monkeypatch.setattr(comparing, "MOST_FIRES", 100)
    often = {"kind": "every", "every": "PT1S"}

    found = await plan(*[schedule(f"s{n}", trigger=often) for n in range(4)], days=366)

    assert {item["fires"]["added"] for item in found.values()} == {25}
    assert len({item["fires"]["until"] for item in found.values()}) == 1


async def test_users_of_calendars_are_looked_at_up_to_a_number(client, plan, monkeypatch):
    monkeypatch.setattr(trying, "MOST_USERS", 2)
    for name in ("a", "b"):
        await client.post(f"{BASE}/calendars", json={"name": name, "definition": {}})
    for name in ("u1", "u2", "u3"):
        body = {"name": name, "task": "report", "trigger": CRON, "calendars": {"open": ["a", "b"]}}
        await client.post(f"{BASE}/schedules", json=body)

    found = await plan(*[document("Calendar", name, definition={"week": []}) for name in ("a", "b")])

    assert [found[name]["users"] for name in ("a", "b")] == [2, 0]


async def test_plans_and_changes_at_once_wait_for_each_other_and_none_fails(client, plan):
    await client.post(f"{BASE}/calendars", json={"name": "de", "definition": {}})
    for n in range(6):
        body = {"name": f"s{n}", "task": "report", "trigger": CRON, "calendars": {"open": ["de"]}}
        await client.post(f"{BASE}/schedules", json=body)

    async def change(n):
        body = {"task": "report", "trigger": {**CRON, "expr": f"{n} 3 * * *"}, "calendars": {"open": ["de"]}}
        return (await client.put(f"{BASE}/schedules/s{n}", json=body)).status_code

    async def ask():
        documents = [schedule(f"s{n}", priority=3, calendars={"open": ["de"]}) for n in reversed(range(6))]
        return (
            await client.post(
                PLAN, json={"documents": [document("Calendar", "de", definition={"week": ["mon"]}), *documents]}
            )
        ).status_code

    assert set(await asyncio.gather(*(change(n) for n in range(6)), ask(), ask())) == {200}


async def test_everything_of_an_owner_is_listed_by_name(client, tenant):
    for number in range(5):
        owner = ("git", None)[number % 2]
        await client.post(f"{BASE}/tasks", json={"name": f"t{number}", "owner": owner})
        await client.post(f"{BASE}/calendars", json={"name": f"c{number}", "definition": {}, "owner": owner})
        await client.post(f"{BASE}/workflows", json={"name": f"w{number}", **graph({"task": "report"}), "owner": owner})
        await client.post(
            f"{BASE}/schedules", json={"name": f"s{number}", "task": "report", "trigger": CRON, "owner": owner}
        )
    await client.delete(f"{BASE}/schedules/s4")

    async def names(**where):
        found, terms = [], " ".join(f"{name}:{value}" for name, value in where.items())
        page = (await client.get(f"{BASE}/declarations", params={"limit": 2, "filter": terms})).json()
        while True:
            found += [item["name"] for item in page["items"]]
            if page["next"] is None:
                return found
            page = (await client.get(page["next"])).json()

    assert await names(kind="Task") == ["report", "t0", "t1", "t2", "t3", "t4"]
    for kind, letter in ((Kind.TASK, "t"), (Kind.CALENDAR, "c"), (Kind.WORKFLOW, "w")):
        assert await names(kind=kind, owner="git") == [f"{letter}{n}" for n in (0, 2, 4)]
    assert await names(kind="Schedule", owner="git") == ["s0", "s2"]
    assert await names(kind="Schedule", owner="nobody") == []
    assert await names(owner="git") == ["c0", "c2", "c4", "t0", "t2", "t4", "w0", "w2", "w4", "s0", "s2"]
    assert len(await names()) == 5 + 6 + 5 + 4


async def test_who_may_not_see_payloads_gets_no_spec(database, tenant, client):
    await client.post(f"{BASE}/tasks", json={"name": "t"})
    async with client_of(app_on(database), token_of("viewer", tenant_id=tenant.id)) as viewer:
        found = (await viewer.get(f"{BASE}/declarations", params={"filter": "kind:Task"})).json()["items"]
        refused = await viewer.post(PLAN, json={"documents": []})

    assert [(item["spec"], item["withheld"]) for item in found] == [(None, True)] * 2
    assert refused.status_code == 403
