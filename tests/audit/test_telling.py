# pyright: reportArgumentType=false, reportCallIssue=false, reportGeneralTypeIssues=false, reportOptionalSubscript=false
"""How a request tells of itself: what it changed, by whom, and that it cannot do the one without the other."""

import asyncio
from dataclasses import replace
from ipaddress import ip_network

import psycopg
import pytest

from everwhen.audit import service as audit
from everwhen.audit import store
from everwhen.audit.model import PLATFORM, Actor, Deed
from everwhen.core.lifecycle import RunState
from tests.factories import make_run, make_schedule, make_task, make_tenant
from tests.people import app_on, client_of, token_of


@pytest.fixture
async def tenant(database):
    tenant = await make_tenant(database)
    await make_task(database, tenant)
    return tenant


@pytest.fixture
async def ada(database, tenant):
    async with client_of(app_on(database), token_of("admin", tenant_id=tenant.id, subject="ada")) as client:
        yield client


async def told(database, tenant, text: str = ""):
    """What was told, the newest first."""
    rows, _ = await audit.list_events(database, tenant_id=tenant.id, text=text, limit=100)
    return [audit.parse_record(row.record) for row in rows]


async def test_of_a_change_the_fields_that_differ_are_told_before_and_after(database, tenant, ada):
    await make_schedule(database, tenant, name="nightly")

    path = f"/v1/tenants/{tenant.name}/schedules/nightly"
    headers = {"Request-Id": "mine", "User-Agent": "lynx"}
    answer = await ada.patch(path, json={"priority": 7, "reason": "it is late"}, headers=headers)

    assert answer.status_code == 200
    (event,) = await told(database, tenant)
    assert {name: event[name] for name in ("actor", "operation", "resource", "outcome", "request_id", "reason")} == {
        "actor": "ada",
        "operation": "update_schedule",
        "resource": "schedules/nightly",
        "outcome": "done",
        "request_id": "mine",
        "reason": "it is late",
    }
    assert (event["credential"], event["roles"], event["agent"]) == ("token", ["admin"], "lynx")
    assert (event["before"]["priority"], event["after"]["priority"]) == (None, 7)
    assert (event["before"]["revision"], event["after"]["revision"]) == (1, 2)
    assert "name" not in event["after"]


async def test_what_is_deleted_is_told_whole_and_the_reason_of_the_query(database, tenant, ada):
    await make_schedule(database, tenant, name="nightly", input={"order": "linnet"})

    await ada.delete(f"/v1/tenants/{tenant.name}/schedules/nightly?reason=moved")

    (event,) = await told(database, tenant)
    assert (event["before"]["name"], event["after"], event["reason"]) == ("nightly", None, "moved")
    assert (event["before"]["input"], event["before"]["withheld"]) == (None, True)


async def test_a_run_is_known_by_its_id_whatever_it_was_called(database, tenant, ada):
    run = await make_run(database, tenant, state=RunState.DEAD)
    name = str(run.row.run_id)

    made = (await ada.post(f"/v1/tenants/{tenant.name}/runs/{name.upper()}/redrive")).json()["id"]

    (event,) = await told(database, tenant)
    assert (event["resource"], event["detail"]) == (f"runs/{name}", {"made": f"runs/{made}"})


@pytest.mark.parametrize(
    ("method", "path", "status", "rest"),
    [
        ("PATCH", "schedules/nightly", 412, {"json": {"priority": 7}, "headers": {"If-Match": '"rev-9"'}}),
        ("PATCH", "schedules/none", 404, {"json": {"priority": 7}}),
        ("PATCH", "schedules/nightly", 422, {"json": {"priority": 70}}),
        ("POST", "schedules/nightly/resume", 409, {}),
        ("PATCH", "schedules/nightly?dry_run=true", 200, {"json": {"priority": 7}}),
        ("GET", "schedules/nightly", 200, {}),
        ("POST", "schedules/preview", 200, {"json": {"trigger": {"kind": "cron", "expr": "0 1 * * *"}}}),
    ],
)
async def test_of_what_changed_nothing_nothing_is_told(*, database, tenant, ada, method, path, status, rest):
    await make_schedule(database, tenant, name="nightly")

    answer = await ada.request(method, f"/v1/tenants/{tenant.name}/{path}", **rest)

    assert answer.status_code == status
    assert await told(database, tenant) == []


