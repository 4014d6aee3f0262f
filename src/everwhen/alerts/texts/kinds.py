"""What is said of each kind of alert: a word for its state, its tone, and a sentence of its own.

The state finishes a subject (`nightly-report is dead after 3 attempts`) and is short; the sentence begins a body.
Both are made of the occasion's numbers alone; its names come from outside, cleaned. Why it happened is the reason's
sentence, which `core/meanings.py` holds, and is told beside these.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

from everwhen.alerts.message import AlertKind, Occasion
from everwhen.core.tellings import duration


class Tone(StrEnum):
    """How much it should worry: the colour and the sign beside the word, never instead of it."""

    BAD = "bad"  # somebody has to do something
    WARNING = "warning"  # look at it when you have time
    GOOD = "good"  # it went well, or is well again
    CALM = "calm"  # as it was meant to be


SIGNS: Final[Mapping[Tone, str]] = {Tone.BAD: "✕", Tone.WARNING: "▲", Tone.GOOD: "✓", Tone.CALM: "○"}

_State = Callable[[Occasion], str]
_Say = Callable[[Occasion, str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrase:
    """How a kind is told. `one` and `many` are counted in a digest: 1 run dead, 5,000 runs dead."""

    thing: str
    """What the link leads to: `run`."""
    word: str
    """The state as a label: `dead`."""
    tone: Tone
    one: str
    many: str
    state: _State
    """After a colon in the subject of a single alert."""
    sentence: _Say
    """Gets the occasion and its cleaned name."""


def plural(number: int, one: str, many: str | None = None) -> str:
    """Count something: `1 run`, `5,000 runs`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def ordinal(number: int) -> str:
    """Return 1st, 2nd, 3rd, 11th."""
    ending = "th" if number % 100 in {11, 12, 13} else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"


def _runs(one: str, many: str) -> _Say:
    """Say `A run of X was missed.`, or `12 runs of X were missed.` for a span."""

    def say(occasion: Occasion, name: str) -> str:
        if occasion.count > 1:
            return f"{occasion.count:,} runs of {name} {many}."
        return f"A run of {name} {one}.{_row(occasion)}"

    return say


def _spanned(word: str) -> _State:
    def say(occasion: Occasion) -> str:
        if occasion.count > 1:
            return f"{occasion.count:,} runs {word}"
        return f"{word}{_times(occasion)}"

    return say


def _times(occasion: Occasion) -> str:
    return f", {ordinal(occasion.in_a_row)} time in a row" if occasion.in_a_row and occasion.in_a_row > 1 else ""


def _row(occasion: Occasion) -> str:
    if not occasion.in_a_row or occasion.in_a_row < 2:
        return ""
    return f" It is the {ordinal(occasion.in_a_row)} time in a row."


def _of_attempts(occasion: Occasion) -> str:
    return "" if occasion.attempts is None else f" of {occasion.attempts:,}"


def _attempt(occasion: Occasion) -> str:
    number = "" if occasion.attempt is None else f" {occasion.attempt:,}{_of_attempts(occasion)}"
    return f"attempt{number}" if number else "an attempt"


def _attempt_failed(occasion: Occasion, name: str) -> str:
    return f"{_capital(_attempt(occasion))} of a run of {name} failed.{_row(occasion)}"


def _made(occasion: Occasion) -> int | None:
    return occasion.attempt or occasion.attempts


def _dead_state(occasion: Occasion) -> str:
    if occasion.count > 1:
        return f"{occasion.count:,} runs dead"
    made = _made(occasion)
    return "dead" + (f" after {plural(made, 'attempt')}" if made else "") + _times(occasion)


def _dead(occasion: Occasion, name: str) -> str:
    if occasion.count > 1:
        return f"{occasion.count:,} runs of {name} are dead; nothing more follows by itself."
    made = _made(occasion)
    after = f" after {plural(made, 'attempt')}" if made else ""
    return f"A run of {name} is dead{after}; nothing more follows by itself.{_row(occasion)}"


