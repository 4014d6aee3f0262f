"""Calendar definitions as JSON: round trips, and what is refused where."""

import pytest
from hypothesis import given

from everwhen.core.calendar_json import definition_to_json, parse_definition
from everwhen.core.calendars import CLOSED, OPEN
from everwhen.core.errors import TriggerError
from tests.core.test_calendars import definitions


@given(definitions)
def test_a_definition_survives_json(definition):
    assert parse_definition(definition_to_json(definition)) == definition


def test_the_shortest_definition_is_always_open():
    assert parse_definition({}).week == (OPEN,) * 7
    assert parse_definition({"week": []}).week == (CLOSED,) * 7


def test_a_week_may_have_hours():
    week = parse_definition({"week": {"sat": [["09:00", "13:00"], ["14:00", "24:00"]], "sun": "open"}}).week

    assert week == (CLOSED,) * 5 + (((540, 780), (840, 1440)), OPEN)


CHRISTMAS = {"date": "2027-12-25", "hours": "closed"}
WRONG = [
    (None, ""),
    ([], ""),
    ({"weeks": []}, ""),
    ({"week": "mon"}, "week"),
    ({"week": ["monday"]}, "week/0"),
    ({"week": [{}]}, "week/0"),
    ({"week": {"mon": True}}, "week/mon"),
    ({"week": {"mon": [["9:00", "13:00"]]}}, "week/mon/0"),
    ({"week": {"mon": []}}, "week/mon"),
    ({"days": {}}, "days"),
    ({"days": [1]}, "days/0"),
    ({"days": [{"date": "2027-12-25"}]}, "days/0/hours"),
    ({"days": [CHRISTMAS, {**CHRISTMAS, "date": "2027-02-30"}]}, "days/1/date"),
    ({"days": [{**CHRISTMAS, "date": "1899-12-31"}]}, "days/0/date"),
    ({"days": [{**CHRISTMAS, "date": "２027-12-25"}]}, "days/0/date"),
    ({"days": [{**CHRISTMAS, "until": "2027-12-24"}]}, "days/0/until"),
    ({"days": [{**CHRISTMAS, "label": "a\nb"}]}, "days/0/label"),
    ({"days": [{**CHRISTMAS, "label": "x" * 101}]}, "days/0/label"),
    ({"days": [{**CHRISTMAS, "is": "open"}]}, "days/0"),
    ({"days": [{**CHRISTMAS, "hours": [["10:00", "09:00"]]}]}, "days/0/hours/0"),
    ({"days": [{**CHRISTMAS, "hours": [["09:00", "10:00"], ["10:00", "11:00"]]}]}, "days/0/hours/1"),
    ({"days": [{**CHRISTMAS, "hours": [["24:00", "24:00"]]}]}, "days/0/hours/0"),
    ({"days": [{**CHRISTMAS, "until": "2199-12-31"}]}, "days/0"),
    ({"days": [CHRISTMAS] * 10_001}, "days/10000"),
]


@pytest.mark.parametrize(("data", "field"), WRONG, ids=range(len(WRONG)))
def test_a_wrong_definition_is_refused_where_it_is_wrong(data, field):
    with pytest.raises(TriggerError) as refused:
        parse_definition(data)

    assert refused.value.field == field
    assert refused.value.code.startswith("calendar.")
