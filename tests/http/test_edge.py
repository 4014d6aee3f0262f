"""The outermost layer: ids, headers, tokens, sizes, and a problem whatever goes wrong."""

import asyncio
import json

import psycopg
import pytest
from fastapi import APIRouter
from psycopg_pool import PoolTimeout
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from everwhen.alerts import unsubscribing
from everwhen.http.access import Anybody, PermittedRoute, Platform
from everwhen.http.app import create_app
from everwhen.http.auth import Authenticator
from everwhen.http.bodies import ControlRoute
from everwhen.http.plane import ControlPlane
from everwhen.http.roles import Permission
from everwhen.postgres.errors import IndeterminateCommitError
from tests.people import ROUTERS, SECRET, client_of, token_of

PROBLEM_MEMBERS = {"type", "title", "status", "detail", "code", "errors", "request_id", "retryable", "docs"}
ERRORS = {
    "boom": ValueError("secret: DETAIL Key (name)=(canary)"),
    "away": psycopg.OperationalError("secret: canary"),
    "full": PoolTimeout("secret: canary"),
    "unknown": IndeterminateCommitError("secret: canary"),
    "constraint": psycopg.errors.UniqueViolation("secret: DETAIL Key (name)=(canary)"),
}


def app_without_database(*, body_bytes_max: int = 8192):
    router = APIRouter(route_class=ControlRoute)

    @router.get("/fail/{kind}")
    async def fail(kind: str, access: Anybody) -> None:
        raise ERRORS[kind]

    @router.post("/things/{name}/parts/preview")
    async def preview_part(name: str, access: Anybody) -> str:
        return "preview"

    @router.get("/things/{name}/parts/{part}")
    async def get_part(name: str, part: str, access: Anybody) -> str:
        return part

    @router.get("/things/{name}")
    async def get_thing(name: str, access: Anybody) -> str:
        return name

    @router.post("/things/{name}")
    async def post_thing(name: str, body: dict[str, int], access: Anybody) -> int:
        return len(body)

    @router.delete("/things/{name}", status_code=204)
    async def delete_thing(name: str, access: Anybody) -> None:
        pass

    async def plain(request):
        return PlainTextResponse("plain")

    plane = ControlPlane(
        database=None,
        authenticator=Authenticator(SECRET),
        find_tenant=None,
        body_bytes_max=body_bytes_max,
    )
    route = PermittedRoute("/v1/worker/plain", plain, permission=Permission.ANY, methods=["POST"], name="worker.plain")
    return create_app(plane, routers=[router], first_routes=[route])


def test_the_servers_own_routes_and_the_pages_that_need_no_token_let_it_start():
    plane = ControlPlane(database=None, authenticator=Authenticator(SECRET), find_tenant=None)

    create_app(plane, routers=[*ROUTERS, unsubscribing.router])


def test_a_route_that_names_no_permission_keeps_the_server_from_starting():
    router = APIRouter(route_class=ControlRoute)

    @router.get("/open")
    async def forgotten() -> str:
        return "to everybody"

    @router.get("/twice")
    async def twice(one: Anybody, other: Platform) -> str:
        return "to whom?"

    plane = ControlPlane(database=None, authenticator=Authenticator(SECRET), find_tenant=None)
    plain = Route("/v1/worker/plain", lambda request: PlainTextResponse("x"))
    first, second = (APIRouter(routes=[route]) for route in router.routes)
    for routers, extra in (([first], []), ([second], []), ([], [plain])):
        with pytest.raises(ValueError, match="names no permission, or more than one"):
            create_app(plane, routers=routers, first_routes=extra)


@pytest.fixture
async def client():
    async with client_of(app_without_database(), token_of("admin")) as opened:
        yield opened


@pytest.fixture
async def stranger():
    async with client_of(app_without_database()) as opened:
        yield opened


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/things/a"), ("POST", "/things/a"), ("GET", "/nowhere"), ("POST", "/v1/worker/plain"),
     ("GET", "/v1/openapi.json"), ("PUT", "/things/a"), ("GET", "/healthz/"), ("GET", "//healthz")],
)  # fmt: skip
async def test_every_path_needs_a_token_whether_it_exists_or_not(stranger, method, path):
    answer = await stranger.request(method, path)

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="everwhen"'
    assert answer.json()["code"] == "auth.required"


async def test_the_liveness_of_the_process_needs_none(stranger):
    answer = await stranger.get("/healthz")

    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


async def test_every_bad_token_gets_the_same_bytes(stranger):
    bodies = set()
    for header in ("", "Bearer x", "Bearer a.b.c", f"Bearer {token_of('admin')}x", f"Basic {token_of('admin')}"):
        answer = await stranger.get("/things/a", headers={"Authorization": header, "Request-Id": "fixed"})
        bodies.add((answer.status_code, answer.content))

    assert len(bodies) == 1


async def test_two_tokens_in_one_request_are_refused(stranger):
    pair = [("Authorization", f"Bearer {token_of('admin')}"), ("Authorization", f"Bearer {token_of('admin')}")]
    answer = await stranger.get("/things/a", headers=pair)

    assert answer.status_code == 401


