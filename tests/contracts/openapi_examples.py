"""Records what every operation is asked and answers, on a real server: `python -m tests.contracts.openapi_examples`.

The examples of the OpenAPI document are one conversation: a tenant that has one of everything, and each operation is
called once on it, in the order in which they succeed. What is kept already stays as it is for as long as it holds, so
that a new operation adds its own example and changes no other.
"""

import asyncio
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema_rs

import everwhen
from everwhen.http.roles import Role
from everwhen.http.sessions import COOKIE
from everwhen.postgres.pool import Database, PoolLimits
from tests.contracts.test_isolation import BODIES, app_with_payloads, call, furnish, furnish_worker
from tests.database import run_server
from tests.people import client_of, token_of

FILE = Path(everwhen.__file__).parent / "http" / "examples.json"
MOST_ITEMS = 2
MOST_TEXT = 1_000
TENANT = "acme"
JSON = "application/json"
_FORM = {"dedup_id": "nightly", "schedule": "30 2 * * *", "priority": "7"}
_PROGRAM = ("program.sh", b"#!/bin/sh\necho hello\n")


@dataclass(frozen=True)
class Exchange:
    """What one operation was asked, and what it answered."""

    path: dict[str, str]
    query: dict[str, str]
    request: Any
    status: int
    response: Any

    def kept(self) -> dict[str, Any]:
        said = {name: value for name, value in vars(self).items() if value is not None}
        return {name: value for name, value in said.items() if value or name not in {"path", "query"}}


class Scribe:
    """A client that remembers what was said last."""

    def __init__(self, client, document):
        self._client = client
        self._templates = [
            (method.upper(), path, re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path) + "$"))
            for path, methods in document["paths"].items()
            for method in methods
        ]
        self.last = None

    async def request(self, method, url, *, template=None, files=None, form=None, **words):
        answer = await self._client.request(method, url, files=files, data=form, **words)
        self.last = self._exchange(method, answer, template, words.get("json") if files is None else form)
        return answer

    async def post(self, url, **words):
        return await self._client.post(url, **words)

    def _exchange(self, method, answer, template, said) -> Exchange:
        path = answer.request.url.path
        found = [
            (candidate, match)
            for verb, candidate, pattern in self._templates
            if verb == method and (match := pattern.match(path)) and template in {None, candidate}
        ]
        _, match = min(found, key=lambda each: each[0].count("{"))
        kind = answer.headers.get("content-type", "").partition(";")[0]
        said = json.loads(json.dumps(said)) if said is not None else None
        heard = answer.json() if kind == JSON and answer.content else answer.text or None
        query = dict(answer.request.url.params)
        return Exchange(match.groupdict(), query, said, answer.status_code, shortened(heard))


def shortened(value: Any) -> Any:
    """An answer with the first items of its lists, and the beginning of what is long."""
    if isinstance(value, list):
        return [shortened(each) for each in value[:MOST_ITEMS]]
    if isinstance(value, dict):
        return {key: shortened(each) for key, each in value.items()}
    if isinstance(value, str) and len(value) > MOST_TEXT:
        return value[:MOST_TEXT]
    return value


async def converse(database: Database) -> dict[str, Exchange]:
    """Call every operation once; return what was said."""
    app = app_with_payloads(database)
    document, said, paths = app.openapi(), {}, paths_of(app)
    tenant, things = await furnish(database, name=TENANT)
    async with client_of(app, token_of("admin", "worker", tenant_id=tenant.id, subject="login:ann")) as client:
        scribe = Scribe(client, document)
        await _use_the_task_service(scribe, said)
        for name in BODIES:
            method, path = paths[name]
            await call(scribe, name, method, path, tenant=things.tenant, things=things)
            said[name] = scribe.last
    await _be_the_platform(app, database, said)
    await _begin_a_session(app, tenant, document, said)
    return said


def paths_of(app) -> dict[str, tuple[str, str]]:
    return {
        operation["operationId"]: (method.upper(), path)
        for path, methods in app.openapi()["paths"].items()
        for method, operation in methods.items()
    }


async def _use_the_task_service(scribe: Scribe, said: dict[str, Exchange]) -> None:
    async def do(name, method, url, **words):
        answer = await scribe.request(method, url, **words)
        assert answer.is_success, (name, answer.text)
        said[name] = scribe.last
        return answer

    files = {"payload": _PROGRAM}
    posted = await do("post_service_task", "POST", "/task", files=files, form=_FORM)
    task = posted.json()["id"]
    await do("get_service_task", "GET", "/task", params={"id": task})
    changed = {"dedup_id": "nightly", "priority": "3"}
    await do("change_service_task", "PUT", "/task", files={"payload": _PROGRAM}, form=changed)
    await do("set_service_task_status", "PUT", "/task/status", json={"id": task, "status": "disable"})
    await do("list_service_tasks", "GET", "/tasks")
    await do("delete_service_task", "DELETE", "/task", params={"id": task})


