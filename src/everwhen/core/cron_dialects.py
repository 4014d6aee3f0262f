"""What cron dialects differ in, as data: columns, numbering of weekdays, syntax, day rule, habits at clock changes.

A dialect is always named and never guessed. Five are syntaxes that people write by hand: `vixie`, `vixie-ext`,
`quartz`, `spring` and `eventbridge`. The others are the habits of one scheduler each, so that a schedule that moves
from there keeps its instants: what a column may hold, which day rule applies, and what becomes of a time that does not
exist or occurs twice when the schedule itself says nothing.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from everwhen.core.zones import FoldPolicy, GapPolicy

SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY, YEAR = range(7)

_FIVE = (MINUTE, HOUR, DAY, MONTH, WEEKDAY)
_SIX = (SECOND, *_FIVE)


class Syntax(StrEnum):
    """A piece of syntax that some dialects have."""

    ANY = "?"
    LAST = "L"
    LAST_MINUS = "L-n"
    LAST_WEEKDAY = "LW"
    LAST_MINUS_WEEKDAY = "L-nW"
    NEAREST = "nW"
    NTH = "d#n"
    LAST_OF_KIND = "dL"
    LAST_OF_KIND_AFTER = "Ld"
    SATURDAY = "L as Saturday"
    WRAP = "wrap-around ranges"
    HASH = "H"
    BARE_STEP = "/n"
    WEEKDAY_STEP = "steps in day-of-week"


class DayRule(StrEnum):
    """How the two day columns make one set of days, when neither is left open.

    Which column counts as open differs: one that starts with a star (`STAR_FIRST`, the original), one that holds a
    whole star among its terms (`STAR_TERM`), or one that is nothing else than a star (`STAR_ALONE`).
    """

    STAR_FIRST = "either, unless one starts with a star"
    STAR_TERM = "either, unless one holds a star"
    STAR_ALONE = "either, unless one is a star"
    BOTH = "both"
    ONE = "exactly one of them, the other is '?'"


class SubDaily(StrEnum):
    """Which patterns count as elapsed time and not as a time of day."""

    WILDCARD = "an hour column with a star or a step"
    STAR_FIRST = "a minute or an hour column that starts with a star"
    EVERY_HOUR = "an hour column that holds all 24 hours"
    NEVER = "none"


class GapHabit(StrEnum):
    """A habit of one scheduler in a gap that none of the policies describes; it refines `shift`."""

    LOST_AT_MIDNIGHT = "a gap that swallows a midnight drops its matches"
    WHOLE_HOURS = "matches from 1 to 3 o'clock move to a whole hour"


@dataclass(frozen=True, slots=True)
class Automatic:
    """The policies in force when a schedule names none."""

    gap: GapPolicy
    fold: FoldPolicy


_SKIP_BOTH = Automatic(GapPolicy.SKIP, FoldPolicy.BOTH)
_GAP_END_FIRST = Automatic(GapPolicy.GAP_END, FoldPolicy.FIRST)
_GAP_END_BOTH = Automatic(GapPolicy.GAP_END, FoldPolicy.BOTH)
TIME_OF_DAY = _GAP_END_FIRST
_SHIFT_FIRST = Automatic(GapPolicy.SHIFT, FoldPolicy.FIRST)
_SHIFT_SECOND = Automatic(GapPolicy.SHIFT, FoldPolicy.SECOND)
_SHIFT_BOTH = Automatic(GapPolicy.SHIFT, FoldPolicy.BOTH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One dialect.

    Attributes:
        layouts: for each number of columns that is accepted, which columns these are.
        with_seconds: the layouts when the expression is said to have leading seconds; empty: it cannot.
        sunday: the number of Sunday; the week runs from it.
        highest_weekday: 7 if Sunday has a second number.
        syntax: what is accepted beyond stars, numbers, names, lists, ranges and steps.
        by_hand: whether people write it; hints name only such dialects.
    """

    name: str
    layouts: dict[int, tuple[int, ...]]
    with_seconds: dict[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    sunday: int = 0
    highest_weekday: int = 7
    years: tuple[int, int] = (1970, 2099)
    syntax: frozenset[Syntax] = frozenset()
    day_rule: DayRule = DayRule.STAR_FIRST
    macros: bool = True
    by_hand: bool = False
    sub_daily: SubDaily = SubDaily.WILDCARD
    elapsed: Automatic = _SKIP_BOTH
    time_of_day: Automatic = _GAP_END_FIRST
    gap_habit: GapHabit | None = None


_EVERYTHING_BY_SUFFIX = {
    Syntax.ANY,
    Syntax.LAST,
    Syntax.LAST_MINUS,
    Syntax.LAST_WEEKDAY,
    Syntax.NEAREST,
    Syntax.NTH,
    Syntax.LAST_OF_KIND,
    Syntax.WEEKDAY_STEP,
}
_CRONITER = frozenset(
    {
        Syntax.ANY,
        Syntax.LAST,
        Syntax.NEAREST,
        Syntax.NTH,
        Syntax.LAST_OF_KIND_AFTER,
        Syntax.WRAP,
        Syntax.WEEKDAY_STEP,
    }
)

_ALL = (
    Dialect(
        name="vixie",
        layouts={5: _FIVE},
        with_seconds={6: _SIX},
        syntax=frozenset({Syntax.ANY, Syntax.WEEKDAY_STEP}),
        by_hand=True,
    ),
    Dialect(
        name="vixie-ext",
        layouts={5: _FIVE},
        with_seconds={6: _SIX},
        syntax=frozenset({*_EVERYTHING_BY_SUFFIX, Syntax.LAST_MINUS_WEEKDAY, Syntax.WRAP, Syntax.HASH}),
        by_hand=True,
    ),
    Dialect(
        name="quartz",
        layouts={6: _SIX, 7: (*_SIX, YEAR)},
        with_seconds={6: _SIX, 7: (*_SIX, YEAR)},
        sunday=1,
        syntax=frozenset(
            {*_EVERYTHING_BY_SUFFIX, Syntax.LAST_MINUS_WEEKDAY, Syntax.SATURDAY, Syntax.WRAP, Syntax.BARE_STEP}
        ),
        day_rule=DayRule.ONE,
        macros=False,
        by_hand=True,
    ),
    Dialect(
        name="spring",
        layouts={6: _SIX},
        with_seconds={6: _SIX},
        syntax=frozenset(_EVERYTHING_BY_SUFFIX),
        day_rule=DayRule.BOTH,
        by_hand=True,
    ),
    Dialect(
        name="eventbridge",
        layouts={6: (*_FIVE, YEAR)},
        sunday=1,
        years=(1970, 2199),
        syntax=frozenset(_EVERYTHING_BY_SUFFIX - {Syntax.LAST_MINUS, Syntax.WEEKDAY_STEP} | {Syntax.SATURDAY}),
        day_rule=DayRule.ONE,
        macros=False,
        by_hand=True,
    ),
    Dialect(
        name="kubernetes",
        layouts={5: _FIVE},
        highest_weekday=6,
        syntax=frozenset({Syntax.ANY, Syntax.WEEKDAY_STEP}),
        day_rule=DayRule.STAR_TERM,
        elapsed=_SKIP_BOTH,
        time_of_day=_SKIP_BOTH,
    ),
    Dialect(
        name="temporal",
        layouts={5: _FIVE, 6: (*_FIVE, YEAR), 7: (*_SIX, YEAR)},
        with_seconds={7: (*_SIX, YEAR)},
        years=(2000, 2100),
        syntax=frozenset({Syntax.WEEKDAY_STEP}),
        day_rule=DayRule.BOTH,
        elapsed=_SKIP_BOTH,
        time_of_day=_SKIP_BOTH,
    ),
    Dialect(
        name="airflow",
        layouts={5: _FIVE},
        syntax=_CRONITER,
        day_rule=DayRule.STAR_ALONE,
        sub_daily=SubDaily.EVERY_HOUR,
        time_of_day=_SHIFT_SECOND,
    ),
    Dialect(
        name="dagster",
        layouts={5: _FIVE},
        syntax=_CRONITER,
        day_rule=DayRule.STAR_ALONE,
        sub_daily=SubDaily.EVERY_HOUR,
        time_of_day=_SHIFT_SECOND,
        gap_habit=GapHabit.WHOLE_HOURS,
    ),
    Dialect(
        name="prefect",
        layouts={5: _FIVE},
        syntax=_CRONITER,
        day_rule=DayRule.STAR_ALONE,
        sub_daily=SubDaily.NEVER,
        elapsed=_SHIFT_FIRST,
        time_of_day=_SHIFT_FIRST,
    ),
    Dialect(
        name="apscheduler",
        layouts={5: _FIVE},
        sunday=6,
        highest_weekday=6,
        syntax=frozenset({Syntax.WEEKDAY_STEP}),
        day_rule=DayRule.BOTH,
        macros=False,
        gap_habit=GapHabit.LOST_AT_MIDNIGHT,
        elapsed=_SHIFT_BOTH,
        time_of_day=_SHIFT_BOTH,
    ),
    Dialect(
        name="croniter",
        layouts={5: _FIVE},
        syntax=_CRONITER,
        day_rule=DayRule.STAR_ALONE,
        sub_daily=SubDaily.EVERY_HOUR,
        time_of_day=_GAP_END_BOTH,
    ),
    Dialect(
        name="cronsim",
        layouts={5: _FIVE},
        syntax=frozenset({Syntax.LAST, Syntax.LAST_WEEKDAY, Syntax.NTH, Syntax.LAST_OF_KIND, Syntax.WEEKDAY_STEP}),
        macros=False,
        sub_daily=SubDaily.STAR_FIRST,
    ),
    Dialect(
        name="cronie",
        layouts={5: _FIVE},
        syntax=frozenset({Syntax.WEEKDAY_STEP}),
        sub_daily=SubDaily.STAR_FIRST,
    ),
)

DIALECTS = {dialect.name: dialect for dialect in _ALL}
