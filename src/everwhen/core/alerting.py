"""Matching: what happened × what somebody subscribed to → occasions. A pure function of the history.

Nothing is counted along the way. Whether a failure is the third in a row, whether a success is a recovery and whether
a schedule flaps is read off the ends of the same row of runs before it, so that a signal which is matched twice, in
another order, or a day later for a preview comes to the same occasions, with the same ids. A row is a schedule's runs;
for runs that nobody scheduled it is those of the same task.

    after n failures in a row    told at the n-th, and not again before it has succeeded once
    recovered                    a success after n failures in a row
    flaps                        more than FLAP_CHANGES changes between good and bad among the latest FLAP_ENDS ends,
                                 all within FLAP_WINDOW: one occasion, when it begins, stands for every failure and
                                 recovery until it is calm again

Good is what succeeded; bad is what died or expired. Whatever else becomes of a run says nothing about its task.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from typing import Final
from uuid import UUID

from everwhen.core import ids
from everwhen.core.alert_kinds import HEARD_IN, AlertKind, severity_of
from everwhen.core.filters import Filter, Identifier, Vocabulary, Word
from everwhen.core.reasons import Severity

MOST_AFTER: Final = 50
LOOK_BACK: Final = 64
"""How many ends before a run are looked at."""

FLAP_ENDS: Final = 12
FLAP_CHANGES: Final = 5
FLAP_WINDOW: Final = timedelta(days=1)

GOOD: Final = "succeeded"
BAD: Final = frozenset({"dead", "expired"})

FILTER: Final = Vocabulary(
    fields={
        "schedule": Word(),
        "task": Word(),
        "workflow": Word(),
        "tag": Word(),
        "queue": Word(),
        "source": Word(),
        "reason": Word(),
        "fingerprint": Word(),
        "severity": Word(choices=frozenset(Severity)),
        "run": Identifier(),
    }
)
"""What the filter of a subscription may ask for: the one grammar, on the facts of what happened."""

_DAMPED: Final = frozenset({
    AlertKind.RUN_DEAD,
    AlertKind.RUN_EXPIRED,
    AlertKind.RUN_RECOVERED,
    AlertKind.WORKFLOW_FAILED,
})  # fmt: skip


class Scope(StrEnum):
    """What a subscription is about."""

    TENANT = "tenant"
    SCHEDULE = "schedule"
    TASK = "task"
    WORKFLOW = "workflow"
    TAG = "tag"


@dataclass(frozen=True, slots=True)
class End:
    """How an earlier run of the row ended."""

    run_id: UUID
    state: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """What happened, and what rules look at. `key` tells it apart from everything else of its word."""

    tenant_id: UUID
    word: str
    at: datetime
    key: str
    run_id: UUID | None = None
    attempt: int | None = None
    is_workflow: bool = False
    facts: Mapping[str, str | None]
    """By field of FILTER, but for `tag`."""
    tags: tuple[str, ...] = ()
    """Those of its schedule, task and workflow."""
    past: Sequence[End] = ()
    """The ends of the row before it, the latest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What somebody subscribed to."""

    name: str
    scope: Scope
    target: str | None
    kinds: frozenset[AlertKind]
    filter: Filter
    after: int
    pierces: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """That a rule wants something told, as what, and whether it comes through quiet hours."""

    rule: str
    kind: AlertKind
    occasion_id: UUID
    in_a_row: int | None
    pierces: bool


def match(happening: Happening, rules: Iterable[Rule]) -> list[Match]:
    """Return what is to be told of it, at most once for each rule."""
    return [found for rule in rules if (found := match_one(happening, rule)) is not None]


def match_one(happening: Happening, rule: Rule) -> Match | None:
    """Return what a rule wants told of it; None: nothing."""
    kind = _kind_of(happening, rule)
    if kind is None or not _is_in_scope(happening, rule) or not _passes(happening, rule, kind):
        return None
    in_a_row = _in_a_row(happening, kind)
    if not _is_reached(kind, in_a_row, rule.after):
        return None
    key = happening.key
    if kind in _DAMPED and (begun := flapping_since(_row(happening))) is not None:
        if begun == _UNKNOWN:
            return None
        kind, key = AlertKind.RUN_FLAPPING, str(begun)
    return Match(
        rule=rule.name,
        kind=kind,
        occasion_id=occasion_id(happening.tenant_id, kind, key, at=_at(happening, kind, key)),
        in_a_row=in_a_row,
        pierces=rule.pierces and severity_of(kind) is Severity.ERROR,
    )


def occasion_id(tenant_id: UUID, kind: AlertKind, key: str, *, at: datetime) -> UUID:
    """Return the id of an occasion: the same thing is never two."""
    meaning = tenant_id.bytes + f"occasion\0{kind}\0{key}".encode()
    return ids.hashed_id(hashlib.sha256(meaning).digest(), at=at)


_UNKNOWN: Final = UUID(int=0)
"""It has flapped for longer than can be looked back: it was told when it began."""


def flapping_since(row: Sequence[End]) -> UUID | None:
    """Return the run with which a row, the latest end first, began to flap; None when it does not flap now."""
    since: UUID | None = None
    for index in range(len(row)):
        if len(row) >= LOOK_BACK and index + FLAP_ENDS > LOOK_BACK:
            return _UNKNOWN
        if not _flaps(row[index : index + FLAP_ENDS]):
            return since
        since = row[index].run_id
    return since


def _flaps(ends: Sequence[End]) -> bool:
    near = [end for end in ends if ends[0].at - end.at <= FLAP_WINDOW]
    return sum((a.state == GOOD) != (b.state == GOOD) for a, b in pairwise(near)) > FLAP_CHANGES


def _row(happening: Happening) -> list[End]:
    assert happening.run_id is not None
    state = happening.word.removeprefix("run.")
    return [End(happening.run_id, state, happening.at), *happening.past][:LOOK_BACK]


def _at(happening: Happening, kind: AlertKind, key: str) -> datetime:
    """Return the instant in the occasion's id: for a row that flaps, that of the run with which it began."""
    return ids.instant_of(UUID(key)) if kind is AlertKind.RUN_FLAPPING else happening.at


