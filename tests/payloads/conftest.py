"""Fixtures of payloads: a depot in a folder, and two tenants."""

import pytest

from everwhen.payloads.depot import Depot
from everwhen.payloads.porter import Porter
from everwhen.payloads.receiving import PayloadLimits
from everwhen.payloads.service import Payloads
from tests.factories import make_tenant
from tests.people import app_on, client_of, token_of

LIMITS = PayloadLimits(payload_bytes=10_000, tenant_bytes=25_000, piece_bytes=1_000)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "payloads"


@pytest.fixture
def payloads(database, folder):
    return Payloads.on(database, Depot.at(folder), LIMITS)


@pytest.fixture
def sweeper(payloads):
    return Porter(database=payloads.database, depot=payloads.depot)


@pytest.fixture
async def tenant(database):
    return await make_tenant(database, name="acme")


@pytest.fixture
async def other(database):
    return await make_tenant(database, name="other")


@pytest.fixture
async def client(database, payloads, tenant):
    async with client_of(app_on(database, payloads=payloads), token_of("editor", tenant_id=tenant.id)) as opened:
        yield opened
