"""Payloads over HTTP: upload, look, download, delete; what refers to them; and the worker's way by its lease."""

import hashlib
import uuid

import pytest

from everwhen.core.lifecycle import RunState
from everwhen.core.payloads import reference_to
from everwhen.dispatch.service import Claim, Dispatch
from everwhen.dispatch.tokens import LeaseTokens
from everwhen.http.app import create_app
from everwhen.http.auth import Authenticator
from everwhen.http.plane import ControlPlane
from everwhen.payloads.worker_api import TOKEN_HEADER, WorkerPayloads
from everwhen.runs import service as runs
from everwhen.tenants.service import find_tenant
from tests.factories import WORKER, make_run, make_task
from tests.payloads.scene import files, put
from tests.people import SECRET, client_of, token_of

PATH = "/v1/tenants/acme/payloads"
NOWHERE = "sha256:" + "0" * 64


def digest_of(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


async def asgi(app, *, headers, messages):
    """Call the application with a body as the network might deliver it; return the status it answered, if it did."""
    sent, left = [], list(messages)

    async def receive():
        return left.pop(0) if left else {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": PATH,
        "raw_path": PATH.encode(),
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "server": ("everwhen.test", 80),
    }
    await app(scope, receive, send)
    return next((message["status"] for message in sent if message["type"] == "http.response.start"), None)


async def test_raw_bytes_are_uploaded_listed_downloaded_and_deleted(client):
    made = await client.post(
        PATH, content=b"#!/bin/sh\n", params={"name": "hello.sh"}, headers={"Content-Type": "text/x-sh"}
    )
    again = await client.post(PATH, content=b"#!/bin/sh\n")
    digest = digest_of(b"#!/bin/sh\n")

    assert (made.status_code, again.status_code) == (201, 200)
    assert made.json() == again.json()
    assert made.headers["Location"] == f"{PATH}/{digest}"
    assert made.json() | {"created_at": None} == {
        "digest": digest,
        "size_bytes": 10,
        "name": "hello.sh",
        "media_type": "text/x-sh",
        "reference": {"$payload": digest},
        "is_lasting": True,
        "created_by": "tester",
        "created_at": None,
    }
    content = await client.get(f"{PATH}/{digest}/content")
    assert (content.status_code, content.content) == (200, b"#!/bin/sh\n")
    assert content.headers["Content-Type"] == "application/octet-stream"
    assert content.headers["Content-Disposition"].startswith("attachment")
    assert content.headers["X-Content-Type-Options"] == "nosniff"
    assert (await client.get(PATH)).json() == {"items": [made.json()], "next": None, "filter": None}
    assert (await client.delete(f"{PATH}/{digest}")).status_code == 204
    assert (await client.get(f"{PATH}/{digest}")).json()["code"] == "payload.unknown"


async def test_pages_of_a_list_follow_each_other(client):
    for number in range(5):
        await client.post(PATH, content=str(number).encode())

    seen, path = [], f"{PATH}?limit=2"
    while path:
        page = (await client.get(path)).json()
        seen += [item["digest"] for item in page["items"]]
        path = page["next"]

    assert seen == sorted(digest_of(str(number).encode()) for number in range(5))


async def test_a_form_with_a_file_is_an_upload_too(client):
    content = b"x" * 3_000
    made = await client.post(
        PATH, data={"digest": digest_of(content)}, files={"file": ("C:\\tmp\\ab.bin", content, "application/zip")}
    )

    assert (made.status_code, made.json()["digest"]) == (201, digest_of(content))
    assert (made.json()["name"], made.json()["media_type"]) == ("ab.bin", "application/zip")


@pytest.mark.parametrize(
    ("form", "code", "pointer"),
    [
        ({"files": {"other": b"x"}}, "field.unknown", "/other"),
        ({"files": [("file", b"x"), ("file", b"y")]}, "field.unknown", "/file"),
        ({"files": {"digest": (None, NOWHERE)}}, "field.missing", "/file"),
        ({"files": {"digest": (None, "md5:1"), "file": b"x"}}, "field.invalid", "/digest"),
        ({"files": {"digest": (None, NOWHERE), "file": b"x"}}, "payload.digest", "/digest"),
        ({"files": {"digest": (None, b"\xff"), "file": b"x"}}, "field.invalid", "/digest"),
    ],
)
async def test_a_form_that_is_not_one_of_ours_is_refused_and_leaves_nothing(
    *, client, folder, sweeper, form, code, pointer
):
    answer = await client.post(PATH, **form)

    assert answer.status_code == 422
    assert (answer.json()["code"], answer.json()["errors"][0]["pointer"]) == (code, pointer)
    async with sweeper.database.system() as conn:
        now = conn.now
    await sweeper.tick(now)
    assert files(folder) == []


BOUNDARY = "multipart/form-data; boundary=b"


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("multipart/form-data", b"--b--", 415),
        (BOUNDARY, b"", 422),
        (BOUNDARY, b"no form", 422),
        (BOUNDARY, b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\nbreaks off', 422),
        (BOUNDARY, b'--b\r\nContent-Disposition: attachment; name="file"\r\n\r\nx\r\n--b--', 422),
        (BOUNDARY, b"--b\r\n" + b"A: b\r\n" * 100 + b"\r\nx\r\n--b--", 422),
        (BOUNDARY, b"--b\r\nA: " + b"b" * 10_000 + b"\r\n\r\nx\r\n--b--", 422),
        (BOUNDARY, b'--b\r\nContent-Disposition: form-data; name="digest"\r\n\r\n' + b"x" * 70_000 + b"\r\n--b--", 422),
    ],
)
async def test_a_body_that_is_no_form_is_refused(client, kind, body, status):
    answer = await client.post(PATH, content=body, headers={"Content-Type": kind})

    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(("size", "ends"), [(10_001, False), (2_000_000, True)])
