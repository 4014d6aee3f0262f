# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false
"""Every operation that changes something is told by exactly one event of the audit, and nothing else is.

Which operations those are says the application itself: a new one that is forgotten here has no case, and fails; one
that tells nobody of what it does fails, too. Each is called on one's own things: tried (no event), done (one), repeated
under its key (no second). What is told is looked at: whose it is, which resource, before and after, and that no payload
and no secret is in it.
"""

import json
import re

import psycopg
import pytest
from fastapi.routing import iter_route_contexts

from everwhen.http.auditing import RememberingRoute
from everwhen.http.bodies import ControlRoute
from tests.contracts.test_isolation import BODIES, app_with_payloads, call, furnish, furnish_worker, operations
from tests.people import client_of, token_of
from tests.task_service.test_as_users_know_it import form

pytestmark = pytest.mark.timeout(300)

CANARY = "linnet"  # no word of the API
SECRET = re.compile(r"ew_[A-Za-z0-9_-]{20,}")
UNSEEN = {
    # What they do is told by what they made, or by which run: there is no object of theirs to be looked at.
    "begin_session", "end_session", "dismiss_dead_letters", "smooth_schedules",
    # The platform looks into no tenant: the answer is told, which has all of them.
    "update_limits", "set_queue_share",
}  # fmt: skip
SAME = {
    # They may leave everything as it was: that somebody ordered it is told all the same.
    "send_alert_test", "enable_alert_channel", "redrive_run", "rerun_workflow_run", "release_schedule", "restore_run",
    "dismiss_run", "cancel_workflow_run", "resend_alert_delivery", "renew_token", "update_alert_channel",
    "resubscribe_alert_receiver", "put_member", "send_endpoint_test",
}  # fmt: skip


class Told:
    """What the audit of a database has been told since the last look."""

    def __init__(self, conn: psycopg.Connection) -> None:
        self.conn = conn
        self._seen = 0
        self.all: list[str] = []

    def news(self) -> list[dict]:
        rows = self.conn.execute("select record from everwhen.audit_events order by event_id").fetchall()
        found, self._seen = rows[self._seen :], len(rows)
        self.all += [text for (text,) in found]
        return [json.loads(text) for (text,) in found]


@pytest.fixture
def told(server, work_database, database):
    with psycopg.connect(server.superuser(work_database), autocommit=True) as conn:
        yield Told(conn)


def changing(app) -> dict[str, RememberingRoute]:
    """Every operation that may change something."""
    return {
        route.name: route
        for route in (each.original_route for each in iter_route_contexts(app.routes))
        if isinstance(route, RememberingRoute)
        and route.changes
        and route.include_in_schema
        and (not isinstance(route, ControlRoute) or route.manner.writes)
    }


async def test_every_change_is_told_once_and_nothing_else_is(database, told, monkeypatch):
    for name in ("create_schedule", "update_schedule", "request_run", "redrive_run"):
        monkeypatch.setitem(BODIES, name, BODIES[name] | {"input": {"order": CANARY}})
    app = app_with_payloads(database)
    tenant, own = await furnish(database, name="audited")
    changes, wrong, called, secrets = changing(app), [], set(), {"csrf"}
    told.news()
    async with client_of(app, token_of("admin", tenant_id=tenant.id, subject="ada")) as client:
        for name, (method, path) in operations(app).items():
            if name not in changes:
                await call(client, name, method, path, tenant=own.tenant, things=own)
                wrong += [f"{name} changes nothing, and is told: {event}" for event in told.news()]
                continue
            called.add(name)
            if isinstance(changes[name], ControlRoute) and changes[name].manner.tries:
                await call(client, name, method, f"{path}?dry_run=true", tenant=own.tenant, things=own)
                wrong += [f"{name} is only tried, and told: {event}" for event in told.news()]
            asked = {"tenant": own.tenant, "things": own, "key": f"key of {name}".replace(" ", "-")}
            status, text = await call(client, name, method, path, **asked)
            assert status < 400, (name, text)
            secrets |= set(SECRET.findall(text))
            wrong += [f"{name}: {text}" for text in differences(name, told.news())]
            if isinstance(changes[name], ControlRoute) and changes[name].manner.keyed and name != "create_operation":
                assert (await call(client, name, method, path, **asked))[0] == status, name
                wrong += [f"{name} is repeated, and told again: {event}" for event in told.news()]
    shared = await furnish_worker(database, None, name="shared")
    called |= await of_the_platform_and_its_people(app, tenant, told, wrong, worker=shared)

    assert wrong == []
    assert called == set(changes)
    assert len(secrets) == 3
    assert CANARY in rows_of_runs(told.conn)
    assert not [text for text in told.all for word in {CANARY, *secrets} if word in text]