async def test_a_plain_route_is_served_behind_the_same_edge(client):
    answer = await client.post("/v1/worker/plain")

    assert (answer.status_code, answer.text) == (200, "plain")
    assert answer.headers["request-id"]


async def test_every_answer_carries_security_headers(client):
    for path in ("/healthz", "/things/a", "/nowhere", "/fail/boom"):
        headers = (await client.get(path)).headers

        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "server" not in headers


async def test_a_request_id_is_echoed_and_a_strange_one_replaced(client):
    kept = await client.get("/nowhere", headers={"Request-Id": "abc-1.2_3"})
    made = await client.get("/nowhere", headers={"Request-Id": "a b<script>"})

    assert kept.headers["request-id"] == kept.json()["request_id"] == "abc-1.2_3"
    assert made.headers["request-id"] == made.json()["request_id"]
    assert made.headers["request-id"].startswith("req_")


@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [
        ("boom", 500, "internal"),
        ("constraint", 500, "internal"),
        ("away", 503, "database.unavailable"),
        ("full", 503, "database.unavailable"),
        ("unknown", 503, "commit.unknown"),
    ],
)
async def test_what_goes_wrong_inside_is_a_problem_that_tells_nothing(client, kind, status, code):
    answer = await client.get(f"/fail/{kind}")
    problem, retryable = answer.json(), status == 503

    assert answer.status_code == problem["status"] == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert set(problem) == PROBLEM_MEMBERS
    assert (problem["code"], problem["retryable"]) == (code, retryable)
    assert ("retry-after" in answer.headers) == retryable
    assert "canary" not in answer.text
    assert "secret" not in answer.text


async def test_an_unknown_path_is_a_problem(client):
    answer = await client.get("/nowhere")

    assert (answer.status_code, answer.json()["code"]) == (404, "route.unknown")


async def test_a_method_that_is_not_there_is_told_all_that_are(client):
    answer = await client.put("/things/a")

    assert (answer.status_code, answer.json()["code"]) == (405, "method.not_allowed")
    assert answer.headers["allow"] == "DELETE, GET, POST"


async def test_a_path_that_is_spelled_out_tells_the_methods_of_the_document(client):
    answer = await client.options("/things/a/parts/preview")

    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


async def test_a_plain_route_tells_its_methods_too(client):
    answer = await client.get("/v1/worker/plain")

    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


async def test_a_body_over_the_limit_is_refused_while_it_is_read():
    sent = 0

    async def endless():
        nonlocal sent
        while True:
            sent += 256
            yield b'"' + b"a" * 255

    async with client_of(app_without_database(body_bytes_max=1024), token_of("admin")) as client:
        answer = await asyncio.wait_for(
            client.post("/things/a", content=_first(endless(), 1000), headers={"Content-Type": "application/json"}), 10
        )

    assert (answer.status_code, answer.json()["code"]) == (413, "body.too_large")


async def test_a_client_that_goes_away_in_mid_body_gets_no_answer_and_is_no_failure(capsys):
    app, sent = app_without_database(), []
    messages = iter([{"type": "http.request", "body": b'{"a":', "more_body": True}, {"type": "http.disconnect"}])
    headers = [(b"authorization", f"Bearer {token_of('admin')}".encode()), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/things/a", "raw_path": b"/things/a", "query_string": b"",
             "headers": headers, "scheme": "http", "server": ("x", 80), "http_version": "1.1"}  # fmt: skip

    async def receive():
        return next(messages)

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)

    assert sent == []
    assert "request.failed" not in capsys.readouterr().out


async def _first(stream, most):
    async for chunk in stream:
        yield chunk
        most -= 1
        if most == 0:
            return


async def test_a_body_that_is_not_json_is_refused_by_its_media_type(client):
    answer = await client.post("/things/a", content="a=1", headers={"Content-Type": "text/plain"})

    assert (answer.status_code, answer.json()["code"]) == (415, "body.media_type")


async def test_a_strange_body_is_refused_before_its_fields_are_read(client):
    answer = await client.post(
        "/things/a", content=b'{"a": 1, "a": 2}', headers={"Content-Type": "application/json; charset=utf-8"}
    )

    assert (answer.status_code, answer.json()["code"]) == (422, "json.duplicate_key")


async def test_wrong_fields_are_pointed_at(client):
    answer = await client.post("/things/a", json={"a/b": "x", "c~d": None})
    errors = answer.json()["errors"]

    assert answer.status_code == 422
    assert {error["pointer"] for error in errors} == {"/a~1b", "/c~0d"}


async def test_what_was_sent_does_not_come_back_at_length(client):
    answer = await client.post("/things/a", json={"k" * 50 + str(n): "x" * 5 for n in range(50)})

    assert len(answer.json()["errors"]) == 20
    assert len((await client.post("/things/a", json={"k" * 900: "x"})).json()["errors"][0]["pointer"]) == 501


async def test_a_missing_body_is_pointed_at(client):
    answer = await client.post("/things/a")

    assert answer.json()["errors"] == [{"code": "field.missing", "pointer": "", "detail": "Field required"}]


async def test_a_problem_is_plain_json(client):
    answer = await client.get("/nowhere")

    assert json.loads(answer.content) == answer.json()
