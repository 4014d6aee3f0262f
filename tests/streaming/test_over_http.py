"""Streams over HTTP, as clients meet them: a live server, tokens, cookies, ids that are sent back."""

import asyncio
import contextlib
import json
import socket
from dataclasses import dataclass, field
from datetime import timedelta

import httpx2
import pytest
import uvicorn

from everwhen import clock
from everwhen.http import auth, revocations
from everwhen.http.auth import mint_token
from everwhen.http.roles import Role
from everwhen.http.sessions import COOKIE
from everwhen.identity import service as identity
from everwhen.streaming import telling
from everwhen.streaming.hub import Hub
from tests.people import SECRET, app_on, client_of, token_of
from tests.streaming.scene import Scene, looking


@dataclass
class Live:
    """A server with a scene behind it."""

    scene: Scene
    app: object
    url: str
    opened: list = field(default_factory=list)

    def path(self, *, run=False) -> str:
        of = f"/runs/{self.scene.run_id}" if run else ""
        return f"{self.url}/v1/tenants/{self.scene.tenant.name}{of}/events/stream"

    def token(self, *roles, **words) -> str:
        return token_of(*(roles or ("viewer",)), tenant_id=self.scene.tenant.id, **words)


@pytest.fixture
async def live(database, monkeypatch):
    monkeypatch.setattr(auth, "REMEMBER", timedelta(milliseconds=100))
    monkeypatch.setattr(revocations, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(telling, "CHECK_SECONDS", 0.05)
    scene = await Scene.make(database, hub=Hub(database, most_of_one=3))
    app = app_on(database, streams=scene.hub)
    config = uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=3)
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        task = asyncio.create_task(server.serve(sockets=[listening]))
        async with looking(scene.hub):
            yield Live(scene, app, f"http://127.0.0.1:{listening.getsockname()[1]}")
            scene.hub.close()
            server.should_exit = True
            await task


@contextlib.asynccontextmanager
async def opened(url, *, headers=None, **params):
    """Open a stream; what it gives are the answer and a reader of its next message."""
    async with (
        asyncio.timeout(30),
        httpx2.AsyncClient(timeout=20) as client,
        client.stream("GET", url, headers=headers, params=params) as answer,
    ):
        lines = answer.aiter_lines()

        async def message(*names):
            """The next message of one of these names (None: an event), with its id."""
            said = {}
            async for line in lines:
                if line:
                    name, _, value = line.partition(": ")
                    said[name] = value
                elif "data" in said and said.get("event") in names:
                    return said.get("id"), json.loads(said["data"])
                else:
                    said = {}
            raise AssertionError("the stream ended")

        yield answer, message


def test_what_is_revoked_hears_nothing_after_five_seconds():
    assert telling.CHECK_SECONDS + max(auth.REMEMBER.total_seconds(), revocations.MOST_AGE_SECONDS) <= 5


def bearer(token, **more):
    return {"Authorization": f"Bearer {token}"} | more


async def test_events_arrive_and_a_client_goes_on_where_it_was(live):
    headers = bearer(live.token())
    async with opened(live.path(), headers=headers) as (answer, message):
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        await message("ready")
        written = await live.scene.write(2)
        place, first = await message(None)
    async with opened(live.path(), headers=headers | {"Last-Event-ID": place}, after="17.4") as (_, message):
        _, second = await message(None, "reset")
        [third] = await live.scene.write()
        _, last = await message(None)

    assert [first["id"], second["id"], last["id"]] == [*written, third]
    assert (first["run"], first["kind"]) == (str(live.scene.run_id), "claimed")


async def test_the_events_of_a_run_are_told_from_the_beginning(live):
    async with opened(live.path(run=True), headers=bearer(live.token())) as (_, message):
        _, planned = await message(None)
        [event] = await live.scene.write()
        _, last = await message(None)

    assert (planned["kind"], last["id"]) == ("planned", event)


async def test_a_browser_listens_by_its_cookie_and_hears_nothing_after_its_session(live):
    async with client_of(live.app, live.token(subject="ada")) as person:
        begun = await person.post("/v1/session")
    secret = begun.headers["set-cookie"].partition(";")[0].partition("=")[2]
    cookie = {"Cookie": f"{COOKIE}={secret}"}
    async with opened(live.path(), headers=cookie) as (answer, message):
        await message("ready")
        async with httpx2.AsyncClient(base_url=live.url) as browser:
            proof = {"X-CSRF-Token": begun.json()["csrf_token"], "Sec-Fetch-Site": "same-origin"}
            ended = await browser.delete("/v1/session", headers=cookie | proof)
        _, said = await message("end")

    assert (answer.status_code, ended.status_code, said["reason"]) == (200, 204, "token.ended")


