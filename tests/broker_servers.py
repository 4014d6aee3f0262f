"""Real brokers on loopback for tests: a NATS cluster from its wheel, a RabbitMQ cluster from Debian's package.

Each server is a child of the test's process, in a folder of the test's own, and ends with it. Erlang's port mapper is
one of our own, too, at a port of its own, since the usual one would outlive the test.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from everwhen.dispatch.brokers.nats import NatsBroker
from everwhen.dispatch.brokers.rabbitmq import RabbitBroker
from everwhen.worker.brokers.inbox import BrokerAddress, BrokerAway

PATIENCE_SECONDS = 90.0
LOGIN = "authorization { user: everwhen, password: pw }"
RABBIT_HOME = Path("/usr/lib/rabbitmq/lib")


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def wait_for_port(port: int) -> None:
    """Wait until somebody listens there."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        with socket.socket() as probe:
            probe.settimeout(1.0)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert time.monotonic() < deadline, f"nobody listens at port {port}"
        time.sleep(0.05)


@dataclass
class Servers:
    """The servers of one cluster, by number."""

    root: Path
    count: int
    processes: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    def kill(self, number: int) -> None:
        """End one at once, with its children."""
        process = self.processes.pop(number)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self, number: int) -> None:
        """Let one hang: it holds its connections and answers nothing."""
        os.killpg(self.processes[number].pid, signal.SIGSTOP)

    def go_on(self, number: int) -> None:
        """Wake one that hangs."""
        os.killpg(self.processes[number].pid, signal.SIGCONT)

    def close(self) -> None:
        """End all."""
        for number in list(self.processes):
            self.kill(number)

    def run(self, number: int, command: Sequence[str], **environment: str) -> None:
        """Start a server in a process group of its own."""
        with (self.root / f"{number}.log").open("ab") as log:
            self.processes[number] = subprocess.Popen(
                command, stdout=log, stderr=log, env={**os.environ, **environment}, start_new_session=True
            )

    @property
    def address(self) -> BrokerAddress:
        """All of them."""
        raise NotImplementedError


class NatsServers(Servers):
    """`nats-server`, with JetStream on disk and every write synchronised."""

    def __init__(
        self, root: Path, count: int, *, extra: str = LOGIN, scheme: str = "nats", sync: str = "always"
    ) -> None:
        super().__init__(root, count)
        ports = free_ports(3 * count)
        self.ports, self.routes, self.monitors = ports[:count], ports[count : 2 * count], ports[2 * count :]
        self.extra, self.scheme, self.sync = extra, scheme, sync
        for number in range(count):
            self.start(number)

    def start(self, number: int) -> None:
        """Start one, again perhaps."""
        routes = ", ".join(f"nats://127.0.0.1:{port}" for port in self.routes)
        store = f'store_dir: "{self.root}/{number}", max_mem: 64M, max_file: 1G, sync_interval: {self.sync}'
        lines = [
            f"server_name: n{number}",
            f"listen: 127.0.0.1:{self.ports[number]}",
            f"http: 127.0.0.1:{self.monitors[number]}",
            f"jetstream {{ {store} }}",
            self.extra,
        ]
        if self.count > 1:
            lines.append(f"cluster {{ name: c, listen: 127.0.0.1:{self.routes[number]}, routes: [{routes}] }}")
        configuration = self.root / f"{number}.conf"
        configuration.write_text("\n".join(lines) + "\n")
        binary = Path(sys.executable).with_name("nats-server")
        self.run(number, [str(binary), "-c", str(configuration)])
        wait_for_port(self.ports[number])

    @property
    def address(self) -> BrokerAddress:
        return self.address_of("everwhen:pw")

    def address_of(self, login: str, **tls: Path) -> BrokerAddress:
        """All of them, for somebody."""
        return BrokerAddress(urls=tuple(f"{self.scheme}://{login}@127.0.0.1:{port}" for port in self.ports), **tls)