def _succeeded(occasion: Occasion, name: str) -> str:
    if occasion.count > 1:
        return f"{occasion.count:,} runs of {name} succeeded."
    tried = occasion.attempt is not None and occasion.attempt > 1
    return f"A run of {name} succeeded" + (f" at attempt {occasion.attempt:,}" if tried else "") + "."


def _late_by(occasion: Occasion) -> str:
    since = occasion.due_at or occasion.nominal_at
    late = timedelta() if since is None else occasion.at - since
    return duration(late) + " " if late > timedelta() else ""


def _late_state(occasion: Occasion) -> str:
    return f"{_late_by(occasion)}late{_times(occasion)}"


def _late(occasion: Occasion, name: str) -> str:
    if occasion.count > 1:
        return f"{occasion.count:,} runs of {name} are later than the objective allows."
    return f"A run of {name} is {_late_by(occasion)}late, more than its objective allows.{_row(occasion)}"


def _recovered_state(occasion: Occasion) -> str:
    return "recovered" + (f" after {plural(occasion.in_a_row, 'failure')}" if occasion.in_a_row else "")


def _recovered(occasion: Occasion, name: str) -> str:
    if not occasion.in_a_row:
        return f"{name} recovered: a run of it succeeded again."
    in_a_row = " in a row" if occasion.in_a_row > 1 else ""
    return f"{name} recovered: a run of it succeeded after {plural(occasion.in_a_row, 'failure')}{in_a_row}."


def _paused_state(occasion: Occasion) -> str:
    return "paused itself" + (f" after {plural(occasion.in_a_row, 'failure')}" if occasion.in_a_row else "")


def _paused(occasion: Occasion, name: str) -> str:
    failures = occasion.in_a_row
    after = f" after {plural(failures, 'failure')}{' in a row' if failures > 1 else ''}" if failures else ""
    return f"The schedule {name} paused itself{after}; it plans nothing until somebody resumes it."


def _workflow(ended: str) -> _Say:
    return lambda occasion, name: (
        f"{occasion.count:,} runs of the workflow {name} {ended}."
        if occasion.count > 1
        else f"A run of the workflow {name} {ended}.{_row(occasion)}"
    )


def _waiting_state(occasion: Occasion) -> str:
    return f"{plural(occasion.count, 'due run')} waiting" if occasion.count > 1 else "due runs waiting"


def _waiting(occasion: Occasion, name: str) -> str:
    many = plural(occasion.count, "due run") if occasion.count > 1 else "Due runs"
    return f"{many} at queue {name} wait for longer than they should."


def _always(text: str) -> _Say:
    return lambda _, name: text.replace("{name}", name)


def _only(text: str) -> _State:
    return lambda _: text


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _of(  # a row of the table
    word: str, tone: Tone, counted: tuple[str, str], *, state: _State, sentence: _Say, thing: str = "run"
) -> Phrase:
    one, many = counted
    return Phrase(thing=thing, word=word, tone=tone, one=one, many=many, state=state, sentence=sentence)