async def test_a_stream_ends_with_a_revoked_token_soon(live):
    token = live.token(subject="mallory")
    async with opened(live.path(), headers=bearer(token)) as (_, message):
        await message("ready")
        async with client_of(live.app, live.token("admin")) as admin:
            path = f"/v1/tenants/{live.scene.tenant.name}/revocations"
            assert (await admin.post(path, json={"subject": "mallory", "reason": "why"})).status_code == 201
        _, said = await message("end")

    assert said["reason"] == "token.ended"


async def test_a_stream_ends_when_its_token_has_run_out(live):
    now = clock.process_now()
    token = mint_token(
        SECRET, subject="ada", roles=[Role.VIEWER], tenant_id=live.scene.tenant.id, now=now - timedelta(seconds=40),
        lifetime=timedelta(seconds=11),
    )  # fmt: skip
    async with opened(live.path(), headers=bearer(token)) as (_, message):
        _, said = await message("end")

    assert said["reason"] == "token.ended"


async def test_a_stream_ends_with_a_service_token_that_is_revoked(live):
    wish = identity.TokenWish(name="ci", roles=["viewer"], queues=None, tasks=None, by="tester")
    db, tenant_id = live.scene.db, live.scene.tenant.id
    made, secret = await identity.create_token(db, tenant_id=tenant_id, wish=wish, lifetime=timedelta(hours=1))
    async with opened(live.path(), headers=bearer(secret)) as (_, message):
        await message("ready")
        async with client_of(live.app, live.token("admin")) as admin:
            answer = await admin.delete(f"/v1/tenants/{live.scene.tenant.name}/tokens/{made.token_id}")
        assert answer.status_code == 204, answer.text
        _, said = await message("end")

    assert said["reason"] == "token.ended"


async def test_one_stream_too_many_is_refused_and_a_place_comes_free_when_a_client_leaves(live):
    headers = bearer(live.token())
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(3):
            _, message = await stack.enter_async_context(opened(live.path(), headers=headers))
            await message("ready")
        async with opened(live.path(), headers=headers) as (answer, _):
            problem = json.loads(await answer.aread())
            assert (answer.status_code, problem["code"], problem["bucket"]) == (429, "rate.exceeded", "streams")
            assert answer.headers["retry-after"] == "5"
    async with asyncio.timeout(20):
        while True:
            async with opened(live.path(), headers=headers, follow="false") as (answer, _):
                if answer.status_code == 200:
                    break


async def test_a_stop_ends_streams_with_an_answer(live):
    async with opened(live.path(), headers=bearer(live.token())) as (_, message):
        await message("ready")
        live.scene.hub.close()
        _, said = await message("end")
        with pytest.raises(AssertionError, match="the stream ended"):
            await message("end")

    assert said["reason"] == "server.stopping"


@pytest.mark.parametrize(
    ("headers", "params", "pointer"),
    [
        ({"Last-Event-ID": "x"}, {}, "header:Last-Event-ID"),
        ({"Last-Event-ID": "9" * 60}, {}, "header:Last-Event-ID"),
        ({}, {"after": "1.x"}, "query:after"),
        ({}, {"after": ""}, "query:after"),
        ({}, {"filter": "state:dead"}, "query:filter"),
        ({}, {"filter": "kind:nope"}, "query:filter"),
        ({}, {"follow": "perhaps"}, "query:follow"),
    ],
)
async def test_a_stream_that_cannot_be_is_refused_before_it_begins(live, headers, params, pointer):
    async with opened(live.path(), headers=bearer(live.token()) | headers, **params) as (answer, _):
        problem = json.loads(await answer.aread())

    assert (answer.status_code, problem["errors"][0]["pointer"]) == (422, pointer)


@pytest.mark.parametrize("run", [False, True])
async def test_a_stream_that_does_not_follow_ends_when_everything_is_told(live, run):
    async with opened(live.path(run=run), headers=bearer(live.token()), follow="false") as (_, message):
        if run:
            assert (await message(None))[1]["kind"] == "planned"
        _, said = await message("end")

    assert said["reason"] == "told"
