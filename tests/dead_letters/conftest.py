import pytest

from tests.dispatch.scene import make_line


@pytest.fixture
async def line(database):
    return await make_line(database)
