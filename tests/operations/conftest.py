"""Every test of operations ends with the question whether all promises hold on what it left."""

import pytest

from everwhen.operations.operator import Operator
from everwhen.verify.service import verify
from tests.dispatch.scene import make_line


@pytest.fixture(autouse=True)
async def every_promise_holds(database):
    yield
    assert await verify(database) == {}


@pytest.fixture
async def line(database):
    return await make_line(database)


@pytest.fixture
def operator(database):
    return Operator(database=database)
