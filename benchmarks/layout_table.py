"""Prints the results of `benchmarks.layouts` as Markdown tables: python -m benchmarks.layout_table [results.json]."""

import json
import pathlib
import sys
from typing import Any

RESULTS = pathlib.Path(__file__).parent / "results" / "layouts.json"
CYCLES = ("b1 c1", "b10 c1", "b100 c1", "b500 c1", "b100 c4")
STEPS = ("plan b500", "claim b100", "heartbeat b100", "complete b100")


def cell(values: dict[str, float], name: str) -> str:
    """Rows a second, then CPU microseconds a row: server + client."""
    if f"{name} rows/s" not in values:
        return "–"
    rate, server, client = (values[f"{name} {part}"] for part in ("rows/s", "server us", "client us"))
    return f"{rate:,.0f} · {server:.0f}+{client:.0f}"


def row(*cells: object) -> None:
    print("| " + " | ".join(map(str, cells)) + " |")


def head(*cells: str) -> None:
    print()
    row(*cells)
    row(*("---" for _ in cells))


def cycles(medians: dict[str, dict[str, float]]) -> None:
    head("layout, finished runs behind", *(f"cycle {c}" for c in CYCLES), "WAL bytes a cycle, b100", "empty claims, c4")
    for name, values in medians.items():
        layout, behind = name.split(" | ")
        wal, empty = values.get("cycle b100 c1 wal", 0), values.get("empty claims c4", 0)
        row(f"{layout}, {int(behind):,}", *(cell(values, f"cycle {c}") for c in CYCLES), f"{wal:,.0f}", f"{empty:.0f}")


def steps(medians: dict[str, dict[str, float]]) -> None:
    head("layout, finished runs behind", *STEPS, "WAL bytes a row: plan, claim, heartbeat, complete")
    for name, values in medians.items():
        if "claim b100 rows/s" in values:
            wal = ", ".join(f"{values.get(f'{s} wal', 0):,.0f}" for s in STEPS)
            row(name.replace(" |", ","), *(cell(values, s) for s in STEPS), wal)


def probes(found: dict[str, Any]) -> None:
    head(
        "plan, one connection, no RLS",
        "unnest, binary arrays",
        "unnest, text arrays",
        "COPY to a temporary table, then insert",
        "COPY into the tables",
    )
    for batch in (10, 100, 500, 5000):
        cells = (found["inserts"][f"{how} b{batch}"] for how in ("unnest", "unnest_as_text", "staged", "direct"))
        row(f"batch {batch}", *(f"{c['rows/s']:,} · {c['server us']:.0f}+{c['client us']:.0f}" for c in cells))
    what = ("claim b100", "heartbeat b100", "complete b10", "complete b100", "complete b100 analysed")
    head("stale plans: server CPU µs a row", *what)
    for name in dict.fromkeys(key.rsplit(": ", 1)[0] for key in found["stale"]):
        row(name, *(f"{found['stale'][f'{name}: {w}']['server us']:.0f}" for w in what))
    head("claim latency, ms", "batch 1", "batch 100")
    for name, (one, hundred) in found["long_lines"].items():
        row(name, one, hundred)
    head("one busy lane, claim of 100", "ms")
    for name, ms in found["many_lanes"].items():
        row(name, ms)
    head("limit of 10, four connections", "most seen in flight", "looks", "runs done")
    for name, seen in found["limits"].items():
        row(name, *seen.values())
    head("bytes a finished run", "table", "indexes")
    for name, (table, indexes) in found["sizes"].items():
        row(name, table, indexes)


def main() -> None:
    result = json.loads(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else RESULTS).read_text())
    cycles(result["medians"])
    steps(result["medians"])
    if result["probes"]:
        probes(result["probes"])


if __name__ == "__main__":
    main()
