"""One cluster for all tests of this folder; a namespace for each."""

import itertools
from collections.abc import Iterator

import pytest

from tests.k8s.cluster import Cluster, running_cluster
from tests.k8s.objects import Namespace

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
