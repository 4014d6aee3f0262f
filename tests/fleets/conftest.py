"""The worker API and the control API of one server in this process, as different people see them."""

import pytest

from everwhen.app import FEATURES
from everwhen.fleets.worker_api import FleetApi
from everwhen.http.app import create_app
from everwhen.http.auth import Authenticator
from everwhen.http.plane import ControlPlane
from everwhen.tenants.service import find_tenant
from tests.factories import make_tenant
from tests.people import SECRET, client_of, token_of


class Rig:
    """A tenant, and clients for whoever asks."""

    def __init__(self, database, app, tenant):
        self.database, self.app, self.tenant = database, app, tenant

    def client(self, *roles, tenant="own", **more):
        tenant_id = self.tenant.id if tenant == "own" else tenant
        return client_of(self.app, token_of(*roles, tenant_id=tenant_id, **more))

    async def call(self, role, method, path, body=None, *, ok=200, **more):
        async with self.client(role, **more) as client:
            answer = await client.request(method, path, json=body)
        assert ok is None or answer.status_code == ok, answer.text
        return answer.json()

    async def announce(self, *, instance, ok=200, tenant="own", may=None, **said):
        """Announce, with a token that may claim from some queues; None: from all."""
        body = {"instance": str(instance), "worker": "w", "slots": 2, "queues": ["line"], **said}
        return await self.call("worker", "POST", "/v1/worker/announce", body, ok=ok, tenant=tenant, queues=may)

    async def beat(self, instance, *, ok=200, tenant="own", **said):
        body = {"instance": str(instance), "held": 0, "heard": "active", **said}
        return await self.call("worker", "POST", "/v1/worker/beat", body, ok=ok, tenant=tenant)

    async def leave(self, instance):
        return await self.call("worker", "POST", "/v1/worker/leave", {"instance": str(instance)})

    async def list(self, where="", role="viewer"):
        path = f"/v1/tenants/{self.tenant.name}/workers?filter={where}"
        return (await self.call(role, "GET", path))["items"]

    async def order(self, worker, verb, body=None, *, role="operator", ok=200):
        path = f"/v1/tenants/{self.tenant.name}/workers/{worker}/{verb}"
        return await self.call(role, "POST", path, body, ok=ok)


@pytest.fixture
async def rig(database):
    plane = ControlPlane(database=database, authenticator=Authenticator(SECRET), find_tenant=find_tenant)
    routes = FleetApi(database=database).routes()
    app = create_app(plane, routers=[feature.router for feature in FEATURES], first_routes=routes)
    return Rig(database, app, await make_tenant(database))


@pytest.fixture
def set_row(database):
    """Change what the database has of all workers."""

    async def change(assignment):
        async with database.system() as conn:
            await conn.execute(f"update everwhen.workers set {assignment}")

    return change
