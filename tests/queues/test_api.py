# pyright: reportOptionalMemberAccess=false
"""Queues as a tenant defines them, with what stands in them, and a tenant's place at a shared one."""

import asyncio
from datetime import timedelta
from uuid import UUID

import psycopg
import pytest

from everwhen.core.draining import drain_seconds
from everwhen.core.lifecycle import RunState
from everwhen.dispatch.service import Claim, Dispatch
from everwhen.pauses import service as pauses
from everwhen.pauses.service import Wish
from everwhen.postgres.wakeups import Wakeups, line_topic
from everwhen.queues import service
from everwhen.queues.service import Share
from everwhen.runs import service as runs
from everwhen.runs.model import RunRequest
from tests.factories import make_run, make_task, make_tenant
from tests.people import app_on, client_of, token_of

ANY = {"If-Match": "*"}
NEW = {"If-None-Match": "*"}
PATH = "/v1/tenants/acme/queues/mails"
WHOLE = {
    "max_in_flight": 5,
    "rate": {"tokens": 100, "per_seconds": 60.0, "burst": None},
    "ageing_seconds": 60.0,
    "tags": ["billing"],
    "owner": "git",
}


@pytest.fixture
async def tenant(database):
    made = await make_tenant(database, name="acme")
    await make_task(database, made, queue="mails")
    return made


@pytest.fixture
async def app(database):
    return app_on(database)


@pytest.fixture
async def client(app, tenant):
    async with client_of(app, token_of("admin", tenant_id=tenant.id)) as opened:
        del opened.headers["If-Match"]
        yield opened


@pytest.fixture
async def platform(app, tenant):
    async with client_of(app, token_of("platform")) as opened:
        del opened.headers["If-Match"]
        yield opened


async def put(client, body, **headers):
    return await client.put(PATH, json=body, headers=headers or ANY)


async def lane(database, tenant, queue="mails"):
    """What the next claim goes by."""
    async with database.system() as conn:
        found = await conn.execute(
            "select weight, max_in_flight, ageing_seconds from everwhen.lanes where tenant_id = %s and queue = %s",
            (tenant.id, queue),
        )
        return await found.fetchone()


async def request(database, tenant, count=1):
    for _ in range(count):
        await runs.request_run(database, tenant_id=tenant.id, request=RunRequest(task="report"))


async def claim(database, tenant, limit=10):
    asked = Claim(tenant_id=tenant.id, queues=("mails",), tasks=None, worker="w", limit=limit, lease_seconds=60.0)
    return (await Dispatch(database, jitter=lambda: 0.0).claim(asked)).leases


async def test_a_queue_that_a_task_names_is_there_and_as_by_default(client):
    answer = await client.get(PATH)

    assert answer.headers["ETag"] == '"rev-0"'
    found = answer.json()
    assert (found["defined"], found["max_in_flight"], found["rate"], found["delivery"]) == (False, None, None, "pull")
    assert (found["ageing_seconds"], found["weight"], found["updated_at"]) == (3_600, 1, None)
    assert found["line"]["waiting"] == 0
    assert (await client.get("/v1/tenants/acme/queues/other")).json()["code"] == "queue.unknown"


async def test_what_is_said_of_a_queue_holds_for_the_next_claim_until_it_is_deleted(client, database, tenant):
    made = await put(client, WHOLE, **NEW)

    assert (made.status_code, made.headers["ETag"]) == (201, '"rev-1"')
    assert made.json()["rate"] == {"tokens": 100, "per_seconds": 60, "burst": 100}
    assert await lane(database, tenant) == (1, 5, 60)
    await request(database, tenant, 7)
    assert len(await claim(database, tenant)) == 5

    await put(client, WHOLE | {"max_in_flight": 6})
    assert len(await claim(database, tenant)) == 1
    assert (await client.delete(PATH, headers=ANY)).status_code == 204
    assert await lane(database, tenant) == (1, None, 3_600)
    assert len(await claim(database, tenant)) == 1
    assert (await client.delete(PATH, headers=ANY)).json()["code"] == "queue.unknown"
    again = await put(client, {}, **NEW)
    assert (again.headers["ETag"], again.json()["owner"]) == ('"rev-4"', None)  # no older tag means the new one


async def test_a_change_names_the_revision_that_it_means(client):
    await put(client, WHOLE, **NEW)

    twice = await put(client, WHOLE, **NEW)
    stale = await put(client, {}, **{"If-Match": '"rev-7"'})
    same = await put(client, WHOLE, **{"If-Match": '"rev-1"'})
    other = await put(client, {"max_in_flight": 1}, **{"If-Match": '"rev-1"'})
    gone = await client.delete(PATH, headers={"If-Match": '"rev-1"'})

    assert [answer.status_code for answer in (twice, stale, same, other, gone)] == [412, 412, 200, 200, 412]
    assert (same.headers["ETag"], other.headers["ETag"]) == ('"rev-1"', '"rev-2"')
    assert other.json()["owner"] == "git"  # which stays where it is left out