class RabbitServers(Servers):
    """`rabbitmq-server` of Debian, beside a port mapper of its own."""

    def __init__(self, root: Path, count: int, *, extra: str = "") -> None:
        super().__init__(root, count)
        mapper, *ports = free_ports(1 + 2 * count)
        self.ports, self.distribution = ports[:count], ports[count:]
        self.names = [f"e{mapper}n{number}@localhost" for number in range(count)]
        self.extra = extra
        self.environment = {
            "ERL_EPMD_PORT": str(mapper),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "HOME": str(root),
        }
        (root / "plugins").write_text("[].\n")
        self.run(-1, ["epmd", "-port", str(mapper), "-address", "127.0.0.1"])
        wait_for_port(mapper)
        for number in range(count):
            self.start(number, wait=False)
        for port in self.ports:
            wait_for_port(port)

    def start(self, number: int, *, wait: bool = True) -> None:
        """Start one, again perhaps."""
        peers = "\n".join(
            f"cluster_formation.classic_config.nodes.{i} = {name}" for i, name in enumerate(self.names, 1)
        )
        configuration = self.root / f"{number}.conf"
        together = f"cluster_formation.peer_discovery_backend = classic_config\n{peers}\n" if self.count > 1 else ""
        configuration.write_text(
            f"listeners.tcp.1 = 127.0.0.1:{self.ports[number]}\nlog.console = false\nnet_ticktime = 5\n"
            f"vm_memory_high_watermark.absolute = 512MB\ndisk_free_limit.absolute = 50MB\n{together}{self.extra}\n"
        )
        (script,) = RABBIT_HOME.glob("rabbitmq_server-*/sbin/rabbitmq-server")
        self.run(
            number,
            [str(script)],
            **self.environment,
            RABBITMQ_NODENAME=self.names[number],
            RABBITMQ_NODE_PORT=str(self.ports[number]),
            RABBITMQ_DIST_PORT=str(self.distribution[number]),
            RABBITMQ_MNESIA_BASE=str(self.root / f"mnesia{number}"),
            RABBITMQ_LOG_BASE=str(self.root / f"log{number}"),
            RABBITMQ_CONFIG_FILE=str(configuration),
            RABBITMQ_ENABLED_PLUGINS_FILE=str(self.root / "plugins"),
            RABBITMQ_PID_FILE=str(self.root / f"{number}.pid"),
            RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="-setcookie everwhen-tests +S 1:1 +sbwt none +sbwtdcpu none",
        )
        if wait:
            wait_for_port(self.ports[number])

    @property
    def address(self) -> BrokerAddress:
        return self.address_of("guest:guest")

    def address_of(self, login: str) -> BrokerAddress:
        """All of them, for somebody."""
        return BrokerAddress(urls=tuple(f"amqp://{login}@127.0.0.1:{port}/" for port in self.ports))

    def ctl(self, *arguments: str) -> str:
        """Tell a node something."""
        (script,) = RABBIT_HOME.glob("rabbitmq_server-*/sbin/rabbitmqctl")
        erl = {"RABBITMQ_CTL_ERL_ARGS": "-setcookie everwhen-tests", "RABBITMQ_NODENAME": self.names[0]}
        done = subprocess.run(
            [str(script), "-q", *arguments],
            env={**os.environ, **self.environment, **erl},
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout


def has_rabbitmq() -> bool:
    """Whether the package is installed."""
    return RABBIT_HOME.exists() and shutil.which("epmd") is not None


@contextlib.contextmanager
def running(servers: Servers) -> Iterator[Servers]:
    """End them in the end."""
    try:
        yield servers
    finally:
        servers.close()


def make_broker(servers: Servers, *, prefix: str = "EVERWHEN", address: BrokerAddress | None = None):
    """Make what the relay talks to them through."""
    if isinstance(servers, NatsServers):
        return NatsBroker(address or servers.address, prefix=prefix, replicas=servers.count)
    return RabbitBroker(address or servers.address, prefix=prefix)


async def eventually(action, *, seconds: float = PATIENCE_SECONDS, wait_out=(BrokerAway, AssertionError)):
    """Do it again until it succeeds: a cluster needs a while to have a leader."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return await action()
        except wait_out:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def connected(broker) -> AsyncIterator:
    """A broker with a connection."""

    async def connect():
        try:
            await broker.connect()
        except BrokerAway:
            await broker.close()
            raise

    await eventually(connect)
    try:
        yield broker
    finally:
        await broker.close()
