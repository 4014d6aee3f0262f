"""Differences of JSON values: by fields, by the names of items, and never where there are none."""

import copy
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from everwhen.core.differences import differences, same

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-3, 3) | st.sampled_from(["", "a", "b"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "kind", "id"]), inner, max_size=3)
        | st.lists(st.fixed_dictionaries({"id": st.sampled_from("xyz"), "v": inner}), max_size=3)
    ),
    max_leaves=10,
)


def told(before, after):
    return {each.field: (each.before, each.after) for each in differences(before, after)}


@given(VALUES, VALUES)
@example([{"id": "x", "v": 1}, {"id": "y", "v": 1}], [{"id": "y", "v": 1}, {"id": "x", "v": 1}])
@example({"a": None}, {})
@example([], {})
def test_there_is_something_to_tell_where_two_values_are_not_the_same_and_only_there(one, other):
    assert bool(told(one, other)) == (not same(one, other))


@given(VALUES)
def test_a_value_is_the_same_as_itself_in_another_order_of_keys(value):
    def turned(part):
        if isinstance(part, dict):
            return {key: turned(part[key]) for key in reversed(part)}
        return [turned(each) for each in part] if isinstance(part, list) else part

    assert same(value, turned(copy.deepcopy(value)))
    assert same(value, json.loads(json.dumps(value)))


@pytest.mark.parametrize(("one", "other"), [(1, True), (0, False), ([1], [True]), ({"a": 0}, {"a": False}), ("1", 1)])
def test_what_only_python_takes_for_equal_is_not_the_same(one, other):
    assert not same(one, other)


def test_a_whole_number_is_the_same_however_it_is_written():
    assert same(1e25, 10**25)
    assert same({"a": [1]}, {"a": (1.0,)})


def test_fields_are_told_by_their_paths():
    assert told({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 1, "c": 4}, "e": 5}) == {
        "a.c": (2, 4),
        "d": (3, None),
        "e": (None, 5),
    }


def test_what_is_of_another_kind_is_told_as_a_whole():
    cron, every = {"kind": "cron", "expr": "0 0 * * *"}, {"kind": "every", "every": "PT1H"}

    assert told({"trigger": cron}, {"trigger": every}) == {"trigger": (cron, every)}
    assert told({"trigger": cron}, {"trigger": {**cron, "expr": "1 0 * * *"}}) == {
        "trigger.expr": ("0 0 * * *", "1 0 * * *")
    }


def test_items_in_another_order_are_told_as_a_list():
    assert told([{"id": "a"}, {"id": "b"}], [{"id": "b"}, {"id": "a"}]) == {
        "": ([{"id": "a"}, {"id": "b"}], [{"id": "b"}, {"id": "a"}])
    }


def test_items_with_names_are_told_by_them():
    before = {"nodes": [{"id": "a", "task": "x"}, {"id": "b", "task": "x"}]}
    after = {"nodes": [{"id": "b", "task": "y"}, {"id": "c", "task": "x"}]}

    assert told(before, after) == {
        "nodes[a]": ({"id": "a", "task": "x"}, None),
        "nodes[b].task": ("x", "y"),
        "nodes[c]": (None, {"id": "c", "task": "x"}),
    }


@pytest.mark.parametrize(
    ("before", "after"),
    [([1], [2]), ([{"id": 1}, {"id": 1}], [{"id": 1}]), ([], [{"id": 1}]), ([{"x": 1}], [{"x": 2}])],
)
def test_items_without_names_are_told_as_a_list(before, after):
    assert told({"l": before}, {"l": after}) == {"l": (before, after)}