async def test_a_queue_that_no_task_names_yet_is_defined_by_whoever_expects_nothing_of_it(client):
    path = "/v1/tenants/acme/queues/new"

    known = await client.put(path, json={}, headers={"If-Match": '"rev-0"'})
    made = await client.put(path, json={"max_in_flight": 1}, headers=ANY)

    assert (known.status_code, made.status_code) == (404, 200)
    assert (await client.get(path)).json()["max_in_flight"] == 1


async def test_of_two_who_define_one_at_once_one_does(client):
    both = await asyncio.gather(*(put(client, {"max_in_flight": n}, **NEW) for n in (1, 2, 3)))

    assert sorted(answer.status_code for answer in both) == [201, 412, 412]


async def test_one_that_is_only_tried_is_not_there(client, database, tenant):
    tried = await client.put(PATH, json=WHOLE, headers=NEW, params={"dry_run": "true"})

    assert tried.is_success
    assert await lane(database, tenant) == (1, None, 3_600)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"max_in_flight": -1}, "/max_in_flight"),
        ({"rate": {"tokens": 0, "per_seconds": 1}}, "/rate/tokens"),
        ({"rate": {"tokens": 1}}, "/rate/per_seconds"),
        ({"delivery": "pigeon"}, "/delivery"),
        ({"delivery_settings": {"url": "x"}}, "/delivery_settings"),
        ({"ageing_seconds": -1}, "/ageing_seconds"),
        ({"weight": 3}, "/weight"),
    ],
)
async def test_what_cannot_be_is_refused_in_its_place(client, body, pointer):
    answer = await put(client, body, **NEW)

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == pointer


@pytest.mark.parametrize("ageing", [0, None])
async def test_ageing_is_turned_off_by_none_and_by_nothing(client, database, tenant, ageing):
    await put(client, {"ageing_seconds": ageing}, **NEW)

    assert await lane(database, tenant) == (1, None, None)


async def test_a_place_at_a_shared_queue_is_the_platforms_to_give_and_the_lower_limit_holds(
    client, platform, database, tenant
):
    refused = await client.put(f"{PATH}/share", json={"weight": 9}, headers=ANY)
    made = await platform.put(f"{PATH}/share", json={"weight": 4, "max_in_flight": 3}, headers={"If-Match": '"rev-0"'})
    await put(client, {"max_in_flight": 5}, **NEW)
    assert (refused.status_code, made.headers["ETag"]) == (403, '"rev-1"')
    assert await lane(database, tenant) == (4, 3, 3_600)

    stale = await platform.put(f"{PATH}/share", json={}, headers={"If-Match": '"rev-0"'})
    await put(client, {"max_in_flight": 2})
    assert (stale.status_code, await lane(database, tenant)) == (412, (4, 2, 3_600))
    await client.delete(PATH, headers=ANY)
    assert await lane(database, tenant) == (4, 3, 3_600)
    seen = (await client.get(f"{PATH}/share")).json()
    assert (seen["weight"], seen["max_in_flight"], seen["changed_by"]) == (4, 3, "tester")


async def test_a_tenants_role_in_the_database_cannot_give_itself_a_place(database, tenant):
    share = Share(weight=2, max_in_flight=None, by="tester")
    await service.set_share(database, tenant_id=tenant.id, name="mails", share=share)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        async with database.tenant(tenant.id) as conn:
            await conn.execute("update everwhen.queue_shares set weight = 1000")


async def test_a_list_says_what_stands_in_each_queue(client, database, tenant):
    await make_task(database, tenant, name="other", queue="reports")
    await put(client, {"max_in_flight": 4}, **NEW)
    await request(database, tenant, 5)
    await claim(database, tenant, limit=2)
    wish = Wish(by="tester", reason="why")
    await pauses.pause(database, tenant_id=tenant.id, queue="mails", wish=wish)

    items = (await client.get("/v1/tenants/acme/queues")).json()["items"]

    mails, reports = (item["line"] for item in items)
    assert [item["name"] for item in items] == ["mails", "reports"]
    assert (mails["waiting"], mails["in_flight"], mails["limit"], mails["paused"]) == (3, 2, 4, True)
    assert mails["oldest_due_at"] is not None
    assert (reports["waiting"], reports["oldest_due_at"], reports["drain_seconds"]) == (0, None, 0)


async def test_a_queue_says_who_works_for_it_and_what_keeps_its_runs_waiting(client, database, tenant):
    async with database.system() as conn:
        for worker, owner, seen, wish in (
            (1, tenant.id, "0 s", "active"),
            (2, UUID(int=0), "0 s", "active"),  # the platform's
            (3, tenant.id, "1 h", "active"),  # lost
            (4, tenant.id, "0 s", "draining"),
        ):
            await conn.execute(
                "insert into everwhen.workers (tenant_id, worker_id, instance, name, slots, queues, labels, resources,"
                " announced_at, last_seen_at, held, in_use, heard, is_stopping, wish) values (%s, %s, %s, 'w', 5,"
                " '{mails}', '{}', '{}', now(), now() - %s::interval, 1, '{}', 'active', false, %s)",
                (owner, UUID(int=worker), UUID(int=worker), seen, wish),
            )
        for reason, until in (("limit.queue", None), ("priority.behind", conn.now)):
            await conn.execute(
                "insert into everwhen.line_states (tenant_id, queue, task, reason, opened_at, since, until, facts)"
                " values (%s, 'mails', '', %s, now(), now(), %s, %s)",
                (tenant.id, reason, until, '{"queue": "mails", "in_flight": 3, "limit": 3}'),
            )

    line = (await client.get(PATH)).json()["line"]

    assert (line["workers"], line["slots"], line["reasons"]) == (2, 10, ["limit.queue"])
    assert (line["free_slots"], line["held_back"]) == (8, 1)
    (blockage,) = line["waits_for"]
    assert (blockage["reason"], blockage["task"]) == ("limit.queue", None)
    assert blockage["reason_sentence"] == "3 of 3 runs allowed at queue mails were in flight."


