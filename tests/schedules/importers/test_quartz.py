"""Quartz: most expressions are the examples of its tutorial on cron triggers."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everwhen.core.proofs import prove
from everwhen.schedules.importers.quartz import parse_quartz
from tests.schedules.importers.reading import AFTER, BERLIN, KEEP, entries, local_fires, refusal

TUTORIAL = """\
# from the tutorial
0 0 12 * * ?
0 15 10 ? * *
0 0/5 14,18 * * ?
0 15 10 ? * MON-FRI
0 15 10 L * ?
0 15 10 ? * 6L
0 15 10 ? * 6L 2026-2030
0 15 10 ? * 6#3
0 0 12 1/5 * ?

! a comment of a properties file
report.cron = 0 11 11 11 11 ?
"""


def test_the_expressions_of_the_tutorial_are_read():
    found = entries(parse_quartz, TUTORIAL, BERLIN)

    assert len(found) == 10
    assert [local_fires(entry.stored, 1)[0] for entry in found] == [
        "2027-01-01T12:00:00",
        "2027-01-01T10:15:00",
        "2027-01-01T14:00:00",
        "2027-01-01T10:15:00",
        "2027-01-31T10:15:00",
        "2027-01-29T10:15:00",
        "2027-01-29T10:15:00",
        "2027-01-15T10:15:00",
        "2027-01-01T12:00:00",
        "2027-11-11T11:11:00",
    ]
    assert found[-1].name == "report.cron"
    assert found[0].name.startswith("quartz-")
    assert [entry.name for entry in entries(parse_quartz, "\n" + TUTORIAL, BERLIN)] == [entry.name for entry in found]


def test_json_names_expressions_and_zones():
    text = json.dumps({"a": "0 0 12 * * ?", "b": {"expr": "0 30 2 * * ?", "timezone": "America/New_York"}})
    first, second = entries(parse_quartz, text, BERLIN)

    assert (first.stored.timezone, second.stored.timezone) == ("Europe/Berlin", "America/New_York")
    assert prove(first.source, first.stored, after=AFTER).is_equal
    assert prove(second.source, second.stored, after=AFTER).differences == 10
    [_, kept] = entries(parse_quartz, text, KEEP)
    assert prove(kept.source, kept.stored, after=AFTER).is_equal


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("0 0 12 * * *", "trigger.cron.day_columns"),
        ("0 12 * * ?", "trigger.cron.fields"),
        ("@daily", "trigger.cron.macro"),
        ('{"a": {"expr": "0 0 12 * * ?", "zone": "UTC"}}', "import.quartz.field"),
        ('{"a": 5}', "import.type"),
        ('{"a": ""}', "import.type"),
        ("a = ", "import.type"),
        ("{", "import.json"),
    ],
)
def test_what_cannot_become_a_schedule_is_refused(text, code):
    assert refusal(parse_quartz, text) == code


@settings(max_examples=300, deadline=None)
@given(text=st.text() | st.text('0123456789*?/-,LW# =\n{}"MONFRI', max_size=120))
def test_any_text_is_read_and_never_raises(text):
    parse_quartz(text, BERLIN)
