"""Fixtures for every test. A test that asks for a database gets a real one; a test of the core asks for none."""

import asyncio
import contextlib
import itertools
import os
import time
from collections.abc import AsyncIterator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from everwhen.postgres.pool import Database, PoolLimits
from everwhen.postgres.wakeups import Wakeups
from tests.database import TestServer, chosen_bin_dir, run_server

WORK_DATABASE = "everwhen_test"
_NUMBERS = itertools.count()


# A property holds or not, however slow the machine is. CI draws the same cases each time: what is found by chance is
# pinned as an example, and does not stop somebody else's change.
settings.register_profile("everwhen", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("everwhen"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "everwhen")


def pytest_configure() -> None:
    """Give the process a zone that nothing may lean on, and no contexts of whoever runs the tests."""
    os.environ["TZ"] = "Asia/Kathmandu"
    os.environ["XDG_CONFIG_HOME"] = "/nonexistent"
    time.tzset()


@pytest.fixture(scope="session")
def server() -> Iterator[TestServer]:
    """One server for this test process, with a migrated template."""
    with run_server(chosen_bin_dir()) as running:
        yield running


@pytest.fixture(scope="session")
def work_database(server: TestServer) -> str:
    """The name of the one clone that this test process works in."""
    server.create(WORK_DATABASE)
    return WORK_DATABASE


@pytest.fixture
async def database(server: TestServer, work_database: str) -> AsyncIterator[Database]:
    """Both pools on a database that is empty but for what the migrations put there."""
    limits = PoolLimits(min_size=1, max_size=10)
    async with await Database.open(server.app(work_database), limits=limits) as opened:
        yield opened
    server.clean(work_database)


@pytest.fixture
async def wakeups(server: TestServer, work_database: str) -> AsyncIterator[Wakeups]:
    """Who hears wake-ups, and listens already."""
    hub = Wakeups(server.app(work_database))
    task = asyncio.create_task(hub.listen_forever())
    async with asyncio.timeout(20):
        await hub.listening.wait()
    yield hub
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


@pytest.fixture
def fresh_database(server: TestServer) -> Iterator[str]:
    """The name of a migrated database that this test alone uses and may ruin."""
    name = f"fresh_{next(_NUMBERS)}"
    server.create(name)
    yield name
    server.drop(name)


@pytest.fixture
def empty_database(server: TestServer) -> Iterator[str]:
    """The name of a database without any schema of ours."""
    name = f"empty_{next(_NUMBERS)}"
    server.create(name, template="template0")
    yield name
    server.drop(name)
