"""Which worker a run may be given to, and what fits together in one claim."""

from hypothesis import given
from hypothesis import strategies as st

from everwhen.core.capability import Capacity, Requirements, fits, has_room, missing_labels, most_at_once, without
from everwhen.core.claim_limits import Candidate, decide

AMOUNTS = st.dictionaries(st.sampled_from("abc"), st.integers(1, 4), max_size=3)
LABELS = st.dictionaries(st.sampled_from("xyz"), st.sampled_from("12"), max_size=3)


@given(AMOUNTS, AMOUNTS, st.integers(0, 10))
def test_so_many_fit_together_and_one_more_does_not(needs, free, most):
    count = most_at_once(Requirements(resources=needs), free, most=most)
    left = dict(free)
    for _ in range(count):
        assert has_room(needs, left)
        left = without(left, needs)

    assert count == most or not has_room(needs, left)


@given(LABELS, LABELS)
def test_labels_fit_where_none_is_missing(required, labels):
    missing = missing_labels(Requirements(labels=required), labels)

    assert fits(Requirements(labels=required), Capacity(labels=labels)) == (missing == {})
    assert missing == {name: value for name, value in required.items() if (name, value) not in labels.items()}


@given(st.lists(AMOUNTS, max_size=12), AMOUNTS, st.integers(0, 12))
def test_what_a_claim_takes_fits_together_and_leaves_out_only_what_does_not(needs, has, limit):
    candidates = [Candidate(task="t", lane="l", needs=each) for each in needs]
    free = {name: float(amount) for name, amount in has.items()}
    decided = decide(candidates, limit=limit, lanes={"l": 100}, tasks={}, keys={}, free=free)
    left = {name: float(amount) for name, amount in has.items()}
    for index, each in enumerate(needs):
        if index in decided.taken:
            assert has_room(each, left)
            left = without(left, each)
        else:
            assert not has_room(each, left) or sum(taken < index for taken in decided.taken) >= limit

    assert free == left
    assert decided.parked == []
