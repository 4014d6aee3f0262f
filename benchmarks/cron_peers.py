"""Times other libraries' cron: run by benchmarks.cron_speed in an environment of its own; imports nothing of Everwhen.

Reads questions as JSON on standard input and prints, for each, microseconds for parse and next, and for next repeated.
"""

import json
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from time import perf_counter
from typing import Any
from zoneinfo import ZoneInfo

from apscheduler.triggers.cron import CronTrigger
from croniter import croniter
from cronsim import CronSim

TICK = timedelta(microseconds=1)


def cronsim_fires(expr: str, start: datetime) -> Iterator[datetime]:
    """Yield fires by cronsim."""
    return CronSim(expr, start)


def croniter_fires(expr: str, start: datetime) -> Iterator[datetime]:
    """Yield fires by croniter."""
    found = croniter(expr, start)
    while True:
        yield found.get_next(datetime)


def apscheduler_fires(expr: str, start: datetime) -> Iterator[datetime]:
    """Yield fires by APScheduler."""
    trigger = CronTrigger.from_crontab(expr, timezone=start.tzinfo)
    fire = trigger.get_next_fire_time(None, start)
    while fire is not None:
        yield fire
        fire = trigger.get_next_fire_time(fire, fire + TICK)


PEERS: dict[str, Callable[[str, datetime], Iterator[datetime]]] = {
    "cronsim": cronsim_fires,
    "croniter": croniter_fires,
    "apscheduler": apscheduler_fires,
}


def timed(fires: Callable[[str, datetime], Iterator[datetime]], expr: str, start: datetime) -> dict[str, float]:
    """Return microseconds for parse and next, and for a repeated next; the best of five rounds each."""
    first, repeated = [], []
    for _ in range(5):
        began = perf_counter()
        for _ in range(50):
            next(fires(expr, start))
        first.append((perf_counter() - began) / 50)
        found = fires(expr, start)
        next(found)
        began = perf_counter()
        for _ in range(200):
            next(found)
        repeated.append((perf_counter() - began) / 200)
    return {"parse_next": min(first) * 1e6, "next": min(repeated) * 1e6}


def answer(question: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Return the figures of each peer for a question."""
    start = datetime.fromisoformat(question["start"]).replace(tzinfo=ZoneInfo(question["timezone"]))
    return {name: timed(fires, question["expr"], start) for name, fires in PEERS.items()}


if __name__ == "__main__":
    sys.stdout.write(json.dumps([answer(question) for question in json.load(sys.stdin)]))
