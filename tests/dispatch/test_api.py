"""The worker routes as they are spoken: who may, how much, and what is answered to whatever comes."""

import json
from datetime import datetime, timedelta

import msgspec
import psycopg
import pytest

from everwhen.core.lifecycle import RunState
from everwhen.dispatch import api as module
from everwhen.dispatch.api import WorkerApi, WorkerLimits
from everwhen.dispatch.lines import Lines
from everwhen.dispatch.service import Dispatch
from everwhen.dispatch.tokens import LeaseTokens
from everwhen.http.app import create_app
from everwhen.http.auth import Authenticator
from everwhen.http.plane import ControlPlane
from everwhen.postgres.pool import Database
from everwhen.postgres.wakeups import Wakeups
from everwhen.runs import service as runs
from everwhen.tenants.service import find_tenant
from everwhen.worker.protocol import ClaimResponse, CompleteResponse, HeartbeatResponse
from tests.conftest import WORK_DATABASE
from tests.dispatch.scene import LINE, hold, make_line, report_on
from tests.factories import WORKER
from tests.people import SECRET, client_of, token_of

BODY_BYTES = 200_000
TOKENS = LeaseTokens(SECRET)
PATHS = ("claim", "heartbeat", "complete", "mailboxes")
NASTY = [
    None, True, 0, -1, 1, 2**31, 2**63, -(2**63) - 1, 0.5, 1e308, "", " ", "a", "null", "a\x00b", "\r\n", "\u202e",
    "'; drop table runs; --", "%s%(x)s%", "x" * 300, [], [[]], [None], {}, {"": ""}, "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59Z", "2026-11-29T00:00:00", "00000000-0000-0000-0000-000000000000",
]  # fmt: skip
RAW_NASTY = [
    b"", b"null", b"[]", b"{", b"\xff\xfe", b'{"worker": "\\ud800"}', b"[" * 50_000, b'{"a":' * 20_000, b"1e999999",
    b"NaN", b'{"reports": [], "worker": "w"} x', b'{"worker":"w","leases":[],"lease_seconds":1e999}',
]  # fmt: skip


def app_on(database, conninfo):
    dispatch = Dispatch(database, jitter=lambda: 0.0)
    worker = WorkerApi(
        tokens=TOKENS,
        dispatch=dispatch,
        lines=Lines(dispatch, Wakeups(conninfo)),
        limits=WorkerLimits(lease_seconds=300.0, wait_seconds=0.0, body_bytes=BODY_BYTES),
    )
    plane = ControlPlane(database=database, authenticator=Authenticator(SECRET), find_tenant=find_tenant)
    return create_app(plane, routers=[], first_routes=worker.routes())


@pytest.fixture
def app(server, work_database, line):
    return app_on(line.db, server.app(work_database))


@pytest.fixture
async def client(app, line):
    async with client_of(app, token_of("worker", tenant_id=line.tenant.id)) as opened:
        yield opened


def asking(**changes):
    body = {"worker": "w", "queues": [LINE], "tasks": None, "limit": 10, "wait_seconds": 0, "lease_seconds": 30}
    return body | changes


def reporting(run, **changes):
    named = {key: run[key] for key in ("tenant_id", "run_id", "lease_token")}
    return named | {"outcome": "succeeded"} | changes


async def post(client, path, body):
    return await client.post(f"/v1/worker/{path}", json=body)


async def claimed(client, line, count=1):
    await line.fill(count)
    return (await post(client, "claim", asking(limit=count))).json()["runs"]


def problem(answer):
    assert answer.headers["content-type"] == "application/problem+json"
    assert len(answer.content) < 30_000
    found = answer.json()
    return answer.status_code, found["code"], [each["pointer"] for each in found["errors"]]


async def test_a_run_is_claimed_renewed_and_completed(client, line):
    await line.fill(input={"n": 1})
    claim = await post(client, "claim", asking())
    (run,) = claim.json()["runs"]
    beat = await post(
        client,
        "heartbeat",
        {"worker": "w", "lease_seconds": 60, "leases": [reporting(run) | {"details": {"done": 1}}]},
    )
    done = await post(client, "complete", {"worker": "w", "reports": [reporting(run, result={"ok": True})]})

    assert (claim.status_code, beat.status_code, done.status_code) == (200, 200, 200)
    for answer, kind in ((claim, ClaimResponse), (beat, HeartbeatResponse), (done, CompleteResponse)):
        msgspec.json.decode(answer.content, type=kind)
    assert (run["task"], run["queue"], run["attempt"], run["max_attempts"], run["input"]) == (
        "report",
        LINE,
        1,
        5,
        {"n": 1},
    )
    assert (run["tenant_id"], run["schedule"], run["nominal_at"]) == (str(line.tenant.id), None, None)
    held = beat.json()["results"][0]
    assert (held["run_id"], held["status"], held["cancel_requested"]) == (run["run_id"], "held", False)
    assert datetime.fromisoformat(held["lease_until"]) - datetime.fromisoformat(run["claimed_at"]) >= timedelta(
        seconds=60
    )
    assert done.json()["results"] == [
        {"run_id": run["run_id"], "accepted": True, "state": "succeeded", "code": None, "detail": None}
    ]


