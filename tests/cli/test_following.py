"""`everwhen events` and `--watch`: what they print, how they go on after a broken connection, and how they exit."""

import asyncio
import contextlib
import json
import threading

import httpx2
import pytest

from everwhen.cli import following
from everwhen.cli.client import CallFailed
from everwhen.cli.following import Following, Message, TimeIsUp, parse
from everwhen.core.lifecycle import RunState
from everwhen.postgres.pool import Database, PoolLimits
from everwhen.tenants.service import find_tenant
from tests.cli.conftest import TENANT
from tests.factories import make_run

REPORT = ("task", "create", "report", "--queue", "reports")


class Server:
    """Answers streams from a script: lists of lines, or a failure, one for each connection."""

    def __init__(self, *connections):
        self.connections, self.asked = list(connections), []

    @contextlib.contextmanager
    def stream(self, method, path, *, headers, timeout, **params):
        self.asked.append((headers.get("Last-Event-ID"), params))
        connection = self.connections.pop(0) if self.connections else CallFailed({}, exit_code=6)
        if isinstance(connection, Exception):
            raise connection
        if isinstance(connection, httpx2.Response):
            yield connection
            return
        yield httpx2.Response(200, text="".join(f"{line}\n" for line in connection))


def told(number: int) -> list[str]:
    return [f"id: 7.{number}", f'data: {{"id": {number}}}', ""]


def end(reason: str) -> list[str]:
    return ["event: end", f'data: {{"reason": "{reason}", "detail": "why"}}', ""]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(following, "FIRST_PAUSE", 0.0)
    monkeypatch.setattr(following, "MOST_PAUSE", 0.0)


def follow(*connections, **words):
    server = Server(*connections)
    stream = Following(server, "/x", **words)
    return server, stream, [event["id"] for event in stream.events()]


def test_a_stream_is_read_piece_by_piece():
    lines = ["retry: 10", "", ": so far", "id: 6", "", "event: ready", "id: 5", 'data: {"filter": null}', "", *told(1)]

    assert list(parse(lines)) == [
        Message(None, "6", None),
        Message("ready", "5", {"filter": None}),
        Message(None, "7.1", {"id": 1}),
    ]


@pytest.mark.parametrize("lines", [["id: 7.1", 'data: {"id"'], ["id: 7.1"], ["data: 1"]])
def test_a_piece_that_breaks_off_is_none(lines):
    assert list(parse(lines)) == []


def test_a_connection_that_breaks_is_gone_on_with_behind_what_was_heard():
    server, _, events = follow(
        told(1),
        [*told(2), "id: 7.3", 'data: {"id"'],
        told(3),
        [": so far", "id: 9", ""],
        end("told"),
        filter="kind:dead",
    )

    assert events == [1, 2, 3]
    assert [place for place, _ in server.asked] == [None, "7.1", "7.2", "7.3", "9"]
    assert {params["filter"] for _, params in server.asked} == {"kind:dead"}


def test_a_server_that_stops_is_followed_by_the_next_one():
    _, _, events = follow(told(1) + end("server.stopping"), told(2) + end("told"))

    assert events == [1, 2]


def test_it_gives_up_when_nobody_answers_for_long():
    with pytest.raises(CallFailed) as failed:
        follow(told(1), *[CallFailed({}, exit_code=6)] * 20)

    assert failed.value.exit_code == 6


def test_failures_are_counted_in_a_row():
    away = [CallFailed({}, exit_code=6)] * (following.MOST_FAILURES - 1)

    assert follow(*away, told(1), *away, told(2), end("told"))[2] == [1, 2]


@pytest.mark.parametrize(
    ("connection", "code"),
    [
        (end("token.ended"), 4),
        (httpx2.Response(404, json={"detail": "x"}, request=httpx2.Request("GET", "http://x")), 3),
        (httpx2.Response(422, json={"detail": "x"}, request=httpx2.Request("GET", "http://x")), 2),
    ],
)
def test_what_is_refused_ends_it_at_once(connection, code):
    with pytest.raises(CallFailed) as failed:
        follow(told(1), connection, told(2))

    assert failed.value.exit_code == code


def test_too_many_streams_is_worth_another_try():
    full = httpx2.Response(429, json={"detail": "x"}, request=httpx2.Request("GET", "http://x"))

    assert follow(full, told(1) + end("told"))[2] == [1]


def test_it_takes_no_longer_than_it_is_given():
    with pytest.raises(TimeIsUp):
        follow(told(1), seconds=0.0)


def test_a_reset_is_told_on_the_other_channel(capsys):
    _, _, events = follow(["event: reset", "id: 8", 'data: {"reason": "place.unknown"}', "", *told(1), *end("told")])

    assert events == [1]
    assert "not told any more" in capsys.readouterr().err


def test_events_are_told_and_gone_on_with(shell):
    shell(*REPORT)
    shell("run", "request", "report", "--key", "a")
    place = place_of_now(shell)
    shell("run", "request", "report", "--key", "b")
    shell("run", "cancel", shell.json("run", "list")["items"][0]["id"])
    lines = shell("events", "--after", place, "-o", "ndjson").stdout.splitlines()
    told = [json.loads(line) for line in lines]
    rest = shell("events", "--after", told[0]["place"], "-o", "name").stdout.split()
    dead = shell("events", "--after", place, "--filter", "kind:cancelled").stdout

    assert [each["kind"] for each in told] == ["planned", "cancelled"]
    assert rest == [told[1]["place"]]
    assert "cancelled" in dead
    assert "planned" not in dead


def place_of_now(shell) -> str:
    headers = {"Authorization": f"Bearer {shell.tokens['viewer']}"}
    answer = httpx2.get(f"{shell.url}/v1/tenants/{TENANT}/events/stream", headers=headers, params={"follow": "false"})
    return next(message.place for message in parse(answer.text.splitlines()) if message.name == "ready")


def test_events_need_a_beginning(shell):
    assert "--follow" in shell("events", exit_code=2).stderr


def test_a_watched_run_is_told_until_it_ends_and_the_exit_code_says_how(shell):
    shell(*REPORT)
    run = shell.json("run", "request", "report")["items"][0]["id"]
    timer = threading.Timer(0.5, cancel, args=[shell, run])
    timer.start()
    watched = shell("run", "show", run, "--watch", "-o", "ndjson", exit_code=10)
    timer.join()

    assert [json.loads(line)["kind"] for line in watched.stdout.splitlines()] == ["planned", "cancelled"]


def cancel(shell, run):
    headers = {"Authorization": f"Bearer {shell.tokens['admin']}"}
    assert httpx2.post(f"{shell.url}/v1/tenants/{TENANT}/runs/{run}/cancel", headers=headers).status_code == 200


def test_a_run_that_has_succeeded_is_watched_to_its_end_at_once(shell, server, work_database):
    run = asyncio.run(a_run_that_succeeded(server.app(work_database)))

    told = shell("run", "get", run, "--watch").stdout.splitlines()
    assert [line.split()[2] for line in told] == ["planned", "claimed#1", "succeeded#1"]


async def a_run_that_succeeded(conninfo: str) -> str:
    async with await Database.open(conninfo, limits=PoolLimits(min_size=1, max_size=2)) as database:
        tenant = await find_tenant(database, name=TENANT, bound_to=None)
        return str((await make_run(database, tenant, state=RunState.SUCCEEDED)).row.run_id)


def test_a_watch_that_is_over_before_the_run_says_so(shell):
    shell(*REPORT)
    watched = shell("run", "request", "report", "--watch", "--timeout", "0.5", exit_code=7)

    assert "planned" in watched.stdout
