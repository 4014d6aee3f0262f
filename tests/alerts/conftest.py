"""The scene of alerts."""

from collections.abc import AsyncIterator

import pytest

from everwhen.postgres.pool import Database
from tests.alerts.scene import Scene, make_scene


@pytest.fixture
async def scene(database: Database) -> AsyncIterator[Scene]:
    """A tenant, two kinds of channels, and a notifier."""
    made = await make_scene(database)
    yield made
    await made.notifier.close()
