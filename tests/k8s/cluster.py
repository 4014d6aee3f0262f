"""A real Kubernetes of one node: etcd, API server, controllers, scheduler, containerd, kubelet; Jobs in containers.

It lives in the enclosure of `enclose.sh`, so its ports, folders and addresses are fixed, and whatever a test leaves
running ends with the enclosure. Who looks at it here speaks plain HTTP: the judge of an executor does not read by the
library that the executor writes with.

The node is small on any machine, one CPU and 512 MiB for pods, so that tests know what fits: the rest of the machine is
declared as reserved for the system. It has no network policy and no kube-proxy. Images cannot be pulled from anywhere:
there are those of `images.py`.
"""

import base64
import json
import os
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from tests.k8s.certificates import Authority, write_key_pair
from tests.k8s.images import PAUSE, write_images

PORT = 16443
URL = f"https://127.0.0.1:{PORT}"
NODE = "n1"
NODE_CPU_MILLIS = 1_000
NODE_MEMORY_MIB = 512
PATIENCE_SECONDS = 120.0
_ETCD = "http://127.0.0.1:23790"
_KUBELET_PORT = 10_250


class NotEnclosed(Exception):  # noqa: N818  # read as a sentence
    """Started without `enclose.sh`."""


@dataclass(kw_only=True)
class Cluster:
    """The cluster, its processes by name, and an administrator's connection."""

    home: Path
    """Where `build.sh` left the binaries."""

    folder: Path
    address: str
    """Of the node: not loopback, so that pods reach it."""

    cgroup: str
    processes: "dict[str, subprocess.Popen[bytes]]" = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Write certificates and who may log in."""
        authority = Authority(folder=self.folder)
        write_key_pair(self.folder, "accounts")
        hosts = ("127.0.0.1", "localhost", "10.0.0.1", self.address)
        authority.issue("api", common_name="kube-apiserver", hosts=hosts)
        authority.issue("admin", common_name="admin", group="system:masters")
        authority.issue("node", common_name=f"system:node:{NODE}", group="system:nodes", hosts=(NODE, self.address))
        for name in ("admin", "node"):
            user = {f"client-{kind}-data": self._base64(f"{name}.{end}") for kind, end in _PARTS.items()}
            self.write_kubeconfig(name, user)

    def start(self) -> None:
        """Start everything; return when the node is ready for pods."""
        self._start_etcd()
        self.start_api_server()
        self._start_controllers()
        self._start_containerd()
        self._start_kubelet()
        self.wait_until(self._is_ready, what="the node is ready, and there is an account for pods")

    def start_api_server(self) -> None:
        """Start the API server, again perhaps; return when it is ready."""
        file = self.folder
        options = {
            "etcd-servers": _ETCD,
            "bind-address": "0.0.0.0",
            "advertise-address": self.address,
            "secure-port": PORT,
            "insecure-port": 0,
            "tls-cert-file": file / "api.crt",
            "tls-private-key-file": file / "api.key",
            "client-ca-file": file / "ca.crt",
            "authorization-mode": "Node,RBAC",
            "service-cluster-ip-range": "10.0.0.0/24",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": file / "accounts.pub",
            "service-account-signing-key-file": file / "accounts.key",
            "kubelet-client-certificate": file / "admin.crt",
            "kubelet-client-key": file / "admin.key",
            "kubelet-preferred-address-types": "InternalIP",
            "feature-gates": "TTLAfterFinished=true",
            "cert-dir": file / "api",
        }
        self._spawn("api", self.home / "bin/kube-apiserver", options)
        with self.http() as http:
            self.wait_until(lambda: http.get("/readyz").text == "ok", what="the API server is ready")

    def stop_api_server(self) -> None:
        """Kill it; what it knew is with etcd."""
        process = self.processes.pop("api")
        process.kill()
        process.wait()

    def http(self) -> httpx2.Client:
        """Connect as the administrator."""
        tls = ssl.create_default_context(cafile=str(self.folder / "ca.crt"))
        tls.load_cert_chain(self.folder / "admin.crt", self.folder / "admin.key")
        return httpx2.Client(base_url=URL, verify=tls, timeout=30, trust_env=False)

    def write_kubeconfig(self, name: str, user: dict[str, str]) -> Path:
        """Write the file by which somebody logs in; return its path."""
        cluster = {"server": URL, "certificate-authority-data": self._base64("ca.crt")}
        path = self.folder / f"{name}.kubeconfig"
        contents = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }
        path.write_text(json.dumps(contents))
        return path

    def wait_until(self, condition: Callable[[], bool], *, what: str) -> None:
        """Poll with a deadline; an API server that does not answer yet is one more reason to wait."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                if condition():
                    return
            except httpx2.HTTPError:
                pass
            for name, process in self.processes.items():
                assert process.poll() is None, f"{name} has ended:\n{self.log_of(name)}"
            assert time.monotonic() < deadline, f"not within {PATIENCE_SECONDS} s: {what}"
            time.sleep(0.1)

    def log_of(self, name: str) -> str:
        """Return the end of what a process has logged."""
        return (self.folder / f"{name}.log").read_text(errors="replace")[-3_000:]

    def stop(self) -> None:
        """Kill the processes, since nothing of the cluster is kept; containers end with the enclosure."""
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()

    def _is_ready(self) -> bool:
        with self.http() as http:
            nodes = http.get("/api/v1/nodes").raise_for_status().json()["items"]
            account = http.get("/api/v1/namespaces/default/serviceaccounts/default")
        conditions = [each for node in nodes for each in node["status"].get("conditions", [])]
        is_ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
        return is_ready and account.is_success and not any(node["spec"].get("taints") for node in nodes)

    def _start_etcd(self) -> None:
        options = {
            "data-dir": self.folder / "etcd",
            "listen-client-urls": _ETCD,
            "advertise-client-urls": _ETCD,
            "listen-peer-urls": "http://127.0.0.1:23800",
            "unsafe-no-fsync": "true",
        }
        self._spawn("etcd", self.home / "root/usr/bin/etcd", options)

    def _start_controllers(self) -> None:
        common = {
            "kubeconfig": self.folder / "admin.kubeconfig",
            "leader-elect": "false",
            "bind-address": "127.0.0.1",
            "port": 0,
        }
        controllers = {
            "secure-port": 16_257,
            "service-account-private-key-file": self.folder / "accounts.key",
            "root-ca-file": self.folder / "ca.crt",
            "feature-gates": "TTLAfterFinished=true",
            "cert-dir": self.folder / "controllers",
            "controllers": "*,-cloud-node-lifecycle,-route,-service,-nodeipam",
        }
        self._spawn("controllers", self.home / "bin/kube-controller-manager", common | controllers)
        scheduler = {"secure-port": 16_259, "cert-dir": self.folder / "scheduler"}
        self._spawn("scheduler", self.home / "bin/kube-scheduler", common | scheduler)

    def _start_containerd(self) -> None:
        networks = self.folder / "networks"
        networks.mkdir()
        ranges = [[{"subnet": "10.88.77.0/24"}]]
        ipam = {"type": "host-local", "ranges": ranges, "routes": [{"dst": "0.0.0.0/0"}]}
        plugin = {"type": "ptp", "ipMasq": False, "ipam": ipam}
        network = {"cniVersion": "0.4.0", "name": "everwhen", "plugins": [plugin]}
        (networks / "10-everwhen.conflist").write_text(json.dumps(network))
        values = {"folder": self.folder, "root": self.home / "root", "pause": PAUSE}
        (self.folder / "containerd.toml").write_text(_CONTAINERD % values)
        self._spawn("containerd", self.home / "root/usr/bin/containerd", {"config": self.folder / "containerd.toml"})
        self.wait_until(lambda: self._ctr("version").returncode == 0, what="containerd answers")
        archive = self.folder / "images.tar"
        write_images(archive, busybox=self.home / "root/bin/busybox")
        imported = self._ctr("-n", "k8s.io", "images", "import", str(archive))
        assert imported.returncode == 0, imported.stderr

    def _start_kubelet(self) -> None:
        configuration = self.folder / "kubelet.json"
        configuration.write_text(json.dumps(self._kubelet_configuration()))
        options = {
            "config": configuration,
            "kubeconfig": self.folder / "node.kubeconfig",
            "container-runtime": "remote",
            "container-runtime-endpoint": f"unix://{self.folder}/containerd.sock",
            "root-dir": self.folder / "kubelet",
            "volume-plugin-dir": self.folder / "volume-plugins",
            "hostname-override": NODE,
            "node-ip": self.address,
        }
        self._spawn("kubelet", self.home / "bin/kubelet", options)

    def _kubelet_configuration(self) -> dict[str, Any]:
        memory_kib = int(Path("/proc/meminfo").read_text().split()[1])
        evicted_at = 50  # MiB
        reserved = {
            "cpu": f"{(os.cpu_count() or 1) * 1_000 - NODE_CPU_MILLIS}m",
            "memory": f"{memory_kib - (NODE_MEMORY_MIB + evicted_at) * 1024}Ki",
        }
        return {
            "kind": "KubeletConfiguration",
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "address": self.address,
            "port": _KUBELET_PORT,
            "readOnlyPort": 0,
            "healthzPort": 0,
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": f"{self.folder}/ca.crt"},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": f"{self.folder}/node.crt",
            "tlsPrivateKeyFile": f"{self.folder}/node.key",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.cgroup}",
            "enforceNodeAllocatable": [],
            "systemReserved": reserved,
            "evictionHard": {
                "memory.available": f"{evicted_at}Mi",
                "nodefs.available": "1%",
                "imagefs.available": "1%",
            },
            "makeIPTablesUtilChains": False,
            "failSwapOn": False,
            "hairpinMode": "none",
            "syncFrequency": "2s",
            "nodeStatusUpdateFrequency": "2s",
        }

    def _ctr(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [str(self.home / "root/usr/bin/ctr"), "-a", f"{self.folder}/containerd.sock", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def _spawn(self, name: str, binary: Path, options: dict[str, object]) -> None:
        tools = self.home / "root/usr"
        environment = os.environ | {
            "PATH": f"{tools}/bin:{tools}/sbin:{os.environ['PATH']}",
            "LD_LIBRARY_PATH": f"{tools}/lib/x86_64-linux-gnu",
        }
        command = [str(binary), *(f"--{option}={value}" for option, value in options.items())]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, env=environment)

    def _base64(self, file: str) -> str:
        return base64.b64encode((self.folder / file).read_bytes()).decode()


_PARTS = {"certificate": "crt", "key": "key"}

_CONTAINERD = """
version = 2
root = "%(folder)s/containerd"
state = "%(folder)s/containerd-state"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
]
[grpc]
  address = "%(folder)s/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "%(pause)s"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "%(root)s/usr/lib/cni"
    conf_dir = "%(folder)s/networks"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
"""


@contextmanager
def running_cluster() -> Iterator[Cluster]:
    """Start the cluster of this enclosure, and end it."""
    scratch = os.environ.get("K8S_TEST_SCRATCH")
    if scratch is None:
        raise NotEnclosed("tests/k8s run by `make k8s`: a node needs the enclosure of tests/k8s/enclose.sh")
    folder = Path(scratch) / "cluster"
    folder.mkdir()
    address, cgroup = os.environ["K8S_TEST_ADDRESS"], os.environ["K8S_TEST_CGROUP"]
    cluster = Cluster(home=_home(), folder=folder, address=address, cgroup=cgroup)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def _home() -> Path:
    """Return where `build.sh` puts the binaries."""
    if named := os.environ.get("K8S_TEST_HOME"):
        return Path(named)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "everwhen/kubernetes-1.20.2"
