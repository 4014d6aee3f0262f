"""Changes by a filter: planned, carried out as each alone would be, and told; what no longer fits is skipped."""

import asyncio
from contextlib import suppress
from datetime import timedelta

import pytest

from everwhen import failpoints
from everwhen.operations.operator import Operator
from tests.factories import make_schedule, make_task, make_tenant
from tests.operations.scene import drain, let_be_due
from tests.people import app_on, client_of, token_of

CRON = {"kind": "cron", "expr": "30 2 * * *"}
NODES = [{"id": "a", "task": "report"}]


@pytest.fixture
async def client(database, line):
    async with client_of(app_on(database), token_of("admin", tenant_id=line.tenant.id)) as opened:
        opened.base_url = f"http://everwhen.test/v1/tenants/{line.tenant.name}/"
        yield opened


@pytest.fixture
def begin(client):
    """Plan, and carry the plan out; return the operation."""

    async def begun(kind, where="", **more):
        body = {"kind": kind, "filter": where, **more}
        plan = await client.post("operations/plan", json=body)
        assert plan.status_code == 200, plan.text
        made = await client.post(
            "operations", json={**body, "plan_token": plan.json()["plan_token"], "reason": "tidied up"}
        )
        assert made.status_code == 202, made.text
        return made.json()

    return begun


@pytest.fixture
def finish(client, database, operator):
    """Let an operation come to its end; return it, and why each of its items was skipped, by name."""

    async def finished(made):
        await let_be_due(database)
        await drain(operator)
        done = (await client.get(f"operations/{made['id']}")).json()
        items = (await client.get(f"operations/{made['id']}/items", params={"limit": 200})).json()["items"]
        return done, {item["name"]: item["refusal"] or item["reason_code"] for item in items}

    return finished


async def make_schedules(database, line, *names, **more):
    for name in names:
        await make_schedule(database, line.tenant, name=name, **more)


async def said(client, kind, name, field):
    return (await client.get(f"{kind}/{name}")).json()[field]


async def test_schedules_are_paused_and_resumed_by_a_filter_and_each_change_is_a_persons(  # one story
    *, client, database, line, begin, finish
):
    await make_schedules(database, line, "a", "b", "c", tags=("billing",))
    await make_schedules(database, line, "other")
    await client.post("schedules/b/pause", json={"reason": "by hand"})
    body = {"kind": "pause_schedules", "filter": "tag:billing", "until": "2036-01-01T00:00:00Z"}

    plan = (await client.post("operations/plan", json=body)).json()

    assert (plan["count"], plan["exact"], plan["filter"]) == (2, True, "tag:billing state:active")
    assert [each["name"] for each in plan["sample"]] == ["a", "c"]
    assert plan["sentences"] == ["2 schedules would be paused until 2036-01-01T00:00:00+00:00."]
    done, skipped = await finish(await begin("pause_schedules", "tag:billing", until="2036-01-01T00:00:00Z"))
    assert (done["state"], skipped) == ("succeeded", {"a": None, "c": None})
    assert done["counts"] == {
        "total": 2, "done": 2, "skipped": 0, "left": 0, "succeeded": 2, "dead": 0, "ended_otherwise": 0, "under_way": 0,
    }  # fmt: skip
    found = (await client.get("schedules/a")).json()
    assert (found["state"], found["state_reason"], found["paused_until"][:4]) == ("paused", "tidied up", "2036")
    assert await said(client, "schedules", "other", "state") == "active"
    revision = (await client.get("schedules/a/revisions")).json()["items"][-1]
    assert (revision["action"], revision["changed_by"], revision["reason"]) == ("paused", "tester", "tidied up")

    (told,) = (await client.get("audit", params={"filter": "resource:schedules/a"})).json()["items"]
    assert (told["operation"], told["actor"], told["credential"]) == ("pause_schedule", "tester", "operation")
    assert told["detail"] == {"operation": done["id"]}
    assert (told["before"]["state"], told["after"]["state"], told["reason"]) == ("active", "paused", "tidied up")
    (ended,) = (await client.get("audit", params={"filter": "operation:end_operation"})).json()["items"]
    assert (ended["actor"], ended["resource"]) == ("everwhen", f"operations/{done['id']}")
    assert {key: ended["after"][key] for key in ("state", "total", "done", "skipped")} == {
        "state": "succeeded", "total": 2, "done": 2, "skipped": 0,
    }  # fmt: skip

    done, skipped = await finish(await begin("resume_schedules", "tag:billing"))
    assert skipped == dict.fromkeys(("a", "b", "c"))
    assert {await said(client, "schedules", name, "state") for name in "abc"} == {"active"}


