"""Instants against answers: expand a schedule anew and compare with what was written.

Each instant that the schedule intended, by the revision that was in force, has exactly one run or lies in exactly one
span, and nothing else was planned. A revision is in force from its change (exclusive) until the next one (inclusive),
because a change first decides what is due by then.

What cannot be told is not judged, rather than guessed: instants that another release of the tz database decided, the
three hours after a calendar changed, arrears that are not worked off yet, a revision that used calendars and is not the
present one, and a spec that this version cannot read. Nothing here reads a database.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from everwhen.core.triggers import Timing, occurrences
from everwhen.verify.model import Answers

MOST_INSTANTS: Final = 2_000
"""The most instants of one schedule that are compared; of a denser one, those of a shorter while."""

HALVINGS: Final = 40

Expand = Callable[[Timing, datetime, datetime, int], Sequence[datetime]]
"""The intended instants of a timing in (after, until], ascending, at most so many."""


@dataclass(slots=True)
class Differences:
    """Instants without an answer, answers to what no instant intended, and spans with a wrong count."""

    missing: list[datetime] = field(default_factory=list[datetime])
    unintended: list[datetime] = field(default_factory=list[datetime])
    miscounted: list[tuple[datetime, int, int]] = field(default_factory=list[tuple[datetime, int, int]])

    def __bool__(self) -> bool:
        return bool(self.missing or self.unintended or self.miscounted)


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A stretch of time (after, until] under one revision; without a timing it is not judged."""

    after: datetime
    until: datetime
    timing: Timing | None


def expand_by_core(timing: Timing, after: datetime, until: datetime, limit: int) -> list[datetime]:
    """Ask the product's own expansion; tests ask an independent one."""
    return [occurrence.nominal_at for occurrence in occurrences(timing, after=after, until=until, limit=limit)]


def compare(
    answers: Answers,
    timings: Sequence[Timing | None],
    *,
    since: datetime,
    release: str,
    expand: Expand = expand_by_core,
) -> Differences:
    """Compare what was intended with what was written, after `since`.

    `timings` are those of the revisions, None where one is not to be judged; `release` is that of our tz database.
    """
    if answers.tz_version != release or not answers.is_settled or not timings:
        return Differences()
    after = max(since, answers.since, *_decided_by_others(answers, release))
    stretches, intended = _intended(answers, timings, after, expand)
    found = Differences()
    for stretch in stretches:
        _compare_stretch(answers, stretch, intended, found)
    return found


def _decided_by_others(answers: Answers, release: str) -> Iterator[datetime]:
    pairs = zip(answers.run_nominals, answers.run_releases, strict=True)
    return (at for at, made_by in pairs if made_by != release)


def _intended(
    answers: Answers, timings: Sequence[Timing | None], after: datetime, expand: Expand
) -> tuple[list[_Stretch], list[datetime]]:
    """Expand the stretches after then, or after a later instant when there are too many instants."""
    for _ in range(HALVINGS):
        stretches = list(_stretches(answers, timings, after))
        intended: list[datetime] = []
        for stretch in stretches:
            if stretch.timing is not None and len(intended) <= MOST_INSTANTS:
                intended += expand(stretch.timing, stretch.after, stretch.until, MOST_INSTANTS + 1)
        if len(intended) <= MOST_INSTANTS:
            return stretches, intended
        after += (answers.decided_until - after) / 2
    return [], []


def _stretches(answers: Answers, timings: Sequence[Timing | None], after: datetime) -> Iterator[_Stretch]:
    begins = answers.revision_ats or [answers.since]
    ends = [*begins[1:], answers.decided_until]
    for begin, end, timing in zip(begins, ends, timings, strict=True):
        first, last = max(begin, after), min(end, answers.decided_until)
        if first < last:
            yield _Stretch(first, last, timing)


def _compare_stretch(answers: Answers, stretch: _Stretch, intended: Sequence[datetime], found: Differences) -> None:
    if stretch.timing is None:
        return
    wanted = {at for at in intended if stretch.after < at <= stretch.until}
    planned = set(answers.run_nominals)
    found.missing += sorted(
        at for at in wanted - planned if not _is_spanned(answers, at) and not _is_apart(answers, at)
    )
    # What a calendar has rolled back to before its instant may have been due under the revision before, which may have
    # planned what somebody cancelled ahead.
    pairs = zip(answers.run_nominals, answers.run_finals, strict=True)
    found.unintended += (
        at
        for at, final in pairs
        if stretch.after < at <= stretch.until and at <= final and at not in wanted and not _is_apart(answers, at)
    )
    for first, last, count in zip(answers.span_firsts, answers.span_lasts, answers.span_counts, strict=True):
        if stretch.after < first and last <= stretch.until and not _is_apart(answers, last):
            within = sum(first <= at <= last for at in wanted)
            found.miscounted += [(first, count, within)] if within != count else []


def _is_spanned(answers: Answers, at: datetime) -> bool:
    index = bisect_right(answers.span_firsts, at) - 1
    return index >= 0 and at <= answers.span_lasts[index]


def _is_apart(answers: Answers, at: datetime) -> bool:
    pairs = zip(answers.apart_afters, answers.apart_untils, strict=True)
    return any(after < at <= until for after, until in pairs)
