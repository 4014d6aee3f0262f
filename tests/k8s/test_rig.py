"""The cluster is real: Jobs run in containers with limits of the kernel's, on a node with so much room and no more."""

import pytest

from tests.k8s.cluster import NODE_MEMORY_MIB
from tests.k8s.objects import Namespace, job, terminated

pytestmark = pytest.mark.system
HOG = "a=x; while true; do a=$a$a; done"


@pytest.mark.parametrize(
    ("script", "phase", "ended"),
    [
        ("echo of $(hostname)", "Succeeded", ("Completed", 0)),
        ("exit 7", "Failed", ("Error", 7)),
        (HOG, "Failed", ("OOMKilled", 137)),
    ],
    ids=["success", "exit", "memory"],
)
def test_a_job_ends_as_its_container_does(
    namespace: Namespace, script: str, phase: str, ended: tuple[str, int]
) -> None:
    namespace.create("jobs", job("one", "sh", "-c", script))
    pod = namespace.wait_for_pod("one", phase=phase)

    assert terminated(pod) == ended
    if phase == "Succeeded":
        assert namespace.log(pod["metadata"]["name"]) == f"of {pod['metadata']['name']}\n"


def test_what_does_not_fit_waits_until_there_is_room(namespace: Namespace) -> None:
    namespace.create("jobs", job("large", "sleep", "1000", memory_mib=NODE_MEMORY_MIB - 64))
    namespace.wait_for_pod("large", phase="Running")
    namespace.create("jobs", job("next", "true", memory_mib=128))
    cluster = namespace.cluster
    cluster.wait_until(
        lambda: any(each["reason"] == "FailedScheduling" for each in namespace.all_of("events")), what="it does not fit"
    )

    namespace.delete("jobs", "large")
    namespace.wait_for_pod("next", phase="Succeeded")


def test_what_is_left_behind_is_seen(namespace: Namespace) -> None:
    assert namespace.left() == {}
    namespace.create("jobs", job("orphan", "sleep", "1000"))
    namespace.create("secrets", {"metadata": {"name": "orphan"}, "stringData": {"a": "b"}})
    pod = namespace.wait_for_pod("orphan", phase="Running")["metadata"]["name"]

    assert namespace.left() == {"jobs": ["orphan"], "pods": [pod], "secrets": ["orphan"]}
    namespace.delete("jobs", "orphan")
    namespace.delete("secrets", "orphan")
    namespace.cluster.wait_until(lambda: namespace.left() == {}, what="nothing is left")


def test_a_cluster_remembers_its_jobs_when_its_api_server_is_killed(namespace: Namespace) -> None:
    namespace.create("jobs", job("one", "sleep", "1000"))
    namespace.wait_for_pod("one", phase="Running")
    namespace.cluster.stop_api_server()
    namespace.cluster.start_api_server()

    assert list(namespace.left()) == ["jobs", "pods"]
    namespace.delete("jobs", "one")
    namespace.cluster.wait_until(lambda: namespace.left() == {}, what="nothing is left")