async def test_more_than_are_counted_is_told_as_such(client, database, tenant, monkeypatch):
    monkeypatch.setattr(service, "MOST_COUNTED", 2)
    await request(database, tenant, 3)

    line = (await client.get("/v1/tenants/acme/queues")).json()["items"][0]["line"]

    assert (line["waiting"], line["waiting_is_capped"]) == (2, True)


async def test_how_long_it_takes_to_drain_is_told_by_what_is_in_flight_and_how_long_attempts_take(database, tenant):
    await make_run(database, tenant, state=RunState.SUCCEEDED)  # of another queue
    await request(database, tenant, 3)
    leases = await claim(database, tenant, limit=1)
    async with database.tenant(tenant.id) as conn:
        await conn.execute(
            "insert into everwhen.attempts (tenant_id, run_id, attempt, lease_token, worker, claimed_at, finished_at,"
            " outcome) values (%s, %s, 9, 1, 'w', now(), now() + interval '8 s', 'released')",
            (tenant.id, leases[0].run_id),
        )

    line = (await service.get_queue(database, tenant_id=tenant.id, name="mails")).line

    assert (line.waiting, line.in_flight, line.mean_seconds) == (2, 1, 8)
    assert line.drain_seconds == 16


def test_nothing_is_drained_at_once_and_what_nobody_works_off_never():
    assert drain_seconds(waiting=0, in_flight=0, mean_seconds=None) == 0
    assert drain_seconds(waiting=9, in_flight=0, mean_seconds=1.0) is None
    assert drain_seconds(waiting=9, in_flight=3, mean_seconds=None) is None
    assert drain_seconds(waiting=90, in_flight=3, mean_seconds=2.0) == 60


async def test_a_limit_that_is_raised_wakes_whoever_waits(client, tenant, server, work_database):
    wakeups = Wakeups(server.app(work_database))
    listening = asyncio.create_task(wakeups.listen_forever())
    async with asyncio.timeout(10):
        await wakeups.listening.wait()
    with wakeups.subscribe(line_topic(tenant.id, "mails")) as waiter:
        await put(client, {"max_in_flight": 4}, **NEW)
        assert await waiter.wait(10)
    listening.cancel()


async def test_the_queues_of_the_server_itself_are_nobodys(client, database, tenant):
    async with database.tenant(tenant.id) as conn:
        await conn.execute(
            "insert into everwhen.lanes (tenant_id, queue) values (%s, 'everwhen:workflows')", (tenant.id,)
        )

    names = [item["name"] for item in (await client.get("/v1/tenants/acme/queues")).json()["items"]]

    assert names == ["mails"]


async def test_files_declare_queues_and_take_them_away_again(client):
    spec = {"max_in_flight": 3, "ageing_seconds": None}
    plan = {"owner": "git", "documents": [{"kind": "Queue", "name": "mails", "spec": spec}]}
    path = "/v1/tenants/acme/declarations"
    before = (await client.post(f"{path}/plan", json=plan)).json()["items"][0]
    await put(client, spec | {"owner": "git"}, **NEW)
    after = (await client.post(f"{path}/plan", json=plan)).json()["items"][0]
    other = {"kind": "Queue", "name": "mails", "spec": {}}
    changed = (await client.post(f"{path}/plan", json=plan | {"documents": [other]})).json()["items"][0]
    gone = {"owner": "git", "documents": [], "absent": [{"kind": "Queue", "name": "mails"}]}
    deleted = (await client.post(f"{path}/plan", json=gone)).json()["items"][0]
    declared = (await client.get(path)).json()["items"]

    assert [each["action"] for each in (before, after, changed, deleted)] == ["create", "unchanged", "update", "delete"]
    assert {change["field"] for change in changed["changes"]} == {"max_in_flight", "ageing_seconds"}
    assert [each["spec"] for each in declared if each["kind"] == "Queue"] == [spec]


async def test_waiting_since_is_of_what_is_due_only(database, tenant):
    at = None
    async with database.tenant(tenant.id) as conn:
        at = conn.now + timedelta(hours=1)
    await runs.request_run(database, tenant_id=tenant.id, request=RunRequest(task="report", at=at))

    line = (await service.get_queue(database, tenant_id=tenant.id, name="mails")).line

    assert (line.waiting, line.oldest_due_at) == (0, None)
