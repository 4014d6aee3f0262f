"""The plot: how late runs are claimed, and how many cycles a second, beside the raw-SQL limit and the peers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from benchmarks import tables
from benchmarks.child import percentile

# Okabe and Ito's colours, told apart by colour-blind eyes, and by their lightness in print.
BLUE, ORANGE, GREY, GREEN = "#0072B2", "#E69F00", "#999999", "#009E73"
STYLES = {116: (BLUE, "-"), 1_000: (ORANGE, "--")}


def draw(records: Sequence[dict[str, Any]], about: dict[str, Any], path: Path) -> bool:
    """Draw what there is into an SVG, or another format by the name's ending; False when there is nothing."""
    panels = [panel for panel, has in ((_lags, _has_lags(records)), (_cycles, _bars(records))) if has]
    if not panels:
        return False
    mpl.rcParams.update({"font.size": 10, "svg.hashsalt": "everwhen", "svg.fonttype": "none", "axes.grid": True})
    mpl.rcParams.update({"grid.color": "#dddddd", "axes.axisbelow": True})
    figure, axes = plt.subplots(1, len(panels), figsize=(6.4 * len(panels), 4.6), layout="constrained", squeeze=False)
    for panel, place in zip(panels, axes[0], strict=True):
        panel(place, records)
        place.spines[["top", "right"]].set_visible(False)
    figure.supxlabel(f"{about['machine']['cores']} cores, PostgreSQL {about['postgres']}, {about['at']}", fontsize=8)
    figure.savefig(path, dpi=110, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)
    return True


def _has_lags(records: Sequence[dict[str, Any]]) -> bool:
    return any(record["part"] == "lag" for record in records)


def _lags(axes: Axes, records: Sequence[dict[str, Any]]) -> None:
    found: dict[int, list[float]] = {}
    for record in (each for each in records if each["part"] == "lag"):
        found.setdefault(record["rate"], []).extend(record["curve_ms"])
    for n, (rate, lags) in enumerate(sorted(found.items())):
        colour, line = STYLES[rate]
        ordered = [max(lag, 0.2) for lag in sorted(lags)]
        shares = [100 * (i + 1) / len(ordered) for i in range(len(ordered))]
        p50, p99 = percentile(lags, 0.5), percentile(lags, 0.99)
        label = f"{rate:,} due/s: p50 {p50:.1f} ms, p99 {p99:.1f} ms"
        axes.plot(ordered, shares, line, color=colour, linewidth=2, label=label)
        axes.plot([p99], [99], "os"[n], color=colour, markersize=7, zorder=3)
    axes.axvline(1000, color="black", linewidth=1, linestyle=":")
    axes.text(940, 50, "promised: p99 below 1 s", rotation=90, ha="right", va="center", fontsize=9)
    axes.set(xscale="log", xlim=(0.2, max(1500, 1.2 * max(map(max, found.values())))), ylim=(0, 101))
    axes.set(xlabel="lag from due to claimed, ms (log)", ylabel="runs claimed by then, %")
    axes.set_title("How late runs are claimed")
    axes.xaxis.set_major_formatter(mpl.ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 0.02), frameon=True, fontsize=9)


def _bars(records: Sequence[dict[str, Any]]) -> list[tuple[str, tables.Rate, str, str]]:
    """Label, rate, colour, hatch; the best setting of each kind."""
    ours, spread = tables.rates(records, "cycle"), tables.peer_records(records)
    kinds = [
        ("raw SQL limit", tables.rates(records, "raw", "raw SQL cycle"), GREY, "//"),
        ("Everwhen, batches by HTTP", [r for r in ours if r.setting.startswith("batch")], GREEN, ""),
        ("Everwhen, SDK", tables.ours_sdk(records), BLUE, ""),
        *((peer, tables.rates(spread, "peer drain", peer), ORANGE, "..") for peer in tables.PEERS),
    ]
    found = [(label, tables.best(rates), colour, hatch) for label, rates, colour, hatch in kinds]
    return [(label, rate, colour, hatch) for label, rate, colour, hatch in found if rate is not None]


def _cycles(axes: Axes, records: Sequence[dict[str, Any]]) -> None:
    bars = _bars(records)
    for place, (_, rate, colour, hatch) in enumerate(bars):
        axes.barh(place, rate.per_s, color=colour, hatch=hatch, edgecolor="white", height=0.7)
        low, high = min(rate.all), max(rate.all)
        axes.plot([low, high], [place, place], color="black", linewidth=1.5)
        text = f" {rate.per_s:,.0f}/s, {sum(rate.cpu.values()):,.0f} µs CPU"
        axes.text(max(high, rate.per_s), place, text, va="center", fontsize=9)
    names = [f"{label}\n{rate.setting.removeprefix('SDK, ').removeprefix('batch API, ')}" for label, rate, *_ in bars]
    axes.set_yticks(range(len(bars)), names, fontsize=8)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0, 1.5 * max(max(rate.all) for _, rate, *_ in bars))
    axes.xaxis.set_major_formatter(mpl.ticker.FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_xlabel("cycles a second, median; black: the rounds")
    axes.set_title("Claimed and completed")
