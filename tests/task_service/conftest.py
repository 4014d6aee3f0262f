"""A server as its users meet it: HTTP on a port, with the roles that make runs."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx2
import pytest
import uvicorn

from everwhen import clock, roles
from everwhen.app import make_app
from everwhen.config import Settings
from everwhen.postgres.pool import Database
from everwhen.role_makers import make_role
from everwhen.roles import Loop
from everwhen.services import Services, open_services
from everwhen.tenants.model import Tenant
from tests.factories import make_tenant
from tests.people import SECRET, token_of

TICKING = ("scheduler", "reaper", "porter")


@dataclass(frozen=True, kw_only=True)
class Served:
    """A server that runs, and one of its tenants."""

    url: str
    database: Database
    tenant: Tenant

    def client(self, subject: str = "ann", *, role: str = "editor", tenant: Tenant | None = None) -> httpx2.AsyncClient:
        """A user's client."""
        token = token_of(role, tenant_id=(tenant or self.tenant).id, subject=subject)
        return httpx2.AsyncClient(base_url=self.url, headers={"Authorization": f"Bearer {token}"}, timeout=30)


@asynccontextmanager
async def listening(services: Services) -> AsyncIterator[str]:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        config = uvicorn.Config(make_app(services), log_config=None, access_log=False, lifespan="off")
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve(sockets=[bound]))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        services.lines.close()
        server.should_exit = True
        await serving


@asynccontextmanager
async def ticking(services: Services) -> AsyncIterator[None]:
    """The roles go round as they do in a server, a little faster."""
    stop = asyncio.Event()

    async def now():
        async with services.database.system() as conn:
            return conn.now

    async def wait(seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.2))

    loop = Loop(clock=now, wait_for_wakeup=wait, stop=stop)
    async with asyncio.TaskGroup() as tasks:
        for name in TICKING:
            tasks.create_task(roles.run(make_role(name, services), loop))
        yield
        stop.set()


@pytest.fixture
async def served(server, work_database, database, tmp_path):
    settings = Settings(jwt_secret=SECRET, data_dir=tmp_path, pool_size=4, claim_wait_seconds_max=1.0)  # pyright: ignore[reportCallIssue]
    tenant = await make_tenant(database, name=f"acme-{clock.new_id(clock.process_now()).hex[-6:]}")
    async with (
        open_services(settings, server.app(work_database)) as services,
        listening(services) as url,
        ticking(services),
    ):
        yield Served(url=url, database=database, tenant=tenant)


@pytest.fixture
async def ann(served):
    async with served.client("ann") as client:
        yield client