async def _be_the_platform(app, database, said) -> None:
    roles, paths = (Role.PLATFORM, Role.ADMIN), paths_of(app)
    worker = await furnish_worker(database, None, name="shared")
    values = {"tenant": TENANT, "queue": f"{TENANT}-queue", "worker": worker}
    bodies = {
        "create_platform_revocation": {"subject": "login:mallory", "reason": "left the company"},
        "create_tenant": {"name": "umbrella"},
        "update_limits": {"schedules": 300},
        "set_queue_share": {"weight": 2},
        "drain_shared_worker": {"reason": "maintenance", "exit": False},
        "cordon_shared_worker": {"reason": "maintenance"},
    }
    async with client_of(app, token_of(*roles, subject="operator")) as client:
        scribe = Scribe(client, app.openapi())
        for name in (each for each in paths if each not in said and each not in SESSIONS):
            method, path = paths[name]
            if "{event}" in path:
                values["event"] = said["list_platform_audit"].response["items"][0]["id"]
            answer = await scribe.request(method, path.format(**values), json=bodies.get(name), template=path)
            assert answer.is_success, (name, answer.text)
            said[name] = scribe.last


SESSIONS = ("begin_session", "get_session", "end_session")


async def _begin_a_session(app, tenant, document, said) -> None:
    async with client_of(app, token_of("viewer", tenant_id=tenant.id, subject="login:ann")) as client:
        scribe = Scribe(client, document)
        begun = await scribe.request("POST", "/v1/session")
        said["begin_session"] = scribe.last
    secret = begun.headers["set-cookie"].partition(";")[0].partition("=")[2]
    proof = {"Cookie": f"{COOKIE}={secret}", "X-CSRF-Token": begun.json()["csrf_token"]}
    async with client_of(app) as client:
        scribe = Scribe(client, document)
        for method, name in (("GET", "get_session"), ("DELETE", "end_session")):
            answer = await scribe.request(method, "/v1/session", headers=proof)
            assert answer.is_success, answer.text
            said[name] = scribe.last


def unlike(document: dict, operation: dict, status: int, response: Any) -> list[str]:
    """Where an answer is not as its operation's schema says; empty: nowhere."""
    declared = operation["responses"].get(str(status))
    if declared is None:
        return [f"the status {status} is not declared"]
    schema = declared.get("content", {}).get(JSON, {}).get("schema")
    if schema is None:
        return []
    validator = jsonschema_rs.Draft202012Validator({**schema, "components": document["components"]})
    return [f"{'/'.join(map(str, error.instance_path))}: {error.message}" for error in validator.iter_errors(response)]


def likeness(value: Any) -> Any:
    """A request without what differs from one conversation to the next: ids, digests, codes, tokens."""
    text = json.dumps(value, sort_keys=True)
    return re.sub(
        r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{64}|pln_[^\"]+|[0-9A-Z]{4}-[0-9A-Z]{4}|[\w-]{20,}|\d{6,}", "*", text
    )


async def record() -> int:
    """Keep an example of each operation that has none that holds; return of how many."""
    with run_server() as server:
        server.create("examples")
        async with await Database.open(server.app("examples"), limits=PoolLimits(min_size=1, max_size=4)) as database:
            said = await converse(database)
            document = app_with_payloads(database).openapi()
    kept = json.loads(FILE.read_text()) if FILE.exists() else {}
    operations = {each["operationId"]: each for methods in document["paths"].values() for each in methods.values()}
    fresh = {
        name: exchange.kept()
        for name, exchange in said.items()
        if not holds(document, operations[name], kept.get(name), exchange)
    }
    whole = {name: fresh.get(name, kept.get(name)) for name in sorted(said)}
    FILE.write_text(json.dumps(whole, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")
    return len(fresh)


def holds(document: dict, operation: dict, kept: dict | None, exchange: Exchange) -> bool:
    """Whether the example that is kept is as good as what has just been said."""
    return (
        kept is not None
        and kept["status"] == exchange.status
        and likeness(kept.get("request")) == likeness(exchange.request)
        and set(kept.get("query", {})) == set(exchange.query)
        and set(kept.get("path", {})) == set(exchange.path)
        and not unlike(document, operation, kept["status"], kept.get("response"))
    )


if __name__ == "__main__":
    print(f"{asyncio.run(record())} examples written to {FILE}")  # noqa: T201  # a command
