"""The kinds of trigger, as immutable values. Making one checks it: a value that exists can be computed with."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from everwhen.core import interval
from everwhen.core.cron import CompiledCron, compile_cron
from everwhen.core.errors import TriggerError


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
    """Elapsed time (an ISO 8601 duration) from an anchor; the anchor is the first instant."""

    every: str
    anchor: datetime = interval.EPOCH
    period: timedelta = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "period", interval.parse_duration(self.every))
        object.__setattr__(self, "anchor", as_utc(self.anchor, name="anchor"))


@dataclass(frozen=True, slots=True)
class At:
    """One instant if aware; if naive, one local time of the schedule's zone, subject to its policies."""

    at: datetime

    def __post_init__(self) -> None:
        if self.at.tzinfo is not None:
            object.__setattr__(self, "at", as_utc(self.at, name="at"))


Trigger = Cron | Every | At


def as_utc(instant: datetime, *, name: str) -> datetime:
    """Return an aware instant in UTC; raise TriggerError if it is naive or beyond the calendar."""
    if instant.tzinfo is None:
        raise TriggerError("trigger.instant.naive", f"{name} needs an offset, such as a trailing Z", field=name)
    try:
        return instant.astimezone(UTC)
    except OverflowError:
        raise TriggerError("trigger.instant.range", f"{name} is beyond the years 1 to 9999", field=name) from None
