"""Who somebody is in the cluster: a service account and its rights, of a manifest as administrators apply it."""

import base64
from pathlib import Path
from typing import Any

import yaml

from tests.k8s.cluster import Cluster

_PATHS = {
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
}


def log_in(cluster: Cluster, namespace: str, manifest: str, *, without: tuple[str, str] | None = None) -> Path:
    """Apply a manifest in a namespace and return its account's kubeconfig.

    `without` is a resource and a verb that are left out: what does the account's owner say then?
    """
    account = ""
    for document in yaml.safe_load_all(manifest):
        if document["kind"] == "ServiceAccount":
            account = document["metadata"]["name"]
        if document["kind"] in _PATHS:
            _apply(cluster, namespace, _narrowed(_moved(document, namespace), without))
    return cluster.write_kubeconfig(namespace, {"token": _token(cluster, namespace, account)})


def _moved(document: dict[str, Any], namespace: str) -> dict[str, Any]:
    metadata = document["metadata"]
    if document["kind"].startswith("Cluster"):
        metadata["name"] = f"{metadata['name']}-{namespace}"
        if "roleRef" in document:
            document["roleRef"]["name"] = f"{document['roleRef']['name']}-{namespace}"
    else:
        metadata["namespace"] = namespace
    for subject in document.get("subjects", []):
        subject["namespace"] = namespace
    return document


def _narrowed(document: dict[str, Any], without: tuple[str, str] | None) -> dict[str, Any]:
    rules = document.get("rules", [])
    for rule in rules:
        if without is not None and without[0] in rule["resources"]:
            rule["verbs"] = [verb for verb in rule["verbs"] if verb != without[1]]
    return document | ({"rules": [rule for rule in rules if rule["verbs"]]} if rules else {})


def _apply(cluster: Cluster, namespace: str, document: dict[str, Any]) -> None:
    with cluster.http() as http:
        http.post(_PATHS[document["kind"]].format(namespace=namespace), json=document).raise_for_status()


def _token(cluster: Cluster, namespace: str, account: str) -> str:
    """Wait for the token that the cluster makes for the account."""
    found: list[str] = []

    def is_there() -> bool:
        with cluster.http() as http:
            secrets = http.get(f"/api/v1/namespaces/{namespace}/secrets").raise_for_status().json()["items"]
        found[:] = [
            each["data"]["token"]
            for each in secrets
            if each["metadata"].get("annotations", {}).get("kubernetes.io/service-account.name") == account
        ]
        return bool(found)

    cluster.wait_until(is_there, what=f"{account} has a token")
    return base64.b64decode(found[0]).decode()
