"""Logs over HTTP: what is sent by a lease is read by whoever may see payloads, whole, in parts, and while it comes."""

import asyncio

import pytest

from everwhen.app import FEATURES
from everwhen.dispatch.tokens import LeaseTokens
from everwhen.http.app import create_app
from everwhen.http.auth import Authenticator
from everwhen.http.plane import ControlPlane
from everwhen.logs.following import Followers
from everwhen.logs.worker_api import WorkerLogs
from everwhen.payloads.service import Payloads
from everwhen.tenants.service import find_tenant
from tests.logs.scene import report
from tests.people import SECRET, client_of, token_of

TOKENS = LeaseTokens(SECRET)


@pytest.fixture
def app(database, logs, depot):
    plane = ControlPlane(
        database=database,
        authenticator=Authenticator(SECRET),
        find_tenant=find_tenant,
        payloads=Payloads.on(database, depot),
    )
    made = create_app(
        plane,
        routers=[feature.router for feature in FEATURES],
        first_routes=WorkerLogs(logs=logs, tokens=TOKENS).routes(),
    )
    made.state.followers = Followers(look_seconds=0.02, most=2)
    return made


@pytest.fixture
async def worker(app, tenant):
    async with client_of(app, token_of("worker", tenant_id=tenant.id)) as opened:
        yield opened


@pytest.fixture
async def reader(app, tenant):
    async with client_of(app, token_of("editor", tenant_id=tenant.id)) as opened:
        yield opened


async def send(client, writer, piece, data, *, token=None):
    sealed = TOKENS.seal(writer.run_id, writer.token) if token is None else token
    path = f"/v1/worker/logs/{writer.tenant_id}/{writer.run_id}/{piece}"
    return await client.put(path, content=data, headers={"Lease-Token": sealed})


def path_of(writer, attempt="latest", **query):
    words = "&".join(f"{key}={value}" for key, value in query.items())
    return f"/v1/tenants/acme/runs/{writer.run_id}/attempts/{attempt}/logs?{words}"


async def test_what_a_worker_sends_is_what_is_read_as_text_that_nothing_runs(worker, reader, writer):
    hostile = b"<script>alert(1)</script>\xff\x1b[2J\n"
    answer = await send(worker, writer, 0, hostile)
    assert (answer.status_code, answer.json()) == (200, {"pieces": 1, "size_bytes": len(hostile), "is_capped": False})

    read = await reader.get(path_of(writer))
    assert (read.status_code, read.content) == (200, hostile)
    assert read.headers["content-type"] == "text/plain; charset=utf-8"
    assert read.headers["x-content-type-options"] == "nosniff"
    told = {name: read.headers[f"log-{name}"] for name in ("attempt", "offset", "size", "open", "capped")}
    assert told == {"attempt": "1", "offset": "0", "size": str(len(hostile)), "open": "true", "capped": "false"}


async def test_a_part_is_named_by_its_bytes(worker, reader, writer):
    for number in range(3):
        await send(worker, writer, number, b"%d23456789\n" % number)

    async def part(**query):
        answer = await reader.get(path_of(writer, 1, **query))
        return answer.headers["log-offset"], answer.content

    assert await part(offset=8, limit=4) == ("8", b"9\n12")
    assert await part(tail=3) == ("27", b"89\n")
    assert await part(tail=1000, limit=2) == ("0", b"02")
    assert await part(offset=1000) == ("30", b"")
    assert await part(limit=0) == ("0", b"")


async def test_an_attempt_that_has_printed_nothing_has_an_empty_log_and_one_that_never_was_has_none(reader, writer):
    empty, none = await reader.get(path_of(writer)), await reader.get(path_of(writer, 2))

    assert (empty.status_code, empty.content) == (200, b"")
    assert (none.status_code, none.json()["code"]) == (404, "attempt.unknown")


@pytest.mark.parametrize("attempt", ["0", "-1", "last", "1e3", "999999"])
async def test_a_number_that_is_none_is_refused(reader, writer, attempt):
    assert (await reader.get(path_of(writer, attempt))).status_code == 422


@pytest.mark.parametrize(("role", "status"), [("viewer", 403), ("operator", 403), ("payloads", 200), ("admin", 200)])
async def test_a_log_is_a_payload(*, app, tenant, worker, writer, role, status):
    await send(worker, writer, 0, b"the password is swordfish\n")
    async with client_of(app, token_of(role, tenant_id=tenant.id)) as client:
        answer = await client.get(path_of(writer))

    assert answer.status_code == status
    assert (b"swordfish" in answer.content) == (status == 200)


async def test_a_token_that_was_not_sealed_for_the_run_writes_nothing(worker, reader, writer):
    for token in ("", str(writer.token), TOKENS.seal(writer.tenant_id, writer.token)):
        answer = await send(worker, writer, 0, b"x", token=token)
        assert (answer.status_code, answer.json()["code"]) == (404, "lease.lost")
    assert (await reader.get(path_of(writer))).content == b""


async def test_another_tenants_worker_and_a_reader_write_nothing(*, app, database, other_tenant, reader, writer):
    assert (await send(reader, writer, 0, b"x")).status_code == 403
    async with client_of(app, token_of("worker", tenant_id=other_tenant.id)) as intruder:
        answer = await send(intruder, writer, 0, b"x")

    assert (answer.status_code, answer.json()["code"]) == (404, "lease.lost")


async def test_a_piece_too_large_is_refused_while_it_arrives(worker, writer):
    async def endless():
        while True:
            yield b"x" * 100

    answer = await send(worker, writer, 0, endless())

    assert (answer.status_code, answer.json()["code"]) == (413, "log.piece_too_large")


async def test_who_follows_gets_what_comes_until_the_attempt_ends(database, worker, reader, writer):
    await send(worker, writer, 0, b"before\n")
    following = asyncio.create_task(reader.get(path_of(writer, follow="true")))
    for number in range(1, 4):
        await asyncio.sleep(0.03)
        await send(worker, writer, number, b"%d\n" % number)
    await report(database, writer)
    answer = await following

    assert answer.content == b"before\n1\n2\n3\n"
    assert answer.headers["log-open"] == "true"
    again = await reader.get(path_of(writer, follow="true", offset=len(answer.content)))
    assert (again.content, again.headers["log-open"]) == (b"", "false")


async def test_those_who_follow_are_sent_home_when_the_server_stops(app, worker, reader, writer):
    await send(worker, writer, 0, b"before\n")
    following = [asyncio.create_task(reader.get(path_of(writer, follow="true"))) for _ in range(2)]
    async with asyncio.timeout(20):
        while app.state.followers._here < 2:  # noqa: ASYNC110  # nothing tells of it
            await asyncio.sleep(0.01)
    refused = await reader.get(path_of(writer, follow="true"))
    app.state.followers.close()

    assert [answer.content for answer in await asyncio.gather(*following)] == [b"before\n"] * 2
    assert (refused.status_code, refused.json()["code"]) == (503, "log.busy")


async def test_a_depot_that_is_away_is_told_before_anything_is_answered(worker, reader, writer, folder):
    await send(worker, writer, 0, b"x\n")
    for file in folder.rglob("*"):
        if file.is_file():
            file.unlink()

    answer = await reader.get(path_of(writer))

    assert (answer.status_code, answer.json()["code"]) == (503, "payload.store_away")
