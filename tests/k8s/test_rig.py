"""The cluster is real: Jobs run in containers with limits of the kernel's, on a node with so much room and no more."""

import json
import ssl

import httpx2
import pytest

from tests.k8s.accounts import log_in
from tests.k8s.cluster import NODE_MEMORY_MIB, URL
from tests.k8s.objects import Namespace, job, terminated
from tests.k8s.scene import Scene

pytestmark = pytest.mark.system
MANIFEST = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: maker}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: maker}
rules:
- {apiGroups: [batch], resources: [jobs], verbs: [create, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: maker}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: maker}
subjects: [{kind: ServiceAccount, name: maker}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: maker-sees-nodes}
rules:
- {apiGroups: [""], resources: [nodes], verbs: [list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: maker-sees-nodes}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: maker-sees-nodes}
subjects: [{kind: ServiceAccount, name: maker}]
"""
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


@pytest.mark.parametrize(
    ("without", "allowed"),
    [
        (None, {"jobs": 200, "nodes": 200, "pods": 403}),
        (("jobs", "list"), {"jobs": 403, "nodes": 200, "pods": 403}),
        (("nodes", "list"), {"jobs": 200, "nodes": 403, "pods": 403}),
    ],
)
def test_an_account_has_the_rights_of_its_manifest_and_no_others(
    namespace: Namespace, without: tuple[str, str] | None, allowed: dict[str, int]
) -> None:
    kubeconfig = json.loads(log_in(namespace.cluster, namespace.name, MANIFEST, without=without).read_text())
    headers = {"Authorization": f"Bearer {kubeconfig['users'][0]['user']['token']}"}
    tls = ssl.create_default_context(cafile=str(namespace.cluster.folder / "ca.crt"))
    paths = {
        "jobs": f"/apis/batch/v1/namespaces/{namespace.name}/jobs",
        "nodes": "/api/v1/nodes",
        "pods": f"/api/v1/namespaces/{namespace.name}/pods",
    }
    with httpx2.Client(base_url=URL, headers=headers, verify=tls, trust_env=False, timeout=30) as account:
        # Rights that were given a moment ago are not known everywhere yet.
        namespace.cluster.wait_until(
            lambda: {what: account.get(path).status_code for what, path in paths.items()} == allowed, what="its rights"
        )


def test_a_platform_runs_programs_beside_the_cluster(scene: Scene) -> None:
    waiting = scene.post("echo well done")
    scene.until(waiting, "waiting_for_resource")
    scene.start_executor("process")
    scene.until(waiting, "success")
    cancelled = scene.post("sleep 1000")
    scene.until(cancelled, "running")
    scene.cancel(cancelled)
    scene.eventually(lambda: scene.attempts(cancelled)[0]["finished_at"] is not None, lambda: "it is cancelled")

    assert scene.log(waiting) == "well done\n"
    assert [each["outcome"] for each in scene.attempts(waiting)] == ["succeeded"]
    assert scene.task(cancelled)["history"][0]["outcome"] == "cancelled"
