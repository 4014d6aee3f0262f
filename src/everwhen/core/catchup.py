"""Catch-up policies: what becomes of instants that passed undecided, declared for each cause apart.

    outage    nobody looked                             by default the latest instant runs and stands for all
    resume    the schedule was paused                   by default none runs; they are recorded as skipped
    creation  the schedule begins in the past           by default it begins now, and intends nothing before
    edit      the new trigger would have fired since    by default it begins now, likewise
              the old one did

Being paused and being down are two things, and people who want the one caught up on seldom want the other.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final

MOST_MAX_RUNS: Final = 10_000
MOST_RATE: Final = 10_000.0
LEAST_RATE: Final = 0.001


class Cause(StrEnum):
    """Why instants passed undecided."""

    OUTAGE = "outage"
    RESUME = "resume"
    CREATION = "creation"
    EDIT = "edit"


class CatchUpPolicy(StrEnum):
    """What to do with instants that passed undecided."""

    REPLAY = "replay"  # run each of them
    COALESCE = "coalesce"  # run one, which stands for all
    SKIP = "skip"  # run none of them; each is recorded


class Keep(StrEnum):
    """Which instants run when not all of them do."""

    LATEST = "latest"
    EARLIEST = "earliest"


class Order(StrEnum):
    """In which order they run."""

    OLDEST_FIRST = "oldest_first"
    NEWEST_FIRST = "newest_first"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What to do with the instants of one cause.

    One older than `window` never runs; None means that no instant is too old. `keep` says which one a coalesced run
    is, and which ones run when there are more than `max_runs`. `rate` is runs a second. `priority` is the runs' own, or
    `priority_offset` is added to what their schedule's runs have; 0 is the lowest there is. What is about many runs
    (`max_runs`, `rate`, `order`) counts for a replay only.
    """

    policy: CatchUpPolicy = CatchUpPolicy.COALESCE
    keep: Keep = Keep.LATEST
    window: timedelta | None = None
    max_runs: int | None = None
    rate: float | None = None
    order: Order = Order.OLDEST_FIRST
    priority: int | None = None
    priority_offset: int = -1


SKIPPED: Final = Rule(policy=CatchUpPolicy.SKIP)


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUp(Rule):
    """The catch-up of a schedule: the rule for an outage, and one for each other cause; None begins at the present.

    An instant late by no more than `grace` is merely late and runs in any case.
    """

    grace: timedelta = timedelta(minutes=1)
    on_resume: Rule = field(default=SKIPPED)
    on_creation: Rule | None = None
    on_edit: Rule | None = None

    def rule_for(self, cause: Cause) -> Rule | None:
        """Return what holds for a cause; None: it intends nothing before the present."""
        match cause:
            case Cause.OUTAGE:
                return self
            case Cause.RESUME:
                return self.on_resume
            case Cause.CREATION:
                return self.on_creation
            case Cause.EDIT:
                return self.on_edit


def rule_to_json(rule: Rule) -> dict[str, Any]:
    """Return a rule as JSON data; what is as it is by default is left out, but for the policy."""
    default = _DEFAULT
    found: dict[str, Any] = {"policy": rule.policy.value}
    if rule.keep is not default.keep:
        found["keep"] = rule.keep.value
    if rule.window is not None:
        found["window_seconds"] = rule.window.total_seconds()
    found |= {name: value for name in ("max_runs", "rate", "priority") if (value := getattr(rule, name)) is not None}
    if rule.order is not default.order:
        found["order"] = rule.order.value
    if rule.priority_offset != default.priority_offset:
        found["priority_offset"] = rule.priority_offset
    return found


def parse_rule(data: Mapping[str, Any]) -> Rule:
    """Read what `rule_to_json` made; raises as the look-up and conversion of its fields do."""
    return Rule(**_rule_fields(data))


def catch_up_to_json(catch_up: CatchUp) -> dict[str, Any]:
    """Return the catch-up of a schedule as JSON data, in the form that older versions read too."""
    window = catch_up.window
    found = {
        "policy": catch_up.policy.value,
        "grace_seconds": catch_up.grace.total_seconds(),
        "window_seconds": None if window is None else window.total_seconds(),
    } | rule_to_json(catch_up)
    if catch_up.on_resume != SKIPPED:
        found["on_resume"] = rule_to_json(catch_up.on_resume)
    for name, rule in (("on_creation", catch_up.on_creation), ("on_edit", catch_up.on_edit)):
        if rule is not None:
            found[name] = rule_to_json(rule)
    return found


def parse_catch_up(data: Mapping[str, Any]) -> CatchUp:
    """Read what `catch_up_to_json` made, or an older version's; raises as `parse_rule` does."""
    return CatchUp(
        **_rule_fields(data),
        grace=timedelta(seconds=data["grace_seconds"]),
        on_resume=parse_rule(data["on_resume"]) if data.get("on_resume") else SKIPPED,
        on_creation=parse_rule(data["on_creation"]) if data.get("on_creation") else None,
        on_edit=parse_rule(data["on_edit"]) if data.get("on_edit") else None,
    )


_DEFAULT: Final = Rule()


def _rule_fields(data: Mapping[str, Any]) -> dict[str, Any]:
    window = data.get("window_seconds")
    return {
        "policy": CatchUpPolicy(data["policy"]),
        "keep": Keep(data.get("keep", _DEFAULT.keep)),
        "window": None if window is None else timedelta(seconds=window),
        "max_runs": data.get("max_runs"),
        "rate": data.get("rate"),
        "order": Order(data.get("order", _DEFAULT.order)),
        "priority": data.get("priority"),
        "priority_offset": data.get("priority_offset", _DEFAULT.priority_offset),
    }
