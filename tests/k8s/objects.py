"""What a test makes in the cluster, and what it sees there."""

import json
from dataclasses import dataclass
from typing import Any

from tests.k8s.cluster import Cluster
from tests.k8s.images import BUSYBOX

_PATHS = {
    "jobs": "/apis/batch/v1/namespaces/{namespace}/jobs",
    "pods": "/api/v1/namespaces/{namespace}/pods",
    "secrets": "/api/v1/namespaces/{namespace}/secrets",
    "configmaps": "/api/v1/namespaces/{namespace}/configmaps",
    "events": "/api/v1/namespaces/{namespace}/events",
}
_OF_THE_CLUSTER = ("kubernetes.io/service-account-token",)
_ROOT_CA = "kube-root-ca.crt"


@dataclass(frozen=True, kw_only=True)
class Namespace:
    """One namespace, as the administrator sees it."""

    cluster: Cluster
    name: str

    def make(self) -> None:
        """Make it, and wait until pods may be made in it."""
        with self.cluster.http() as http:
            manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name}}
            http.post("/api/v1/namespaces", json=manifest).raise_for_status()
            account = f"/api/v1/namespaces/{self.name}/serviceaccounts/default"
            self.cluster.wait_until(lambda: http.get(account).is_success, what="pods may be made")

    def all_of(self, kind: str) -> list[dict[str, Any]]:
        """Return what there is of a kind, without what the cluster itself puts into each namespace."""
        with self.cluster.http() as http:
            items = http.get(_PATHS[kind].format(namespace=self.name)).raise_for_status().json()["items"]
        return [each for each in items if not _is_of_the_cluster(each)]

    def create(self, kind: str, manifest: dict[str, Any]) -> dict[str, Any]:
        """Make one."""
        with self.cluster.http() as http:
            return http.post(_PATHS[kind].format(namespace=self.name), json=manifest).raise_for_status().json()

    def delete(self, kind: str, name: str) -> None:
        """Delete one, and what belongs to it, as a person would by `kubectl delete`."""
        with self.cluster.http() as http:
            path = f"{_PATHS[kind].format(namespace=self.name)}/{name}"
            body = json.dumps({"propagationPolicy": "Background"})
            headers = {"Content-Type": "application/json"}
            http.request("DELETE", path, content=body, headers=headers).raise_for_status()

    def log(self, pod: str) -> str:
        """Return what a pod has printed."""
        with self.cluster.http() as http:
            return http.get(f"{_PATHS['pods'].format(namespace=self.name)}/{pod}/log").raise_for_status().text

    def left(self) -> dict[str, list[str]]:
        """Return by kind the names of what is there that runs make: nothing, once all runs have ended."""
        kinds = ("jobs", "pods", "secrets", "configmaps")
        names = {kind: [each["metadata"]["name"] for each in self.all_of(kind)] for kind in kinds}
        return {kind: found for kind, found in names.items() if found}

    def wait_for_pod(self, job: str, *, phase: str) -> dict[str, Any]:
        """Wait until a Job's pod is in a phase; return the pod."""
        found: list[dict[str, Any]] = []

        def is_there() -> bool:
            pods = [each for each in self.all_of("pods") if each["metadata"]["labels"].get("job-name") == job]
            found[:] = [each for each in pods if each["status"]["phase"] == phase]
            return bool(found)

        self.cluster.wait_until(is_there, what=f"a pod of {job} is {phase}")
        return found[0]


def job(name: str, *command: str, memory_mib: int = 32, cpu_millis: int = 100) -> dict[str, Any]:
    """Write a Job of one attempt that asks for so much."""
    asked = {"memory": f"{memory_mib}Mi", "cpu": f"{cpu_millis}m"}
    container = {
        "name": "main",
        "image": BUSYBOX,
        "imagePullPolicy": "Never",
        "command": command,
        "resources": {"limits": asked, "requests": asked},
    }
    pod = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
    }
    spec = {"backoffLimit": 0, "template": {"spec": pod}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def terminated(pod: dict[str, Any]) -> tuple[str, int]:
    """Return why its container has ended, and with which exit code."""
    state = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    return state["reason"], state["exitCode"]


def _is_of_the_cluster(item: dict[str, Any]) -> bool:
    return item.get("type") in _OF_THE_CLUSTER or item["metadata"]["name"] == _ROOT_CA
