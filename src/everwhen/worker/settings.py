"""What a worker may be told, by whom: the command line, then `Worker(...)`, then the environment, then the default.

Durations are seconds here, because this is where people and the wire write them.
"""

import math
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from everwhen.worker._clock import name_suffix
from everwhen.worker.errors import ConfigurationError
from everwhen.worker.probing import read_address

BROKERS = ("nats", "rabbitmq")
"""What a worker may listen to."""


class Options(TypedDict, total=False):
    """What `Worker(...)` and `Worker.run(...)` accept; None means *not given*."""

    url: str | None
    token: str | None
    queues: Sequence[str] | None
    concurrency: int | None
    prefetch: int | None
    fetchers: int | None
    lease_seconds: float | None
    wait_seconds: float | None
    drain_seconds: float | None
    worker_id: str | None
    version: str | None
    labels: Mapping[str, str] | None
    resources: Mapping[str, float] | None
    capture_output: bool | None
    mask: Sequence[str] | None
    via: str | None
    broker_url: str | None
    broker_ca_file: str | None
    broker_cert_file: str | None
    broker_key_file: str | None
    probe: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A worker's settings, complete and checked."""

    url: str
    token: str
    queues: tuple[str, ...] = ("default",)
    concurrency: int = 100
    prefetch: int = 0
    fetchers: int = 2
    lease_seconds: float = 30.0
    wait_seconds: float = 20.0
    drain_seconds: float = 30.0
    worker_id: str
    version: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    resources: Mapping[str, float] = field(default_factory=dict[str, float])
    capture_output: bool = False
    mask: tuple[str, ...] = ()
    secrets: tuple[bytes, ...] = field(default=(), repr=False)
    via: str = ""
    broker_url: str = ""
    broker_ca_file: str = ""
    broker_cert_file: str = ""
    broker_key_file: str = ""
    probe: str = ""

    @property
    def capacity(self) -> int:
        """How many runs this worker may hold at once: those that execute and those fetched ahead."""
        return self.concurrency + self.prefetch

    @property
    def beat_seconds(self) -> float:
        """How often each lease is renewed: twice before it would run out unrenewed."""
        return self.lease_seconds / 3

    @property
    def poll_seconds(self) -> float:
        """How long one claim waits: never so long that a lease granted at its end is nearly over by our reckoning."""
        return min(self.wait_seconds, self.lease_seconds * 2 / 3)


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _yes(text: str) -> bool:
    try:
        return {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}[text.lower()]
    except KeyError:
        raise ConfigurationError(f"{text!r} is neither yes nor no") from None


_ENVIRONMENT: dict[str, tuple[str, Callable[[str], Any]]] = {
    "url": ("EVERWHEN_URL", str),
    "token": ("EVERWHEN_TOKEN", str),
    "queues": ("EVERWHEN_QUEUES", _split),
    "concurrency": ("EVERWHEN_CONCURRENCY", int),
    "prefetch": ("EVERWHEN_PREFETCH", int),
    "fetchers": ("EVERWHEN_FETCHERS", int),
    "lease_seconds": ("EVERWHEN_LEASE_SECONDS", float),
    "wait_seconds": ("EVERWHEN_WAIT_SECONDS", float),
    "drain_seconds": ("EVERWHEN_DRAIN_SECONDS", float),
    "worker_id": ("EVERWHEN_WORKER_ID", str),
    "version": ("EVERWHEN_WORKER_VERSION", str),
    "labels": ("EVERWHEN_LABELS", lambda text: read_labels(_split(text))),
    "resources": ("EVERWHEN_RESOURCES", lambda text: read_resources(_split(text))),
    "capture_output": ("EVERWHEN_CAPTURE_OUTPUT", _yes),
    "mask": ("EVERWHEN_MASK", _split),
    "via": ("EVERWHEN_VIA", str),
    "broker_url": ("EVERWHEN_BROKER_URL", str),
    "broker_ca_file": ("EVERWHEN_BROKER_CA_FILE", str),
    "broker_cert_file": ("EVERWHEN_BROKER_CERT_FILE", str),
    "broker_key_file": ("EVERWHEN_BROKER_KEY_FILE", str),
    "probe": ("EVERWHEN_PROBE", str),
}


