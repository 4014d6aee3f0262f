"""Clients that run in a process of their own, so that their CPU is told apart: they print one line of JSON.

The parent names, in an environment variable, the processes whose CPU the child shall account for beside its own.
Standard library only: the peers' environments use this module too.
"""

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from benchmarks.cpu import Meter

ROOTS = "BENCH_ROOTS"


def meter() -> Meter:
    """Return a meter for this process, as `client`, and for those the parent named."""
    return Meter(roots={"client": [os.getpid()], **json.loads(os.environ.get(ROOTS, "{}"))})


def emit(**result: Any) -> None:
    """Print the result."""
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()


def rate(units: int, started: float) -> dict[str, float]:
    """Return units and their rate since `started` (time.perf_counter)."""
    return {"units": units, "per_s": round(units / (time.perf_counter() - started), 1)}


@dataclass
class Tally:
    """Counts executions and remembers when the first and the last one began."""

    count: int = 0
    first: float = 0.0
    last: float = 0.0
    lags: list[float] = field(default_factory=list)

    def hit(self) -> None:
        """One execution begins now."""
        self.last = time.perf_counter()
        self.count += 1
        if self.count == 1:
            self.first = self.last

    def per_second(self) -> float:
        """Return the rate from the first to the last."""
        return round((self.count - 1) / (self.last - self.first), 1) if self.count > 1 else 0.0

    async def until(self, count: int, *, seconds: float, ended: Callable[[], bool] = lambda: False) -> None:
        """Wait for so many executions, or the time, or the end."""
        end = time.perf_counter() + seconds
        while self.count < count and time.perf_counter() < end and not ended():  # noqa: ASYNC110  # the peer hits it
            await asyncio.sleep(0.01)


@contextlib.contextmanager
def metered(results: dict[str, Any], name: str) -> Iterator[dict[str, Any]]:
    """Record what the block did under a name: its own `units`, the rate unless it sets one, CPU for each unit."""
    found: dict[str, Any] = {}
    clock, started = meter(), time.perf_counter()
    yield found
    found.setdefault("per_s", round(found["units"] / (time.perf_counter() - started), 1))
    found["cpu_us"] = clock.micros_per(found["units"])
    results[name] = found


def percentile(values: list[float], part: float) -> float:
    """Return the value below which this part (0 to 1) of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(part * (len(ordered) - 1)))]


def latency(seconds: list[float]) -> dict[str, float]:
    """Return milliseconds: p50, p99, max."""
    if not seconds:
        return {}
    found = {"p50_ms": percentile(seconds, 0.5), "p99_ms": percentile(seconds, 0.99), "max_ms": max(seconds)}
    return {name: round(value * 1e3, 2) for name, value in found.items()} | {"samples": len(seconds)}
