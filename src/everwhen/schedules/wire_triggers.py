"""What triggers look like on the wire. Their shape is checked here, their sense in the core."""

from typing import Annotated, Literal

from pydantic import Field, Strict

from everwhen.core.rrule_syntax import LONGEST
from everwhen.core.rules import MOST_EVERY, MOST_TIMES
from everwhen.core.trigger_json import LONGEST_SEED
from everwhen.core.trigger_values import MOST_RUNS, MOST_TRIGGERS
from everwhen.http.fields import Wire

Text = Annotated[str, Field(max_length=256)]
Times = Annotated[
    list[Text], Field(min_length=1, max_length=MOST_TIMES, description="Times of day, such as 09:00 or 17:30:15.")
]
Every = Annotated[int, Strict(), Field(ge=1, le=MOST_EVERY, description="Each so many of them; needs an anchor.")]
Anchor = Annotated[Text | None, Field(description="A date in the first period; nothing fires before it.")]
Weekday = Literal["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"]
Month = Literal["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
Days = Annotated[
    list[Annotated[int, Strict(), Field(ge=-31, le=31)]] | None,
    Field(max_length=62, description="Days of the month, -1 being the last one."),
]


class CronTrigger(Wire):
    """Local wall-clock times that match a cron expression."""

    kind: Literal["cron"]
    expr: Text
    seconds: Annotated[bool, Strict()] = False
    dialect: Text = "vixie"
    hash_seed: Annotated[str, Field(max_length=LONGEST_SEED)] | None = Field(
        default=None,
        description="What a preview draws `H` from; a schedule draws it from its own uid, whatever is sent.",
    )


class EveryTrigger(Wire):
    """Elapsed time from an anchor, or steps of the clock on the wall."""

    kind: Literal["every"]
    every: Text = Field(description="An ISO 8601 duration, such as PT15M; years and months in mode wall only.")
    anchor: Text | None = Field(
        default=None,
        description="An instant with its offset, in mode wall a local time without one; left out: 1970-01-01T00:00:00.",
    )
    mode: Literal["elapsed", "wall"] = "elapsed"


class AtTrigger(Wire):
    """One instant, or one local time of the schedule's zone when it names no offset."""

    kind: Literal["at"]
    at: Text


class RruleTrigger(Wire):
    """Recurrence rules of RFC 5545 on local times."""

    kind: Literal["rrule"]
    rrule: str = Field(max_length=LONGEST, description="FREQ=…, or lines of RRULE, RDATE, EXDATE and DTSTART.")
    dtstart: Text | None = Field(default=None, description="A local time without an offset, unless the text names it.")


class DailyTrigger(Wire):
    """Times of each n-th day."""

    kind: Literal["daily"]
    times: Times
    every: Every = 1
    anchor: Anchor = None


class WeeklyTrigger(Wire):
    """Times of some weekdays of each n-th week; weeks begin on Monday."""

    kind: Literal["weekly"]
    weekdays: list[Weekday] = Field(min_length=1, max_length=7)
    times: Times
    every: Every = 1
    anchor: Anchor = None


class NthWeekday(Wire):
    """A weekday of a month by its position."""

    weekday: Weekday
    nth: Annotated[int, Strict(), Field(ge=-5, le=5, description="1 to 5, or from the end -1 to -5.")]


On = Annotated[list[NthWeekday] | None, Field(max_length=70, description="Weekdays by position; instead of days.")]


class MonthlyTrigger(Wire):
    """Times of some days of each n-th month."""

    kind: Literal["monthly"]
    days: Days = None
    on: On = None
    months: list[Month] | None = Field(default=None, max_length=12, description="These months only.")
    times: Times
    every: Every = 1
    anchor: Anchor = None


class YearlyTrigger(Wire):
    """Times of some days of some months of each n-th year."""

    kind: Literal["yearly"]
    months: list[Month] = Field(min_length=1, max_length=12)
    days: Days = None
    on: On = None
    times: Times
    every: Every = 1
    anchor: Anchor = None


class BusinessDayTrigger(Wire):
    """Times of the n-th open day of each month, by a calendar."""

    kind: Literal["business_day"]
    nth: Annotated[int, Strict(), Field(ge=-31, le=31, description="1 is the first open day, -1 the last.")]
    times: Times
    calendar: Text = Field(description="The calendar's name.")


class AnyOfTrigger(Wire):
    """Several triggers as one, without the instants of its exceptions, within bounds."""

    kind: Literal["any_of"]
    triggers: list["TriggerIn"] = Field(min_length=1, max_length=MOST_TRIGGERS)
    exceptions: list["TriggerIn"] = Field(
        default_factory=list["TriggerIn"],
        alias="except",
        max_length=MOST_TRIGGERS,
        description="An instant at which one of these fires as well is skipped.",
    )
    start: Text | None = Field(default=None, description="Nothing before it; an instant, or a local time.")
    end: Text | None = Field(default=None, description="Nothing after it; an instant, or a local time.")
    max_runs: Annotated[int, Strict(), Field(ge=1, le=MOST_RUNS)] | None = Field(
        default=None, description="The last fire is the one with this number, counted from start, which it needs."
    )


TriggerIn = Annotated[
    CronTrigger
    | EveryTrigger
    | AtTrigger
    | RruleTrigger
    | DailyTrigger
    | WeeklyTrigger
    | MonthlyTrigger
    | YearlyTrigger
    | BusinessDayTrigger
    | AnyOfTrigger,
    Field(discriminator="kind"),
]
AnyOfTrigger.model_rebuild()
