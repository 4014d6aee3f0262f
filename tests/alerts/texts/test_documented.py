"""The pages about templates and payloads say what there is."""

import json
import re
from pathlib import Path

import pytest

import everwhen
from everwhen.alerts.texts import Part, check_override, render, sample, thin
from everwhen.alerts.texts.dialects import dialect_of
from everwhen.alerts.texts.filters import FILTERS
from everwhen.alerts.texts.markup import ELEMENTS
from everwhen.alerts.texts.shapes import ListOf

DOCS = Path(everwhen.__file__).parents[2] / "docs" / "reference"
TEMPLATES = (DOCS / "alert-templates.md").read_text("utf-8")
PAYLOAD = (DOCS / "alert-payload.md").read_text("utf-8")
STYLED = {"pill", "ink", "style"}


def table(heading):
    """The names in the first column of the table with this heading."""
    rows = TEMPLATES.partition(f"| {heading} |")[2].partition("\n\n")[0].splitlines()[2:]
    return {name for row in rows for name in re.findall(r"`([a-z_.]+)", row.split("|")[1])}


def test_every_value_is_told():
    single = dialect_of(Part.HTML, digest=False).shape
    digest = dialect_of(Part.HTML, digest=True).shape
    counts = digest["counts"]
    occasion = single["occasion"]
    style = single["style"]
    assert isinstance(counts, ListOf)
    assert isinstance(counts.item, dict)
    assert isinstance(occasion, dict)
    assert isinstance(style, dict)

    assert table("everywhere") == (set(single) | set(digest)) - STYLED
    assert set(single) - set(digest) == {"occasion"}
    assert table("of an occasion") == set(occasion) - STYLED
    assert table("of a count") == set(counts.item) - STYLED
    assert table("value") == {f"style.{name}" for name in style} | {"pill", "ink"}


def test_every_filter_and_element_is_told():
    assert table("filter") == set(FILTERS)
    told = set(re.findall(r"`([a-z0-9]+)`", TEMPLATES.partition("in quotes: ")[2].partition(" A link")[0]))
    assert told | {"h2", "h3"} == ELEMENTS


@pytest.mark.parametrize("source", re.findall(r"```jinja\n(.*?)```", TEMPLATES, re.DOTALL))
def test_an_example_can_be_used(source):
    check_override("run.dead", Part.HTML if "<p" in source else Part.TEXT, source)


def test_the_payloads_are_as_they_are_told():
    full, little = (json.loads(text) for text in re.findall(r"```json\n(.*?)```", PAYLOAD, re.DOTALL))
    made = render(sample("run.dead")).payload

    assert shape(full) == shape(made)
    assert little == thin(made)


def shape(value):
    """The names in there, in order."""
    match value:
        case dict():
            return {name: shape(each) for name, each in value.items()}
        case list():
            return [shape(each) for each in value]
        case _:
            return None