async def test_without_its_event_there_is_no_change(database, tenant, ada, monkeypatch):
    async def fails(*_, **__):
        raise psycopg.errors.DiskFull("no space")

    monkeypatch.setattr(store, "insert_event", fails)

    answer = await ada.post(f"/v1/tenants/{tenant.name}/tasks", json={"name": "never"})

    assert answer.status_code == 503
    assert (await ada.get(f"/v1/tenants/{tenant.name}/tasks/never")).status_code == 404


async def test_two_changes_at_once_are_told_one_after_the_other(database, tenant, ada):
    await make_schedule(database, tenant, name="nightly")
    path = f"/v1/tenants/{tenant.name}/schedules/nightly"

    answers = await asyncio.gather(*(ada.patch(path, json={"priority": number}) for number in range(6)))

    assert {answer.status_code for answer in answers} == {200}
    events = sorted(await told(database, tenant), key=lambda event: event["after"]["revision"])
    assert [event["after"]["revision"] for event in events] == [2, 3, 4, 5, 6, 7]
    before, after = ([event[when]["priority"] for event in events] for when in ("before", "after"))
    assert before[1:] == after[:-1]


async def test_what_is_the_platforms_is_told_to_the_platform(database):
    app = app_on(database)
    async with client_of(app, token_of("platform", subject="root")) as client:
        assert (await client.post("/v1/tenants", json={"name": "made"})).status_code == 201
        page = (await client.get("/v1/audit")).json()
        shown = (await client.get(f"/v1/audit/events/{page['items'][0]['id']}")).json()

    assert [(event["operation"], event["resource"], event["actor"]) for event in page["items"]] == [
        ("create_tenant", "tenants/made", "root")
    ]
    assert shown == page["items"][0]


async def test_whoever_acts_in_a_tenant_from_outside_is_told_to_the_tenant(database, tenant):
    async with client_of(app_on(database), token_of("platform", "admin", subject="root")) as client:
        await client.post(f"/v1/tenants/{tenant.name}/tasks", json={"name": "made"})

    (event,) = await told(database, tenant)
    assert (event["actor"], event["roles"]) == ("root", ["admin", "platform"])


@pytest.mark.parametrize(("roles", "status"), [(["viewer", "editor"], 403), (["auditor"], 200), (["admin"], 200)])
async def test_the_audit_is_read_by_who_may(database, tenant, roles, status):
    async with client_of(app_on(database), token_of(*roles, tenant_id=tenant.id)) as client:
        assert (await client.get(f"/v1/tenants/{tenant.name}/audit")).status_code == status


async def _furnish(database, tenant):
    """Ten events: of ada and eve, about a and b."""
    for number in range(10):
        actor = Actor(subject=["ada", "eve"][number % 2])
        deed = Deed(
            operation=["create_task", "update_task"][number % 3 == 0],
            resource=f"tasks/{'ab'[number % 5 == 0]}",
            request_id=f"req-{number}",
        )
        async with database.tenant(tenant.id) as conn:
            await audit.record(conn, tenant_id=tenant.id, actor=actor, deed=deed)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("", [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]),
        ("actor:ada", [8, 6, 4, 2, 0]),
        ("operation:update_task", [9, 6, 3, 0]),
        ("resource:tasks/b", [5, 0]),
        ("request:req-4", [4]),
        ("request:req-4 actor:eve", []),
        ("actor:eve operation:update_task", [9, 3]),
        ("resource:tasks/a actor:eve operation:update_task outcome:done", [9, 3]),
        ("outcome:refused", []),
        ("since:1h", [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]),
        ("until:1h", []),
    ],
)
async def test_a_filter_finds_what_it_says_page_by_page(*, database, tenant, ada, text, numbers):
    await _furnish(database, tenant)
    path, found = f"/v1/tenants/{tenant.name}/audit?limit=3&filter={text}", []
    while path:
        page = (await ada.get(path)).json()
        found += [int(event["request_id"].removeprefix("req-")) for event in page["items"]]
        path = page["next"]

    assert sorted(found, reverse=True) == numbers  # those of one millisecond have no order


