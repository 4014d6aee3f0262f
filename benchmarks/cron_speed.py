"""Cron beside cronsim, croniter and APScheduler, and a year of 10,000 schedules: `python -m benchmarks.cron_speed`.

Each library answers the same questions in this machine's best of five rounds: parse and next, with nothing cached, and
next repeated from fire to fire. The expressions are those of their own documentation and tests, and some of ours.
"""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter, process_time

from benchmarks.peers.environments import python_for
from everwhen.core import cron, cron_terms
from everwhen.core.triggers import Cron, Timing, fires, next_after

START = datetime(2026, 1, 15, 12, 34, 56, tzinfo=UTC)
EXPRESSIONS = (
    ("* * * * *", "UTC"),
    ("* * * * *", "Europe/Berlin"),
    ("*/5 * * * *", "UTC"),
    ("*/30 * * * *", "Europe/Riga"),
    ("0 * * * *", "America/New_York"),
    ("0 0 * * *", "UTC"),
    ("30 2 * * *", "America/New_York"),
    ("0 9-17 * * 1-5", "Europe/London"),
    ("0 0 1 * *", "UTC"),
    ("0 0 13 * 4", "UTC"),
    ("15 14 1 * *", "Europe/Berlin"),
    ("0 0 1 1 *", "UTC"),
)
ROUNDS = 5


def parse_and_next(expr: str, timezone: str) -> float:
    """Return microseconds to parse an expression and find its first fire, nothing of it cached."""
    rounds: list[float] = []
    for _ in range(ROUNDS):
        taken = 0.0
        for _ in range(50):
            _forget()
            began = perf_counter()
            next_after(Timing(Cron(expr), timezone), START)
            taken += perf_counter() - began
        rounds.append(taken / 50)
    return min(rounds) * 1e6


def repeated_next(expr: str, timezone: str) -> float:
    """Return microseconds for `next_after` from fire to fire."""
    timing, rounds = Timing(Cron(expr), timezone), list[float]()
    for _ in range(ROUNDS):
        at, began = START, perf_counter()
        for _ in range(200):
            at = next_after(timing, at) or START
        rounds.append((perf_counter() - began) / 200)
    return min(rounds) * 1e6


def year_of_schedules(count: int = 10_000) -> tuple[int, float]:
    """Return the fires of a year of many mixed schedules, and the seconds of processor time they took."""
    zones = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe")
    # Of a hundred, one runs every 15 minutes, 4 hourly, 75 daily, 15 weekly and 5 on some day of the month.
    shapes = (
        "*/15 * * * *",
        *["{m} * * * *"] * 4,
        *["{m} {h} * * *"] * 75,
        *["{m} {h} * * {w}"] * 15,
        *["{m} {h} {d} * *"] * 5,
    )
    timings = [
        Timing(Cron(shapes[i % 100].format(m=i % 60, h=i % 24, d=1 + i % 28, w=i % 7)), zones[i // 100 % 5])
        for i in range(count)
    ]
    until, found, began = START + timedelta(days=365), 0, process_time()
    for timing in timings:
        for _ in fires(timing, after=START, until=until):
            found += 1
    return found, process_time() - began


def main() -> int:
    """Measure and print."""
    questions = [{"expr": expr, "timezone": zone, "start": "2026-01-15T12:34:56"} for expr, zone in EXPRESSIONS]
    python = python_for("cron")
    if python is None:
        return 1
    script = Path(__file__).with_name("cron_peers.py")
    done = subprocess.run(
        [python, str(script)], input=json.dumps(questions), capture_output=True, text=True, check=True
    )
    _say(f"{'expression':<18}{'zone':<18}{'parse+next: ours':>17}{'cronsim':>9}{'croniter':>9}{'aps':>6}", end="")
    _say(f"{'next: ours':>14}{'cronsim':>9}{'croniter':>9}{'aps':>7}")
    for (expr, zone), peers in zip(EXPRESSIONS, json.loads(done.stdout), strict=True):
        first, repeated = parse_and_next(expr, zone), repeated_next(expr, zone)
        ratios = [
            [peers[name][key] / ours for name in peers] for key, ours in (("parse_next", first), ("next", repeated))
        ]
        cells = [f"{first:>14.1f} us" + "".join(f"{ratio:>7.1f}x" for ratio in ratios[0])]
        cells.append(f"{repeated:>11.2f} us" + "".join(f"{ratio:>7.1f}x" for ratio in ratios[1]))
        _say(f"{expr:<18}{zone:<18}" + "".join(cells))
    for count in (1_000, 10_000):
        found, seconds = year_of_schedules(count)
        each = seconds / found * 1e6
        _say(f"a year of {count} schedules: {found} fires in {seconds:.1f} s of processor time, {each:.2f} us each")
    return 0


def _forget() -> None:
    cron.compile_cron.cache_clear()
    cron_terms.read_column.cache_clear()


def _say(text: str, *, end: str = "\n") -> None:
    sys.stdout.write(text + end)


if __name__ == "__main__":
    sys.exit(main())