def rows_of_runs(conn) -> str:
    """The inputs of the runs, which hold what no event may hold."""
    return str(conn.execute("select input::text from everwhen.runs").fetchall())


def differences(name, events, *, actor="ada"):
    """What is wrong with what was told of one change."""
    if len(events) != 1:
        return [f"told {len(events)} times: {[event['operation'] for event in events]}"]
    event = events[0]
    found = [] if event["operation"] == name and event["outcome"] == "done" else ["another operation is told"]
    found += [] if event["actor"] == actor and event["token_id"] and event["roles"] else ["nobody did it"]
    found += [] if event["request_id"] and event["address"] else ["from nowhere"]
    found += [] if "{" not in event["resource"] and event["resource"] else [f"about {event['resource']}"]
    if name not in UNSEEN and not (event["before"] or event["after"]) and name not in SAME:
        found.append("neither before nor after is told")
    return found


async def of_the_platform_and_its_people(app, tenant, told, wrong, *, worker):
    """Do what needs a token of another kind; return what was done."""
    called = set()

    async def do(client, name, method, path, **rest):
        answer = await client.request(method, path, **rest)
        assert answer.status_code < 400, (name, answer.text)
        called.add(name)
        wrong.extend(f"{name}: {text}" for text in differences(name, told.news(), actor="bob"))
        return answer

    async with client_of(app, token_of("platform", subject="bob")) as client:
        await do(client, "create_tenant", "POST", "/v1/tenants", json={"name": "made"})
        await do(client, "update_limits", "PATCH", "/v1/tenants/made/limits", json={"schedules": 5})
        await do(client, "set_queue_share", "PUT", "/v1/tenants/made/queues/mails/share", json={"weight": 2})
        body = {"subject": "eve", "reason": "why"}
        await do(client, "create_platform_revocation", "POST", "/v1/revocations", json=body)
        for order in ("drain", "cordon", "uncordon"):
            path = f"/v1/workers/{worker}/{order}"
            await do(client, f"{order}_shared_worker", "POST", path, json={"reason": "why"})
    async with client_of(app, token_of("admin", tenant_id=tenant.id, subject="bob")) as client:
        made = await do(client, "begin_session", "POST", "/v1/session")
        headers = {"X-CSRF-Token": made.json()["csrf_token"], "Cookie": made.headers["set-cookie"].partition(";")[0]}
        posted = await do(client, "post_service_task", "POST", "/task", **form("one"))
        await client.request("POST", "/task", **form("one"))
        wrong.extend(f"a task that was there is told: {event}" for event in told.news())
        task = f"id={posted.json()['id']}"
        await do(client, "change_service_task", "PUT", f"/task?{task}", **form("one", program=None, priority="7"))
        for name, method, path, body in (
            ("set_service_task_status", "PUT", f"/task/status?{task}", {"status": "disable"}),
            ("delete_service_task", "DELETE", f"/task?{task}", None),
        ):
            await client.request(method, f"{path}&dry_run=true", json=body)
            wrong.extend(f"{name} is only tried, and told: {event}" for event in told.news())
            await do(client, name, method, path, json=body)
        await do_as_session(app, do, headers)
    return called


async def do_as_session(app, do, headers):
    async with client_of(app) as client:
        await do(client, "end_session", "DELETE", "/v1/session", headers=headers)
