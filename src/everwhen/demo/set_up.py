"""Makes the demo's tenant, tasks and schedules through the API, as any client would. What is there already stays."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import httpx2

from everwhen.demo.tasks import SCHEDULES, TASKS, TENANT
from everwhen.errors import ConfigurationError
from everwhen.http.auth import mint_token
from everwhen.http.roles import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """The demo as it was set up. The tokens are for its tenant alone."""

    tenant_id: UUID
    token: str
    worker_token: str


async def set_up(url: str, *, secret: str, now: datetime) -> Demo:
    """Make the demo, or find it."""
    platform = mint_token(secret, subject="up", roles=[Role.PLATFORM, Role.VIEWER], now=now)
    async with httpx2.AsyncClient(base_url=url, timeout=10, trust_env=False) as client:
        await _make(client, "/v1/tenants", {"name": TENANT}, token=platform)
        tenant_id = await _tenant_id(client, token=platform)
        token = mint_token(secret, subject="local", roles=[Role.ADMIN], tenant_id=tenant_id, now=now)
        for task in TASKS:
            await _make(client, f"/v1/tenants/{TENANT}/tasks", task, token=token)
        for schedule in SCHEDULES:
            await _make(client, f"/v1/tenants/{TENANT}/schedules", schedule, token=token)
    worker = mint_token(secret, subject="demo-worker", roles=[Role.WORKER], tenant_id=tenant_id, now=now)
    return Demo(tenant_id=tenant_id, token=token, worker_token=worker)


async def _make(client: httpx2.AsyncClient, path: str, body: Mapping[str, Any], *, token: str) -> None:
    response = await client.post(path, json=body, headers={"Authorization": f"Bearer {token}"})
    if response.status_code not in {201, 409}:
        raise ConfigurationError(f"the demo could not be made: POST {path} answered {response.text}")


async def _tenant_id(client: httpx2.AsyncClient, *, token: str) -> UUID:
    response = await client.get(f"/v1/tenants/{TENANT}", headers={"Authorization": f"Bearer {token}"})
    if response.status_code != 200:
        raise ConfigurationError(f"the demo's tenant cannot be read: {response.text}")
    return UUID(response.json()["id"])
