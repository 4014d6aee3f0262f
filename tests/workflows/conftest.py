"""Fixtures of the tests of workflows; after each of them every promise holds."""

from collections.abc import AsyncIterator

import pytest

from everwhen.postgres.pool import Database
from everwhen.verify.service import verify
from tests.workflows.scene import Scene, make_scene


@pytest.fixture
async def scene(database: Database) -> AsyncIterator[Scene]:
    yield await make_scene(database)
    assert await verify(database) == {}