def read_labels(pairs: Sequence[str]) -> dict[str, str]:
    """Read `zone=a` and the like; raise ValueError for what is none."""
    labels: dict[str, str] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not (separator and name.strip() and value.strip()):
            raise ValueError(f"{pair!r} is no label: write name=value")
        labels[name.strip()] = value.strip()
    return labels


def read_resources(pairs: Sequence[str]) -> dict[str, float]:
    """Read `memory_mb=4096` and the like; raise ValueError for what is none."""
    resources: dict[str, float] = {}
    for pair in pairs:
        name, _, amount = pair.partition("=")
        try:
            resources[name.strip()] = float(amount)
        except ValueError:
            raise ValueError(f"{pair!r} is no resource: write name=number") from None
    return resources


def resolve(*layers: Options, environ: Mapping[str, str]) -> Settings:
    """Merge the layers, the first that names a setting winning, over the environment; raise ConfigurationError."""
    merged: dict[str, Any] = _from_environment(environ)
    for layer in reversed(layers):
        merged.update({name: value for name, value in layer.items() if value is not None})
    _require(merged)
    merged["queues"] = tuple(merged.get("queues") or Settings.__dataclass_fields__["queues"].default)
    merged["labels"] = dict(merged.get("labels") or {})
    merged["resources"] = dict(merged.get("resources") or {})
    merged["url"] = str(merged["url"]).rstrip("/")
    merged.setdefault("worker_id", default_worker_id())
    merged["mask"] = tuple(merged.get("mask") or ())
    merged["secrets"] = tuple(os.fsencode(environ[name]) for name in merged["mask"] if environ.get(name))
    settings = Settings(**merged)
    _check(settings)
    if settings.probe:
        read_address(settings.probe)
    return settings


def default_worker_id() -> str:
    """Return a name that tells an operator where the worker runs, and is its own."""
    return f"{socket.gethostname()}-{os.getpid()}-{name_suffix()}"


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, (variable, convert) in _ENVIRONMENT.items():
        text = environ.get(variable, "").strip()
        if not text:
            continue
        try:
            found[name] = convert(text)
        except ValueError as error:
            is_pairs = name in {"labels", "resources"}
            raise ConfigurationError(
                f"{variable}: {error}" if is_pairs else f"{variable}={text!r} is not a number"
            ) from error
    return found


def _require(merged: Mapping[str, Any]) -> None:
    for name, what in (("url", "address of the server"), ("token", "token")):
        if not merged.get(name):
            variable = _ENVIRONMENT[name][0]
            raise ConfigurationError(f"no {what}: set {variable}, pass {name}= to Worker, or give --{name}")


def _check(settings: Settings) -> None:
    if not settings.url.startswith(("http://", "https://")):
        raise ConfigurationError(f"url {settings.url!r} must start with http:// or https://")
    minimum = {"concurrency": 1, "prefetch": 0, "fetchers": 1}
    for name, least in minimum.items():
        if getattr(settings, name) < least:
            raise ConfigurationError(f"{name} is {getattr(settings, name)}, must be at least {least}")
    if settings.lease_seconds <= 0:
        raise ConfigurationError(f"lease_seconds is {settings.lease_seconds}, must be above 0")
    for name, amount in settings.resources.items():
        if not (math.isfinite(amount) and amount >= 0):
            raise ConfigurationError(f"resource {name} is {amount}, must be a number from 0 on")
    if settings.via and settings.via not in BROKERS:
        raise ConfigurationError(f"via is {settings.via!r}, must be one of: {', '.join(BROKERS)}")
    if settings.via and not settings.broker_url:
        raise ConfigurationError(f"no address of {settings.via}: set EVERWHEN_BROKER_URL, or give --broker-url")
    if settings.wait_seconds < 0 or settings.drain_seconds < 0:
        raise ConfigurationError("wait_seconds and drain_seconds cannot be negative")
