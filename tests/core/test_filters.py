"""The filter grammar: what is read, in one spelling, and what is refused, where."""

from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from everwhen.core.filters import (
    BEFORE,
    FROM,
    MOST_TEXT,
    Filter,
    FilterError,
    Identifier,
    Moment,
    Vocabulary,
    Word,
    describe,
    fits,
    parse,
    within,
)

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
WORDS = Vocabulary(
    fields={
        "state": Word(choices=frozenset({"dead", "waiting"})),
        "task": Word(),
        "schedule": Word(),
        "run": Identifier(),
        "due": Moment(),
    },
    short=within("due"),
)
RUN = "01a2290b-f820-8c7f-a512-430466578e05"


def read(text: str) -> Filter | FilterError:
    try:
        return parse(text, WORDS, now=NOW)
    except FilterError as error:
        return error


def canonical(text: str) -> str:
    return parse(text, WORDS, now=NOW).canonical


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("  \t ", ""),
        ("task:billing state:dead", "state:dead task:billing"),
        ('schedule:"nightly report"', 'schedule:"nightly report"'),
        ('schedule:"nightly"', "schedule:nightly"),
        (r'task:"a\"b\\c"', r'task:"a\"b\\c"'),
        (r"task:a\b", r"task:a\b"),
        ("task:a:b>=c", "task:a:b>=c"),
        ("due>=2026-11-01", "due>=2026-11-01T00:00:00Z"),
        ("due<2026-11-01T08:30+01:00 due>=7d", "due>=2026-11-23T12:00:00Z due<2026-11-01T07:30:00Z"),
        ("since:90m until:1h", "due>=2026-11-30T10:30:00Z due<2026-11-30T11:00:00Z"),
        (f"run:{RUN.upper()}", f"run:{RUN}"),
    ],
)
def test_a_filter_has_one_spelling(text, expected):
    assert canonical(text) == expected


def test_a_filter_answers_by_field():
    found = parse(f"state:dead run:{RUN} since:1d", WORDS, now=NOW)

    assert found.text("state") == "dead"
    assert str(found.identifier("run")) == RUN
    assert found.instant("due", FROM) == datetime(2026, 11, 29, 12, tzinfo=UTC)
    assert found.text("task") is found.instant("due", BEFORE) is found.identifier("schedule") is None


@pytest.mark.parametrize(
    ("text", "code", "position"),
    [
        ("dead", "filter.syntax", 4),
        (":dead", "filter.syntax", 0),
        ("state:", "filter.syntax", 6),
        ('task:"open', "filter.syntax", 5),
        ('task:"a"state:dead', "filter.syntax", 8),
        ('task:a"b"', "filter.syntax", 6),
        ("task:x colour:red", "filter.field", 7),
        ("state:alive", "filter.value", 0),
        ("state!=dead", "filter.operator", 0),
        ("task>=x", "filter.operator", 0),
        ("due:2026-11-01", "filter.operator", 0),
        ("due<=2026-11-01", "filter.operator", 0),
        ("since>=7d", "filter.operator", 0),
        ("due>=yesterday", "filter.value", 0),
        ("due>=2026-02-30", "filter.value", 0),
        ("due>=2026-11-01T08:30", "filter.value", 0),
        ("due>=999999999w", "filter.value", 0),
        ("due>=0001-01-01T00:00+23:59", "filter.value", 0),
        ("due>=٧d", "filter.value", 0),
        ("run:7", "filter.value", 0),
        ('task:""', "filter.value", 5),
        ('task:"\u202e"', "filter.value", 5),
        ("task:" + "x" * 301, "filter.value", 5),
        ("task:a  task:b", "filter.twice", 8),
        ("due>=1d since:2d", "filter.twice", 8),
        ("x" * (MOST_TEXT + 1), "filter.size", 0),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(text, code, position):
    with pytest.raises(FilterError) as caught:
        parse(text, WORDS, now=NOW)

    assert (caught.value.code, caught.value.position) == (code, position)


@given(st.text(max_size=200))
@example('task:"\\')
@example("task:\\")
def test_any_text_is_read_or_refused_in_its_place(text):
    outcome = read(text)

    if isinstance(outcome, FilterError):
        assert 0 <= outcome.position <= len(text)
    else:
        assert parse(outcome.canonical, WORDS, now=NOW) == outcome


VALUES = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=30) | st.sampled_from(
    ['"', "\\", '\\"', "a b", " ", ":", ">="]
)


@given(st.dictionaries(st.sampled_from(["task", "schedule"]), VALUES))
def test_what_is_spelt_is_read_back(values):
    quoted = {name: value.replace("\\", "\\\\").replace('"', '\\"') for name, value in values.items()}
    found = parse(" ".join(f'{name}:"{value}"' for name, value in quoted.items()), WORDS, now=NOW)

    assert {term.name: term.value for term in found.terms} == values
    assert parse(found.canonical, WORDS, now=NOW) == found


ROW = {"state": "dead", "task": ["billing", "report"], "schedule": None, "run": RUN, "due": NOW}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("state:dead task:report", True),
        ("task:rep", False),
        ("state:waiting task:report", False),
        ("schedule:None", False),
        (f"run:{RUN.upper()}", True),
        ("due>=2026-11-30T12:00Z", True),
        ("due<2026-11-30T12:00Z", False),
        ("due<2026-11-30T12:00:00.000001Z", True),
        ("due>=2026-11-30T12:00+01:00 until:1s", False),
    ],
)
def test_a_row_fits_when_every_term_holds(text, expected):
    assert fits(parse(text, WORDS, now=NOW), ROW) is expected


def test_a_list_says_which_terms_it_takes():
    assert describe(WORDS) == (
        "Terms that all have to hold, of `state:`, `task:`, `schedule:`, `run:`, `due>=`, `due<`, `since:`, `until:`."
    )
