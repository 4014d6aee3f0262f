"""Tags over HTTP: kept in order, refused where they are wrong, found by, and of no account to what is planned."""

from datetime import timedelta

import pytest

from everwhen.schedules.planner import plan_due
from everwhen.verify.model import Scope
from everwhen.verify.service import check
from tests.factories import make_tenant
from tests.people import app_on, client_of, token_of

TENANT = "/v1/tenants/acme"
NIGHTLY = {"name": "nightly", "task": "report", "trigger": {"kind": "every", "every": "PT1S"}}
FLOW = {"nodes": [{"id": "a", "task": "report"}]}
ANY = {"If-Match": "*"}
KINDS = ["schedules", "tasks", "workflows"]


@pytest.fixture
async def client(database):
    tenant = await make_tenant(database, name="acme")
    async with client_of(app_on(database), token_of("admin", tenant_id=tenant.id)) as opened:
        await opened.post(f"{TENANT}/tasks", json={"name": "report"})
        yield opened


def body_of(kind: str, name: str, tags: list[str]) -> dict:
    match kind:
        case "schedules":
            return NIGHTLY | {"name": name, "tags": tags}
        case "tasks":
            return {"name": name, "tags": tags}
        case _:
            return {"name": name, "definition": FLOW | {"tags": tags}}


async def make(client, kind: str, name: str, tags: list[str]) -> dict:
    made = await client.post(f"{TENANT}/{kind}", json=body_of(kind, name, tags))
    assert made.status_code == 201, made.text
    return made.json()


async def retag(client, kind: str, name: str, tags: list[str]):
    if kind == "workflows":
        return await client.put(f"{TENANT}/{kind}/{name}", json={"definition": FLOW | {"tags": tags}}, headers=ANY)
    return await client.patch(f"{TENANT}/{kind}/{name}", json={"tags": tags}, headers=ANY)


async def named(client, kind: str, tag: str) -> list[str]:
    found = await client.get(f"{TENANT}/{kind}", params={"filter": f"tag:{tag}"})
    return [item["name"] for item in found.json()["items"]]


async def rows(database, statement: str) -> list:
    async with database.system() as conn:
        return await (await conn.execute(statement)).fetchall()


async def assert_that_both_ways_agree(database) -> None:
    broken = {checked.name for checked in await check(database, Scope(sample=None)) if checked.count}
    assert not broken & {"tags_that_differ", "schedules_that_revisions_do_not_tell"}


@pytest.mark.parametrize("kind", KINDS)
async def test_each_tag_is_kept_once_and_in_order(client, kind):
    made = await make(client, kind, "x", ["team:ops", "billing", "billing"])

    assert made["tags"] == ["billing", "team:ops"]
    assert (await client.get(f"{TENANT}/{kind}/x")).json()["tags"] == ["billing", "team:ops"]
    assert next(each for each in (await client.get(f"{TENANT}/{kind}")).json()["items"] if each["name"] == "x")[
        "tags"
    ] == ["billing", "team:ops"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_list_is_filtered_by_a_tag_page_by_page(client, kind):
    for name in ("d", "a", "c", "b"):
        await make(client, kind, name, ["odd" if name in "ac" else "even", "all"])
    assert await named(client, kind, "odd") == ["a", "c"]
    assert await named(client, kind, "nobody") == []

    first = (await client.get(f"{TENANT}/{kind}", params={"filter": "tag:all", "limit": 3})).json()
    second = (await client.get(first["next"])).json()

    assert [each["name"] for each in (*first["items"], *second["items"])] == ["a", "b", "c", "d"]
    assert second["next"] is None


@pytest.mark.parametrize("kind", KINDS)
async def test_another_tag_replaces_what_was(client, database, kind):
    await make(client, kind, "x", ["old", "kept"])
    changed = await retag(client, kind, "x", ["kept", "new"])

    assert changed.json()["tags"] == ["kept", "new"]
    assert [await named(client, kind, tag) for tag in ("old", "kept", "new")] == [[], ["x"], ["x"]]
    await assert_that_both_ways_agree(database)


async def test_what_has_one_name_but_another_kind_is_another_thing(client):
    for kind, tag in zip(KINDS, ("s", "t", "w"), strict=True):
        await make(client, kind, "same", [tag])

    assert [await named(client, kind, "s") for kind in KINDS] == [["same"], [], []]


@pytest.mark.parametrize("kind", KINDS)
async def test_what_was_deleted_is_found_no_longer_and_its_name_is_free(client, database, kind):
    await make(client, kind, "x", ["old"])
    assert (await client.delete(f"{TENANT}/{kind}/x", headers=ANY)).status_code == 204
    assert await named(client, kind, "old") == []
    await assert_that_both_ways_agree(database)
    await make(client, kind, "x", ["new"])

    assert await named(client, kind, "old") == []
    assert await named(client, kind, "new") == ["x"]
    await assert_that_both_ways_agree(database)


WRONG = [
    (["a b"], "0"),
    (["fine", ""], "1"),
    (["-x"], "0"),
    (["x" * 64], "0"),
    (["ümlaut"], "0"),
    (["a\n"], "0"),
    ([7], "0"),
    ([f"t{number}" for number in range(21)], None),
    ("billing", None),
]


@pytest.mark.parametrize(("tags", "index"), WRONG)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_wrong_tag_is_refused_where_it_is_wrong(client, kind, tags, index):
    answer = await client.post(f"{TENANT}/{kind}", json=body_of(kind, "x", tags))

    root = "/definition/tags" if kind == "workflows" else "/tags"
    assert answer.status_code == 422
    assert [each["pointer"] for each in answer.json()["errors"]] == [root if index is None else f"{root}/{index}"]


async def test_as_many_tags_as_there_may_be_are_taken(client):
    tags = [f"t{number:02}" for number in range(20)]
    assert (await make(client, "tasks", "x", tags))["tags"] == tags


@pytest.mark.parametrize("text", ["state:dead", "tag", "tag:a tag:b", 'tag:"', "tag>=2026-01-01"])
async def test_another_filter_is_refused(client, text):
    answer = await client.get(f"{TENANT}/schedules", params={"filter": text})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "query:filter")


