"""`everwhen run request --watch` outlives the API: kill -9, and another in its place: each event is told once."""

import json

import pytest

from everwhen.http.roles import Role
from tests.system.fleet import Fleet, Process, free_port, running_fleet, wait_until

pytestmark = pytest.mark.system


def watch(fleet: Fleet, port: int, task: str) -> Process:
    options = ["--url", f"http://127.0.0.1:{port}", "--tenant", "acme", "-o", "ndjson", "--timeout", "120"]
    return fleet._start(
        "watch", ["run", "request", task, "--watch", *options], {"EVERWHEN_TOKEN": fleet.token(Role.ADMIN)}
    )


def told(fleet: Fleet) -> list[dict]:
    lines = (fleet.folder / "watch.log").read_text().splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def has_told(fleet: Fleet, kind: str) -> bool:
    return (fleet.folder / "watch.log").exists() and kind in {event["kind"] for event in told(fleet)}


def test_a_watch_goes_on_with_the_next_api_and_tells_each_event_once() -> None:
    with running_fleet() as fleet:
        port = free_port()
        first = fleet.serve("api,scheduler,reaper", port=port)
        wait_until(lambda: port_answers(port), seconds=60, what="the API is there")
        fleet.work(port, lease_seconds=30)
        watching = watch(fleet, port, "holder")
        wait_until(lambda: has_told(fleet, "claimed"), seconds=60, what="the watch tells that it is claimed")

        fleet.kill(first)
        fleet.serve("api,scheduler,reaper", port=port)
        wait_until(lambda: port_answers(port), seconds=60, what="the next API is there")
        fleet.let_go()

        assert watching.wait(100) == 0
        kept = fleet.fetch("select event_id, kind from everwhen.events order by event_id")
        assert [(event["id"], event["kind"]) for event in told(fleet)] == [(number, kind) for number, kind in kept]
        assert told(fleet)[-1]["kind"] == "succeeded"


def port_answers(port: int) -> bool:
    import httpx2

    try:
        return httpx2.get(f"http://127.0.0.1:{port}/healthz/ready").is_success
    except httpx2.TransportError:
        return False
