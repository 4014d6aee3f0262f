"""An account of a run in words: a headline, and a sentence for each segment, with instants by the schedule's clock."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Final

from everwhen.core.explaining import Account, RunFacts
from everwhen.core.lifecycle import RESTING, RunState
from everwhen.core.meanings import MEANINGS
from everwhen.core.reasons import Reason
from everwhen.core.sentences import sentence_of
from everwhen.core.timeline import Segment

ON_TIME: Final = timedelta(seconds=1)
"""A run that starts within it is on time."""

MOST_PARTS: Final = 4
"""How many reasons the headline names; the longest."""

PHRASES: Final[Mapping[str, str]] = {
    Reason.ATTEMPT_FAILED: "in attempts that failed",
    Reason.ATTEMPT_MANY: "in further attempts",
    Reason.ATTEMPT_RELEASED: "in attempts that were given back",
    Reason.ATTEMPT_RUNNING: "in an attempt",
    Reason.ATTEMPT_TIMED_OUT: "in attempts that timed out",
    Reason.BACKFILL_REQUESTED: "before the backfill",
    Reason.CALENDAR_ROLLED: "moved by a calendar",
    Reason.CATCHUP_PACED: "for its turn in catching up",
    Reason.DEPENDENCY_UNMET: "for other runs",
    Reason.FLEX_WINDOW: "in the flex window",
    Reason.LEASE_EXPIRED: "in attempts whose worker was lost",
    Reason.LIMIT_KEY: "at the limit of its key",
    Reason.LIMIT_QUEUE: "at the limit of its queue",
    Reason.LIMIT_RATE: "at the rate limit",
    Reason.LIMIT_SCHEDULE: "at the schedule's limit",
    Reason.LIMIT_TASK: "at the limit of its task",
    Reason.LIMIT_TENANT: "at the tenant's limit",
    Reason.OVERLAP_BUFFERED: "for the previous run to end",
    Reason.OVERLAP_LINE_HELD: "behind a dead run",
    Reason.OVERLAP_STOPPING: "for the previous run to stop",
    Reason.PRIORITY_BEHIND: "behind others in the line",
    Reason.QUEUE_PAUSED: "with its queue paused",
    Reason.QUEUE_WAITING: "in the line",
    Reason.REQUEST_AFTER_DUE: "before it was asked for",
    Reason.RETRY_BACKOFF: "between attempts",
    Reason.SCHEDULE_BEFORE_CREATION: "before the schedule was made",
    Reason.SCHEDULE_PAUSED: "with its schedule paused",
    Reason.SCHEDULER_DOWN: "without a scheduler",
    Reason.SCHEDULER_LATE: "before the scheduler looked",
    Reason.TENANT_PAUSED: "with the tenant paused",
    Reason.WORKER_CORDONED: "with every worker cordoned",
    Reason.WORKER_DRAINING: "with every worker draining",
    Reason.WORKER_NONE_LIVE: "without a live worker",
    Reason.WORKER_NONE_REGISTERED: "without any worker",
    Reason.WORKER_NO_CAPABILITY_MATCH: "without a worker that it fits",
    Reason.WORKER_SLOTS_FULL: "with every worker busy",
    Reason.WORKFLOW_NO_CONDUCTOR: "without a conductor",
}

_DURATIONS: Final = frozenset({"seconds"})
_SINGULAR: Final[Mapping[str, str]] = {"attempts that": "an attempt that", "attempts whose": "an attempt whose"}


@dataclass(frozen=True, slots=True)
class Voice:
    """By which clock instants are told: the offset from UTC of the schedule's zone at the intended instant."""

    offset: timedelta = timedelta(0)

    def instant(self, at: datetime) -> str:
        """Tell an instant: date and time, with seconds where there are any, and the offset."""
        local = at.astimezone(timezone(self.offset))
        shown = local.replace(microsecond=0)
        return shown.isoformat(sep=" ", timespec="seconds" if shown.second else "minutes")

    def sentence(self, reason: str | None, facts: Mapping[str, Any]) -> str:
        """Say a reason with these facts; a code that is not known here is told as it is."""
        told = {name: self._fact(name, value) for name, value in facts.items()}
        told |= {name: "nothing" for name in ("before", "after") if name in told and told[name] is None}
        told |= {name: told.get(name, "") for name in ("error", "why", "label")}
        if told["error"]:
            told["error"] = f": {told['error']}"
        if told["why"]:
            told["why"] = f": {told['why']}"
        if told["label"]:
            told["label"] = f" ({told['label']})"
        return sentence_of(reason, told) or f"The reason is {reason}."

    def _fact(self, name: str, value: Any) -> Any:
        if isinstance(value, datetime):
            return self.instant(value)
        if name in _DURATIONS and isinstance(value, int | float):
            return duration(timedelta(seconds=value))
        if isinstance(value, str) and name == "last_seen":
            return self.instant(datetime.fromisoformat(value))
        return one_line(str(value)).rstrip(".") if name == "error" else value


