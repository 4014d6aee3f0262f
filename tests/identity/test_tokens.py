"""Service tokens, revocations and members: over HTTP, with two copies of the API on one database."""

import re
import uuid
from datetime import timedelta

import msgspec
import psycopg
import pytest

from everwhen import clock
from everwhen.core.lifecycle import RunState
from everwhen.dispatch.api import WorkerApi, WorkerLimits
from everwhen.dispatch.lines import Lines
from everwhen.dispatch.service import Dispatch
from everwhen.dispatch.tokens import LeaseTokens
from everwhen.http.app import create_app
from everwhen.http.auth import Authenticator, mint_token
from everwhen.http.plane import ControlPlane, IdentityLimits
from everwhen.http.revocations import MOST_AGE_SECONDS, RevocationList
from everwhen.http.roles import Role
from everwhen.http.secrets import PATTERN, is_service_secret, new_service_secret
from everwhen.identity.directory import DatabaseDirectory
from everwhen.postgres.wakeups import Wakeups
from everwhen.tenants.service import find_tenant
from everwhen.worker.protocol import CompleteRequest, HeartbeatRequest, HeldLease, Report
from tests.factories import make_run, make_task, make_tenant
from tests.http.signing import jwks, public_jwk, sign
from tests.http.test_issuers import CLAIMS, issuer
from tests.people import ROUTERS, SECRET, client_of, token_of


class Copy:
    """One copy of the API, whose own clock goes forward at will."""

    def __init__(self, database, conninfo, *, issuers=()):
        self.ahead = 0.0
        directory = DatabaseDirectory(database=database)
        self.revocations = RevocationList(directory.read_revocations, clock=lambda: self.ahead)
        dispatch = Dispatch(database, jitter=lambda: 0.0)
        limits = WorkerLimits(lease_seconds=300.0, wait_seconds=0.0, body_bytes=1 << 20)
        worker = WorkerApi(
            dispatch=dispatch, lines=Lines(dispatch, Wakeups(conninfo)), tokens=LeaseTokens(SECRET), limits=limits
        )
        plane = ControlPlane(
            database=database,
            authenticator=Authenticator(SECRET, directory=directory, revocations=self.revocations, issuers=issuers),
            find_tenant=find_tenant,
            identity=IdentityLimits(service_token_most=timedelta(hours=1)),
        )
        self.app = create_app(plane, routers=ROUTERS, first_routes=worker.routes())

    async def status(self, token, path="/v1/me"):
        async with client_of(self.app, token) as client:
            return (await client.get(path)).status_code


@pytest.fixture
def copies(server, work_database, database):
    """Two copies of the API."""
    return [Copy(database, server.app(work_database)) for _ in range(2)]


@pytest.fixture
async def tenant(database):
    return await make_tenant(database, name="acme")


@pytest.fixture
async def admin(copies, tenant):
    async with client_of(copies[0].app, token_of("admin", tenant_id=tenant.id, subject="boss")) as client:
        yield client


async def make_token(admin, **body):
    made = await admin.post("/v1/tenants/acme/tokens", json={"name": "made", "roles": ["worker"]} | body)
    assert made.status_code == 201, made.text
    return made.json()


def test_a_secret_is_recognised_and_carries_its_check():
    secrets = {new_service_secret() for _ in range(100)}

    assert len(secrets) == 100
    for secret in secrets:
        assert re.fullmatch(PATTERN, secret)
        assert is_service_secret(secret)
        assert not is_service_secret(secret[:-1] + ("a" if secret[-1] != "a" else "b"))


async def test_a_service_token_says_its_secret_once_and_stores_its_hash_only(admin, server, work_database):
    made = await make_token(admin, queues=["reports"], tasks=["report"])
    listed, read = await admin.get("/v1/tenants/acme/tokens"), await admin.get(f"/v1/tenants/acme/tokens/{made['id']}")
    with psycopg.connect(server.superuser(work_database)) as conn:
        stored = str(conn.execute("select t::text from everwhen.service_tokens t").fetchall())

    assert (made["state"], made["created_by"], made["queues"]) == ("live", "boss", ["reports"])
    assert "secret" not in listed.json()["items"][0] | read.json()
    assert made["secret"] not in listed.text + read.text + stored
    assert (await admin.post("/v1/tenants/acme/tokens", json={"name": "made", "roles": ["viewer"]})).status_code == 409