async def test_what_is_much_too_much_ends_the_connection(client, size, ends):
    answer = await client.post(PATH, content=b"x" * size)

    assert (answer.status_code, answer.json()["code"]) == (413, "payload.too_large")
    assert ("Connection" in answer.headers) == ends


@pytest.mark.parametrize(
    "query", [{"digest": "sha256:xyz"}, {"digest": NOWHERE}, {"name": "a\nb"}, {"name": "x" * 201}]
)
async def test_a_query_that_does_not_fit_is_refused(client, query):
    assert (await client.post(PATH, content=b"x", params=query)).status_code == 422


async def test_lies_about_the_length_are_found_out(client, folder, tenant):
    """The server in front of us counts, too; behind a proxy that does not, we still do."""
    app = client._transport.app
    headers = {"Authorization": client.headers["Authorization"]}
    chunk = {"type": "http.request", "body": b"12345", "more_body": True}
    last = {"type": "http.request", "body": b"", "more_body": False}

    assert await asgi(app, headers=headers | {"Content-Length": "4"}, messages=[chunk, last]) == 422
    assert await asgi(app, headers=headers | {"Content-Length": "6"}, messages=[chunk, last]) == 422
    assert await asgi(app, headers=headers | {"Content-Length": str(5 * 1024**3)}, messages=[chunk, last]) == 413
    assert await asgi(app, headers=headers | {"Content-Length": "5"}, messages=[chunk, last]) == 201
    assert await asgi(app, headers=headers | {"Content-Length": "9"}, messages=[chunk]) is None  # it hung up


async def test_another_tenants_payload_is_like_one_that_is_not_there(client, payloads, other, tenant):
    secret = await put(payloads, other, b"secret of the other")

    for method, rest in (("GET", ""), ("GET", "/content"), ("DELETE", "")):
        answers = [
            await client.request(method, f"{PATH}/{digest}{rest}", headers={"Request-Id": "same"})
            for digest in (secret.digest, NOWHERE)
        ]
        assert (answers[0].status_code, answers[0].content) == (404, answers[1].content)
    made = await client.post(PATH, content=b"secret of the other")
    assert made.status_code == 201  # and not 200: nobody learns that others have it


async def test_who_only_reads_may_look_and_not_change(client, payloads, tenant):
    payload = await put(payloads, tenant, b"x")
    async with client_of(client._transport.app, token_of("viewer", tenant_id=tenant.id)) as viewer:
        assert (await viewer.get(f"{PATH}/{payload.digest}")).status_code == 200
        assert (await viewer.get(f"{PATH}/{payload.digest}/content")).status_code == 403
        assert (await viewer.delete(f"{PATH}/{payload.digest}")).status_code == 403
        assert (await viewer.post(PATH, content=b"y")).status_code == 403
    async with client_of(client._transport.app, token_of("viewer", "payloads", tenant_id=tenant.id)) as trusted:
        assert (await trusted.get(f"{PATH}/{payload.digest}/content")).status_code == 200


