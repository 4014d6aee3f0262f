"""Who calls the API in tests: tokens of every kind, and a client that carries one."""

from collections.abc import Iterable
from datetime import timedelta
from uuid import UUID

import httpx2
from fastapi import FastAPI
from obstore.store import MemoryStore

from everwhen import clock
from everwhen.app import FEATURES
from everwhen.http.app import create_app
from everwhen.http.auth import Authenticator, mint_token
from everwhen.http.plane import ControlPlane, OnReady
from everwhen.http.refusals import Refusals
from everwhen.http.roles import Role
from everwhen.identity.directory import DatabaseDirectory
from everwhen.payloads.depot import Depot
from everwhen.payloads.service import Payloads
from everwhen.postgres.pool import Database
from everwhen.streaming.hub import Hub
from everwhen.tenants.service import find_tenant

SECRET = "a-secret-of-tests-that-is-long-enough-for-sha256"
ROUTERS = tuple(feature.router for feature in FEATURES)


def token_of(
    *roles: Role | str, tenant_id: UUID | None = None, subject: str = "tester", queues: Iterable[str] | None = None
) -> str:
    """A token that holds for an hour."""
    return mint_token(
        SECRET,
        subject=subject,
        roles=[Role(role) for role in roles],
        tenant_id=tenant_id,
        queues=queues,
        now=clock.process_now(),
        lifetime=timedelta(hours=1),
    )


def app_on(
    database: Database,
    *,
    on_ready: OnReady | None = None,
    body_bytes_max: int = 1 << 20,
    payloads: Payloads | None = None,
    streams: Hub | None = None,
    refusals: Refusals | None = None,
) -> FastAPI:
    """The control API on a database."""
    plane = ControlPlane(
        database=database,
        authenticator=Authenticator(SECRET, directory=DatabaseDirectory(database=database)),
        find_tenant=find_tenant,
        on_ready=on_ready,
        body_bytes_max=body_bytes_max,
        payloads=payloads or Payloads.on(database, Depot(MemoryStore())),
        streams=streams or Hub(database),
        refusals=refusals,
    )
    return create_app(plane, routers=ROUTERS)


def client_of(app: FastAPI, token: str | None = None) -> httpx2.AsyncClient:
    """A client inside the process; close it, or use it in an `async with` block.

    Its changes mean whatever is there; that a change names its revision is for tests/http/test_preconditions.py.
    """
    headers = {"If-Match": "*"} | ({} if token is None else {"Authorization": f"Bearer {token}"})
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://everwhen.test", headers=headers)