async def test_a_lease_token_is_text_because_some_readers_have_no_such_number(client, line):
    (run,) = await claimed(client, line)

    assert isinstance(run["lease_token"], str)
    assert int(run["lease_token"].partition(".")[0]) > 2**20


async def test_a_stale_report_says_why_it_is_refused(client, line):
    (run,) = await claimed(client, line)
    answers = [await post(client, "complete", {"worker": "w", "reports": [reporting(run)]}) for _ in range(2)]

    refused = answers[1].json()["results"][0]
    assert (refused["accepted"], refused["state"], refused["code"]) == (False, "succeeded", "lease.lost")
    assert refused["detail"]


async def test_a_database_that_is_away_is_said_to_be_away_for_now(server, work_database, line):
    away = await Database.open(server.app(work_database))
    await away.close()
    leases = {"worker": "w", "lease_seconds": 30, "leases": []}
    bodies = {"claim": asking(), "heartbeat": leases, "complete": {"worker": "w", "reports": []}}
    async with client_of(app_on(away, ""), token_of("worker", tenant_id=line.tenant.id)) as client:
        answers = [await post(client, path, body) for path, body in bodies.items()]

    assert [problem(answer) for answer in answers] == [(503, "database.unavailable", [])] * 3
    assert all(answer.headers["retry-after"] for answer in answers)


# Who ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("authorization", [None, "", "Bearer", "Bearer x", "Basic dzp3", "Bearer a.b.c"])
async def test_without_a_valid_token_nothing_is_answered(app, path, authorization):
    async with client_of(app) as stranger:
        headers = {} if authorization is None else {"Authorization": authorization}
        answer = await stranger.post(f"/v1/worker/{path}", content=b"{", headers=headers)

    assert problem(answer) == (401, "auth.required", [])
    assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("role", ["viewer", "editor", "operator", "admin"])
async def test_only_a_worker_may_work(app, line, path, role):
    async with client_of(app, token_of(role, tenant_id=line.tenant.id)) as other:
        assert problem(await post(other, path, {})) == (403, "auth.role", [])


@pytest.mark.parametrize("path", PATHS)
async def test_another_method_is_answered_with_the_one_that_is_served(client, path):
    answer = await client.get(f"/v1/worker/{path}")

    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


async def test_a_token_that_names_queues_opens_no_other(app, line):
    await line.fill()
    async with client_of(app, token_of("worker", tenant_id=line.tenant.id, queues=["aside"])) as bound:
        assert problem(await post(bound, "claim", asking())) == (403, "auth.forbidden", [])
        assert problem(await post(bound, "claim", asking(queues=["aside", LINE]))) == (403, "auth.forbidden", [])
        assert (await post(bound, "claim", asking(queues=["aside"]))).json()["runs"] == []


async def test_a_worker_of_the_platform_serves_the_queues_that_its_token_names(app, line):
    other = await make_line(line.db)
    await line.fill()
    await other.fill()
    async with client_of(app, token_of("worker", queues=[LINE])) as shared:
        found = (await post(shared, "claim", asking())).json()["runs"]
        done = await post(shared, "complete", {"worker": "w", "reports": [reporting(run) for run in found]})
    async with client_of(app, token_of("worker")) as unbound:
        refused = await post(unbound, "claim", asking())

    assert {run["tenant_id"] for run in found} == {str(line.tenant.id), str(other.tenant.id)}
    assert [result["accepted"] for result in done.json()["results"]] == [True, True]
    assert problem(refused) == (403, "auth.forbidden", [])


async def test_a_report_for_another_tenant_is_refused_as_a_whole_and_moves_nothing(app, client, line):
    other = await make_line(line.db)
    async with client_of(app, token_of("worker", tenant_id=other.tenant.id)) as theirs:
        (foreign,) = await claimed(theirs, other)
    (own,) = await claimed(client, line)
    answer = await post(client, "complete", {"worker": "w", "reports": [reporting(own), reporting(foreign)]})

    assert problem(answer) == (422, "input.invalid", ["/reports/1/tenant_id"])
    for tenant, run in ((line.tenant, own), (other.tenant, foreign)):
        view = await runs.get_run(line.db, tenant_id=tenant.id, ref=run["run_id"])
        assert view.state == RunState.RUNNING


