"""One cluster and one platform for all tests of this folder; a namespace for each."""

import itertools
from collections.abc import Iterator

import httpx2
import pytest

from tests.k8s.cluster import Cluster, running_cluster
from tests.k8s.objects import Namespace
from tests.k8s.scene import Scene, running_platform
from tests.system.fleet import Fleet

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with running_cluster() as running:
        yield running


@pytest.fixture
def namespace(cluster: Cluster) -> Namespace:
    """An empty one."""
    made = Namespace(cluster=cluster, name=f"test-{next(_NUMBERS)}")
    made.make()
    return made


@pytest.fixture(scope="session")
def platform() -> Iterator[tuple[Fleet, httpx2.Client]]:
    with running_platform() as running:
        yield running


@pytest.fixture
def scene(platform: tuple[Fleet, httpx2.Client], namespace: Namespace) -> Iterator[Scene]:
    """A platform without an executor; in the end nothing may be left of what one has made."""
    fleet, user = platform
    made = Scene(fleet=fleet, namespace=namespace, user=user)
    yield made
    made.until_nothing_is_left()
    made.stop_executors()
