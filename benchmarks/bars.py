"""The bars that the hot path is held to, each measured beside its yardstick in the same run: one table, met or missed.

    python -m benchmarks.bars                      everything at its full size (about 20 minutes)
    python -m benchmarks.bars --quick              small numbers (about 3 minutes): that it runs, not how fast
    python -m benchmarks.bars --only cycle,storm   parts: cycle, storm, shares, noisy, claims

A bar is a ratio to something that was measured right beside it, wherever it can be one:

    cycle    full cycles through the batch API against the raw-SQL limit: the product's own claim and report statements
             on plain connections, as many of them as the client has loops, in batches of the same size. The two take
             turns; a ratio is taken within each pair, of rates and of CPU.
    storm    runs that three schedulers planned for one instant, until the last is claimed; beside it how long the raw
             limit takes to claim and report as many, and how late a small tenant is meanwhile
    shares   what three tenants with weights 1, 2 and 4 get of a saturated queue
    noisy    by how much a small tenant's p99 moves beside a million waiting runs of another
    claims   a claim beside a million waiting runs, and after a day's churn, against one of a short line: time, and the
             pages it touches, which no neighbour on the machine can change

The last column says how many cores other processes kept busy: above 0.2, believe ratios of CPU and pages only.
"""

import argparse
import asyncio
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from benchmarks import cycle, fairness, raw
from benchmarks.cluster import Cluster, exit_on_sigterm, running_cluster
from benchmarks.cpu import Meter

LEAST_OF_RAW: Final = 0.60
MOST_STORM_SECONDS, STORM_RUNS = 10.0, 100_000
MOST_SMALL_P99_MS: Final = 1_000.0
MOST_SHARE_OFF: Final = 0.05
MOST_MOVED: Final = 0.20
MOST_GROWN: Final = 2.0
BATCH, LOOPS = 500, 2
SCHEDULERS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much of everything."""

    pairs: int
    runs: int
    storm: int
    shares: int
    seconds: float
    waiting: int
    churn: int


FULL = Size(pairs=5, runs=30_000, storm=STORM_RUNS, shares=14_000, seconds=30.0, waiting=1_000_000, churn=864_000)
QUICK = Size(pairs=1, runs=6_000, storm=10_000, shares=3_500, seconds=6.0, waiting=50_000, churn=5_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One bar. `is_met` None: a figure beside a bar."""

    what: str
    wanted: str
    measured: str
    is_met: bool | None = None


Lines = Iterator[Line]


def cycles(cluster: Cluster, size: Size) -> Lines:
    """Compare the batch API with the raw limit, in turns."""
    pairs = []
    for turn in range(size.pairs):
        sides: list[Callable[[], dict[str, Any]]] = [
            lambda: cycle.measure_batches(cluster, apis=1, batch=BATCH, loops=LOOPS, runs=size.runs),
            lambda: raw.measure_cycle(cluster, connections=LOOPS, batch=BATCH, runs=size.runs),
        ]
        found = [side() for side in (sides if turn % 2 == 0 else sides[::-1])]
        pairs.append(found if turn % 2 == 0 else found[::-1])
    rates = [ours["per_s"] / limit["per_s"] for ours, limit in pairs]
    costs = [sum(limit["cpu_us"].values()) / sum(ours["cpu_us"].values()) for ours, limit in pairs]
    middle = statistics.median(rates)
    each = " · ".join(
        f"{name} {statistics.median(ours['cpu_us'][name] for ours, _ in pairs):.0f}" for name in pairs[0][0]["cpu_us"]
    )
    per_s = [statistics.median(pair[n]["per_s"] for pair in pairs) for n in (0, 1)]
    yield Line(
        what=f"cycles, batch API ÷ raw SQL, {LOOPS} × {BATCH}",
        wanted=f"≥ {LEAST_OF_RAW:.2f}",
        measured=f"{middle:.2f} [{min(rates):.2f} {max(rates):.2f}] of {per_s[0]:,.0f}/s ÷ {per_s[1]:,.0f}/s",
        is_met=middle >= LEAST_OF_RAW,
    )
    yield Line(
        what="  CPU a cycle, raw SQL ÷ ours",
        wanted="",
        measured=f"{statistics.median(costs):.2f} [{min(costs):.2f} {max(costs):.2f}]; ours in µs: {each}",
    )