@pytest.mark.parametrize(
    "body",
    [
        {"roles": []},
        {"roles": ["platform"]},
        {"roles": ["god"]},
        {"roles": ["viewer"], "queues": ["reports"]},
        {"queues": []},
        {"lifetime_seconds": 3_601},
        {"lifetime_seconds": 1},
        {"tenant_id": str(uuid.UUID(int=5))},
        {"secret": "ew_mine"},
    ],
    ids=str,
)
async def test_a_token_that_should_not_be_is_refused(admin, body):
    answer = await admin.post("/v1/tenants/acme/tokens", json={"name": "made", "roles": ["worker"]} | body)

    assert answer.status_code == 422


async def test_a_service_token_is_used_renewed_and_revoked(admin, copies):
    made = await make_token(admin, roles=["viewer"])
    path = f"/v1/tenants/acme/tokens/{made['id']}"
    assert await copies[1].status(made["secret"], "/v1/tenants/acme/tasks") == 200
    assert await copies[1].status(made["secret"], "/v1/tenants/acme/tokens") == 403
    assert (await admin.get(path)).json()["last_used_at"] is not None

    renewed = (await admin.post(f"{path}/renew", json={"grace_seconds": 60})).json()
    assert renewed["secret"] != made["secret"]
    fresh = Copy(admin._transport.app.state.plane.database, "")  # remembers neither
    assert [await fresh.status(each["secret"]) for each in (made, renewed)] == [200, 200]

    assert (await admin.delete(path)).status_code == 204
    assert (await admin.delete(path)).status_code == 204
    for copy in (*copies, fresh):
        copy.ahead += MOST_AGE_SECONDS + 1
        assert [await copy.status(each["secret"]) for each in (made, renewed)] == [401, 401]
    assert (await admin.get(path)).json()["state"] == "revoked"
    assert (await admin.post(f"{path}/renew")).status_code == 404
    assert (await make_token(admin))["name"] == "made"  # the name is free again


@pytest.mark.parametrize("how", ["token_id", "subject"])
async def test_a_revocation_takes_effect_on_every_copy_that_remembers_the_token(admin, copies, tenant, how):
    mallory = token_of("viewer", tenant_id=tenant.id, subject="mallory")
    other = token_of("viewer", tenant_id=tenant.id, subject="ada")
    assert [await copy.status(mallory) for copy in copies] == [200, 200]
    async with client_of(copies[0].app, mallory) as client:
        named = {"token_id": (await client.get("/v1/me")).json()["token_id"], "subject": "mallory"}

    body = {how: named[how], "reason": "lost"}
    assert (await admin.post("/v1/tenants/acme/revocations", json=body)).status_code == 201
    for copy in copies:
        copy.ahead += MOST_AGE_SECONDS + 0.1
    assert [await copy.status(mallory) for copy in copies] == [401, 401]
    assert [await copy.status(other) for copy in copies] == [200, 200]
    assert [each["value"] for each in (await admin.get("/v1/tenants/acme/revocations")).json()["items"]] == [named[how]]


async def test_a_tenants_revocation_ends_at_its_border_and_the_platforms_nowhere(admin, copies, database):
    other = await make_tenant(database, name="other")
    theirs = token_of("viewer", tenant_id=other.id, subject="ada")
    await admin.post("/v1/tenants/acme/revocations", json={"subject": "ada", "reason": "left"})
    copies[1].ahead += MOST_AGE_SECONDS + 1
    assert await copies[1].status(theirs) == 200

    async with client_of(copies[0].app, token_of("platform")) as platform:
        body = {"subject": "ada", "reason": "left"}
        assert (await platform.post("/v1/revocations", json=body)).status_code == 201
        assert len((await platform.get("/v1/revocations")).json()["items"]) == 1
    copies[1].ahead += MOST_AGE_SECONDS + 1
    assert await copies[1].status(theirs) == 401