PHRASES: Final[Mapping[AlertKind, Phrase]] = {
    AlertKind.RUN_SUCCEEDED: _of(
        "succeeded",
        Tone.GOOD,
        ("run succeeded", "runs succeeded"),
        state=_spanned("succeeded"),
        sentence=_succeeded,
    ),
    AlertKind.RUN_ATTEMPT_FAILED: _of(
        "attempt failed",
        Tone.WARNING,
        ("attempt failed", "attempts failed"),
        state=lambda occasion: f"{_attempt(occasion)} failed{_times(occasion)}",
        sentence=_attempt_failed,
    ),
    AlertKind.RUN_DEAD: _of("dead", Tone.BAD, ("run dead", "runs dead"), state=_dead_state, sentence=_dead),
    AlertKind.RUN_EXPIRED: _of(
        "expired",
        Tone.BAD,
        ("run expired", "runs expired"),
        state=_spanned("expired"),
        sentence=_runs("expired: its deadline passed", "expired: their deadlines passed"),
    ),
    AlertKind.RUN_LATE: _of("late", Tone.WARNING, ("run late", "runs late"), state=_late_state, sentence=_late),
    AlertKind.RUN_MISSED: _of(
        "missed",
        Tone.BAD,
        ("run missed", "runs missed"),
        state=_spanned("missed"),
        sentence=_runs("was missed", "were missed"),
    ),
    AlertKind.RUN_SKIPPED: _of(
        "skipped",
        Tone.CALM,
        ("run skipped", "runs skipped"),
        state=_spanned("skipped"),
        sentence=_runs("was skipped by a policy", "were skipped by a policy"),
    ),
    AlertKind.RUN_CANCELLED: _of(
        "cancelled",
        Tone.CALM,
        ("run cancelled", "runs cancelled"),
        state=_spanned("cancelled"),
        sentence=_runs("was cancelled", "were cancelled"),
    ),
    AlertKind.RUN_RECOVERED: _of(
        "recovered",
        Tone.GOOD,
        ("recovery", "recoveries"),
        state=_recovered_state,
        sentence=_recovered,
    ),
    AlertKind.RUN_FLAPPING: _of(
        "flapping",
        Tone.WARNING,
        ("schedule flapping", "schedules flapping"),
        state=_only("fails and succeeds in turns"),
        sentence=_always("Runs of {name} fail and succeed in turns; nothing more is told of them until that is over."),
    ),
    AlertKind.RUN_OVERDUE: _of(
        "will miss its deadline",
        Tone.WARNING,
        ("run that will miss its deadline", "runs that will miss their deadlines"),
        state=_only("will miss its deadline"),
        sentence=_always("A run of {name} will miss its deadline if it goes on as it does."),
    ),
    AlertKind.WORKFLOW_SUCCEEDED: _of(
        "workflow succeeded",
        Tone.GOOD,
        ("workflow succeeded", "workflows succeeded"),
        thing="workflow's run",
        state=_spanned("succeeded"),
        sentence=_workflow("succeeded"),
    ),
    AlertKind.WORKFLOW_FAILED: _of(
        "workflow failed",
        Tone.BAD,
        ("workflow failed", "workflows failed"),
        thing="workflow's run",
        state=_spanned("failed"),
        sentence=_workflow("failed"),
    ),
    AlertKind.SCHEDULE_PAUSED: _of(
        "paused itself",
        Tone.BAD,
        ("schedule paused itself", "schedules paused themselves"),
        thing="schedule",
        state=_paused_state,
        sentence=_paused,
    ),
    AlertKind.SCHEDULE_OVERDUE: _of(
        "not planned",
        Tone.BAD,
        ("schedule not planned", "schedules not planned"),
        thing="schedule",
        state=_only("nobody plans it"),
        sentence=_always("Nobody plans the schedule {name}: its next instant has passed, and no scheduler looked."),
    ),
    AlertKind.QUEUE_UNATTENDED: _of(
        "no live worker",
        Tone.BAD,
        ("queue without a live worker", "queues without a live worker"),
        thing="queue",
        state=_only("no live worker"),
        sentence=_always("Queue {name} has no live worker; what is due there waits."),
    ),
    AlertKind.QUEUE_WAITING: _of(
        "runs waiting",
        Tone.WARNING,
        ("queue at which due runs wait", "queues at which due runs wait"),
        thing="queue",
        state=_waiting_state,
        sentence=_waiting,
    ),
    AlertKind.RUN_ZOMBIE: _of(
        "zombie",
        Tone.WARNING,
        ("zombie", "zombies"),
        state=_only("a zombie: it holds its lease and does nothing"),
        sentence=_always("A run of {name} holds its lease and does nothing: its worker lives, the run does not move."),
    ),
    AlertKind.CHANNEL_TEST: _of(
        "test",
        Tone.CALM,
        ("test", "tests"),
        thing="channel",
        state=_only("this is a test"),
        sentence=_always("This is a test: the channel {name} works, and alerts will reach you here."),
    ),
}
