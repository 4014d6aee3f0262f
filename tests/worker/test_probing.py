"""The probe: live while the loop answers, ready while runs are claimed, and nobody who asks holds it up."""

import asyncio
import socket
import threading

import pytest

from everwhen.worker import Worker
from everwhen.worker.errors import ConfigurationError
from everwhen.worker.probing import MOST_ASKERS, MOST_BYTES, Probe, read_address
from everwhen.worker.settings import resolve

ENVIRON = {"EVERWHEN_URL": "http://x", "EVERWHEN_TOKEN": "t"}


async def ask(port, request):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        return (await reader.read()).decode()
    except ConnectionResetError:
        return ""
    finally:
        writer.close()


def get(path, method="GET"):
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


async def test_it_is_live_and_ready_or_says_why_not():
    why = None
    async with Probe(not_ready=lambda: why).listening("127.0.0.1:0") as port:
        assert (await ask(port, get("/live"))).splitlines()[0] == "HTTP/1.1 200 OK"
        assert (await ask(port, get("/ready?verbose"))).endswith("\r\n\r\nready\n")
        why = "the server is away"
        answer = await ask(port, get("/ready"))
        assert answer.startswith("HTTP/1.1 503 ")
        assert answer.endswith("the server is away\n")
        assert (await ask(port, get("/ready", "HEAD"))).endswith("\r\n\r\n")
        assert (await ask(port, get("/live"))).startswith("HTTP/1.1 200 ")
        assert (await ask(port, get("/"))).startswith("HTTP/1.1 404 ")
        assert (await ask(port, get("/live", "POST"))).startswith("HTTP/1.1 405 ")


async def test_what_says_too_much_or_comes_too_often_is_hung_up_on():
    async with Probe(not_ready=lambda: None).listening("127.0.0.1:0") as port:
        assert await ask(port, b"GET /" + b"x" * (2 * MOST_BYTES)) == ""
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MOST_ASKERS)]
        assert await ask(port, get("/live")) == ""
        for _, writer in silent:
            writer.close()
        async with asyncio.timeout(30):
            while not (await ask(port, get("/live"))).startswith("HTTP/1.1 200 "):  # noqa: ASYNC110  # until they are gone
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("text", ["8090", ":8090", "x:", "x:y", "x:65536", "x:-1", "x:²"])
def test_an_address_that_is_none_is_refused_before_anything_starts(text):
    with pytest.raises(ConfigurationError):
        resolve({"probe": text}, environ=ENVIRON)


async def test_an_address_that_is_taken_is_an_error_of_the_configuration():
    probe = Probe(not_ready=lambda: None)
    async with probe.listening("127.0.0.1:0") as port:
        with pytest.raises(ConfigurationError):
            async with probe.listening(f"127.0.0.1:{port}"):
                pass


def test_an_address_has_a_host_and_a_port():
    assert read_address("[::]:8090") == ("::", 8090)
    assert resolve({}, environ={**ENVIRON, "EVERWHEN_PROBE": "0.0.0.0:8090"}).probe == "0.0.0.0:8090"


def test_a_worker_is_ready_while_it_claims_and_live_until_it_has_drained(fleet, start, until):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    worker, begun, gate = Worker(), threading.Event(), threading.Event()

    @worker.task("hold")
    def hold():
        begun.set()
        gate.wait(60)

    def says(path):
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=60) as asker:
                asker.sendall(get(path))
                return asker.makefile().read()
        except ConnectionRefusedError:
            return ""

    fleet.add("hold")
    running = start(worker, probe=f"127.0.0.1:{port}")
    assert begun.wait(60)
    assert says("/ready").endswith("ready\n")
    running.stop()
    until(lambda: says("/ready").endswith("it stops\n"), "the drain")
    assert says("/live").endswith("live\n")
    gate.set()
    assert running.join() == 0
    assert says("/live") == ""