async def test_a_heartbeat_for_another_tenants_lease_is_a_lost_lease(app, client, line):
    other = await make_line(line.db)
    async with client_of(app, token_of("worker", tenant_id=other.tenant.id)) as theirs:
        (foreign,) = await claimed(theirs, other)
    (own,) = await claimed(client, line)
    disguised = foreign | {"tenant_id": own["tenant_id"]}
    leases = [reporting(foreign), reporting(own), reporting(disguised)]
    answer = await post(client, "heartbeat", {"worker": "w", "lease_seconds": 30, "leases": leases})

    assert [result["status"] for result in answer.json()["results"]] == ["lost", "held", "lost"]


@pytest.mark.parametrize("wall", ["row-level security", "the statements"])
async def test_either_wall_alone_keeps_a_tenants_runs_from_another(client, line, server, wall):
    """With the statements' tenant taken from the run, security holds; with security off, the statements do."""
    other = await make_line(line.db)
    await other.fill(2)
    (foreign,) = await other.claim(limit=1)
    tables = ("runs", "waiting", "leases", "lanes", "tasks", "run_ends", "attempts", "events")
    with psycopg.connect(server.superuser(WORK_DATABASE), autocommit=True) as conn:
        verb = "disable" if wall == "the statements" else "enable"
        try:
            for table in tables:
                conn.execute(f"alter table everwhen.{table} {verb} row level security")
            tenant_id = other.tenant.id if wall == "row-level security" else line.tenant.id
            report = report_on(foreign, tenant_id=tenant_id)
            (answer,) = await line.dispatch.complete(line.tenant.id, WORKER, [report])
            beat = [hold(foreign, tenant_id=tenant_id)]
            renewed = await line.dispatch.renew(line.tenant.id, beat, lease_seconds=60.0)
            grant = await line.claim()
        finally:
            for table in tables:
                conn.execute(f"alter table everwhen.{table} enable row level security")

    assert (answer.accepted, answer.state, renewed, grant) == (False, None, {}, [])


# How much -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"limit": 0}, "/limit"),
        ({"limit": module.MOST_RUNS + 1}, "/limit"),
        ({"queues": []}, "/queues"),
        ({"queues": ["q"] * (module.MOST_QUEUES + 1)}, "/queues"),
        ({"queues": [""]}, "/queues"),
        ({"queues": ["q" * 201]}, "/queues"),
        ({"queues": ["a\x00b"]}, "/queues"),
        ({"tasks": ["t"] * (module.MOST_TASKS + 1)}, "/tasks"),
        ({"tasks": ["a\nb"]}, "/tasks"),
        ({"worker": ""}, "/worker"),
        ({"worker": "w" * 201}, "/worker"),
        ({"worker": "a\x00b"}, "/worker"),
        ({"lease_seconds": 0.9}, "/lease_seconds"),
        ({"lease_seconds": 300.5}, "/lease_seconds"),
        ({"lease_seconds": -1}, "/lease_seconds"),
    ],
)
async def test_a_claim_has_bounds_and_says_which(client, changes, pointer):
    assert problem(await post(client, "claim", asking(**changes))) == (422, "input.invalid", [pointer])


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"retry_after_seconds": -0.1}, "/reports/0/retry_after_seconds"),
        ({"retry_after_seconds": 604_801}, "/reports/0/retry_after_seconds"),
        ({"result": "x" * module.MOST_PAYLOAD_BYTES}, "/reports/0/result"),
        ({"error": {"type": "E", "message": "m" * module.MOST_ERROR_CHARACTERS}}, "/reports/0/error"),
    ],
)
async def test_a_report_has_bounds_and_says_which(client, line, changes, pointer):
    (run,) = await claimed(client, line)
    answer = await post(client, "complete", {"worker": "w", "reports": [reporting(run, **changes)]})

    assert problem(answer) == (422, "input.invalid", [pointer])


async def test_a_batch_has_a_largest_size(client, line):
    (run,) = await claimed(client, line)
    many = [{"tenant_id": run["tenant_id"], "run_id": run["run_id"], "lease_token": "1"}] * (module.MOST_RUNS + 1)
    short = [report | {"outcome": "failed"} for report in many]

    assert problem(await post(client, "heartbeat", {"worker": "w", "lease_seconds": 30, "leases": many})) == (
        422,
        "input.invalid",
        ["/leases"],
    )
    assert problem(await post(client, "complete", {"worker": "w", "reports": short})) == (
        422,
        "input.invalid",
        ["/reports"],
    )


