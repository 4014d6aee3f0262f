"""Cursors: opaque, bound to their list, refused when touched."""

from uuid import UUID

import pytest

from everwhen.errors import InvalidInput
from everwhen.http.pages import make_cursor, read_cursor, read_id, read_number

KEYS = ["a", "nightly-report", "x" * 200, "01a22915-06ff-70da-a75e-79f816daceb5", "7"]


@pytest.mark.parametrize("key", KEYS)
def test_a_cursor_leads_back_to_its_key(key):
    assert read_cursor(make_cursor(key, of="runs"), of="runs") == key


def test_no_cursor_means_the_beginning():
    assert read_cursor(None, of="runs") is None
    assert read_number(None, of="events") == 0
    assert read_id(None, of="runs", default=UUID(int=9)) == UUID(int=9)


def test_a_cursor_of_another_list_is_refused():
    with pytest.raises(InvalidInput) as refused:
        read_cursor(make_cursor("a", of="tasks"), of="schedules")

    assert refused.value.code == "page.cursor"


@pytest.mark.parametrize("cursor", ["", "a", "!!!!", "AAAAAAAAAAAA", "é", make_cursor("a\x00b", of="runs")])
def test_what_is_no_cursor_is_refused(cursor):
    with pytest.raises(InvalidInput):
        read_cursor(cursor, of="runs")


@pytest.mark.parametrize("key", KEYS)
def test_a_cursor_is_refused_after_any_change_of_one_character(key):
    cursor = make_cursor(key, of="runs")
    for index, character in enumerate(cursor):
        changed = cursor[:index] + ("A" if character != "A" else "B") + cursor[index + 1 :]
        with pytest.raises(InvalidInput):
            read_cursor(changed, of="runs")


@pytest.mark.parametrize("key", ["-1", "1e3", "٣", "9" * 19, "x"])
def test_a_cursor_that_should_be_a_number_and_is_none_is_refused(key):
    with pytest.raises(InvalidInput):
        read_number(make_cursor(key, of="events"), of="events")


def test_a_cursor_that_should_be_an_id_and_is_none_is_refused():
    with pytest.raises(InvalidInput):
        read_id(make_cursor("x", of="runs"), of="runs", default=UUID(int=0))
