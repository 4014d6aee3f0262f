"""Which instants a backfill fills, and that the same backfill makes the same ids."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everwhen.core.backfill import (
    LOOKED_AT_ONCE,
    RAN,
    VERDICTS,
    Include,
    VerdictSpan,
    backfill_id_of,
    backfilled_run_id,
    is_wanted,
    next_instants,
    spanned,
)
from everwhen.core.ids import instant_of, scheduled_run_id
from everwhen.core.triggers import Timing, fires, parse_trigger

TENANT, SCHEDULE = UUID(int=7), UUID(int=70)
BEGIN, END = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 11, 30, tzinfo=UTC)
TICK = timedelta(microseconds=1)


def all_instants(timing, *, start, end):
    found, after = [], start - TICK
    while after < end - TICK:
        chunk, after = next_instants(timing, after=after, before=end)
        found += chunk
    return found


@pytest.mark.parametrize("expr", ["*/7 * * * *", "30 2 * * *", "0 0 29 2 *"])
def test_a_range_is_its_fires_from_the_first_on_and_before_the_last(expr):
    timing = Timing(parse_trigger({"kind": "cron", "expr": expr}), "Europe/Berlin")

    found = all_instants(timing, start=BEGIN, end=END)

    assert [each.nominal_at for each in found] == list(fires(timing, after=BEGIN - TICK, until=END - TICK))


def test_the_bounds_are_from_on_and_before_until():
    timing = Timing(parse_trigger({"kind": "cron", "expr": "0 0 * * *"}))

    found = all_instants(timing, start=BEGIN, end=BEGIN + timedelta(days=2))

    assert [each.nominal_at for each in found] == [BEGIN, BEGIN + timedelta(days=1)]


def test_one_step_is_bounded_and_says_how_far_it_came():
    timing = Timing(parse_trigger({"kind": "every", "every": "PT1S", "anchor": "2026-01-01T00:00:00Z"}))

    found, reached = next_instants(timing, after=BEGIN, before=END)

    assert len(found) == LOOKED_AT_ONCE
    assert reached == found[-1].nominal_at


@pytest.mark.parametrize(
    ("outcomes", "wanted"),
    [
        ((), True),
        (("skipped",), True),
        (("missed", "cancelled"), True),
        (("succeeded",), False),
        (("dead",), False),
        (("live",), False),
        (("missed", "succeeded"), False),
    ],
)
def test_by_default_what_has_not_run_is_filled(outcomes, wanted):
    assert is_wanted(outcomes, include=Include.NOT_RUN, only=()) is wanted
    assert is_wanted(outcomes, include=Include.ALL, only=())


@pytest.mark.parametrize(
    ("outcomes", "only", "wanted"),
    [
        ((), ("missed",), False),
        (("missed",), ("missed",), True),
        (("skipped",), ("missed",), False),
        (("missed", "live"), ("missed",), False),
        (("dead",), ("dead",), True),
        (("dead",), ("missed",), False),
        (("dead", "succeeded"), ("dead",), False),
        (("redriven",), ("dead",), False),
    ],
)
def test_only_takes_what_has_that_verdict_and_has_not_run_since(outcomes, only, wanted):
    assert is_wanted(outcomes, include=Include.NOT_RUN, only=only) is wanted


@given(st.sets(st.sampled_from(sorted(RAN | VERDICTS))), st.sets(st.sampled_from(sorted(VERDICTS)), min_size=1))
def test_only_never_takes_more_than_all_and_never_what_runs_now(outcomes, only):
    wanted = is_wanted(outcomes, include=Include.NOT_RUN, only=only)

    assert not wanted or not {"live", "succeeded"} & outcomes
    assert not wanted or outcomes & only


def test_a_span_speaks_for_the_instants_within_it():
    span = VerdictSpan(first_at=BEGIN, last_at=END, verdict="missed")

    assert [spanned(at, [span]) for at in (BEGIN - TICK, BEGIN, END, END + TICK)] == [[], ["missed"], ["missed"], []]


def test_the_same_backfill_makes_the_same_ids_and_no_others_do():
    def made(backfill_id):
        return backfilled_run_id(TENANT, SCHEDULE, nominal_at=BEGIN, backfill_id=backfill_id)

    assert made("a") == made("a") != made("b")
    assert made("a") != scheduled_run_id(TENANT, SCHEDULE, nominal_at=BEGIN, due_at=BEGIN)
    assert instant_of(made("a")) == BEGIN
    assert backfill_id_of("x", "y") == backfill_id_of("x", "y") != backfill_id_of("xy")