@pytest.mark.parametrize("kind", ["schedules", "tasks", "workflows"])
async def test_tags_are_given_and_taken_by_a_filter(*, client, line, begin, finish, kind):
    for name, tags in (("a", ["old", "x"]), ("b", ["old"]), ("full", ["old", *(f"t{n}" for n in range(19))])):
        body = {
            "schedules": {"task": "report", "trigger": CRON, "tags": tags},
            "tasks": {"tags": tags},
            "workflows": {"definition": {"nodes": NODES, "tags": tags}},
        }[kind]
        assert (await client.post(kind, json={"name": name, **body})).status_code == 201

    _, skipped = await finish(await begin(f"tag_{kind}", "tag:old", tags=["x", "y"]))
    assert skipped == {"a": None, "b": None, "full": "tags.too_many"}
    assert await said(client, kind, "a", "tags") == ["old", "x", "y"]
    listed = (await client.get(kind, params={"filter": "tag:y"})).json()["items"]
    assert [each["name"] for each in listed] == ["a", "b"]

    done, skipped = await finish(await begin(f"untag_{kind}", "tag:old", tags=["y", "old", "nobodys"]))
    assert skipped == dict.fromkeys(("a", "b", "full"))
    assert done["tags"] == ["nobodys", "old", "y"]
    assert await said(client, kind, "a", "tags") == ["x"]
    _, skipped = await finish(await begin(f"untag_{kind}", "tag:x", tags=["elsewhere"]))
    assert skipped == dict.fromkeys(("a", "b"), "operation.done_already")
    number = "version" if kind == "workflows" else "revision"
    assert await said(client, kind, "a", number) == 3  # what changes nothing makes none


async def test_what_no_longer_fits_is_skipped_with_its_reason_and_what_is_new_is_not_touched(  # one story
    *, client, database, line, begin, finish
):
    await make_schedules(database, line, "deleted", "fine", "paused", "remade", "retagged", tags=("old",))
    made = await begin("pause_schedules", "tag:old")
    await make_schedules(database, line, "new", tags=("old",))
    for name in ("deleted", "remade"):
        await client.delete(f"schedules/{name}")
    await make_schedules(database, line, "remade", tags=("old",))
    await client.post("schedules/paused/pause", json={"reason": "by hand"})
    await client.patch("schedules/retagged", json={"tags": []})
    await client.patch("schedules/fine", json={"priority": 9})

    done, skipped = await finish(made)

    assert skipped == {
        "deleted": "operation.item_gone",
        "fine": None,
        "paused": "operation.done_already",
        "remade": "operation.item_gone",
        "retagged": "operation.item_changed",
    }
    assert (done["state"], done["counts"]["done"], done["counts"]["skipped"]) == ("succeeded", 1, 4)
    states = {each["name"]: each["state"] for each in (await client.get("schedules")).json()["items"]}
    assert states == {"fine": "paused", "new": "active", "paused": "paused", "remade": "active", "retagged": "active"}
    listed = await client.get(f"operations/{done['id']}/items", params={"filter": "state:skipped", "limit": 2})
    following = await client.get(f"http://everwhen.test{listed.json()['next']}")
    assert [each["name"] for each in (*listed.json()["items"], *following.json()["items"])] == [
        "deleted", "paused", "remade", "retagged",
    ]  # fmt: skip


