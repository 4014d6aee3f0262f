"""Fuzzes the cron parser and the search for the next match: `python -m benchmarks.fuzz_triggers [CASES] [SEED]`.

Most cases are made from the grammar of a dialect, so that more than half are accepted; the rest are those, damaged. A
case is a failure when it raises anything but TriggerError, takes 50 ms of processor time, or gives a match that is not
later. Memory must not grow with the number of cases.
"""

import resource
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from random import Random

from everwhen.core.cron import compile_cron
from everwhen.core.cron_dialects import DIALECTS, Dialect, Syntax
from everwhen.core.errors import TriggerError

LIMIT_SECONDS = 0.05
START = datetime(2026, 1, 1, tzinfo=UTC)
SPANS = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6), (2000, 2099))
NAMES = {
    4: ("JAN", "feb", "Mar", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"),
    5: ("SUN", "mon", "Tue", "WED", "THU", "FRI", "SAT"),
}
NOISE = "0123456789*/-,LWH#?@()= \tabcXYZ~.:\n\0\u0661é"


def expression(random: Random, dialect: Dialect, *, seconds: bool) -> str:
    """Return an expression that a dialect most likely accepts."""
    layouts = dialect.with_seconds if seconds else dialect.layouts
    layout = layouts[random.choice([*layouts])]
    columns = {position: column(random, position, dialect) for position in layout}
    if dialect.name in {"quartz", "eventbridge"}:
        columns[random.choice((3, 5))] = "?"
        if columns[3] == columns[5]:
            columns[3] = "*"
        elif columns[3] != "?":
            columns[5] = "?"
    return " ".join(columns[position] for position in layout)


def column(random: Random, position: int, dialect: Dialect) -> str:
    """Return a column of 1 to 4 terms, or a star."""
    if random.random() < 0.3:
        return "*"
    if random.random() < 0.15:
        special = special_term(random, position, dialect)
        if special:
            return special
    return ",".join(term(random, position, dialect) for _ in range(random.choice((1, 1, 1, 2, 3, 4))))


def term(random: Random, position: int, dialect: Dialect) -> str:
    """Return a number, a name, a range or a step."""
    low, high = SPANS[position]
    low = 1 if position == 5 and dialect.sunday == 1 else low
    first, last = sorted((random.randint(low, high), random.randint(low, high)))
    if Syntax.WRAP in dialect.syntax and position != 6 and random.random() < 0.3:
        first, last = last, first
    text = random.choice((str(first), str(first), f"{first}-{last}", "*"))
    if position in NAMES and random.random() < 0.3:
        return random.choice(NAMES[position])
    steps = position != 5 or Syntax.WEEKDAY_STEP in dialect.syntax
    return f"{text}/{random.randint(1, 7)}" if steps and random.random() < 0.3 else text


def special_term(random: Random, position: int, dialect: Dialect) -> str:
    """Return a term beyond stars and numbers that the dialect has in this column, or nothing."""
    day, weekday, nth = random.randint(1, 28), random.randint(1, 6), random.randint(1, 5)
    by_column = {
        3: {"L": "L", "L-n": f"L-{day}", "LW": "LW", "L-nW": f"L-{day}W", "nW": f"{day}W", "?": "?"},
        5: {"d#n": f"{weekday}#{nth}", "dL": f"{weekday}L", "Ld": f"L{weekday}", "L as Saturday": "L"},
    }
    found = [text for syntax, text in by_column.get(position, {}).items() if syntax in dialect.syntax]
    if Syntax.HASH in dialect.syntax:
        found += ["H", f"H/{nth + 1}", "H(1-5)", "H(2-6)/2"]
    return random.choice(found) if found else ""


def damaged(random: Random, text: str) -> str:
    """Return a text with some characters added, removed, doubled or replaced."""
    characters = list(text)
    for _ in range(random.randint(1, 4)):
        place = random.randrange(len(characters) + 1)
        characters[place : place + random.randint(0, 2)] = random.choices(NOISE, k=random.randint(0, 3))
    return "".join(characters) * random.choice((1, 1, 1, 1, 2, 30))


def main() -> int:
    """Run the cases and print what came of them."""
    given = [int(argument) for argument in sys.argv[1:]]
    cases, seed = (*given, *(1_000_000, 1)[len(given) :])
    random, outcomes, failures, slowest = Random(seed), Counter[str](), list[str](), (0.0, "")
    began, memory = time.monotonic(), 0
    for number in range(cases):
        dialect = random.choice([*DIALECTS.values()])
        seconds = bool(dialect.with_seconds) and random.random() < 0.3
        text = expression(random, dialect, seconds=seconds)
        if random.random() < 0.25:
            text = damaged(random, text)
        before = time.perf_counter()
        try:
            outcome = judged(text, dialect, seconds=seconds)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is the finding
            outcome = "crashed"
            failures.append(f"{dialect.name} {text!r}: {error!r}")
        taken = time.perf_counter() - before
        if taken > LIMIT_SECONDS and outcome != "crashed":
            taken = min(taken, again(text, dialect, seconds=seconds))
        slowest = max(slowest, (taken, f"{dialect.name} {text!r}"))
        if taken > LIMIT_SECONDS:
            failures.append(f"{dialect.name} {text!r}: {taken * 1000:.1f} ms")
        outcomes[outcome] += 1
        if number == cases // 2:
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
    report = [
        f"{cases} cases in {time.monotonic() - began:.0f} s: "
        + ", ".join(f"{count} {name}" for name, count in outcomes.most_common()),
        f"slowest {slowest[0] * 1000:.2f} ms: {slowest[1][:120]}",
        f"memory {(memory + grown) // 1024} MiB, of which {grown // 1024} MiB in the second half",
        f"{len(failures)} failures",
        *failures[:20],
    ]
    sys.stdout.write("\n".join(report) + "\n")
    return 1 if failures else 0


def again(text: str, dialect: Dialect, *, seconds: bool) -> float:
    """Return the processor time that a case takes when nothing of it is cached; a busy machine can slow a clock."""
    compile_cron.cache_clear()
    before = time.thread_time()
    judged(text, dialect, seconds=seconds)
    return time.thread_time() - before


def judged(text: str, dialect: Dialect, *, seconds: bool) -> str:
    """Return what came of a case."""
    try:
        compiled = compile_cron(text, seconds=seconds, dialect=dialect.name)
    except TriggerError:
        return "refused"
    following = compiled.following(START)
    if following is None:
        return "accepted, in the past"
    if following <= START:
        raise AssertionError(f"{following} is not later")
    return "accepted"


if __name__ == "__main__":
    sys.exit(main())
