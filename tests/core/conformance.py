"""The whole conformance run: every zone, every transition of 41 years, every policy, against the minute walk.

`make conformance` runs it all, in two processes; a slice of it is a test. Zones that are the same file under several
names are walked once. Every expression of every dialect is asked in a window of 26 hours on either side of every change
of offset; the oracle (minute_walk, naive_cron) shares no code with the engine.
"""

import sys
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib import resources
from time import monotonic
from typing import NamedTuple

from everwhen.core.triggers import Cron, FoldPolicy, GapPolicy, Timing, fires
from tests.core.minute_walk import standard_zone, transitions
from tests.core.naive_cron import NaiveCron

MINUTE = timedelta(minutes=1)
REACH = timedelta(hours=26)
FIRST_YEAR, LAST_YEAR = 2000, 2040

SPECS = (
    *(("vixie", expr) for expr in (
        "*/3 0-3 * * *", "*/7 0-5 * * *", "0 * * * *", "30 * * * *", "15,45 */2 * * *", "0 0 * * *", "30 0 * * *",
        "15 1 * * *", "30 1 * * *", "0 2 * * *", "15 2 * * *", "0,30 2 * * *", "30 1-3 * * *", "0 2,3 * * *",
        "59 2 * * *", "0 3 * * *", "30 3 * * *", "45 23 * * *", "0 12 30 * *", "30 2 * * 0", "30 2 1-15 * 0",
        "*/20 0-4/2 */2 * 0,5", "0 0 1 * *", "59 23 31 12 *", "0 4 * 3,10,11 *", "1 0,1,2,3 * * 7", "0 2 ? * 0",
        "5/25 1-4 8-14 3 6",
    )),
    *(("vixie-ext", expr) for expr in (
        "30 2 L * *", "30 1 LW * *", "0 0 L-3 * *", "15 2 15W * *", "0 3 1W,L * *", "30 2 * * 0L", "30 2 * * 0#2",
        "0 1 * * SUN#1,SAT#5", "30 1 * 3,4,10,11 7L", "*/30 22-3 * * *", "10 0-4 * * FRI-MON", "45 1-3 28-3 OCT-APR *",
        "0 2 L-1W * 6#4",
    )),
    *(("quartz", expr) for expr in (
        "0 30 2 ? * 1", "0 0 1 ? * 1L", "0 30 1 ? * SUN#1", "0 15 2 L * ?", "0 0/20 0-3 * * ? 2000-2040/3",
        "0 30 2 15W,L * ?",
    )),
    *(("spring", expr) for expr in ("0 30 2 * * SUN", "0 0 0 25-31 * 7", "0 30 1 ? 3,10 FRI-SUN")),
    *(("eventbridge", expr) for expr in ("30 2 ? * 1#2 *", "cron(0 1-3 ? * SUN *)", "30 1 L * ? 2005-2035")),
    ("kubernetes", "30 2 */3 * 0"),
    ("temporal", "30 2 1-7 * 0 *"),
    ("apscheduler", "30 1-2 * * 6"),
    ("croniter", "30 2 */2 * L0"),
)  # fmt: skip


class Outcome(NamedTuple):
    """What one file of zone data came to."""

    transitions: int
    questions: int
    fires: int
    differences: list[str]