async def test_what_was_seen_is_what_is_done_or_the_plan_is_refused(client, database, line):
    await make_schedules(database, line, "a", "b", tags=("old",))
    body = {"kind": "delete_schedules", "filter": "tag:old"}
    plan = (await client.post("operations/plan", json=body)).json()
    carry = {**body, "plan_token": plan["plan_token"], "reason": "so"}

    await make_schedules(database, line, "new", tags=("old",))
    tried = await client.post("operations", json=carry, params={"dry_run": "true"})
    assert (tried.status_code, tried.json()["counts"]["total"]) == (202, 2)
    other = await client.post("operations", json={**carry, "filter": "tag:old state:active"})
    await client.patch("schedules/b", json={"tags": []})
    changed = await client.post("operations", json=carry)
    for answer in (other, changed):
        assert (answer.status_code, answer.json()["code"]) == (409, "operation.plan_changed")
    tagged = {"kind": "tag_schedules", "filter": "tag:old", "tags": ["x"]}
    plan = (await client.post("operations/plan", json=tagged)).json()
    other = await client.post(
        "operations", json={**tagged, "tags": ["y"], "plan_token": plan["plan_token"], "reason": "so"}
    )
    assert (other.status_code, other.json()["code"]) == (409, "operation.plan_changed")


async def test_schedules_are_deleted_by_a_filter_and_their_runs_are_withdrawn(*, client, database, line, begin, finish):
    await make_schedules(database, line, "a", "b", tags=("old",))
    await make_schedules(database, line, "kept")

    done, skipped = await finish(await begin("delete_schedules", "tag:old", rate_per_second=1_000))

    assert (done["state"], skipped) == ("succeeded", {"a": None, "b": None})
    assert [each["name"] for each in (await client.get("schedules")).json()["items"]] == ["kept"]
    told = (await client.get("audit", params={"filter": "operation:delete_schedule"})).json()["items"]
    assert [(each["resource"], each["after"]) for each in told] == [("schedules/b", None), ("schedules/a", None)]


WRONG = [
    ({"kind": "delete_schedules"}, "operation.filter_required", "/filter"),
    ({"kind": "delete_schedules", "filter": "  "}, "operation.filter_required", "/filter"),
    ({"kind": "pause_schedules", "filter": "state:paused"}, "filter.unserved", "/filter"),
    ({"kind": "resume_schedules", "filter": "state:active"}, "filter.unserved", "/filter"),
    ({"kind": "pause_schedules", "filter": "since:3d"}, "filter.field", "/filter"),
    ({"kind": "pause_schedules", "until": "2020-01-01T00:00:00Z"}, "pause.until_past", "/until"),
    ({"kind": "resume_schedules", "until": "2036-01-01T00:00:00Z"}, "operation.misfit", "/until"),
    ({"kind": "tag_schedules"}, "operation.misfit", "/tags"),
    ({"kind": "pause_schedules", "tags": ["x"]}, "operation.misfit", "/tags"),
    ({"kind": "redrive", "tags": ["x"]}, "operation.misfit", "/tags"),
    ({"kind": "tag_tasks", "tags": ["a b"]}, "field.invalid", "/tags/0"),
    ({"kind": "pause_schedules", "canary": 1}, "operation.misfit", "/kind"),
    ({"kind": "delete_tasks", "filter": "tag:x"}, "field.invalid", "/kind"),
]


async def test_what_does_not_go_together_is_refused_where_it_is_wrong(client):
    for body, code, pointer in WRONG:
        answer = await client.post("operations/plan", json=body)

        assert answer.status_code == 422, body
        assert [(each["code"], each["pointer"]) for each in answer.json()["errors"]] == [(code, pointer)], body


