"""A live server on a loopback port, and the command line beside it."""

import asyncio
import contextlib
import json
import socket
import threading
from dataclasses import dataclass

import pytest
import uvicorn
from click.testing import CliRunner, Result

from everwhen.alerts.channels.registry import Outside, make_kinds
from everwhen.alerts.service import Kit
from everwhen.cli import main
from everwhen.endpoints.service import EndpointsDesk
from everwhen.postgres.pool import Database, PoolLimits
from everwhen.streaming.hub import Hub
from tests.alerts.scene import SIGNER, PlainSealer
from tests.egress.guarded import egress
from tests.factories import make_tenant
from tests.people import app_on, token_of

TENANT = "acme"


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self):
        yield  # a thread has no signals


async def look_while_heard(hub):
    """Hand out events to streams, as the feed does."""
    while True:
        await hub.wait_until_heard(60)
        await hub.look()
        await asyncio.sleep(0.05)


async def serve_until(stop, app, listening, *, started):
    serving = _Server(uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=1))
    task = asyncio.create_task(serving.serve(sockets=[listening]))
    started.set()
    await asyncio.to_thread(stop.wait)
    serving.should_exit = True
    await task


@dataclass(frozen=True)
class Shell:
    """Runs commands as one person against one server."""

    url: str
    tokens: dict[str, str]

    def __call__(self, *arguments: str, who: str | None = "admin", exit_code: int = 0, **kwargs) -> Result:
        env = {"EVERWHEN_URL": self.url, "EVERWHEN_TENANT": TENANT, "EVERWHEN_TOKEN": who and self.tokens[who]}
        result = CliRunner().invoke(main, arguments, env=env, **kwargs)
        assert result.exit_code == exit_code, (arguments, result.exit_code, result.output, result.exception)
        return result

    def json(self, *arguments: str, **kwargs):
        return json.loads(self(*arguments, "-o", "json", **kwargs).stdout)


@pytest.fixture
def shell(server, work_database, tmp_path, monkeypatch):
    """The command line in an empty folder, with a live server and the tenant acme."""
    monkeypatch.chdir(tmp_path)
    started, stop, found = threading.Event(), threading.Event(), {}

    async def serve(listening):
        limits = PoolLimits(min_size=1, max_size=4)
        async with await Database.open(server.app(work_database), limits=limits) as database:
            tenant = await make_tenant(database, name=TENANT)
            found["tokens"] = {role: token_of(role, tenant_id=tenant.id) for role in ("admin", "viewer", "worker")}
            found["tokens"]["platform"] = token_of("platform", "viewer")
            found["tenant"] = tenant
            hub = Hub(database)
            app = app_on(database, streams=hub)
            app.state.alerts = Kit(kinds=make_kinds(Outside(egress=egress())), sealer=PlainSealer(), signer=SIGNER)
            app.state.endpoints = EndpointsDesk(database=database, sealer=PlainSealer(), policy=egress().policy)
            feed = asyncio.create_task(look_while_heard(hub))
            await serve_until(stop, app, listening, started=started)
            feed.cancel()

    # Named TCP, so that asyncio sends small answers at once; else each waits 40 ms for an acknowledgement.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        thread = threading.Thread(target=lambda: asyncio.run(serve(listening)), daemon=True)
        thread.start()
        assert started.wait(30)
        yield Shell(url=f"http://127.0.0.1:{listening.getsockname()[1]}", tokens=found["tokens"])
        stop.set()
        thread.join(30)
    server.clean(work_database)
