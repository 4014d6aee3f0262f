"""Writes what was measured: tables on the terminal and as Markdown, everything as JSON, a plot."""

import json
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import tables
from benchmarks.tables import Table

RESULTS = Path(__file__).resolve().parent / "results"


def made(records: Sequence[dict[str, Any]]) -> list[Table]:
    """Return the tables that have rows."""
    kinds = (tables.lag_table, tables.cycle_table, tables.plan_table, tables.latency_table, tables.cost_table)
    return [table for table in (kind(records) for kind in kinds) if table.rows]


def terminal(records: Sequence[dict[str, Any]]) -> str:
    """Return the tables and the bars as aligned text."""
    parts = [_aligned(table) for table in made(records)]
    held = "\n".join(f"  {'holds ' if holds else 'MISSED'}  {text}" for text, holds in tables.bars(records))
    return "\n\n".join([*parts, f"Bars\n{held}"])


def _aligned(table: Table) -> str:
    lines = [table.columns, *table.rows]
    widths = [max(len(line[n]) for line in lines) for n in range(len(table.columns))]
    numeric = [n > 0 and all(_is_number(row[n]) for row in table.rows) for n in range(len(table.columns))]
    text = [
        "  ".join(
            c.rjust(w) if right else c.ljust(w) for c, w, right in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in lines
    ]
    return "\n".join([table.title, f"  {table.note}", "", *(f"  {line}" for line in text)])


def _is_number(text: str) -> bool:
    return not text.strip("0123456789., ")


def markdown(records: Sequence[dict[str, Any]], about: dict[str, Any]) -> str:
    """Return the same as Markdown."""
    parts = [f"# Benchmark\n\n{_about(about)}"]
    for table in made(records):
        rule = "|".join("---" for _ in table.columns)
        rows = "\n".join("| " + " | ".join(row) + " |" for row in table.rows)
        parts.append(f"## {table.title}\n\n{table.note}\n\n| {' | '.join(table.columns)} |\n|{rule}|\n{rows}")
    held = "\n".join(f"- {'holds' if holds else '**missed**'}: {text}" for text, holds in tables.bars(records))
    return "\n\n".join([*parts, f"## Bars\n\n{held}"]) + "\n"


def _about(about: dict[str, Any]) -> str:
    machine = about["machine"]
    return (
        f"{about['at']}, {machine['cores']} cores, Python {machine['python']}, PostgreSQL {about['postgres']}, "
        f"fsync, synchronous_commit and checksums on. Loop {machine['loop_millions_per_s']} M steps/s, "
        f"fdatasync {machine['fdatasync_per_s']:,.0f}/s. Peers: "
        + (", ".join(f"{name} {version}" for name, version in about["peers"].items()) or "none")
        + '. "others" are cores that processes not of this benchmark kept busy meanwhile.'
    )


def write(records: Sequence[dict[str, Any]], about: dict[str, Any], *, name: str) -> list[Path]:
    """Write NAME.json, NAME.md and NAME.svg; return them."""
    from benchmarks import plot  # noqa: PLC0415  # matplotlib takes a second to import, and no measurement needs it

    RESULTS.mkdir(exist_ok=True)
    paths = [RESULTS / f"{name}.{kind}" for kind in ("json", "md", "svg")]
    paths[0].write_text(json.dumps({"about": about, "records": list(records)}, indent=1) + "\n")
    paths[1].write_text(markdown(records, about))
    return paths if plot.draw(records, about, paths[2]) else paths[:2]


def machine() -> dict[str, Any]:
    """Return what the measurements ran on."""
    return {"python": platform.python_version(), "system": platform.system(), "architecture": platform.machine()}