async def test_a_change_of_tags_alone_is_a_revision_that_plans_nothing_anew(client, database):
    await make(client, "schedules", "nightly", ["old"])
    async with database.system() as conn:
        await plan_due(conn, now=conn.now, ahead=timedelta(seconds=30), batch=10)
    state = (
        "select run_id::text, schedule_revision::text, planned_at::text from everwhen.runs union all"
        " select event_id::text, kind, at::text from everwhen.events union all"
        " select decided_until::text, next_at::text, failures::text from everwhen.watermarks order by 1"
    )
    before = await rows(database, state)
    tried = await client.patch(
        f"{TENANT}/schedules/nightly", json={"tags": ["new"]}, params={"dry_run": "true"}, headers=ANY
    )
    changed = await client.patch(
        f"{TENANT}/schedules/nightly", json={"tags": ["new"], "reason": "a new owner"}, headers=ANY
    )

    assert len(before) > 30  # runs were planned ahead
    assert await rows(database, state) == before
    assert (tried.json()["withdrawn"], tried.json()["added"], tried.json()["removed"]) == ([], 0, 0)
    assert changed.json()["revision"] == 2
    last = (await client.get(f"{TENANT}/schedules/nightly/revisions")).json()["items"][-1]
    assert last["changes"] == [{"field": "tags", "before": ["old"], "after": ["new"]}]
    assert (last["tags"], last["reason"]) == (["new"], "a new owner")


async def test_tags_beside_another_change_plan_anew_and_count_as_one_revision(client, database):
    await make(client, "schedules", "nightly", ["old"])
    changed = await client.patch(
        f"{TENANT}/schedules/nightly", json={"tags": ["new"], "priority": 7}, headers={"If-Match": '"rev-1"'}
    )

    assert (changed.json()["tags"], changed.json()["priority"], changed.json()["revision"]) == (["new"], 7, 2)
    assert await named(client, "schedules", "new") == ["nightly"]
    await assert_that_both_ways_agree(database)


async def test_a_change_of_anything_else_keeps_the_tags(client):
    for kind, body in (("schedules", {"priority": 7}), ("tasks", {"priority": 7})):
        await make(client, kind, "x", ["kept"])
        changed = await client.patch(f"{TENANT}/{kind}/x", json=body, headers=ANY)

        assert changed.json()["tags"] == ["kept"]
        assert await named(client, kind, "kept") == ["x"]


async def test_a_stale_change_of_tags_changes_nothing(client):
    await make(client, "schedules", "x", ["old"])
    await retag(client, "schedules", "x", ["newer"])
    stale = await client.patch(f"{TENANT}/schedules/x", json={"tags": ["stale"]}, headers={"If-Match": '"rev-1"'})

    assert stale.status_code == 412
    assert await named(client, "schedules", "stale") == []
    assert await named(client, "schedules", "newer") == ["x"]


async def test_the_tags_of_a_workflow_are_a_version_and_the_same_ones_are_none(client):
    await make(client, "workflows", "etl", ["nightly"])
    same = await retag(client, "workflows", "etl", ["nightly"])
    other = await retag(client, "workflows", "etl", [])

    assert (same.json()["version"], other.json()["version"]) == (1, 2)
    assert other.json()["definition"].get("tags") is None
    assert await named(client, "workflows", "nightly") == []
