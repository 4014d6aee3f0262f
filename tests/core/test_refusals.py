# pyright: reportArgumentType=false
"""How much is told of refused attempts: each kind soon and then ever more seldom, and all together within bounds."""

from itertools import pairwise
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from everwhen.core.refusals import EVERY, FIRST_GAP, MOST_AT_ONCE, MOST_GAP, MOST_KINDS, Ledger

ONE, OTHER = UUID(int=1), UUID(int=2)


def note(ledger, kind, now, *, tenant=ONE, attempt="first"):
    ledger.note(tenant, kind, attempt, now=now)


def taken(ledger, now):
    return [(each.attempt, each.times, each.others) for each in ledger.take(now=now)]


def test_the_first_of_a_kind_is_told_at_once_and_the_next_ones_together():
    ledger = Ledger()
    note(ledger, "kind", 0.0)
    assert taken(ledger, 0.0) == [("first", 1, 0)]
    for second in range(50):
        note(ledger, "kind", 1.0 + second, attempt=second)

    assert taken(ledger, FIRST_GAP - 1) == []
    assert taken(ledger, FIRST_GAP) == [(0, 50, 0)]
    assert ledger


def test_a_kind_that_goes_on_is_told_ever_more_seldom_and_one_that_stays_away_is_forgotten():
    ledger, told = Ledger(), []
    for second in range(0, 4 * int(MOST_GAP), 10):
        note(ledger, "kind", float(second))
        told += [second for _ in taken(ledger, float(second))]
    gaps = [after - before for before, after in pairwise(told)]
    assert gaps == sorted(gaps)
    assert len(told) < 10

    end = 6 * MOST_GAP
    taken(ledger, end)
    taken(ledger, end + MOST_GAP)
    assert not ledger
    note(ledger, "kind", end + MOST_GAP)
    assert taken(ledger, end + MOST_GAP) == [("first", 1, 0)]


def test_what_is_beyond_memory_is_counted_with_its_tenants_next():
    ledger = Ledger()
    for number in range(MOST_KINDS + 7):
        note(ledger, number, 0.0)
    note(ledger, "late", 0.0, tenant=OTHER)

    told = taken(ledger, 0.0)

    assert len(told) == MOST_AT_ONCE
    assert [others for *_, others in told if others] == [7]


def test_one_tenants_flood_leaves_another_its_own():
    ledger = Ledger()
    for number in range(500):
        note(ledger, number, 0.0)
    note(ledger, "own", 0.0, tenant=OTHER, attempt="own")

    told = taken(ledger, 0.0)

    assert ("own", 1, 0) in told
    assert len(told) == MOST_AT_ONCE + 1


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 400), st.floats(0, 600)), max_size=300))
def test_nothing_is_told_beyond_the_budget_and_nothing_is_told_twice(steps):
    ledger, now, told, noted = Ledger(), 0.0, [], 0
    for tenant, kind, seconds in steps:
        now += seconds
        noted += 1
        note(ledger, kind, now, tenant=UUID(int=tenant))
        told += ledger.take(now=now)

    for tenant in range(4):
        mine = [each for each in told if each.tenant_id == UUID(int=tenant)]
        assert len(mine) <= MOST_AT_ONCE + now / EVERY
    assert sum(each.times + each.others for each in told) <= noted
