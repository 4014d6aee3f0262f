"""Fixtures of logs: a depot in a folder, and an attempt that is held."""

import pytest

from everwhen.logs.model import LogLimits
from everwhen.logs.service import Logs
from everwhen.payloads.depot import Depot
from everwhen.payloads.porter import Porter
from tests.factories import make_tenant
from tests.logs.scene import make_writer

LIMITS = LogLimits(attempt_bytes=1_000, piece_bytes=400)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "depot"


@pytest.fixture
def depot(folder):
    return Depot.at(folder)


@pytest.fixture
def logs(database, depot):
    return Logs(database=database, depot=depot, limits=LIMITS)


@pytest.fixture
def porter(database, depot):
    return Porter(database=database, depot=depot)


@pytest.fixture
async def tenant(database):
    return await make_tenant(database, name="acme")


@pytest.fixture
async def writer(database, tenant):
    return await make_writer(database, tenant)


@pytest.fixture
async def other_tenant(database):
    return await make_tenant(database, name="other")
