"""Dead runs by what killed them: counted, paged, dismissed, restored; over the API, both directions of a redrive."""

from datetime import timedelta

import pytest

from everwhen.dead_letters import service
from everwhen.errors import Conflict, NotFound
from tests.factories import make_task, make_tenant
from tests.operations.scene import make_dead
from tests.people import app_on, client_of, token_of


@pytest.fixture
async def client(database, line):
    async with client_of(app_on(database), token_of("operator", "payloads", tenant_id=line.tenant.id)) as opened:
        yield opened


def path(line, *parts):
    return "/".join([f"/v1/tenants/{line.tenant.name}", *map(str, parts)])


async def test_groups_say_how_many_since_when_of_which_tasks_and_show_an_error(line, database):
    await make_task(database, line.tenant, name="other")
    await make_dead(database, line.tenant, 3, fingerprints=["b"], ago=timedelta(hours=3))
    latest = await make_dead(database, line.tenant, 2, fingerprints=["b"], task="other", ago=timedelta(hours=1))
    await make_dead(database, line.tenant, 4)

    nameless, named = (await service.list_groups(database, tenant_id=line.tenant.id, limit=10)).rows

    assert (nameless.fingerprint, nameless.letters, named.fingerprint, named.letters) == ("", 4, "b", 5)
    assert named.tasks == ["other", "report"]
    assert named.last_at - named.first_at >= timedelta(hours=2)
    assert named.latest_run_id == latest[-1]
    assert named.error == '{"type": "Broken", "message": "b"}'


async def test_groups_come_in_pages_and_those_without_open_letters_are_passed_over(line, database, client):
    await make_dead(database, line.tenant, 60, fingerprints=[None, *(f"f{n:02}" for n in range(29))])
    await service.dismiss_group(database, tenant_id=line.tenant.id, fingerprint="f03", by="tester", reason="seen to")

    names, following = [], path(line, "dead-letters?limit=7")
    while following:
        page = (await client.get(following)).json()
        names += [group["fingerprint"] for group in page["items"]]
        following = page["next"]

    assert names == ["none", *(f"f{n:02}" for n in range(29) if n != 3)]
    dismissed = (await client.get(path(line, "dead-letters?letter=dismissed"))).json()["items"]
    assert [(group["fingerprint"], group["letters"]) for group in dismissed] == [("f03", 2)]


async def test_a_count_is_bounded_and_says_so(line, database, client, monkeypatch):
    monkeypatch.setattr(service, "MOST_COUNTED", 5)
    await make_dead(database, line.tenant, 8, fingerprints=["a"])

    [group] = (await client.get(path(line, "dead-letters"))).json()["items"]

    assert (group["letters"], group["exact"]) == (5, False)


async def test_the_runs_of_a_group_come_in_pages(line, database, client):
    dead = await make_dead(database, line.tenant, 5)
    await make_dead(database, line.tenant, 2, fingerprints=["a"])

    first = (await client.get(path(line, "dead-letters/none/runs?limit=3"))).json()
    rest = (await client.get(first["next"])).json()

    assert [run["id"] for run in (*first["items"], *rest["items"])] == [str(run) for run in reversed(dead)]
    assert rest["next"] is None
    assert {run["letter"] for run in first["items"]} == {"open"}


async def test_a_redrive_is_told_in_both_directions(line, database, client):
    [dead] = await make_dead(database, line.tenant, 1, fingerprints=["a"], input={"n": 1})

    made = await client.post(path(line, "runs", dead, "redrive"), json={"reason": "mended", "input": {"n": 2}})
    old = (await client.get(path(line, "runs", dead))).json()
    again = await client.post(path(line, "runs", dead, "redrive"), json={})

    new = made.json()
    assert made.status_code == 201
    assert made.headers["Location"] == path(line, "runs", new["id"])
    assert (new["origin_run_id"], new["source"], new["input"], new["ref"]) == (str(dead), "redrive", {"n": 2}, None)
    assert (old["redriven_as"], old["letter"], old["fingerprint"], old["input"]) == (
        new["id"],
        "redriven",
        "a",
        {"n": 1},
    )
    assert (again.status_code, again.json()["code"]) == (409, "dead_letter.redriven")
    found = (await client.get(path(line, "runs"), params={"filter": f"origin:{dead}"})).json()["items"]
    assert [run["id"] for run in found] == [new["id"]]
    events = (await client.get(path(line, "runs", new["id"], "events"))).json()["items"]
    assert events[0]["detail"] == {"by": "tester", "reason": "mended", "origin_run_id": str(dead)}


async def test_a_dismissed_letter_is_opened_again_and_a_redriven_one_is_not_dismissed(line, database, client):
    [dead] = await make_dead(database, line.tenant, 1)
    where = path(line, "runs", dead)

    dismissed = (await client.post(f"{where}/dismiss", json={"reason": "closed"})).json()
    none_left = (await client.get(path(line, "dead-letters"))).json()["items"]
    restored = (await client.post(f"{where}/restore")).json()
    await client.post(f"{where}/redrive")
    late = await client.post(f"{where}/dismiss", json={"reason": "closed"})

    assert (dismissed["letter"], none_left, restored["letter"]) == ("dismissed", [], "open")
    assert (late.status_code, late.json()["code"]) == (409, "dead_letter.redriven")


async def test_only_a_dead_run_is_a_dead_letter(line, database, client):
    [waiting] = await line.fill(1)

    for verb, body in (("redrive", None), ("restore", None), ("dismiss", {"reason": "x"})):
        answer = await client.post(path(line, "runs", waiting, verb), json=body)
        assert (answer.status_code, answer.json()["code"]) == (409, "run.not_dead")


async def test_a_group_is_dismissed_a_bounded_number_at_a_time(line, database, client, monkeypatch):
    monkeypatch.setattr(service, "MOST_DISMISSED", 4)
    await make_dead(database, line.tenant, 10, fingerprints=["a", "b"])

    answers = [(await client.post(path(line, "dead-letters/a/dismiss"), json={"reason": "x"})).json() for _ in range(2)]

    assert answers == [{"dismissed": 4, "more": True}, {"dismissed": 1, "more": False}]


async def test_another_tenants_dead_runs_are_not_there(line, database):
    other = await make_tenant(database)
    await make_task(database, other)
    [dead] = await make_dead(database, other, 1)

    assert (await service.list_groups(database, tenant_id=line.tenant.id, limit=10)).rows == []
    with pytest.raises(NotFound):
        await service.dismiss_run(database, tenant_id=line.tenant.id, ref=str(dead), by="x", reason="x")


async def test_a_letter_of_a_run_that_is_not_dead_is_never_written(line, database):
    [waiting] = await line.fill(1)
    with pytest.raises(Conflict):
        await service.dismiss_run(database, tenant_id=line.tenant.id, ref=str(waiting), by="x", reason="x")

    assert await line.rows("select count(*) from everwhen.dead_letters") == [(0,)]
