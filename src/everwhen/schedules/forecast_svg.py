"""Draws a forecast as a heat map: an hour a row, a minute a column, and beside each row its sum and its busiest minute.

The colours are one hue in steps of lightness, so that every kind of colour vision, and a black-and-white printer, sees
their order. The picture follows the reader's light or dark setting. It has a title, a sentence that names the herd, a
legend, and the numbers of each hour as a table of text, which is what a screen reader is given. One path holds all
cells of a step, so that a week is still small.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape
from typing import Final

from everwhen.core.forecast import Forecast
from everwhen.core.zones import add

LIGHT: Final = ("#DBE6F6", "#B3CBEA", "#85AADA", "#5585C3", "#2F5FA3", "#123A73")
DARK: Final = ("#1E2D47", "#2A4670", "#3D659C", "#5F8AC4", "#92B5E2", "#D3E4FA")
STEPS: Final = len(LIGHT)

_CELL: Final = 12
_ROW: Final = 16
_LEFT, _TOP, _RIGHT = 104, 96, 176
_CHARACTER: Final = 7
_MINUTES: Final = 60

_STYLE: Final = """
svg{font:12px ui-sans-serif,system-ui,-apple-system,"Segoe UI",sans-serif;background:#FFFFFF}
text{fill:#1B1F24}.m{fill:#57606A}.n{font-variant-numeric:tabular-nums}.h{font-size:16px;font-weight:600}
.e{fill:#F0F2F5}.b{stroke:#1B1F24}LIGHT
@media (prefers-color-scheme:dark){svg{background:#0F1319}text{fill:#E6EAF0}.m{fill:#9AA4B2}.e{fill:#171C24}
.b{stroke:#E6EAF0}DARK}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Herd:
    """The minute of the hour at which most becomes due."""

    minute: int
    due: int
    share: float

    @property
    def sentence(self) -> str:
        """What it means, for people."""
        times = self.share * _MINUTES
        return (
            f"{self.share:.0%} of all runs become due at :{self.minute:02} of an hour, {times:.1f} times an even share."
        )


def herd_of(found: Forecast) -> Herd | None:
    """Return the busiest minute of the hour; None when nothing is due."""
    loads = found.by_minute_of_hour()
    due = max(loads)
    return Herd(minute=loads.index(due), due=due, share=due / found.due) if found.due else None


def steps_of(peak: int) -> list[int]:
    """Return the smallest load of each step, ascending and without repetition: 1, …, a good part of the peak."""
    return sorted({max(1, round(peak ** (index / STEPS))) for index in range(STEPS)})


def render(found: Forecast, *, title: str) -> str:
    """Return the picture as SVG text."""
    rows = _rows(found)
    steps = steps_of(found.peak[1])
    width, height = _LEFT + _MINUTES * _CELL + _RIGHT, _TOP + len(rows) * _ROW + 56
    return "".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" ',
            f'height="{height}" role="figure" aria-labelledby="t d">',
            f'<title id="t">{escape(title)}</title><desc id="d">{escape(summary(found))}</desc>',
            f"<style>{_style()}</style>",
            f'<text class="h" x="16" y="28">{escape(title)}</text>',
            *(
                f'<text class="m" x="16" y="{48 + 16 * n}">{escape(line)}</text>'
                for n, line in enumerate(_lines(found))
            ),
            *_axis(),
            *_cells(rows, steps),
            *_table(rows),
            *_legend(steps, found.peak[1], y=_TOP + len(rows) * _ROW + 20),
            "</svg>",
        )
    )


def summary(found: Forecast) -> str:
    """Return the forecast in two sentences: how much, the peak, and the herd."""
    return " ".join(_lines(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    hour: datetime
    first: int
    counts: Sequence[int]

    @property
    def due(self) -> int:
        return sum(self.counts)

    @property
    def peak(self) -> tuple[int, int]:
        load = max(self.counts)
        return self.first + list(self.counts).index(load), load


def _rows(found: Forecast) -> list[_Row]:
    """Cut the minutes at whole hours; the first and the last row may be shorter."""
    rows: list[_Row] = []
    at, index = found.start, 0
    while index < len(found.counts):
        size = min(_MINUTES - at.minute, len(found.counts) - index)
        hour = at.replace(minute=0)
        rows.append(_Row(hour=hour, first=at.minute, counts=found.counts[index : index + size]))
        at, index = add(hour, timedelta(hours=1)), index + size
    return rows


def _lines(found: Forecast) -> list[str]:
    at, load = found.peak
    hours = len(found.counts) // _MINUTES
    lines = [f"{found.due:,} runs of {found.schedules:,} schedules in {hours} hours from {at_text(found.start)}."]
    herd = herd_of(found)
    if herd is not None:
        lines.append(f"Busiest: {at_text(at)} with {load:,} runs. {herd.sentence}")
    return lines


def at_text(at: datetime) -> str:
    """Return an instant to the minute, in UTC."""
    return f"{at:%Y-%m-%d %H:%M} UTC"


def _axis() -> Iterator[str]:
    y = _TOP - 8
    for minute in range(0, _MINUTES, 15):
        yield f'<text class="m n" x="{_LEFT + minute * _CELL}" y="{y}" aria-hidden="true">:{minute:02}</text>'
    right = _LEFT + _MINUTES * _CELL
    yield f'<text class="m" x="{right + 64}" y="{y}" text-anchor="end" aria-hidden="true">due</text>'
    yield f'<text class="m" x="{right + 160}" y="{y}" text-anchor="end" aria-hidden="true">busiest minute</text>'


def _cells(rows: Sequence[_Row], steps: Sequence[int]) -> Iterator[str]:
    paths: list[list[str]] = [[] for _ in range(STEPS + 1)]
    for number, row in enumerate(rows):
        for index, count in enumerate(row.counts):
            x, y = _LEFT + (row.first + index) * _CELL, _TOP + number * _ROW
            paths[_step(count, steps)].append(f"M{x} {y}h11v15h-11z")
    yield '<g aria-hidden="true">'
    for step, path in enumerate(paths):
        if path:
            yield f'<path class="{_class(step)}" d="{"".join(path)}"/>'
    yield "</g>"


def _step(count: int, steps: Sequence[int]) -> int:
    """Return 0 for nothing, else the step; the last is always in use, so a peak of 1 is as visible as 1,000."""
    reached = sum(count >= least for least in steps)
    return reached and STEPS - len(steps) + reached


def _table(rows: Sequence[_Row]) -> Iterator[str]:
    right = _LEFT + _MINUTES * _CELL
    yield '<g role="table" aria-label="Runs due, hour by hour">'
    for number, row in enumerate(rows):
        y = _TOP + number * _ROW + 12
        day = f"{row.hour:%a %d} " if number == 0 or row.hour.hour == 0 else ""
        minute, load = row.peak
        peak = f"{load:,} at :{minute:02}" if load else "–"
        yield (
            f'<g role="row" class="n"><text role="rowheader" class="m" x="{_LEFT - 8}" y="{y}" text-anchor="end">'
            f"{day}{row.hour:%H:%M}</text>"
            f'<text role="cell" x="{right + 64}" y="{y}" text-anchor="end">{row.due:,}</text>'
            f'<text role="cell" x="{right + 160}" y="{y}" text-anchor="end">{peak}</text></g>'
        )
    yield "</g>"


def _legend(steps: Sequence[int], peak: int, *, y: int) -> Iterator[str]:
    yield f'<text class="m" x="{_LEFT}" y="{y + 10}">due in a minute:</text>'
    ends = [*(least - 1 for least in steps[1:]), peak]
    labels = [
        "0",
        *(f"{least:,}" if least >= end else f"{least:,}–{end:,}" for least, end in zip(steps, ends, strict=True)),
    ]
    x = _LEFT + 104
    for step, label in zip((0, *(_step(least, steps) for least in steps)), labels, strict=True):
        yield f'<rect class="{_class(step)}" x="{x}" y="{y}" width="11" height="11"/>'
        yield f'<text class="n" x="{x + 16}" y="{y + 10}">{label}</text>'
        x += 32 + _CHARACTER * len(label)


def _class(step: int) -> str:
    return f"s{step}" if step else "e"


def _style() -> str:
    light, dark = (
        "".join(f".s{number}{{fill:{colour}}}" for number, colour in enumerate(colours, start=1))
        for colours in (LIGHT, DARK)
    )
    return _STYLE.replace("LIGHT", light).replace("DARK", dark).replace("\n", "")