async def test_what_is_issued_after_a_revocation_of_its_subject_holds(admin, copies, tenant):
    until = clock.process_now() - timedelta(minutes=5)
    body = {"subject": "ada", "reason": "lost", "issued_until": until.isoformat()}
    assert (await admin.post("/v1/tenants/acme/revocations", json=body)).status_code == 201
    said = {"subject": "ada", "roles": [Role.VIEWER], "tenant_id": tenant.id, "lifetime": timedelta(hours=1)}
    before = mint_token(SECRET, now=until - timedelta(seconds=1), **said)
    after = mint_token(SECRET, now=until + timedelta(seconds=2), **said)

    assert [await copies[1].status(token) for token in (before, after)] == [401, 200]
    future = {"subject": "ada", "reason": "x", "issued_until": "2100-01-01T00:00:00Z"}
    assert (await admin.post("/v1/tenants/acme/revocations", json=future)).status_code == 422


async def test_revocations_go_when_no_token_can_be_alive(admin, copies, server, work_database):
    await admin.post("/v1/tenants/acme/revocations", json={"subject": "old", "reason": "x"})
    with psycopg.connect(server.superuser(work_database), autocommit=True) as conn:
        conn.execute("update everwhen.revocations set expires_at = now() - interval '1 second'")
        assert (await admin.get("/v1/tenants/acme/revocations")).json()["items"] == []
        await admin.post("/v1/tenants/acme/revocations", json={"subject": "new", "reason": "x"})
        assert conn.execute("select value from everwhen.revocations").fetchall() == [("new",)]


async def test_nobody_gets_in_while_it_cannot_be_known_who_was_revoked(copies, tenant, monkeypatch):
    token = token_of("viewer", tenant_id=tenant.id)
    assert await copies[0].status(token) == 200

    async def away(since):
        raise psycopg.OperationalError("away")

    monkeypatch.setattr(copies[0].revocations, "_read", away)
    copies[0].ahead += MOST_AGE_SECONDS + 1
    assert await copies[0].status(token) == 503


# Members -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def ada(monkeypatch):
    """A person of a configured issuer, with its issuer's settings: (issuers, token)."""

    async def fetch(url):
        return jwks(public_jwk("EdDSA"))

    monkeypatch.setattr("everwhen.http.keys.fetch_document", fetch)
    now = int(clock.process_now().timestamp())
    header = b'{"alg":"EdDSA","typ":"JWT","kid":"key-0"}'
    return [issuer("EdDSA")], sign("EdDSA", header, msgspec.json.encode(CLAIMS | {"iat": now, "exp": now + 600}))


async def test_a_member_may_do_in_each_tenant_what_is_written_there(admin, database, tenant, ada):
    issuers, token = ada
    other = await make_tenant(database, name="other")
    assert (await Copy(database, "", issuers=issuers).status(token, "/v1/tenants/acme")) == 404
    await admin.put("/v1/tenants/acme/members/login:ada", json={"roles": ["viewer"]})
    async with client_of(Copy(database, "").app, token_of("platform", "admin")) as platform:
        put = await platform.put("/v1/tenants/other/members/login:ada", json={"roles": ["admin"]})
        assert (put.status_code, put.json()["added_by"]) == (200, "tester")

    copy = Copy(database, "", issuers=issuers)
    async with client_of(copy.app, token) as client:
        me = (await client.get("/v1/me")).json()
        assert (me["subject"], [place["name"] for place in me["tenants"]]) == ("login:ada", ["acme", "other"])
        assert me["tenants"][1]["id"] == str(other.id)
        assert (await client.get("/v1/tenants/acme/tasks")).status_code == 200
        assert (await client.post("/v1/tenants/acme/tasks", json={"name": "x"})).status_code == 403
        assert (await client.post("/v1/tenants/other/tasks", json={"name": "x"})).status_code == 201
        theirs, nobodys = [
            await client.get(f"/v1/tenants/{name}/tasks", headers={"Request-Id": "x"}) for name in ("third", "nobody")
        ]
        assert (theirs.status_code, theirs.content) == (404, nobodys.content)
        assert (await client.get("/v1/findings")).status_code == 403

    assert (await admin.delete("/v1/tenants/acme/members/login:ada")).status_code == 204
    assert (await admin.delete("/v1/tenants/acme/members/login:ada")).status_code == 404
    assert await Copy(database, "", issuers=issuers).status(token, "/v1/tenants/acme") == 404


