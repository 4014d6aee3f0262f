"""`everwhen endpoint` against a live server: from a queue without one to a run that it has done, and back."""

import asyncio
import threading
from contextlib import contextmanager

import pytest

from everwhen.postgres.pool import Database
from tests.alerts.servers import HttpsReceiver
from tests.dispatch.scene import database_now
from tests.endpoints.scene import make_caller

KEY = "whsec_" + "Y2FuYXJ5LWNhbmFyeS1jYW5hcnktY2FuYXJ5"


@pytest.fixture
def receiver():
    with HttpsReceiver(secrets=(KEY,)) as made:
        yield made


@pytest.fixture
def calling(server, work_database):
    """Let the caller go round, while the block lasts."""

    async def work(stop: threading.Event) -> None:
        async with await Database.open(server.app(work_database)) as db:
            caller = make_caller(db)
            while not stop.is_set():
                await caller.tick(await database_now(db))
                await asyncio.sleep(0.05)
            await caller.calls.settle()

    @contextmanager
    def going_round():
        stop = threading.Event()
        thread = threading.Thread(target=lambda: asyncio.run(work(stop)))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(30)

    return going_round


def test_from_a_new_endpoint_to_a_run_that_it_has_done(shell, receiver, calling):
    url = receiver.url
    made = shell("endpoint", "set", "billing", "--to", url, "--header", "X-Team=ops", "-o", "json", input=KEY)
    shell("task", "create", "invoice", "--queue", "billing")
    run = shell("run", "request", "invoice", "-o", "name").stdout.strip()
    with calling():
        tested = shell.json("endpoint", "test", "billing")["items"][0]
    shell("endpoint", "set", "billing", "--answer-seconds", "5")
    changed = shell.json("endpoint", "get", "billing")["items"][0]
    shell("endpoint", "delete", "billing", "--yes")
    gone = shell("endpoint", "get", "billing", exit_code=3)

    assert KEY not in made.stdout
    assert tested["answer"] == "200 OK"
    assert sorted(request.json["type"] for request in receiver.requests) == ["endpoint.test", "run.attempt"]
    assert {request.headers["x-team"] for request in receiver.requests} == {"ops"}
    assert (changed["answer_seconds"], changed["headers"], changed["secrets"]) == (5, {"X-Team": "ops"}, ["secret"])
    assert shell.json("run", "get", run)["items"][0]["state"] == "succeeded"
    assert "has no endpoint" in gone.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "give --to"),
        (("--to", "https://127.0.0.1:1/", "--header", "nothing"), "NAME=VALUE"),
        (("--to", "http://example.com/"), "begins with https://"),
        (("--to", "https://user@example.com/"), "user name"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(shell, arguments, says):
    refused = shell("endpoint", "set", "billing", *arguments, input=KEY, exit_code=2)

    assert says in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
