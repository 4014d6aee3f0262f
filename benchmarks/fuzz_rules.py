"""Feeds the readers of recurrence rules and of triggers whatever comes: no crash, no slow case, no growing memory.

    python -m benchmarks.fuzz_rules                              a million cases each
    python -m benchmarks.fuzz_rules --only rrule --cases 50000   some

A case is read, compiled and asked for its next instant. An answer or a TriggerError is right; anything else is a crash.
Time is processor time. A case over the limit is run again twice, and its best time counts.
"""

import argparse
import gc
import json
import random
import resource
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from everwhen.core.errors import TriggerError
from everwhen.core.rules import MONTHS, WEEKDAYS
from everwhen.core.triggers import Rrule, Timing, next_after, parse_trigger

LIMIT = 0.050
NOW = datetime(2026, 11, 29, tzinfo=UTC)
NAMES = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
FREQS = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
TOKENS = (*"0123456789=;:,-+T \n\x00é", "FREQ", "BYDAY", "RRULE:", "EXDATE:", "RDATE:", "COUNT", "UNTIL", "999999999")
NASTY: tuple[Any, ...] = (None, True, 0, -1, 10**30, 1e308, "", "x", "\x00", "\ud800", [], {}, [[]], "9" * 300)
ZONES = ("UTC", "Europe/Berlin", "Australia/Lord_Howe", "Antarctica/Troll", "Pacific/Apia")


def main() -> int:
    """Fuzz, print, and fail if anything was wrong."""
    return main_of(SUBJECTS, str(__doc__))