async def test_a_filter_that_would_walk_looks_back_for_a_while_and_says_so(ada, tenant):
    page = (await ada.get(f"/v1/tenants/{tenant.name}/audit?filter=actor:ada outcome:refused")).json()

    assert page["filter"].startswith("actor:ada outcome:refused at>=")
    assert (await ada.get(f"/v1/tenants/{tenant.name}/audit?filter=actor:ada")).json()["filter"] == "actor:ada"


@pytest.mark.parametrize("text", ["actor", "who:ada", "outcome:maybe", "at:1h"])
async def test_what_cannot_be_read_is_refused_where_it_stands(ada, tenant, text):
    answer = await ada.get(f"/v1/tenants/{tenant.name}/audit", params={"filter": text})

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "query:filter"


@pytest.mark.parametrize("role", ["app", "superuser"])
@pytest.mark.parametrize("table", ["audit_events", "audit_links", "audit_epochs"])
async def test_the_audit_is_append_only_for_the_application_and_for_whoever_owns_it(
    *, database, tenant, server, work_database, role, table
):
    await _furnish(database, tenant)
    with psycopg.connect(server.superuser(work_database), autocommit=True) as conn:
        seed(conn)
        child = conn.execute("select tableoid::regclass::text from everwhen.audit_events").fetchone()[0]
    targets = [f"everwhen.{table}", *([child] if table == "audit_events" else [])]
    with psycopg.connect(getattr(server, role)(work_database), autocommit=True) as conn:
        if role == "app":
            conn.execute("set role everwhen_system")
        column = "server = server" if table == "audit_epochs" else "tenant_id = tenant_id"
        for target in targets:
            for statement in (f"update {target} set {column}", f"delete from {target}", f"truncate {target}"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    conn.execute(statement)


def seed(conn):
    """One row of each table that has none."""
    conn.execute("insert into everwhen.audit_links select tenant_id, event_id, 1, event_id, sha256('') from"
                 " everwhen.audit_events limit 1")  # fmt: skip
    conn.execute("insert into everwhen.audit_epochs values (gen_random_uuid(), 'one', '1', now())")


async def test_an_event_lies_in_the_week_it_was_told_in(database, server, work_database):
    async with database.system() as conn:
        await audit.record(conn, tenant_id=PLATFORM, actor=Actor(subject="x"), deed=Deed(operation="o", resource="r"))
        now = conn.now
    with psycopg.connect(server.superuser(work_database)) as conn:
        (table,) = conn.execute("select tableoid::regclass::text from everwhen.audit_events").fetchone()

    monday = now.date().toordinal() - now.weekday()
    assert table == f"everwhen.audit_events_{type(now.date()).fromordinal(monday):%Y%m%d}"


async def test_a_proxy_of_ours_is_believed_when_it_says_from_where(database, tenant):
    app = app_on(database)
    token = token_of("admin", tenant_id=tenant.id)
    for trusted, address in (((), "127.0.0.1"), ((ip_network("127.0.0.0/8"),), "192.0.2.7")):
        app.state.plane = replace(app.state.plane, trusted=trusted)
        async with client_of(app, token) as client:
            headers = {"X-Forwarded-For": "6.6.6.6, 192.0.2.7"}
            await client.post(f"/v1/tenants/{tenant.name}/tasks", json={"name": f"t{len(trusted)}"}, headers=headers)

        assert (await told(database, tenant, f"resource:tasks/t{len(trusted)}"))[0]["address"] == address
