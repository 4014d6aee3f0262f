"""Refused attempts in the audit: who tried what and why not, in whose chain, and never as often as they were made."""

from datetime import timedelta

import psycopg
import pytest

from everwhen import clock
from everwhen.audit import service as audit
from everwhen.audit.model import PLATFORM
from everwhen.core.refusals import MOST_AT_ONCE
from everwhen.http.auth import mint_token
from everwhen.http.refusals import Refusals
from everwhen.http.roles import Role
from tests.factories import make_tenant
from tests.people import SECRET, app_on, client_of, token_of


@pytest.fixture
def refusals(database):
    return Refusals(database)


@pytest.fixture
def app(database, refusals):
    return app_on(database, refusals=refusals)


@pytest.fixture
async def acme(database):
    return await make_tenant(database, name="acme")


@pytest.fixture
async def other(database):
    return await make_tenant(database, name="other")


async def told(database, tenant_id):
    """What was told of refusals, the oldest first."""
    rows, _ = await audit.list_events(database, tenant_id=tenant_id, text="outcome:refused", limit=100)
    return [audit.parse_record(row.record) for row in reversed(rows)]


async def ask(app, token, method="GET", path="/v1/tenants/acme/audit", **given):
    async with client_of(app, token) as client:
        return await client.request(method, path, **given)


async def test_a_missing_role_is_told_with_who_what_where_and_how_often(database, app, refusals, acme):
    token = token_of("viewer", tenant_id=acme.id, subject="eve")
    for number in range(3):
        answer = await ask(
            app, token, "POST", f"/v1/tenants/acme/schedules?n={number}", headers={"Request-Id": f"r{number}"}, json={}
        )
        assert answer.status_code == 403
    await refusals.flush()

    [event] = await told(database, acme.id)
    fields = ("actor", "operation", "resource", "request_id", "roles", "detail", "before", "after")
    assert {name: event[name] for name in fields} == {
        "actor": "eve",
        "operation": "create_schedule",
        "resource": "schedules",
        "request_id": "r0",
        "roles": ["viewer"],
        "detail": {"code": "auth.role", "times": 3},
        "before": None,
        "after": None,
    }


async def test_anothers_tenant_and_none_are_told_alike_in_the_chain_of_whoever_tried(
    *, database, app, refusals, acme, other
):
    token = token_of("admin", tenant_id=acme.id, subject="eve")
    for name in ("other", "nobody"):
        assert (await ask(app, token, path=f"/v1/tenants/{name}/runs")).status_code == 404
    assert (await ask(app, token, path="/v1/tenants/acme/schedules/none")).status_code == 404
    await refusals.flush()

    [event] = await told(database, acme.id)
    assert (event["operation"], event["resource"]) == ("list_runs", "tenants/other/runs")
    assert event["detail"] == {"code": "tenant.unknown", "times": 2}
    assert await told(database, other.id) == []


async def test_a_token_of_ours_that_has_expired_is_told_and_a_forged_one_is_not(database, app, refusals, acme):
    past = clock.process_now() - timedelta(hours=3)
    old = mint_token(
        SECRET, subject="ada", roles=[Role.ADMIN], tenant_id=acme.id, now=past, lifetime=timedelta(hours=1)
    )
    forged = mint_token(SECRET[::-1], subject="ada", roles=[Role.ADMIN], tenant_id=acme.id, now=past)
    answers = [await ask(app, token) for token in (old, forged, old[:-3] + "AAA", "nonsense", None)]
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.text.replace(answer.headers["request-id"], "") for answer in answers}) == 1
    await refusals.flush()

    [event] = await told(database, acme.id)
    assert (event["actor"], event["operation"], event["resource"]) == ("ada", "authenticate", "audit")
    assert event["detail"] == {"code": "auth.required", "times": 1}


async def test_a_revoked_service_token_is_told_of_its_tenant(database, app, refusals, acme):
    admin = token_of("admin", tenant_id=acme.id)
    body = {"name": "fleet", "roles": ["worker"], "queues": ["default"]}
    made = (await ask(app, admin, "POST", "/v1/tenants/acme/tokens", json=body)).json()
    assert (await ask(app, admin, "DELETE", f"/v1/tenants/acme/tokens/{made['id']}")).is_success
    assert (await ask(app, made["secret"], "POST", "/v1/worker/claim", json={})).status_code == 401
    await refusals.flush()

    [event] = await told(database, acme.id)
    assert (event["actor"], event["token_id"], event["credential"]) == ("token:fleet", made["id"], "service")


async def test_whoever_is_of_no_tenant_is_told_in_the_platforms_chain(database, app, refusals, acme):
    assert (await ask(app, token_of("viewer", subject="nobody"))).status_code == 403
    await refusals.flush()

    assert [event["actor"] for event in await told(database, PLATFORM)] == ["nobody"]


async def test_a_flood_of_refusals_writes_no_more_than_a_burst(*, database, app, refusals, acme, other):
    for number in range(MOST_AT_ONCE + 30):
        await ask(app, token_of("viewer", tenant_id=acme.id, subject=f"eve{number}"))
    await ask(app, token_of("viewer", tenant_id=other.id), path="/v1/tenants/other/audit")
    for _ in range(3):
        await refusals.flush()

    assert len(await told(database, acme.id)) == MOST_AT_ONCE
    assert len(await told(database, other.id)) == 1


async def test_a_database_that_is_away_costs_the_attempts_and_nobody_an_answer(
    *, database, app, refusals, acme, monkeypatch
):
    async def away(*_, **__):
        raise psycopg.OperationalError

    monkeypatch.setattr(audit, "record", away)
    assert (await ask(app, token_of("viewer", tenant_id=acme.id))).status_code == 403
    await refusals.flush()
    monkeypatch.undo()

    assert (await ask(app, token_of("viewer", tenant_id=acme.id))).status_code == 403
    assert await told(database, acme.id) == []