@pytest.mark.parametrize("path", PATHS)
async def test_a_body_over_the_limit_is_not_read_to_its_end(client, path):
    sent = 0

    async def endless():
        nonlocal sent
        while sent < 100 * BODY_BYTES:
            sent += 10_000
            yield b" " * 10_000

    answer = await client.post(f"/v1/worker/{path}", content=endless())

    assert problem(answer) == (413, "body.too_large", [])


# Whatever -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("body", RAW_NASTY, ids=lambda body: body[:24].decode("latin1"))
async def test_what_is_no_request_is_refused_with_a_code(client, path, body):
    answer = await client.post(f"/v1/worker/{path}", content=body)

    assert problem(answer)[:2] == (422, "body.invalid")


def mutations(body):
    """The body with one value replaced, or left out, at every depth."""
    for key, value in body.items():
        for nasty in NASTY:
            yield body | {key: nasty}
        yield {name: kept for name, kept in body.items() if name != key}
        if isinstance(value, list) and value and isinstance(value[0], dict):
            yield from (body | {key: [inner, *value[1:]]} for inner in mutations(value[0]))


async def test_no_value_in_any_place_is_too_much(client, line):
    first, second = await claimed(client, line, 2)
    error = {"type": "E", "message": "m", "traceback": "t"}
    report = reporting(
        first,
        lease_token="1",
        retryable=True,
        retry_after_seconds=1,
        started_at="2026-11-29T00:00:00Z",
        result=1,
        error=error,
    )
    bodies = {
        "claim": asking(queues=["aside"]),
        "heartbeat": {
            "worker": "w",
            "lease_seconds": 30,
            "leases": [reporting(first) | {"details": 1}, reporting(second)],
        },
        "complete": {"worker": "w", "reports": [report, reporting(second, lease_token="1")]},
    }
    for path, body in bodies.items():
        for mutant in mutations(body):
            answer = await client.post(f"/v1/worker/{path}", content=json.dumps(mutant))
            assert answer.status_code in {200, 422}, (path, mutant, answer.text)
            if answer.status_code == 422:
                assert problem(answer)[1] in {"body.invalid", "input.invalid"}


async def test_a_worker_of_another_queue_neither_renews_nor_ends_a_lease_it_was_shown(app, client, line):
    (run,) = await claimed(client, line)
    named = {key: run[key] for key in ("tenant_id", "run_id", "lease_token")}
    token = token_of("worker", tenant_id=line.tenant.id, queues=["elsewhere"])
    async with client_of(app, token) as stranger:
        beat = await stranger.post("/v1/worker/heartbeat", json={"worker": "w", "lease_seconds": 30, "leases": [named]})
        done = await stranger.post(
            "/v1/worker/complete", json={"worker": "w", "reports": [named | {"outcome": "succeeded"}]}
        )

    assert beat.json()["results"][0]["status"] == "lost"
    answer = done.json()["results"][0]
    assert (answer["accepted"], answer["state"]) == (False, None)
    assert await line.rows("select count(*) from everwhen.events where kind = 'refused'") == [(0,)]
    assert await line.rows("select count(*) from everwhen.leases") == [(1,)]


async def test_the_right_number_without_its_seal_ends_nothing(client, line):
    (run,) = await claimed(client, line)
    number = run["lease_token"].partition(".")[0]
    for forged in (number, f"{number}.", f"{number}.{'0' * 16}", run["lease_token"][:-1], f"0{run['lease_token']}"):
        report = {"tenant_id": run["tenant_id"], "run_id": run["run_id"], "lease_token": forged, "outcome": "failed"}
        answer = await client.post("/v1/worker/complete", json={"worker": "w", "reports": [report]})
        assert not answer.json()["results"][0]["accepted"], forged

    assert await line.rows("select count(*) from everwhen.leases") == [(1,)]


async def test_a_stale_report_is_recorded_once_however_often_it_is_sent(client, line):
    (run,) = await claimed(client, line)
    named = {key: run[key] for key in ("tenant_id", "run_id", "lease_token")} | {"outcome": "succeeded"}
    for _ in range(5):
        await client.post("/v1/worker/complete", json={"worker": "w", "reports": [named] * 20})
    forged = named | {"lease_token": "1"}
    for _ in range(3):
        await client.post("/v1/worker/complete", json={"worker": "w", "reports": [forged] * 20})

    assert await line.rows("select count(*) from everwhen.events where kind = 'refused'") == [(2,)]
