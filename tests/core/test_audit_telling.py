import pytest
from hypothesis import given
from hypothesis import strategies as st

from everwhen.core.audit_chain import canonical
from everwhen.core.audit_telling import LEFT_OUT, MOST_BYTES, SECRET, bounded, difference


def test_of_a_change_only_what_differs_is_told():
    before = {"name": "nightly", "cron": "0 2 * * *", "paused": False, "until": None}
    after = {"name": "nightly", "cron": "0 3 * * *", "paused": False, "next_at": "2026-11-30"}

    assert difference(before, after) == (
        {"cron": "0 2 * * *"},
        {"cron": "0 3 * * *", "next_at": "2026-11-30"},
    )


@pytest.mark.parametrize(("before", "after"), [(None, {"a": 1}), ({"a": 1}, None), (None, None), ([1], [2])])
def test_what_is_made_or_ended_is_told_whole(before, after):
    assert difference(before, after) == (before, after)


def test_what_is_named_like_a_secret_is_left_out_however_deep():
    told = bounded({"channels": [{"name": "ops", "configuration": {"password": "linnet"}}], "secret": None})

    assert told == {"channels": [{"name": "ops", "configuration": {"password": SECRET}}], "secret": None}


def test_of_what_is_too_long_the_longest_fields_are_left_out_and_their_digests_stay():
    told = bounded({"name": "etl", "definition": {"nodes": ["x" * 100] * 200}, "revision": 7})

    assert told["name"] == "etl"
    assert told["revision"] == 7
    assert told["definition"][LEFT_OUT]["bytes"] > MOST_BYTES


@given(
    st.dictionaries(
        st.text(max_size=300), st.text(max_size=9_000) | st.lists(st.integers(), max_size=50) | st.none(), max_size=60
    )
)
def test_what_is_told_is_bounded(value):
    assert len(canonical(bounded(value))) <= MOST_BYTES


def test_a_long_text_by_itself_is_left_out_too():
    assert bounded("x" * (MOST_BYTES + 1))[LEFT_OUT]["bytes"] == MOST_BYTES + 3
