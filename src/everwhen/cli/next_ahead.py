"""What `everwhen next --ahead` adds: a sentence, how often a year, and the clock changes that will touch the timing."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from everwhen.core.ahead import Touch, fires_a_year, touches
from everwhen.core.explain import explain
from everwhen.core.trigger_json import instant_text
from everwhen.core.triggers import Timing
from everwhen.core.zones import add

TWO_YEARS: Final = timedelta(days=731)


def as_lines(timing: Timing, after: datetime) -> list[str]:
    """Return it as text."""
    often = fires_a_year(timing, after=after)
    about = "" if often.exact else "about "
    told = [explain(timing.trigger), f"{about}{often.fires:,} times a year"]
    found = list(touches(timing, after=after, until=add(after, TWO_YEARS)))
    if not found:
        return [*told, "no clock change of the next two years touches it"]
    return [*told, *(_line(touch) for touch in found)]


def as_json(timing: Timing, after: datetime) -> dict[str, Any]:
    """Return it as JSON data, in the words of the API."""
    often = fires_a_year(timing, after=after)
    return {
        "sentence": explain(timing.trigger),
        "fires_per_year": often.fires,
        "fires_per_year_exact": often.exact,
        "transitions": [
            {
                "at": instant_text(touch.at),
                "offset_before_seconds": int(touch.before.total_seconds()),
                "offset_after_seconds": int(touch.after.total_seconds()),
                "skipped": touch.skipped,
                "moved": touch.moved,
                "doubled": touch.doubled,
                "once": touch.once,
            }
            for touch in touches(timing, after=after, until=add(after, TWO_YEARS))
        ],
    }


def _line(touch: Touch) -> str:
    shift = touch.after - touch.before
    way = "forward" if shift > timedelta(0) else "back"
    counts = {"skipped": touch.skipped, "moved": touch.moved, "run twice": touch.doubled, "run once": touch.once}
    effects = ", ".join(f"{count} {effect}" for effect, count in counts.items() if count)
    return f"  {instant_text(touch.at)}  clocks go {way} by {abs(shift)}: {effects}"