# What refers to a payload ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        ({"$payload": 1}, "/input/$payload"),
        ({"a": [{"$payload": "sha256:abc"}]}, "/input/a/0/$payload"),
        ({"a/b": {"$payload": NOWHERE, "more": 1}}, "/input/a~1b"),
        ({"$payload": NOWHERE}, "/input/$payload"),
        ({"$payload": NOWHERE + "\n"}, "/input/$payload"),
    ],
)
async def test_a_reference_that_leads_nowhere_is_refused_where_it_stands(*, client, database, tenant, value, pointer):
    await make_task(database, tenant)
    run = {"task": "report", "input": value}
    schedule = {"name": "s", "task": "report", "trigger": {"kind": "cron", "expr": "0 0 * * *"}, "input": value}

    for path, body in (("runs", run), ("schedules", schedule)):
        answer = await client.post(f"/v1/tenants/acme/{path}", json=body, headers={"Idempotency-Key": "k"})
        assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, pointer)


async def test_what_a_schedule_refers_to_stays_until_it_refers_to_something_else(client, database, tenant):
    await make_task(database, tenant)
    first, second = [(await client.post(PATH, content=content)).json() for content in (b"1", b"2")]
    body = {
        "name": "s",
        "task": "report",
        "trigger": {"kind": "cron", "expr": "0 0 1 1 *"},
        "input": {"p": first["reference"]},
    }
    assert (await client.post("/v1/tenants/acme/schedules", json=body)).status_code == 201

    refused = await client.delete(f"{PATH}/{first['digest']}")
    assert (refused.status_code, refused.json()["code"]) == (409, "payload.in_use")
    assert refused.json()["detail"] == "The payload is needed by the schedule s."
    await client.patch("/v1/tenants/acme/schedules/s", json={"input": {"p": second["reference"]}})
    assert (await client.delete(f"{PATH}/{first['digest']}")).status_code == 204
    assert (await client.delete(f"{PATH}/{second['digest']}")).status_code == 409
    await client.delete("/v1/tenants/acme/schedules/s")
    assert (await client.delete(f"{PATH}/{second['digest']}")).status_code == 204


@pytest.mark.parametrize(
    ("state", "is_needed"),
    [
        (RunState.PLANNED, True),
        (RunState.WAITING, True),
        (RunState.RUNNING, True),
        (RunState.RETRYING, True),
        (RunState.DEAD, True),
        (RunState.SUCCEEDED, False),
        (RunState.CANCELLED, False),
    ],
)
async def test_what_a_run_may_still_need_stays(*, client, database, payloads, tenant, state, is_needed):
    payload = await put(payloads, tenant, b"x")
    await make_run(database, tenant, state=state, input={"deep": [reference_to(payload.digest)]})

    answer = await client.delete(f"{PATH}/{payload.digest}")

    assert answer.status_code == (409 if is_needed else 204)


async def test_a_dead_run_that_somebody_has_dealt_with_needs_nothing(client, database, payloads, tenant):
    payload = await put(payloads, tenant, b"x")
    dead = await make_run(database, tenant, state=RunState.DEAD, input=reference_to(payload.digest))
    run = f"/v1/tenants/acme/runs/{dead.row.run_id}"
    await client.post(f"{run}/dismiss", json={"reason": "why"})

    assert (await client.delete(f"{PATH}/{payload.digest}")).status_code == 204
    redriven = await client.post(f"{run}/redrive", json={"reason": "why"})
    assert (redriven.status_code, redriven.json()["code"]) == (422, "payload.unknown")


# A worker's way -------------------------------------------------------------------------------------------------------

TOKENS = LeaseTokens(SECRET)


