"""A worker of one tenant, at the routes of the worker API: another tenant's runs are like runs that are not there."""

import uuid

import msgspec
import pytest

from everwhen.core.lifecycle import RunState
from everwhen.dispatch.api import WorkerApi, WorkerLimits
from everwhen.dispatch.lines import Lines
from everwhen.dispatch.service import Dispatch
from everwhen.dispatch.tokens import LeaseTokens
from everwhen.http.app import create_app
from everwhen.http.auth import Authenticator
from everwhen.http.plane import ControlPlane
from everwhen.postgres.wakeups import Wakeups
from everwhen.runs import service as runs
from everwhen.tenants.service import find_tenant
from everwhen.worker.protocol import ClaimRequest, CompleteRequest, HeartbeatRequest, HeldLease, Report
from tests.factories import WORKER, make_run, make_tenant
from tests.people import SECRET, client_of, token_of

NOBODY = uuid.UUID("01a22915-06ff-70da-a75e-79f816daceb5")


TOKENS = LeaseTokens(SECRET)


@pytest.fixture
def app(server, work_database, database):
    dispatch = Dispatch(database, jitter=lambda: 0.0)
    limits = WorkerLimits(lease_seconds=300.0, wait_seconds=0.0, body_bytes=1 << 20)
    worker = WorkerApi(
        dispatch=dispatch, lines=Lines(dispatch, Wakeups(server.app(work_database))), tokens=TOKENS, limits=limits
    )
    plane = ControlPlane(database=database, authenticator=Authenticator(SECRET), find_tenant=find_tenant)
    return create_app(plane, routers=[], first_routes=worker.routes())


@pytest.fixture
async def canary(database):
    """Another tenant's run, held by its worker: (tenant, run, lease token)."""
    tenant = await make_tenant(database)
    view = await make_run(database, tenant, state=RunState.RUNNING)
    async with database.tenant(tenant.id) as conn:
        row = await (await conn.execute("select lease_token from everwhen.leases")).fetchone()
    return tenant, view, TOKENS.seal(view.row.run_id, row[0])


@pytest.fixture
async def intruder(database, app):
    """Another tenant's worker, whose queues go by any name."""
    tenant = await make_tenant(database)
    async with client_of(app, token_of("worker", tenant_id=tenant.id)) as client:
        client.tenant_id = tenant.id
        yield client


async def send(client, path, message):
    return await client.post(f"/v1/worker/{path}", content=msgspec.json.encode(message), headers={"Request-Id": "x"})


def blotted(answer, run_id):
    return answer.status_code, answer.text.replace(str(run_id), "*")


async def test_another_tenants_queue_holds_nothing(intruder, database):
    other = await make_tenant(database)
    run = await make_run(database, other)
    body = {
        "worker": "w",
        "queues": [run.row.queue],
        "tasks": None,
        "limit": 10,
        "wait_seconds": 0,
        "lease_seconds": 30,
    }
    answer = await intruder.post("/v1/worker/claim", json=body)

    assert (answer.status_code, answer.json()["runs"]) == (200, [])


@pytest.mark.parametrize("claimed_tenant", ["theirs", "own", None])
async def test_another_tenants_run_that_is_named_is_like_one_that_never_was(intruder, database, claimed_tenant):
    other = await make_tenant(database)
    run = await make_run(database, other)
    tenant_id = {"theirs": other.id, "own": intruder.tenant_id}.get(claimed_tenant)
    answers = []
    for run_id in (run.row.run_id, NOBODY):
        asked = ClaimRequest(
            worker="w",
            queues=[run.row.queue],
            tasks=None,
            limit=10,
            wait_seconds=0.0,
            lease_seconds=30.0,
            run_ids=[run_id],
            tenant_id=tenant_id,
        )
        answer = await send(intruder, "claim", asked)
        answers.append((answer.status_code, answer.json()["runs"], blotted(answer, run_id)[1].partition("named")[2]))

    assert answers[0] == answers[1]
    assert "gone" in answers[0][2]


@pytest.mark.parametrize("claimed_tenant", ["theirs", "own"])
async def test_another_tenants_lease_is_neither_renewed_nor_ended(intruder, canary, database, claimed_tenant):
    tenant, view, token = canary
    tenant_id = tenant.id if claimed_tenant == "theirs" else intruder.tenant_id
    answers = []
    for run_id in (view.row.run_id, NOBODY):
        lease = HeldLease(tenant_id=tenant_id, run_id=run_id, lease_token=token)
        beat = HeartbeatRequest(worker=WORKER, lease_seconds=300.0, leases=[lease])
        report = Report(tenant_id=tenant_id, run_id=run_id, lease_token=token, outcome="succeeded")
        done = CompleteRequest(worker=WORKER, reports=[report])
        answers.append(
            [
                blotted(await send(intruder, "heartbeat", beat), run_id),
                blotted(await send(intruder, "complete", done), run_id),
            ]
        )
    after = await runs.get_run(database, tenant_id=tenant.id, ref=str(view.row.run_id))

    assert answers[0] == answers[1]
    assert (after.state, after.row) == (RunState.RUNNING, view.row)


@pytest.mark.parametrize("run_id", [uuid.UUID(int=5), uuid.UUID(int=(1 << 128) - 1), NOBODY])
async def test_a_report_on_a_run_that_never_was_is_refused_and_leaves_no_trace(intruder, database, run_id):
    report = Report(tenant_id=intruder.tenant_id, run_id=run_id, lease_token="7", outcome="succeeded")
    answer = await send(intruder, "complete", CompleteRequest(worker=WORKER, reports=[report]))
    async with database.system() as conn:
        events = await (await conn.execute("select count(*) from everwhen.events")).fetchone()

    assert answer.status_code == 200
    assert not answer.json()["results"][0]["accepted"]
    assert events[0] == 0


@pytest.mark.parametrize("role", ["viewer", "operator", "editor", "admin"])
async def test_only_workers_claim(app, database, role):
    tenant = await make_tenant(database)
    async with client_of(app, token_of(role, tenant_id=tenant.id)) as client:
        for path in ("claim", "heartbeat", "complete", "mailboxes"):
            assert (await client.post(f"/v1/worker/{path}", json={})).status_code == 403