def _kind_of(happening: Happening, rule: Rule) -> AlertKind | None:
    """Return what a rule calls it, the most telling name first."""
    wanted = rule.kinds & {kind for kind, words in HEARD_IN.items() if happening.word in words}
    if happening.word.startswith("run."):
        of_a_workflow = {AlertKind.WORKFLOW_SUCCEEDED, AlertKind.WORKFLOW_FAILED}
        plain = {AlertKind.RUN_SUCCEEDED, AlertKind.RUN_DEAD, AlertKind.RUN_EXPIRED}
        wanted -= plain if happening.is_workflow else of_a_workflow
    if AlertKind.RUN_RECOVERED in wanted and _failures_before(happening) < rule.after:
        wanted -= {AlertKind.RUN_RECOVERED}
    return next((kind for kind in _MOST_TELLING if kind in wanted), None)


_MOST_TELLING: Final = (
    AlertKind.RUN_RECOVERED,
    *(kind for kind in AlertKind if kind is not AlertKind.RUN_RECOVERED),
)


def _is_in_scope(happening: Happening, rule: Rule) -> bool:
    match rule.scope:
        case Scope.TENANT:
            return True
        case Scope.TAG:
            return rule.target in happening.tags
        case _:
            return happening.facts.get(rule.scope) == rule.target


def _passes(happening: Happening, rule: Rule, kind: AlertKind) -> bool:
    facts = {**happening.facts, "severity": severity_of(kind)}
    return all(
        term.value in happening.tags if term.name == Scope.TAG else facts.get(term.name) == term.value
        for term in rule.filter.terms
    )


def _in_a_row(happening: Happening, kind: AlertKind) -> int | None:
    match kind:
        case AlertKind.RUN_DEAD | AlertKind.RUN_EXPIRED | AlertKind.WORKFLOW_FAILED:
            return 1 + _failures_before(happening)
        case AlertKind.RUN_RECOVERED:
            return _failures_before(happening)
        case AlertKind.RUN_ATTEMPT_FAILED:
            return happening.attempt
        case _:
            return None


def _is_reached(kind: AlertKind, in_a_row: int | None, after: int) -> bool:
    if in_a_row is None or kind is AlertKind.RUN_RECOVERED or after == 1:
        return True
    return in_a_row == after


def _failures_before(happening: Happening) -> int:
    failures = 0
    for end in happening.past:
        if end.state == GOOD:
            break
        failures += 1
    return failures