@pytest.fixture
async def worker(database, payloads, tenant):
    """A worker's client, and the way to ask for a payload."""
    plane = ControlPlane(database=database, authenticator=Authenticator(SECRET), find_tenant=find_tenant)
    downloads = WorkerPayloads(payloads=payloads, dispatch=Dispatch(database, jitter=lambda: 0.0), tokens=TOKENS)
    app = create_app(plane, routers=[], first_routes=downloads.routes())
    async with client_of(app, token_of("worker", tenant_id=tenant.id)) as opened:
        yield opened


async def held(database, tenant, payload):
    """A run that refers to a payload, in the hands of a worker: its id and lease token."""
    view = await make_run(database, tenant, input={"program": reference_to(payload.digest)})
    claim = Claim(tenant_id=tenant.id, queues=(view.row.queue,), tasks=None, worker=WORKER, limit=1, lease_seconds=60.0)
    (lease,) = (await Dispatch(database, jitter=lambda: 0.0).claim(claim)).leases
    return lease.run_id, TOKENS.seal(lease.run_id, lease.lease_token)


async def ask(worker, tenant, run_id, token, digest):  # noqa: PLR0917  # read in one line, many times
    return await worker.get(
        f"/v1/worker/payloads/{tenant.id}/{run_id}/{digest}", headers={TOKEN_HEADER: token, "Request-Id": "same"}
    )


async def test_a_worker_gets_what_the_run_refers_to_that_it_holds(worker, database, payloads, tenant):
    payload = await put(payloads, tenant, b"program")
    run_id, token = await held(database, tenant, payload)

    answer = await ask(worker, tenant, run_id, token, payload.digest)

    assert (answer.status_code, answer.content) == (200, b"program")


async def test_without_the_lease_there_is_nothing_and_always_in_the_same_words(
    *, worker, database, payloads, tenant, other
):
    payload, second = await put(payloads, tenant, b"program"), await put(payloads, tenant, b"another")
    foreign = await put(payloads, other, b"foreign")
    run_id, token = await held(database, tenant, payload)
    other_run, other_token = await held(database, other, foreign)
    waiting = (await make_run(database, tenant, input=reference_to(payload.digest))).row.run_id

    answers = [
        await ask(worker, tenant, run_id, token, second.digest),  # the run does not refer to it
        await ask(worker, tenant, run_id, token, NOWHERE),
        await ask(worker, tenant, run_id, "1.0", payload.digest),
        await ask(worker, tenant, run_id, "", payload.digest),
        await ask(worker, tenant, waiting, token, payload.digest),
        await ask(worker, tenant, waiting, TOKENS.seal(waiting, 1), payload.digest),
        await ask(worker, tenant, uuid.UUID(int=5), token, payload.digest),
        await ask(worker, tenant, "no-id", token, payload.digest),
        await ask(worker, other, other_run, other_token, foreign.digest),  # its token is not for that tenant
        await ask(worker, other, run_id, token, payload.digest),
    ]

    assert {(answer.status_code, answer.content) for answer in answers} == {(404, answers[0].content)}


async def test_a_lease_that_has_run_out_opens_nothing(worker, database, payloads, tenant):
    payload = await put(payloads, tenant, b"program")
    run_id, token = await held(database, tenant, payload)
    async with database.system() as conn:
        await conn.execute("update everwhen.leases set lease_until = now()")

    assert (await ask(worker, tenant, run_id, token, payload.digest)).status_code == 404


async def test_a_token_of_another_kind_or_for_other_queues_opens_nothing(worker, database, payloads, tenant):
    payload = await put(payloads, tenant, b"program")
    run_id, token = await held(database, tenant, payload)
    app = worker._transport.app
    async with client_of(app, token_of("admin", tenant_id=tenant.id)) as admin:
        assert (await ask(admin, tenant, run_id, token, payload.digest)).status_code == 403
    async with client_of(app, token_of("worker", tenant_id=tenant.id, queues=["others"])) as stranger:
        assert (await ask(stranger, tenant, run_id, token, payload.digest)).status_code == 404


async def test_a_run_that_has_ended_opens_nothing(worker, database, payloads, tenant):
    payload = await put(payloads, tenant, b"program")
    run_id, token = await held(database, tenant, payload)
    await runs.cancel_run(database, tenant_id=tenant.id, ref=str(run_id), by="tester", reason=None)
    async with database.system() as conn:
        await conn.execute("delete from everwhen.leases")

    assert (await ask(worker, tenant, run_id, token, payload.digest)).status_code == 404
