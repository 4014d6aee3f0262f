"""A benchmark that tells the truth: lag, planning and full cycles, beside the raw-SQL limit and peers, on one server.

    python -m benchmarks                      everything, under ten minutes
    python -m benchmarks --quick              small numbers, under two: that it runs, not how fast
    python -m benchmarks --only lag,cycle     some parts: lag, cycle, plan, raw, peers

Figures of a run belong together; compare by ratio, within one run. Results go to benchmarks/results/bench.*, of a quick
or partial run to bench.quick.*.
"""

import argparse
import os
import subprocess
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from benchmarks import report, suite
from benchmarks.cluster import Cluster, exit_on_sigterm, running_cluster
from benchmarks.cpu import calibrate
from benchmarks.peers.environments import python_for


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small numbers")
    parser.add_argument("--rounds", type=int, help="how often everything is measured")
    parser.add_argument("--only", default=",".join(suite.PARTS), help="parts, separated by commas")
    options = parser.parse_args()
    parts = {part.strip() for part in options.only.split(",")}
    if unknown := parts - set(suite.PARTS):
        parser.error(f"unknown part {min(unknown)}; known are {', '.join(suite.PARTS)}")
    exit_on_sigterm()
    if "peers" in parts:
        for peer in suite.SETTINGS:
            python_for(peer)
    size = suite.QUICK if options.quick else suite.FULL
    size = replace(size, rounds=options.rounds or size.rounds)
    whole = not options.quick and parts == set(suite.PARTS)
    records, about = _measure(size, parts)
    print("\n" + report.terminal(records) + "\n")
    for path in report.write(records, about, name="bench" if whole else "bench.quick"):
        print(f"wrote {path.relative_to(report.RESULTS.parent.parent)}")
    return 0


def _measure(size: suite.Size, parts: set[str]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    machine = {**report.machine(), "cores": os.cpu_count(), **calibrate()}
    records: list[dict[str, Any]] = []
    with running_cluster() as cluster:
        version = cluster.value("select current_setting('server_version')")
        for turn in range(size.rounds):
            records += (_step(cluster, step, turn) for step in suite.steps(size, turn, parts))
    peers = {record["subject"]: record["version"] for record in records if "version" in record}
    at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return records, {"at": at, "machine": machine, "postgres": version, "peers": peers}


def _step(cluster: Cluster, step: suite.Step, turn: int) -> dict[str, Any]:
    started = time.monotonic()
    print(f"round {turn + 1}  {step.subject:<14} {step.setting:<34}", end=" ", flush=True)
    try:
        found = step.measure(cluster)
    except (RuntimeError, TimeoutError, subprocess.TimeoutExpired) as error:
        if step.part != "peers":
            raise
        print(f"left out: {error}", flush=True)  # somebody else's defect is no reason to measure nothing
        return {"part": "failed", "subject": step.subject, "setting": step.setting, "error": str(error)}
    took = round(time.monotonic() - started, 1)
    said = f"{found['per_s']:>10,.0f}/s" if "per_s" in found else " " * 12
    print(f"{said}  {took:5.1f} s  others {found['other_cores']:.2f} cores", flush=True)
    return (
        {"part": step.part, "subject": step.subject, "setting": step.setting, "round": turn + 1}
        | found
        | {"took_s": took}
    )


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:
        raise SystemExit("stopped; everything that was started has ended") from None