async def test_a_header_or_a_body_that_names_another_tenant_changes_nothing(admin, database, tenant, ada):
    issuers, token = ada
    await make_tenant(database, name="other")
    await admin.put("/v1/tenants/acme/members/login:ada", json={"roles": ["admin"]})
    async with client_of(Copy(database, "", issuers=issuers).app, token) as client:
        for name in ("X-Tenant", "Everwhen-Tenant", "X-Forwarded-Tenant"):
            answer = await client.get("/v1/tenants/other", headers={name: "acme"})
            assert answer.status_code == 404
        answer = await client.post("/v1/tenants/acme/tasks", json={"name": "x", "tenant": "other"})
        assert answer.status_code == 422


# A compromised worker ------------------------------------------------------------------------------------------------


@pytest.mark.timeout(300)
async def test_a_compromised_worker_gets_at_nothing_but_its_own_attempts(admin, copies, database, tenant):
    other = await make_tenant(database, name="other")
    for each in (tenant, other):
        await make_task(database, each, name="report", queue="reports")
    theirs = await make_run(database, other, state=RunState.RUNNING)
    own_elsewhere = await make_run(database, tenant, state=RunState.RUNNING)  # another worker of the tenant holds it
    mine = await make_token(admin, queues=["reports"], tasks=["report"])
    async with client_of(copies[0].app, mine["secret"]) as thief:
        for path, methods in copies[0].app.openapi()["paths"].items():
            for method, operation in methods.items():
                if operation.get("x-permission") not in {None, "any"}:
                    for name in ("acme", "other"):
                        url = re.sub(r"\{\w+\}", str(theirs.row.run_id), path.replace("{tenant}", name))
                        answer = await thief.request(method, url, json={})
                        assert answer.status_code in {403, 404, 422}, (operation["operationId"], answer.text)
                        assert answer.status_code != 422 or "errors" in answer.json()

        for queues, tasks, status in (
            (["other-queue"], None, 403),
            (["reports"], ["other-task"], 403),
            (["reports"], ["report"], 200),
            (["reports"], None, 200),
        ):
            wanted = {
                "worker": "w",
                "queues": queues,
                "tasks": tasks,
                "limit": 5,
                "wait_seconds": 0,
                "lease_seconds": 30,
            }
            answer = await thief.post("/v1/worker/claim", json=wanted)
            assert (answer.status_code, answer.json().get("runs", [])) == (status, [])

        for view, tenant_id in ((theirs, other.id), (theirs, tenant.id), (own_elsewhere, tenant.id)):
            for lease_token in ("1", "1.0000000000000000", LeaseTokens("x" * 32).seal(view.row.run_id, 1)):
                what = {"tenant_id": tenant_id, "run_id": view.row.run_id, "lease_token": lease_token}
                beat = HeartbeatRequest(worker="w", lease_seconds=30.0, leases=[HeldLease(**what)])
                done = CompleteRequest(worker="w", reports=[Report(**what, outcome="succeeded")])
                beaten = await thief.post("/v1/worker/heartbeat", content=msgspec.json.encode(beat))
                told = await thief.post("/v1/worker/complete", content=msgspec.json.encode(done))
                assert beaten.json()["results"][0]["status"] == "lost"
                assert told.status_code == 422 or not told.json()["results"][0]["accepted"]

    async with database.system() as conn:
        running = await (await conn.execute("select count(*) from everwhen.leases where lease_token > 0")).fetchone()
    assert running[0] == 2