class Window:
    """Every minute around an instant, with what the wall showed and which wall times it jumped over."""

    def __init__(self, name, centre):
        zone = standard_zone(name)
        self.start, self.end = centre - REACH, centre + REACH
        self.passes, self.jumps = defaultdict(list), []
        instant, before = self.start - REACH, None
        while instant <= self.end + REACH:
            local = instant.astimezone(zone)
            wall = local.replace(tzinfo=None, fold=0)
            self.passes[wall].append(instant)
            if before is not None and wall - before[0] > MINUTE:
                self.jumps.append((instant, before[1], before[0] + MINUTE, wall))
            before = (wall, local.utcoffset())
            instant += MINUTE
        self.dates = sorted({wall.date() for wall in self.passes} | {first.date() for _, _, first, _ in self.jumps})

    def fires_by_policy(self, rule, times):
        """Return the fires strictly inside the window for each policy, as sets."""
        folds, gaps = defaultdict(set), defaultdict(set)
        for wall in self._walls(rule, times):
            instants = self.passes.get(wall)
            if instants:
                folds["first"].add(instants[0])
                folds["second"].add(instants[-1])
                folds["both"].update(instants)
                continue
            for instant, offset, first, until in self.jumps:
                if first <= wall < until:
                    gaps["gap_end"].add(instant)
                    gaps["shift"].add(wall.replace(tzinfo=UTC) - offset)
        return {
            (gap, fold): sorted(at for at in gaps[gap] | folds[fold] if self.start < at < self.end)
            for gap in GapPolicy
            for fold in FoldPolicy
        }

    def _walls(self, rule, times):
        for date in self.dates:
            if rule.holds_on(date):
                midnight = datetime(date.year, date.month, date.day)  # noqa: DTZ001  # what a wall shows
                yield from (midnight + MINUTE * minutes for minutes in times)


@lru_cache
def rule_of(dialect, expr):
    """Return the naive rule and the minutes of a day on which it holds."""
    rule = NaiveCron(expr, dialect)
    return rule, [minutes for minutes in range(24 * 60) if rule.holds_at(*divmod(minutes, 60))]


def trigger_of(dialect, expr):
    """Return the engine's trigger."""
    return Cron(expr, dialect in {"quartz", "spring"}, dialect)


def check_zone(name, *, first_year=FIRST_YEAR, last_year=LAST_YEAR, specs=SPECS):
    """Compare the engine with the oracle around every transition of a zone."""
    changes = list(transitions(name, first_year=first_year, last_year=last_year))
    timings = {
        (dialect, expr, gap, fold): Timing(trigger_of(dialect, expr), name, gap, fold)
        for dialect, expr in specs
        for gap in GapPolicy
        for fold in FoldPolicy
    }
    differences, questions, found_fires = [], 0, 0
    for change in changes:
        around = Window(name, change)
        for dialect, expr in specs:
            for (gap, fold), expected in around.fires_by_policy(*rule_of(dialect, expr)).items():
                timing = timings[dialect, expr, gap, fold]
                found = list(fires(timing, after=around.start, until=around.end - timedelta(microseconds=1)))
                questions, found_fires = questions + 1, found_fires + len(found)
                if found != expected:
                    differences.append(f"{name} {change:%Y-%m-%dT%H:%M}Z {dialect} '{expr}' {gap} {fold}")
    return Outcome(len(changes), questions, found_fires, differences)


def zones_by_file():
    """Return the names of all zones, grouped by the bytes of their files."""
    root = resources.files("tzdata") / "zoneinfo"
    groups = defaultdict(list)
    for name in (resources.files("tzdata") / "zones").read_text("ascii").split():
        groups[root.joinpath(name).read_bytes()].append(name)
    return [sorted(names) for names in groups.values()]


def _say(text, end="\n"):
    sys.stdout.write(text + end)
    sys.stdout.flush()


def main():
    """Run it all, or every n-th file of zone data when a number is given."""
    every = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    groups = zones_by_file()[::every]
    names = sum(map(len, groups))
    _say(f"{names} zones in {len(groups)} files, {len(SPECS)} specs, 9 policies, {FIRST_YEAR}-{LAST_YEAR}")
    total, began = Outcome(0, 0, 0, []), monotonic()
    with ProcessPoolExecutor(max_workers=2) as pool:
        for done, outcome in enumerate(pool.map(check_zone, [group[0] for group in groups]), start=1):
            total = Outcome(*(sum_of + one for sum_of, one in zip(total, outcome, strict=True)))
            bar = "#" * (40 * done // len(groups))
            _say(f"\r[{bar:<40}] {done}/{len(groups)}  {len(total.differences)} differences", end="")
    _say(
        f"\n{total.transitions} transitions, {total.questions} questions, {total.fires} fires, "
        f"{len(total.differences)} differences in {monotonic() - began:.0f} s"
    )
    for difference in total.differences[:50]:
        _say(difference)
    return 1 if total.differences else 0


if __name__ == "__main__":
    sys.exit(main())
