"""The picture: well formed, its steps told apart by everybody, its numbers there to be read."""

from datetime import UTC, datetime
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest

from everwhen.core.forecast import Forecast
from everwhen.schedules.forecast_svg import DARK, LIGHT, herd_of, render, steps_of, summary

START = datetime(2026, 11, 30, 9, 17, tzinfo=UTC)
SVG = "{http://www.w3.org/2000/svg}"


def forecast(counts) -> Forecast:
    return Forecast(start=START, counts=counts, schedules=3, cut=())


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, two: str) -> float:
    low, high = sorted((luminance(one), luminance(two)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(("steps", "background"), [(LIGHT, "#FFFFFF"), (DARK, "#0F1319")])
def test_each_step_stands_out_more_by_lightness_alone(steps, background):
    """Lightness is what every kind of colour vision, and a black-and-white printer, sees alike."""
    against = [contrast(colour, background) for colour in steps]

    assert against == sorted(against)
    assert all(contrast(one, two) >= 1.25 for one, two in pairwise(steps))
    assert against[0] >= 1.15
    assert against[-1] >= 10


@pytest.mark.parametrize("peak", [0, 1, 2, 5, 7, 60, 1000, 10**6])
def test_steps_grow_and_begin_at_one(peak):
    steps = steps_of(peak)

    assert steps[0] == 1
    assert all(one < two for one, two in pairwise(steps))
    assert steps[-1] <= max(1, peak)


@pytest.mark.parametrize("counts", [[0] * 60, [1] * 43, [5, *[0] * 1439], [n % 60 for n in range(180)]])
def test_the_picture_is_a_document_with_a_title_a_sentence_and_a_table(counts):
    root = ET.fromstring(render(forecast(counts), title="<acme> & co"))
    rows = [group for group in root.iter(f"{SVG}g") if group.get("role") == "row"]
    totals = [int(row.findall(f"{SVG}text")[1].text.replace(",", "")) for row in rows]

    assert root.find(f"{SVG}title").text == "<acme> & co"
    assert root.find(f"{SVG}desc").text == summary(forecast(counts))
    assert sum(totals) == sum(counts)
    assert len(rows) == -(-(17 + len(counts)) // 60)


def test_the_cells_are_one_for_each_minute():
    root = ET.fromstring(render(forecast([n % 7 for n in range(300)]), title="x"))

    assert sum(path.get("d").count("M") for path in root.iter(f"{SVG}path")) == 300


def test_the_herd_is_named_in_words():
    herd = herd_of(forecast([9 if (17 + n) % 60 == 0 else 0 for n in range(240)]))

    assert (herd.minute, herd.due, herd.share) == (0, 36, 1.0)
    assert herd.sentence == "100% of all runs become due at :00 of an hour, 60.0 times an even share."
    assert herd_of(forecast([0] * 60)) is None
