"""The trigger rules: what a node makes of how its upstreams ended, from counts alone.

Each rule is two questions to a `Tally` once all upstreams have ended: is the node `upstream_failed`, and else, is it
`skipped`? If neither, it runs. The three `one_…` rules also run early, as soon as they have found their one.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from everwhen.core.dag_values import NodeState, TriggerRule


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How many ended, and how. `not_taken` are those of the skipped that a branch did not take."""

    succeeded: int = 0
    failed: int = 0  # failed, cancelled, expired
    skipped: int = 0
    upstream_failed: int = 0
    not_taken: int = 0

    @property
    def ended(self) -> int:
        """How many in all."""
        return self.succeeded + self.failed + self.skipped + self.upstream_failed

    @property
    def unwell(self) -> int:
        """How many failed or could not run because of a failure."""
        return self.failed + self.upstream_failed

    def plus(self, state: NodeState, *, taken: bool = True) -> "Tally":
        """Count one more end."""
        if not taken:
            return replace(self, skipped=self.skipped + 1, not_taken=self.not_taken + 1)
        match state:
            case NodeState.SUCCEEDED:
                return replace(self, succeeded=self.succeeded + 1)
            case NodeState.SKIPPED:
                return replace(self, skipped=self.skipped + 1)
            case NodeState.UPSTREAM_FAILED:
                return replace(self, upstream_failed=self.upstream_failed + 1)
            case NodeState.FAILED | NodeState.CANCELLED | NodeState.EXPIRED:
                return replace(self, failed=self.failed + 1)
            case _:
                raise ValueError(f"{state} is no end")


NOTHING: Final = Tally()


class Decision(StrEnum):
    """What a trigger rule says."""

    RUN = "run"
    SKIP = "skipped"
    UPSTREAM_FAILED = "upstream_failed"


def decide_rule(rule: TriggerRule, tally: Tally, *, total: int) -> Decision | None:
    """Say what a rule makes of `total` upstreams; None while it is open."""
    if total == 0:
        return Decision.RUN
    if tally.ended < total:
        found = _EARLY.get(rule)
        return Decision.RUN if found is not None and found(tally) else None
    if tally.not_taken == total:
        return Decision.SKIP
    is_upstream_failed, is_skipped = _FINAL[rule]
    if is_upstream_failed(tally):
        return Decision.UPSTREAM_FAILED
    return Decision.SKIP if is_skipped(tally) else Decision.RUN


_Question = Callable[[Tally], bool]


def _never(_: Tally) -> bool:
    return False


def _any_unwell(tally: Tally) -> bool:
    return tally.unwell > 0


def _any_skipped(tally: Tally) -> bool:
    return tally.skipped > 0


def _all_skipped(tally: Tally) -> bool:
    return tally.skipped == tally.ended


def _any_success(tally: Tally) -> bool:
    return tally.succeeded > 0


def _any_attempted(tally: Tally) -> bool:
    return tally.succeeded + tally.failed > 0  # one that was skipped, or could not run, did nothing


_EARLY: Final[dict[TriggerRule, _Question]] = {
    TriggerRule.ONE_SUCCESS: _any_success,
    TriggerRule.ONE_FAILED: _any_unwell,
    TriggerRule.ONE_DONE: _any_attempted,
}

# Of a tally that is complete: is the node upstream_failed; and if not, is it skipped?
_FINAL: Final[dict[TriggerRule, tuple[_Question, _Question]]] = {
    TriggerRule.ALL_SUCCESS: (_any_unwell, _any_skipped),
    TriggerRule.ALL_FAILED: (_never, lambda tally: tally.succeeded + tally.skipped > 0),
    TriggerRule.ALL_DONE: (_never, _never),
    TriggerRule.ALL_SKIPPED: (_never, lambda tally: not _all_skipped(tally)),
    TriggerRule.ONE_SUCCESS: (lambda tally: not _any_success(tally) and not _all_skipped(tally), _all_skipped),
    TriggerRule.ONE_FAILED: (_never, lambda tally: not _any_unwell(tally)),
    TriggerRule.ONE_DONE: (_never, lambda tally: not _any_attempted(tally)),
    TriggerRule.NONE_FAILED: (_any_unwell, _never),
    TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS: (_any_unwell, _all_skipped),
    TriggerRule.NONE_SKIPPED: (_never, _any_skipped),
    TriggerRule.ALL_DONE_MIN_ONE_SUCCESS: (
        lambda tally: not _any_skipped(tally) and not _any_success(tally),
        _any_skipped,
    ),
}