def main_of(subjects: dict[str, tuple[Any, Any]], description: str) -> int:
    """Fuzz these subjects, each a maker of cases and what is done with one, as the command line says."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=sorted(subjects))
    options = parser.parse_args()
    names = [options.only] if options.only else sorted(subjects)
    return max(_fuzz(name, subjects[name], options.cases, random.Random(options.seed)) for name in names)


def _fuzz(name: str, subject: tuple[Any, Any], cases: int, draw: random.Random) -> int:
    make, run = subject
    outcomes: Counter[str] = Counter()
    slow: list[tuple[float, Any]] = []
    wrong: list[tuple[str, Any]] = []
    worst, start, memory = 0.0, time.monotonic(), 0
    for number in range(cases):
        if number == cases // 10:
            memory = _memory()  # caches are warm
        case = make(draw)
        outcome, seconds = _timed(run, case)
        if seconds > LIMIT:
            seconds = min(seconds, *(_timed(run, case)[1] for _ in range(2)))
        worst = max(worst, seconds)
        outcomes[outcome] += 1
        if seconds > LIMIT:
            slow.append((seconds, case))
        if outcome.startswith("crash"):
            wrong.append((outcome, case))
    grown = _memory() - memory
    print(f"{name}: {cases} cases in {time.monotonic() - start:.0f} s; worst {worst * 1000:.1f} ms; ", end="")
    print(f"{len(slow)} over {LIMIT * 1000:.0f} ms; {len(wrong)} crashes; memory {grown / 1024:+.0f} MiB after warm-up")
    for outcome, count in outcomes.most_common():
        print(f"  {count:>8}  {outcome}")
    for found in [*slow[:5], *wrong[:5]]:
        print(" ", repr(found)[:600])
    return 1 if slow or wrong else 0


def _timed(run: Any, case: Any) -> tuple[str, float]:
    start = time.thread_time()
    try:
        outcome = "never" if run(case) is None else "answered"
    except TriggerError as error:
        outcome = error.code
    except Exception as error:  # noqa: BLE001  # that is what is looked for
        outcome = f"crash {type(error).__name__}"
    return outcome, time.thread_time() - start


def _memory() -> int:
    gc.collect()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // 1024 if sys.platform == "darwin" else peak


def _some(draw: random.Random, values: Any, most: int) -> str:
    pool = list(values)
    return ",".join(str(draw.choice(pool)) for _ in range(draw.randint(1, most)))


def _signed(last: int) -> list[int]:
    return [*range(1, last + 1), *range(-last, 0)]


def _part(draw: random.Random) -> str:
    ordinals = [f"{n}{name}" for n in (1, 2, 5, -1, -5, 20, 53) for name in NAMES]
    name, value = draw.choice(
        (
            ("INTERVAL", lambda: draw.choice((2, 3, 7, 24, 97, 1000, 86_399, 90_061, 604_800, 999_999_999))),
            ("COUNT", lambda: draw.choice((1, 10, 1999, 2000, 100_000, 999_999_999))),
            ("UNTIL", lambda: draw.choice(("20301231T235959Z", "20200101T000000", "99991231T235959"))),
            ("WKST", lambda: draw.choice(NAMES)),
            ("BYMONTH", lambda: _some(draw, range(1, 13), 12)),
            ("BYWEEKNO", lambda: _some(draw, _signed(53), 20)),
            ("BYYEARDAY", lambda: _some(draw, _signed(366), 40)),
            ("BYMONTHDAY", lambda: _some(draw, _signed(31), 31)),
            ("BYDAY", lambda: _some(draw, draw.choice((NAMES, ordinals)), 7)),
            ("BYHOUR", lambda: _some(draw, range(24), 24)),
            ("BYMINUTE", lambda: _some(draw, range(60), 60)),
            ("BYSECOND", lambda: _some(draw, range(61), 60)),
            ("BYSETPOS", lambda: _some(draw, _signed(366), 5)),
        )
    )
    return f"{name}={value()}"


def _rrule(draw: random.Random) -> str:
    text = ";".join([f"FREQ={draw.choice(FREQS)}", *(_part(draw) for _ in range(draw.randint(0, 4)))])
    if draw.random() < 0.1:
        text = "\n".join([f"RRULE:{text}", "EXDATE:20261130T090000,20261201T080000Z", "RDATE:20270101T000000"])
    for _ in range(draw.choice((0, 0, 1, 3))):
        at = draw.randrange(len(text) + 1)
        text = text[:at] + draw.choice(TOKENS) + text[at + draw.choice((0, 1)) :]
    return text


def _run_rrule(text: str) -> datetime | None:
    return next_after(Timing(Rrule(text, datetime(1970, 1, 1, 9)), "Europe/Berlin"), NOW)


def _trigger(draw: random.Random) -> Any:
    trigger = _plain(draw) if draw.random() < 0.8 else _union(draw, depth=0)
    if draw.random() < 0.4:
        trigger[draw.choice([*trigger, "x"])] = draw.choice(NASTY)
    return trigger, draw.choice(ZONES)


def _union(draw: random.Random, *, depth: int) -> dict[str, Any]:
    members = [
        _union(draw, depth=depth + 1) if depth < 3 and draw.random() < 0.2 else _plain(draw)
        for _ in range(draw.randint(1, 4))
    ]
    union: dict[str, Any] = {"kind": "any_of", "triggers": members}
    if draw.random() < 0.3:
        union["except"] = [_plain(draw)]
    if draw.random() < 0.3:
        union |= {"start": "2026-01-01T00:00", "max_runs": draw.choice((1, 10, 200))}
    return union


def _plain(draw: random.Random) -> dict[str, Any]:
    kind = draw.choice(("cron", "every", "wall", "at", "rrule", "daily", "weekly", "monthly", "yearly"))
    match kind:
        case "cron":
            return {"kind": kind, "expr": draw.choice(("30 2 * * *", "*/7 * * * *", "0 0 29 2 *", "0 0 31 * 1"))}
        case "every":
            return {"kind": kind, "every": draw.choice(("PT1S", "PT90M", "P1D", "P100Y", "P1M"))}
        case "wall":
            return {"kind": "every", "mode": "wall", "every": draw.choice(("P1M", "P1Y", "PT1H", "P1D", "P13M"))}
        case "at":
            return {"kind": kind, "at": draw.choice(("2026-03-29T02:30", "9999-12-31T23:59:59Z"))}
        case "rrule":
            return {"kind": kind, "rrule": _rrule(draw), "dtstart": "1970-01-01T09:00:00"}
        case _:
            return _rule(draw, kind)


def _rule(draw: random.Random, kind: str) -> dict[str, Any]:
    rule: dict[str, Any] = {"kind": kind, "times": [f"{draw.randrange(24):02}:{draw.randrange(60):02}"]}
    if draw.random() < 0.3:
        rule |= {"every": draw.choice((1, 2, 7, 1000)), "anchor": "2024-02-29"}
    if kind == "weekly":
        rule["weekdays"] = draw.sample(WEEKDAYS, draw.randint(1, 7))
    if kind in {"monthly", "yearly"}:
        nth = {"weekday": draw.choice(WEEKDAYS), "nth": draw.choice((1, 5, -1, -5))}
        rule |= draw.choice(({"days": [draw.choice(_signed(31))]}, {"on": [nth]}))
        if kind == "yearly" or draw.random() < 0.5:
            rule["months"] = draw.sample(MONTHS, draw.randint(1, 12))
    return rule


def _run_trigger(case: Any) -> datetime | None:
    data, zone = case
    try:
        decoded = json.loads(json.dumps(data))
    except ValueError:
        decoded = data
    return next_after(Timing(parse_trigger(decoded), zone), NOW)


SUBJECTS: dict[str, tuple[Any, Any]] = {"rrule": (_rrule, _run_rrule), "trigger": (_trigger, _run_trigger)}

if __name__ == "__main__":
    sys.exit(main())
