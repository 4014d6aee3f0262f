"""What is measured, in which order. Ours and the peers' take turns, so that a slow minute of the machine hits both."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks import backlog, cycle, lag, latency, plan, raw
from benchmarks.cluster import Cluster
from benchmarks.cpu import Meter
from benchmarks.peers.environments import python_for

PARTS = ("lag", "cycle", "plan", "raw", "peers")
RATES = (116, 1_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much of everything."""

    rounds: int
    runs: int
    raw_runs: int
    schedules: int
    lag_seconds: float
    samples: int
    peer_schedules: int
    jobs: dict[str, int]


FULL = Size(
    rounds=2,
    runs=30_000,
    raw_runs=30_000,
    schedules=20_000,
    lag_seconds=20,
    samples=100,
    peer_schedules=1_000,
    jobs={"procrastinate": 3_000, "pgqueuer": 15_000, "oban": 5_000},
)
QUICK = Size(
    rounds=1,
    runs=6_000,
    raw_runs=10_000,
    schedules=6_000,
    lag_seconds=6,
    samples=30,
    peer_schedules=0,
    jobs={"procrastinate": 1_000, "pgqueuer": 5_000, "oban": 3_000},
)
SETTINGS = {"procrastinate": (30,), "pgqueuer": (100, 500), "oban": (50, 200)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One measurement: its part, who is measured, at what setting."""

    part: str
    subject: str
    setting: str
    measure: Callable[[Cluster], dict[str, Any]]


def steps(size: Size, turn: int, parts: set[str]) -> Iterator[Step]:
    """Yield the measurements of one round, one of ours before each of the others."""
    ours = [step for step in (*_cycles(size, turn), *_plans(size)) if step.part in parts]
    others = [step for step in (*_peers(size, turn, parts), *_raws(size)) if step.part in parts]
    for n in range(max(len(ours), len(others))):
        yield from ours[n : n + 1]
        yield from others[n : n + 1]
    if "lag" in parts:
        yield from (_lag(size, rate) for rate in RATES)
        yield _latency(size)


def _lag(size: Size, rate: int) -> Step:
    def measure(cluster: Cluster) -> dict[str, Any]:
        return lag.measure(cluster, rate=rate, seconds=size.lag_seconds)

    return Step(part="lag", subject="everwhen", setting=f"{rate}/s", measure=measure)


def _latency(size: Size) -> Step:
    def measure(cluster: Cluster) -> dict[str, Any]:
        return latency.measure(cluster, samples=size.samples)

    return Step(part="latency", subject="everwhen", setting="request to start, idle", measure=measure)


def _cycles(size: Size, turn: int) -> Iterator[Step]:
    yield _sdk(size, 1, 1)
    yield _batches(size, 1, 500, 2)
    yield _sdk(size, 1, 2)
    yield _sdk(size, 2, 2)
    if turn == 0:
        yield _batches(size, 1, 100, 2)
        yield _batches(size, 2, 500, 2)
        yield _sdk(size, 1, 1, stale=True)


def _sdk(size: Size, apis: int, workers: int, *, stale: bool = False) -> Step:
    def measure(cluster: Cluster) -> dict[str, Any]:
        return cycle.measure_sdk(cluster, apis=apis, workers=workers, runs=size.runs, stale=stale)

    setting = f"SDK, {apis} API, {_plural(workers, 'worker')}" + (", stale statistics" if stale else "")
    return Step(part="cycle", subject="everwhen", setting=setting, measure=measure)


def _batches(size: Size, apis: int, batch: int, loops: int) -> Step:
    def measure(cluster: Cluster) -> dict[str, Any]:
        return cycle.measure_batches(cluster, apis=apis, batch=batch, loops=loops, runs=size.runs)

    setting = f"batch API, {apis} API, {loops} loops of {batch}"
    return Step(part="cycle", subject="everwhen", setting=setting, measure=measure)


def _plans(size: Size) -> Iterator[Step]:
    for schedulers in (1, 2):

        def measure(cluster: Cluster, schedulers: int = schedulers) -> dict[str, Any]:
            return plan.measure(cluster, schedulers=schedulers, schedules=size.schedules)

        yield Step(part="plan", subject="everwhen", setting=_plural(schedulers, "scheduler"), measure=measure)


def _raws(size: Size) -> Iterator[Step]:
    for connections, batch in ((1, 100), (2, 100), (1, 500), (2, 500)):

        def cycles(cluster: Cluster, connections: int = connections, batch: int = batch) -> dict[str, Any]:
            return raw.measure_cycle(cluster, connections=connections, batch=batch, runs=size.raw_runs)

        yield Step(
            part="raw",
            subject="raw SQL cycle",
            setting=f"{_plural(connections, 'connection')}, batch {batch}",
            measure=cycles,
        )
    for connections in (1, 2):

        def plans(cluster: Cluster, connections: int = connections) -> dict[str, Any]:
            return raw.measure_plan(cluster, connections=connections, batch=500, runs=size.raw_runs)

        setting = f"{_plural(connections, 'connection')}, batch 500"
        yield Step(part="raw", subject="raw SQL plan", setting=setting, measure=plans)


def _peers(size: Size, turn: int, parts: set[str]) -> Iterator[Step]:
    if "peers" not in parts:
        return
    for peer, settings in SETTINGS.items():
        python = python_for(peer)
        if python is None:
            continue
        yield _peer(peer, python, "queue", size.jobs[peer], size.samples, *settings)
        if turn == 0 and size.peer_schedules:
            yield _peer(peer, python, "schedules", size.peer_schedules)


def _peer(peer: str, python: str, what: str, *arguments: int) -> Step:
    def measure(cluster: Cluster) -> dict[str, Any]:
        environment, meter = cluster.fresh_database(f"peer_{peer}"), Meter(roots={})
        found = backlog.run_child(
            cluster, f"peers.run_{peer}", what, *arguments, python=python, environment=environment
        )
        cores = meter.other_cores()
        cluster.drop_database(f"peer_{peer}")
        return found | {"other_cores": cores}

    return Step(part="peers", subject=peer, setting=what, measure=measure)


def _plural(count: int, word: str) -> str:
    return f"{count} {word}{'s' if count > 1 else ''}"
