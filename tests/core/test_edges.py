"""The table of edges is what the lifecycle decides: no decision outside of it, and no line in it without a decision."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from everwhen.core import lifecycle
from everwhen.core.edges import ENDS, FOLLOWING, QUIET, VERDICTS, edges
from everwhen.core.history import fold
from everwhen.core.lifecycle import EventKind, Run, RunState, Transition, decide
from everwhen.core.retry import RetryPolicy

NOW = datetime(2027, 1, 1, tzinfo=UTC)
TOKEN = 7
BORN_BY = (  # which kinds leave a run in which state, with how many failures behind it
    (RunState.WAITING, 0, ("planned", "admitted", "released")),
    (RunState.WAITING, 1, ("released", "retrying")),
    (RunState.PLANNED, 0, ("planned",)),
    (RunState.RETRYING, 1, ("retrying",)),
    (RunState.RUNNING, 0, ("claimed",)),
)
EVENTS = (
    lifecycle.Claimed(),
    lifecycle.Succeeded(TOKEN),
    lifecycle.Failed(TOKEN),
    lifecycle.Failed(TOKEN, retryable=False),
    lifecycle.Failed(TOKEN, retry_after=timedelta(hours=1)),
    lifecycle.Released(TOKEN),
    lifecycle.CancelConfirmed(TOKEN),
    lifecycle.LeaseExpired(TOKEN),
    lifecycle.TimedOut(TOKEN),
    lifecycle.Revoked(TOKEN),
    lifecycle.CancelRequested(),
    lifecycle.StartDeadlinePassed(),
    lifecycle.TotalDeadlinePassed(),
    lifecycle.TotalDeadlinePassed(TOKEN),
    lifecycle.RetryAgePassed(),
)


def decided() -> set[tuple[str, str]]:
    """Every edge that the lifecycle makes, over all states, events, policies and wishes to cancel."""
    found = set()
    for (state, failures, befores), event, most, asked in product(BORN_BY, EVENTS, (1, 5), (False, True)):
        if isinstance(event, lifecycle.RetryAgePassed) and not failures:
            continue  # the age of a run counts once it has failed
        held = TOKEN if state is RunState.RUNNING else None
        run = Run(state=state, failures=failures, lease_token=held, cancel_requested=asked)
        answer = decide(run, event, now=NOW, policy=RetryPolicy(max_attempts=most), jitter=0.5)
        if isinstance(answer, Transition) and answer.event not in QUIET:
            found |= {(before, answer.event.value) for before in befores}
    return found


def test_the_table_holds_what_the_lifecycle_decides_and_what_planner_and_gates_do_and_nothing_else():
    by_the_planner = {("", "planned"), ("planned", "unplanned"), ("unplanned", "planned")}
    by_the_planner |= {(before, verdict) for before in ("", "unplanned") for verdict in VERDICTS}

    by_a_gate = set(product(("planned", "held"), ("held", "admitted", "skipped", "coalesced", "cancelled", "expired")))
    by_a_gate |= {("held", "unplanned")}

    assert set(edges()) == decided() | by_the_planner | by_a_gate


@pytest.mark.parametrize("kind", list(EventKind))
def test_every_kind_moves_a_run_on_ends_it_or_leaves_it_where_it_is(kind):
    assert [kind in FOLLOWING, kind in ENDS, kind in QUIET].count(True) == 1


@dataclass(frozen=True)
class Told:
    """One event of a made-up history."""

    kind: str
    attempt: int | None = None
    at: datetime = NOW
    reason: str | None = None


def histories(longest: int):
    """Every history up to this length that the table allows."""
    found = [()]
    for path in found:
        yield path
        if len(path) < longest:
            found += [(*path, after) for after in sorted(FOLLOWING.get(path[-1] if path else "", ()))]


def told(path):
    """The events of a history; each claim opens the next attempt."""
    claims = [path[: number + 1].count(EventKind.CLAIMED) for number in range(len(path))]
    return [Told(kind, attempt or None) for kind, attempt in zip(path, claims, strict=True)]


def test_whatever_the_table_allows_is_folded_without_a_breach():
    paths = list(histories(9))

    assert len(paths) > 1000
    assert [path for path in paths if fold(told(path)).breaches] == []


def test_a_history_that_leaves_the_table_at_its_end_is_a_breach():
    assert fold(told(("planned", "claimed", "succeeded", "claimed"))).breaches