async def test_an_operator_pauses_and_resumes_and_an_editor_changes(database, line):
    base = f"/v1/tenants/{line.tenant.name}/operations"
    for role, edits in (("operator", False), ("editor", True)):
        async with client_of(app_on(database), token_of(role, tenant_id=line.tenant.id)) as opened:
            for kind in ("pause_schedules", "resume_schedules"):
                assert (await opened.post(f"{base}/plan", json={"kind": kind})).status_code == 200
            for kind, more in (
                ("tag_schedules", {"tags": ["x"]}), ("untag_tasks", {"tags": ["x"]}),
                ("tag_workflows", {"tags": ["x"]}), ("delete_schedules", {"filter": "tag:x"}),
            ):  # fmt: skip
                body = {"kind": kind, **more}
                planned = await opened.post(f"{base}/plan", json=body)
                made = await opened.post(base, json={**body, "plan_token": "pln_x", "reason": "so"})
                assert (planned.status_code, made.status_code) == ((200, 422) if edits else (403, 403)), kind


async def test_an_abort_leaves_what_is_left_and_a_foreign_tenant_sees_and_does_nothing(
    *, client, database, line, begin, operator
):
    await make_schedules(database, line, "a", "b", "c", tags=("old",))
    made = await begin("delete_schedules", "tag:old", order="newest")
    for _ in range(2):  # one step begins, the next one deletes one
        await operator.tick(await line.now() + timedelta(hours=1))
    aborted = (await client.post(f"operations/{made['id']}/abort", json={"reason": "no"})).json()
    await let_be_due(database)
    await drain(operator)

    assert (aborted["state"], aborted["counts"]["done"], aborted["counts"]["left"]) == ("aborted", 1, 2)
    assert [each["name"] for each in (await client.get("schedules")).json()["items"]] == ["a", "b"]
    other = await make_tenant(database)
    async with client_of(app_on(database), token_of("admin", tenant_id=other.id)) as stranger:
        path = f"/v1/tenants/{other.name}/operations/{made['id']}"
        assert (await stranger.get(f"{path}/items")).status_code == 404
        planned = await stranger.post(
            f"/v1/tenants/{other.name}/operations/plan", json={"kind": "delete_schedules", "filter": "tag:old"}
        )
        assert planned.json()["count"] == 0


async def test_a_crash_in_the_middle_leaves_a_step_undone_and_the_next_one_does_it(client, database, line, begin):
    for name in "abcdef":
        await make_task(database, line.tenant, name=name, tags=("old",))
    made = await begin("tag_tasks", "tag:old", tags=["new"])
    small = Operator(database=database, batch=2)
    for _ in range(20):
        with failpoints.armed("operator.before_commit:error:1"), suppress(failpoints.FailpointError):
            await small.tick(await line.now() + timedelta(hours=1))
        await small.tick(await line.now() + timedelta(hours=1))

    done = (await client.get(f"operations/{made['id']}")).json()
    assert (done["state"], done["counts"]["done"]) == ("succeeded", 6)
    told = (await client.get("audit", params={"filter": "operation:update_task"})).json()["items"]
    assert sorted(each["resource"] for each in told) == [f"tasks/{name}" for name in "abcdef"]
    assert {await said(client, "tasks", name, "revision") for name in "abcdef"} == {2}


async def test_two_operators_and_people_change_the_same_things_and_none_waits_for_ever(
    *, client, database, line, begin, finish
):
    names = [f"s{number:02}" for number in range(16)]
    await make_schedules(database, line, *names, tags=("old",))
    made = [
        await begin("tag_schedules", "tag:old", tags=["new"]),
        await begin("untag_schedules", "", tags=["old"], order="newest"),
        await begin("pause_schedules"),
    ]

    async def person(name):
        answer = await client.patch(f"schedules/{name}", json={"priority": 3})
        assert answer.status_code == 200, answer.text

    await asyncio.gather(
        *(drain(Operator(database=database, batch=5, name=f"operator-{number}")) for number in range(3)),
        *map(person, names),
    )

    for each in made:
        done, _ = await finish(each)
        assert (done["state"], done["counts"]["left"]) == ("succeeded", 0)
    for name in names:
        found = (await client.get(f"schedules/{name}")).json()
        assert (found["state"], found["priority"], "old" in found["tags"]) == ("paused", 3, False)
