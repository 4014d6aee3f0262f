"""The kinds of trigger, as immutable values. Making one checks it: a value that exists can be computed with."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from everwhen.core import interval
from everwhen.core.business_days import BusinessDay
from everwhen.core.cron import CompiledCron, compile_cron
from everwhen.core.errors import TriggerError
from everwhen.core.rrule import CompiledRule, compile_shared
from everwhen.core.rrule_syntax import Recurrence, parse_recurrence
from everwhen.core.rules import CalendarRule

EVERY_MODES = ("elapsed", "wall")
MOST_TRIGGERS = 32
DEEPEST = 3
MOST_RUNS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Cron:
    """Local wall-clock times that match a cron expression.

    `hash_seed` is what an `H` in the expression is drawn from: the uid of the schedule, so that a rename moves nothing.
    """

    expr: str
    seconds: bool = False
    dialect: str = "vixie"
    hash_seed: str = ""
    compiled: CompiledCron = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        seed = self.hash_seed if "H" in self.expr.upper() else ""
        compiled = compile_cron(self.expr, seconds=self.seconds, dialect=self.dialect, hash_seed=seed)
        object.__setattr__(self, "compiled", compiled)


@dataclass(frozen=True, slots=True)
class Every:
    """An ISO 8601 duration from an anchor on, again and again; the anchor is the first one.

    In mode `elapsed` the anchor is an instant and nothing but elapsed time counts. In mode `wall` it is a local time
    (naive) of the schedule's zone, and so is each step; the zone's policies say what clock changes do to it. `steps`
    are those of the wall, None when elapsed.
    """

    every: str
    anchor: datetime = interval.EPOCH
    mode: str = "elapsed"
    period: timedelta = field(init=False, repr=False, compare=False)
    steps: interval.WallSteps | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.mode not in EVERY_MODES:
            raise TriggerError("trigger.every.mode", f"mode is one of {', '.join(EVERY_MODES)}", field="mode")
        if self.mode == "wall":
            if self.anchor.tzinfo is not None:
                raise TriggerError("trigger.every.anchor", "in mode wall the anchor has no offset", field="anchor")
            steps = interval.parse_wall_steps(self.every, self.anchor)
            object.__setattr__(self, "steps", steps)
            object.__setattr__(self, "period", steps.period)
            return
        object.__setattr__(self, "steps", None)
        object.__setattr__(self, "period", interval.parse_duration(self.every))
        object.__setattr__(self, "anchor", as_utc(self.anchor, name="anchor"))


@dataclass(frozen=True, slots=True)
class At:
    """One instant if aware; if naive, one local time of the schedule's zone, subject to its policies."""

    at: datetime

    def __post_init__(self) -> None:
        if self.at.tzinfo is not None:
            object.__setattr__(self, "at", as_utc(self.at, name="at"))


@dataclass(frozen=True, slots=True)
class Rrule:
    """Recurrence rules of RFC 5545 on local times, from a local time (naive) on, unless the text names its DTSTART."""

    rrule: str
    dtstart: datetime | None = None
    recurrence: Recurrence = field(init=False, repr=False, compare=False)
    compiled: tuple[CompiledRule, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        found = parse_recurrence(self.rrule)
        start = self.dtstart if found.start is None else found.start
        if start is None:
            raise TriggerError("trigger.field.missing", "dtstart is required", field="dtstart")
        if self.dtstart not in {None, start}:
            raise TriggerError("trigger.rrule.dtstart", "dtstart and the text's DTSTART differ", field="dtstart")
        if start.tzinfo is not None or start.microsecond:
            raise TriggerError(
                "trigger.rrule.dtstart", "dtstart is a local time in whole seconds, without an offset", field="dtstart"
            )
        walls = frozenset(wall.replace(tzinfo=UTC) for wall in found.excluded if wall.tzinfo is None)
        compiled = tuple(compile_shared(rule, start.replace(tzinfo=UTC), walls) for rule in found.rules)
        object.__setattr__(self, "recurrence", found)
        object.__setattr__(self, "compiled", compiled)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyOf:
    """Several triggers as one, without the instants at which an exception fires, within bounds.

    Attributes:
        triggers: an instant of any of them counts, once.
        exceptions: an instant of any of them is skipped, with the reason `calendar.excluded`.
        start: nothing before it; an instant, or if naive a local time of the schedule's zone.
        end: nothing after it, likewise.
        max_runs: the n-th fire from `start` on is the last one. What is skipped does not count, whatever becomes of
            a run does not matter, and so the answer is the same wherever one starts to ask.
    """

    triggers: tuple["Trigger", ...]
    exceptions: tuple["Trigger", ...] = ()
    start: datetime | None = None
    end: datetime | None = None
    max_runs: int | None = None

    def __post_init__(self) -> None:
        if not self.triggers:
            raise _any_of("triggers", "triggers lists at least one trigger", "triggers")
        depth, size = _extent(self)
        if depth > DEEPEST or size > MOST_TRIGGERS:
            raise _any_of("size", f"at most {MOST_TRIGGERS} triggers, {DEEPEST} levels deep", "triggers")
        if any(_excepts(member) for member in (*self.triggers, *self.exceptions)):
            raise _any_of("except", "only the outermost any_of has exceptions", "except")
        if self.max_runs is not None and (self.max_runs < 1 or self.max_runs > MOST_RUNS):
            raise _any_of("max_runs", f"max_runs is a whole number from 1 to {MOST_RUNS}", "max_runs")
        if self.max_runs is not None and self.start is None:
            raise _any_of("max_runs", "max_runs needs a start, from which the runs are counted", "start")


Trigger = Cron | Every | At | Rrule | CalendarRule | BusinessDay | AnyOf


def _extent(trigger: Trigger) -> tuple[int, int]:
    """Return how deep a trigger is nested, and how many it consists of."""
    if not isinstance(trigger, AnyOf):
        return 0, 1
    inner = [_extent(member) for member in (*trigger.triggers, *trigger.exceptions)]
    return 1 + max(depth for depth, _ in inner), sum(size for _, size in inner)


def _excepts(trigger: Trigger) -> bool:
    # Looking past the excluded ones within looking past the excluded ones would multiply.
    return isinstance(trigger, AnyOf) and (bool(trigger.exceptions) or any(map(_excepts, trigger.triggers)))


def _any_of(kind: str, message: str, name: str) -> TriggerError:
    return TriggerError(f"trigger.any_of.{kind}", message, field=name)


def as_utc(instant: datetime, *, name: str) -> datetime:
    """Return an aware instant in UTC; raise TriggerError if it is naive or beyond the calendar."""
    if instant.tzinfo is None:
        raise TriggerError("trigger.instant.naive", f"{name} needs an offset, such as a trailing Z", field=name)
    try:
        return instant.astimezone(UTC)
    except OverflowError:
        raise TriggerError("trigger.instant.range", f"{name} is beyond the years 1 to 9999", field=name) from None