def headline(run: RunFacts, account: Account, *, voice: Voice, facts: Mapping[str, Any], now: datetime) -> str:
    """Return the one sentence, or two, that answers why. `facts` are about how the run ended."""
    if run.state in {RunState.SUCCEEDED, RunState.RUNNING}:
        return f"Started {_lateness(account)}."
    if run.state in RESTING:
        return _still_waiting(run, account, voice, now)
    sentences = [f"{run.state.value.capitalize()}.", voice.sentence(run.reason, facts) if run.reason else ""]
    if run.state in {RunState.MISSED, RunState.SKIPPED, RunState.COALESCED}:
        sentences += _outage(account.segments, voice)
    elif account.lateness > ON_TIME:
        started = "The last attempt started" if account.is_started else "It was"
        sentences.append(f"{started} {_lateness(account)}.")
    return " ".join(filter(None, sentences))


def _still_waiting(run: RunFacts, account: Account, voice: Voice, now: datetime) -> str:
    if run.due_at > now:
        return f"Planned for {voice.instant(run.due_at)}, in {duration(run.due_at - now)}."
    if run.state is RunState.RETRYING:
        at = "" if run.available_at is None else f" at {voice.instant(run.available_at)}"
        return f"Tries again{at}; {_lateness(account)} so far."
    return f"Waits; {_lateness(account)} so far."


def parts(segments: Iterable[Segment]) -> str:
    """Say how long for which reason, the longest MOST_PARTS of them, in the order in which they began."""
    sums: dict[str, tuple[timedelta, int]] = {}
    for segment in segments:
        spent, times = sums.get(segment.reason, (timedelta(), 0))
        sums[segment.reason] = spent + segment.duration, times + 1
    longest = sorted(sums, key=lambda reason: sums[reason][0], reverse=True)[:MOST_PARTS]
    told = [f"{duration(sums[reason][0])} {_phrase(reason, sums[reason][1])}" for reason in sums if reason in longest]
    return ", ".join(told)


def duration(span: timedelta) -> str:
    """Tell a duration by its two largest units: `7m 12s`, `3h 5m`, `2d 4h`; below a minute `3.4s` or `12ms`."""
    seconds = max(0.0, span.total_seconds())
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 59.95:
        return f"{seconds:.1f}".removesuffix(".0") + "s"
    whole = round(seconds)
    for size, unit, smaller, name in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size}{unit}" + (f" {rest}{name}" if rest else "")
    return f"{whole}s"


def one_line(text: str) -> str:
    """Return the text as one printable line."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def worst(segments: Sequence[Segment]) -> list[str]:
    """Return the reasons of these segments, each once, the one that cost most time first."""
    sums: dict[str, timedelta] = {}
    for segment in segments:
        sums[segment.reason] = sums.get(segment.reason, timedelta()) + segment.duration
    return sorted(sums, key=lambda reason: sums[reason], reverse=True)


def remedy_of(reason: str) -> str:
    """Return what a person can do about a reason; empty when nothing, or when it is not known here."""
    meaning = MEANINGS.get(reason)
    return "" if meaning is None else meaning.remedy


def _lateness(account: Account) -> str:
    if account.lateness <= ON_TIME:
        return "on time"
    return f"{duration(account.lateness)} late: {parts(account.segments)}"


def _outage(segments: Iterable[Segment], voice: Voice) -> Iterable[str]:
    for segment in segments:
        if segment.reason == Reason.SCHEDULER_DOWN:
            yield voice.sentence(segment.reason, segment.facts)


def _phrase(reason: str, times: int) -> str:
    phrase = PHRASES.get(reason, f"for {reason}")
    if times == 1:
        for many, one in _SINGULAR.items():
            phrase = phrase.replace(many, one)
    return phrase
