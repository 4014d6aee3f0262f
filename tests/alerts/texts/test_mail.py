"""The mail itself: readable in light and dark, by word and not by colour alone, and with nothing to be loaded."""

import itertools
import re
from dataclasses import replace

import pytest

from everwhen.alerts.texts import render, sample
from everwhen.alerts.texts.styles import DARK, LIGHT, TONES, colours, sheet
from tests.alerts.texts.hostile import worst_digest
from tests.alerts.texts.reading import Mail
from tests.colours import contrast

ENOUGH = 4.5


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_every_text_stands_out(palette):
    found = colours(palette)
    pairs = [*itertools.product(("text", "muted", "link", *TONES), ("page", "card", "well"))]
    pairs += [(tone, f"pale_{tone}") for tone in TONES] + [("on_button", "button")]

    assert {pair: contrast(found[pair[0]], found[pair[1]]) for pair in pairs if not stands_out(found, *pair)} == {}


def stands_out(found, text, ground):
    return contrast(found[text], found[ground]) >= ENOUGH


def test_a_pale_text_is_found_out():
    assert not stands_out({"text": "#9AA3AF", "ground": "#FFFFFF"}, "text", "ground")


def test_every_class_that_a_mail_uses_has_its_dark_colours():
    html = render(sample("run.dead")).html + render(sample("digest")).html
    used = {name for names in re.findall(r'class="([^"]*)"', html) for name in names.split()}
    layout = {"ew-edge", "ew-pad", "ew-stack", "ew-stack-label", "ew-bar"}

    assert {name for name in used - layout if f".{name}{{" not in sheet()} == set()
    assert layout - {"ew-bar"} <= used


@pytest.mark.parametrize("kind", ["run.dead", "digest", "run.recovered", "channel.test"])
def test_nothing_is_loaded_from_anywhere(kind):
    html = render(sample(kind)).html

    assert not re.search(r"url\(|@import|<img|<link|<script|src=|background=", html)
    assert Mail(html).wrong == []


def test_it_says_that_it_knows_light_and_dark():
    html = render(sample("run.dead")).html

    assert '<meta name="color-scheme" content="light dark">' in html
    assert "@media (prefers-color-scheme:dark)" in html


def test_the_state_is_told_by_sign_and_word():
    text = "".join(Mail(render(sample("run.dead")).html).text)

    assert "✕ dead" in text
    assert "What to do" in text


def test_the_preheader_says_why():
    text = "".join(Mail(render(sample("run.dead")).html).text)

    assert text.strip().startswith("Every attempt that the retry policy allows has failed. Mend what")


def test_whoever_gets_it_can_stop_it():
    mail = Mail(render(sample("run.dead")).html)

    assert mail.links[-1] == "https://everwhen.example/unsubscribe/4f1d"
    assert mail.links[0].startswith("https://everwhen.example/t/acme/runs/")


def test_without_a_link_there_is_no_button():
    message = sample("run.dead")
    occasion = replace(message.shown[0], link="javascript:alert(1)")

    mail = Mail(render(replace(message, shown=(occasion,), unsubscribe_link=None)).html)

    assert mail.links == []


def test_a_full_digest_is_not_cut_by_its_reader():
    assert len(render(sample("digest")).html.encode()) < 40_000
    html = render(worst_digest()).html
    assert len(html.encode()) < 100_000
    assert "… and 999,992 more" in html
