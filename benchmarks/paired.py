"""Two checkouts side by side: is the hot path of one dearer than that of the other?

    python -m benchmarks.paired ../before                          this checkout against another, all settings
    python -m benchmarks.paired ../before --only batch-500 --rounds 10

The other checkout needs an environment of its own (`make setup` in it). Each side has a server of its own, and only one
of them is at work at a time: before after, after before, … (ABBA), so that a machine that slows down or is shared hits
both. The CPU that a run costs is the primary figure, since a neighbour takes the clock's time but hardly a process's. A
ratio is taken within each pair; their median, least and most are printed, above 1 when this checkout is the better one.
The last column says how many cores other processes kept busy meanwhile.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from benchmarks.child import percentile
from benchmarks.cluster import ROOT, exit_on_sigterm

SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "sdk-1-1": ("sdk", {"apis": 1, "workers": 1}),
    "sdk-1-2": ("sdk", {"apis": 1, "workers": 2}),
    "sdk-2-2": ("sdk", {"apis": 2, "workers": 2}),
    "sdk-1-1-stale": ("sdk", {"apis": 1, "workers": 1, "stale": True}),
    "batch-500": ("batches", {"apis": 1, "batch": 500, "loops": 2}),
    "batch-500-2": ("batches", {"apis": 2, "batch": 500, "loops": 2}),
    "batch-100": ("batches", {"apis": 1, "batch": 100, "loops": 2}),
    "lag-1000": ("lag", {"rate": 1_000, "seconds": 12.0}),
    "plan-5000": ("plan", {"schedulers": 1, "schedules": 5_000}),
    "request-run": ("control", {"what": "request_run"}),
    "get-task": ("control", {"what": "get_task"}),
    "list-runs": ("control", {"what": "list_runs"}),
}
"""Each name says who drains the line: workers with the SDK (APIs, workers), or batches over HTTP (size, APIs); or which
requests of the control API are sent; or that schedules are planned, and how many."""

OURS = ("api", "database", "scheduler", "reaper")
"""Whose CPU the primary figure counts; the client's is left out, which in a batch is the benchmark's own."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One setting measured on both sides, one right after the other."""

    before: dict[str, Any]
    after: dict[str, Any]

    def cpu(self, *names: str) -> float:
        """Return how much CPU a run took before, divided by how much it takes now: above 1 is better."""
        return _micros(self.before, *names) / max(_micros(self.after, *names), 0.1)

    def rate(self) -> float:
        """Return runs a second now, divided by those before: above 1 is better."""
        return self.after["per_s"] / self.before["per_s"] if "per_s" in self.before else float("nan")

    def others(self) -> float:
        """Return how many cores others kept busy, on the side that suffered more."""
        return max(self.before["other_cores"], self.after["other_cores"])


def main() -> int:
    """Measure, print a row for each setting as soon as it is known, and all of them once more at the end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, help="the other checkout")
    parser.add_argument("--only", default=",".join(SETTINGS), help="settings, separated by commas")
    parser.add_argument("--rounds", type=int, default=6, help="pairs of each setting")
    parser.add_argument("--runs", type=int, default=20_000, help="runs of each drain")
    options = parser.parse_args()
    wanted = options.only.split(",")
    if unknown := set(wanted) - set(SETTINGS):
        parser.error(f"unknown setting {min(unknown)}; known are {', '.join(SETTINGS)}")
    exit_on_sigterm()
    pairs: dict[str, list[Pair]] = {name: [] for name in wanted}
    with _side(options.before.resolve()) as before, _side(ROOT) as after:
        for turn in range(options.rounds):
            for name in wanted:
                pairs[name].append(_pair(before, after, _request(name, options.runs), is_reversed=turn % 2 == 1))
                print(f"{turn + 1}/{options.rounds}  {_row(name, pairs[name][-1:])}", flush=True)
    print(
        f"\n{'setting':<14} CPU us a run, API and database: before, after, ratio [least most]; of which; runs a second"
    )
    for name in wanted:
        print(_row(name, pairs[name]))
    return 0


@contextmanager
def _side(tree: Path) -> Iterator["subprocess.Popen[str]"]:
    python = tree / ".venv" / "bin" / "python"
    if not python.exists():
        raise SystemExit(f"{tree} has no environment: run `make setup` in it")
    script = ROOT / "benchmarks" / "paired_side.py"
    pipe = subprocess.PIPE
    with subprocess.Popen([python, script], cwd=tree, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


def _request(name: str, runs: int) -> str:
    what, arguments = SETTINGS[name]
    return json.dumps((what, arguments if what in {"lag", "control", "plan"} else arguments | {"runs": runs}))


def _pair(before: "subprocess.Popen[str]", after: "subprocess.Popen[str]", request: str, *, is_reversed: bool) -> Pair:
    if is_reversed:
        second = _ask(after, request)
        return Pair(_ask(before, request), second)
    return Pair(_ask(before, request), _ask(after, request))


def _ask(side: "subprocess.Popen[str]", request: str) -> dict[str, Any]:
    assert side.stdin is not None
    assert side.stdout is not None
    side.stdin.write(request + "\n")
    side.stdin.flush()
    return json.loads(_line(side.stdout))


def _line(stream: IO[str]) -> str:
    line = stream.readline()
    if not line:
        raise SystemExit("a side has ended; what it said is above")
    return line


def _micros(measured: dict[str, Any], *names: str) -> float:
    return sum(measured["cpu_us"].get(name, 0.0) for name in names or OURS)


def _row(name: str, pairs: list[Pair]) -> str:
    before, after = (
        statistics.median(_micros(side) for side in sides) for sides in zip(*map(_sides, pairs), strict=True)
    )
    parts = [
        f"{name:<14} {before:6.1f} {after:6.1f}",
        _spread([pair.cpu() for pair in pairs]),
        *(f"{part} {_spread([pair.cpu(part) for pair in pairs])}" for part in ("api", "database")),
    ]
    if "per_s" in pairs[0].before:
        parts.append(f"rate {_spread([pair.rate() for pair in pairs])}")
    else:
        sides = [[side["claimed"]["p99_ms"] for side in each] for each in zip(*map(_sides, pairs), strict=True)]
        parts.append("lag p99 ms " + " ".join(f"{statistics.median(values):.1f}" for values in sides))
    return "  ".join([*parts, f"others {percentile([pair.others() for pair in pairs], 0.5):.2f}"])


def _sides(pair: Pair) -> tuple[dict[str, Any], dict[str, Any]]:
    return pair.before, pair.after


def _spread(ratios: list[float]) -> str:
    middle = f"{statistics.median(ratios):.3f}"
    return middle if len(ratios) == 1 else f"{middle} [{min(ratios):.2f} {max(ratios):.2f}]"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("stopped; everything that was started has ended")
