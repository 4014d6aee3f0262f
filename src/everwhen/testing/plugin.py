"""Fixtures for pytest: put `pytest_plugins = ["everwhen.testing.plugin"]` into your conftest.py.

    async def test_it(everwhen):
        async with everwhen(start="2027-03-27T00:00:00Z") as ew:
            ...

The server starts once a session. The tests are `async def`; any plugin that runs those will do.
"""

from collections.abc import Callable, Generator
from datetime import datetime

import pytest

from everwhen.testing.harness import EverwhenTest
from everwhen.testing.server import TestingServer


@pytest.fixture(scope="session")
def everwhen_server() -> Generator[TestingServer]:
    """One PostgreSQL for the session."""
    with TestingServer.start() as server:
        yield server


@pytest.fixture
def everwhen(everwhen_server: TestingServer) -> Callable[..., EverwhenTest]:
    """Make an Everwhen on an empty database, once for each call."""

    def make(*, start: str | datetime) -> EverwhenTest:
        return EverwhenTest(start=start, server=everwhen_server)

    return make