def storm(cluster: Cluster, size: Size) -> Lines:
    """Let three schedulers plan runs for one instant; compare with the raw limit."""
    limit = raw.measure_cycle(cluster, connections=SCHEDULERS, batch=BATCH, runs=size.runs)
    found = asyncio.run(fairness.storm(cluster, runs=size.storm, schedulers=SCHEDULERS))
    took, small = found["claimed_in_s"], found["small"]
    yield Line(
        what=f"{size.storm:,} due at one instant, {SCHEDULERS} schedulers: all claimed",
        wanted=f"< {MOST_STORM_SECONDS:g} s",
        measured=f"{took:.1f} s (raw SQL: {size.storm / limit['per_s']:.1f} s with {SCHEDULERS} connections)",
        is_met=took < MOST_STORM_SECONDS,
    )
    yield Line(
        what="  a small tenant meanwhile, p99",
        wanted=f"< {MOST_SMALL_P99_MS:,.0f} ms",
        measured=f"{small['p99_ms']:,.0f} ms, p50 {small['p50_ms']:,.0f} ms",
        is_met=small["p99_ms"] < MOST_SMALL_P99_MS,
    )
    yield Line(what="  CPU a run, µs", wanted="", measured=_parts(found["cpu_us"]))


def shares(cluster: Cluster, size: Size) -> Lines:
    """Compare what each tenant got with its weight."""
    found = asyncio.run(fairness.shares(cluster, runs=size.shares))
    off = max(abs(each - 1) for each in found["per_weight"])
    yield Line(
        what="weights 1 : 2 : 4, the furthest off",
        wanted=f"≤ {MOST_SHARE_OFF:.0%}",
        measured=f"{off:.1%} of {' : '.join(f'{each:,}' for each in found['claimed'])}",
        is_met=off <= MOST_SHARE_OFF,
    )


def noisy(cluster: Cluster, size: Size) -> Lines:
    """Compare the small tenant's lag with and without a neighbour."""
    found = asyncio.run(fairness.noisy(cluster, seconds=size.seconds, waiting=size.waiting))
    alone, beside = ([round(each["p99_ms"], 1) for each in found[name]] for name in ("alone", "beside"))
    yield Line(
        what=f"small tenant's p99 beside {size.waiting:,} waiting",
        wanted=f"< +{MOST_MOVED:.0%}",
        measured=f"{found['p99_moved']:+.0%}: alone {alone} ms, beside {beside} ms",
        is_met=found["p99_moved"] < MOST_MOVED,
    )


def claims(cluster: Cluster, size: Size) -> Lines:
    """Compare claims of a long line, and of one that has churned, with those of a short one."""
    found = asyncio.run(fairness.claims(cluster, waiting=size.waiting, churn=size.churn))
    first, *others = found.items()
    for state, each in others:
        for name in ("claim of 1", "claim of 100"):
            grown = each[f"{name}, ms"][0] / first[1][f"{name}, ms"][0]
            pages = each[f"{name}, pages"] / max(first[1][f"{name}, pages"], 1)
            yield Line(
                what=f"{name}, {state} ÷ {first[0]}",
                wanted=f"≤ {MOST_GROWN:g}",
                measured=f"{grown:.2f} in time, {pages:.2f} in pages ({each[f'{name}, pages']:,})",
                is_met=grown <= MOST_GROWN,
            )
        yield Line(what=f"  hot tables, {state}", wanted="", measured=f"waiting {each['waiting, MB']} MB")


def _parts(costs: dict[str, float]) -> str:
    return " · ".join(f"{name} {value:.0f}" for name, value in costs.items())


PARTS: Final[dict[str, Callable[[Cluster, Size], Lines]]] = {
    "cycle": cycles,
    "storm": storm,
    "shares": shares,
    "noisy": noisy,
    "claims": claims,
}


def main() -> int:
    """Measure what was asked for; print each line as soon as it is known, and the table at the end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    parser.add_argument("--quick", action="store_true", help="small numbers")
    options = parser.parse_args()
    wanted = options.only.split(",")
    if unknown := set(wanted) - set(PARTS):
        parser.error(f"unknown part {min(unknown)}; known are {', '.join(PARTS)}")
    exit_on_sigterm()
    rows: list[str] = []
    missed = 0
    for part in wanted:
        with running_cluster() as cluster:  # a server of its own for each, so that none pays for the rows of another
            meter = Meter(roots={})
            lines = list(PARTS[part](cluster, QUICK if options.quick else FULL))
            others = meter.other_cores()
        for line in lines:
            rows.append(_row(line, others))
            print(rows[-1], flush=True)
            missed += line.is_met is False
    print("\n| bar | wanted | measured | met | others' cores |\n|---|---|---|---|---|")
    print("\n".join(rows))
    return 1 if missed else 0


def _row(line: Line, others: float) -> str:
    met = {True: "yes", False: "NO", None: ""}[line.is_met]
    return f"| {line.what} | {line.wanted} | {line.measured} | {met} | {others:.2f} |"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("stopped; everything that was started has ended")
