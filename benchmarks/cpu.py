"""CPU by process tree, what the rest of the machine used meanwhile, and how fast the machine is.

Standard library only: the peers' environments use it too. Linux counts in ticks of 10 ms: a figure is good to 10 ms.
"""

import os
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = b"x" * 8192


def _processes() -> dict[int, tuple[int, int]]:
    """Pid to parent and ticks used, those of reaped children included."""
    table = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208  # a Path for each process would cost more than what is measured
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123  # as above
                    text = file.read()
            except OSError:
                continue
            fields = text[text.rindex(")") + 2 :].split()
            table[int(entry)] = int(fields[1]), sum(int(part) for part in fields[11:15])
    return table


def tree_seconds(*roots: int) -> float:
    """Return the CPU seconds of these processes and of all their descendants."""
    table, total = _processes(), 0
    for pid, (_, ticks) in table.items():
        at = pid
        while at and at not in roots:
            at = table[at][0] if at in table else 0
        if at:
            total += ticks
    return total / TICKS


def _machine_seconds() -> float:
    with open("/proc/stat", encoding="ascii") as file:  # noqa: PTH123  # one line of many
        user, nice, system, _, _, irq, softirq, steal, *_ = (int(part) for part in file.readline().split()[1:])
    return (user + nice + system + irq + softirq + steal) / TICKS


@dataclass(kw_only=True)
class Meter:
    """What named processes used since the meter was made, and what everybody else did."""

    roots: dict[str, list[int]]
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        """Read where everything stands."""
        self._before = {name: tree_seconds(*pids) for name, pids in self.roots.items()}
        self._machine, self._ours = _machine_seconds(), tree_seconds(os.getpid())

    def micros_per(self, units: int) -> dict[str, float]:
        """Return each name's CPU microseconds for one of `units`."""
        used = {name: tree_seconds(*pids) - self._before[name] for name, pids in self.roots.items()}
        return {name: round(seconds / max(units, 1) * 1e6, 1) for name, seconds in used.items()}

    def other_cores(self) -> float:
        """Return how many cores processes that are not ours kept busy."""
        other = (_machine_seconds() - self._machine) - (tree_seconds(os.getpid()) - self._ours)
        return round(max(0.0, other / (time.monotonic() - self.started)), 2)


def calibrate() -> dict[str, float]:
    """Return millions of loop steps a second and fdatasyncs of 8 kB a second: the machine, right now."""
    started, x = time.perf_counter(), 0
    for i in range(2_000_000):
        x += i * i % 7
    steps = 2.0 / (time.perf_counter() - started)
    with tempfile.TemporaryFile(dir=Path.cwd()) as file:
        file.write(PAGE * 512)
        os.fsync(file.fileno())
        count, started = 0, time.perf_counter()
        while time.perf_counter() - started < 1.0:
            os.pwrite(file.fileno(), PAGE, count % 512 * len(PAGE))
            os.fdatasync(file.fileno())
            count += 1
    return {"loop_millions_per_s": round(steps, 1), "fdatasync_per_s": float(count)}
