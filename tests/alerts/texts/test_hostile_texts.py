"""Whatever a message holds, each channel gets something that is safe to send as it is."""

import json
from dataclasses import replace

import pytest
from hypothesis import example, given, settings

from everwhen.alerts.texts import render, sample, thin
from everwhen.alerts.texts.cleaning import MOST_LINK, line, lines, link
from everwhen.alerts.texts.facts import facts_of
from tests.alerts.texts.hostile import LINKS, TRICKS, messages, worst_digest
from tests.alerts.texts.reading import Mail

MOST_MAIL = 100_000


def every_text(value):
    """Each string in a JSON value."""
    match value:
        case str():
            yield value
        case dict():
            for each in value.values():
                yield from every_text(each)
        case list():
            for each in value:
                yield from every_text(each)


def is_plain(value):
    match value:
        case dict():
            return all(type(name) is str and is_plain(each) for name, each in value.items())
        case list():
            return all(map(is_plain, value))
        case _:
            return type(value) in {str, int}


@given(messages)
@example(worst_digest())
@settings(max_examples=30)
def test_every_part_is_safe_to_send(message):
    rendered = render(message)

    assert rendered.subject.isprintable()
    assert 0 < len(rendered.subject) <= 200
    assert all(row.isprintable() for row in rendered.text.split("\n"))
    check_mail(rendered.html)
    check_blocks(rendered.blocks)
    check_payload(rendered.payload)
    check_payload(thin(rendered.payload))


def check_mail(html):
    mail = Mail(html)
    assert mail.wrong == []
    assert all(link(address) for address in mail.links)
    assert all(character.isprintable() or character in "\n\u00a0\u034f" for character in "".join(mail.text))
    assert len(html.encode()) < MOST_MAIL


def check_blocks(blocks):
    json.loads(json.dumps(blocks, allow_nan=False).encode())
    assert len(blocks) <= 50
    for block in blocks:
        for text in every_text(block):
            assert len(text) <= (150 if block["type"] == "header" else 3000)
            assert all(row.isprintable() for row in text.split("\n"))
        marked = [block["text"]] if block["type"] == "section" else block.get("elements", [])
        for each in marked:
            if each["type"] == "mrkdwn":
                assert each["verbatim"] is True
                assert "<!" not in each["text"]
                assert "<@" not in each["text"]


def check_payload(payload):
    text = json.dumps(payload, allow_nan=False, ensure_ascii=False)
    text.encode("utf-8")
    assert json.loads(text) == payload
    assert not any("\0" in each for each in every_text(payload))


@given(messages)
@settings(max_examples=20)
def test_a_template_sees_plain_values_only(message):
    assert is_plain(facts_of(message))


@pytest.mark.parametrize("trick", TRICKS)
def test_data_is_never_a_template_nor_a_mark(trick):
    message = sample("run.dead")
    occasion = replace(message.shown[0], subject=trick, error=trick, sentence=trick, remedy=trick)

    rendered = render(replace(message, shown=(occasion,), tenant=trick, channel=trick))

    assert "\n" not in rendered.subject
    assert "49" not in rendered.text.replace("0193a6d1-2f40-8c21-9a4e-3c5b7d9e1f20", "").replace("0:34:12", "")
    check_mail(rendered.html)
    check_blocks(rendered.blocks)


def test_a_header_cannot_be_slipped_in():
    message = sample("run.dead")
    occasion = replace(message.shown[0], subject="a\r\nBcc: all@example.com")

    assert render(replace(message, shown=(occasion,))).subject.startswith(r"a\r\nBcc: all@example.com: dead")


def test_a_megabyte_of_an_error_is_cut_before_anything_is_made_of_it():
    message = sample("run.dead")
    occasion = replace(message.shown[0], error="E\n" * 500_000)

    rendered = render(replace(message, shown=(occasion,)))

    assert len(rendered.text) < 30_000
    assert len(rendered.html) < 30_000
    assert len(json.dumps(rendered.payload)) < 15_000


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        (" padded ", "padded"),
        ("a\r\nb", r"a\r\nb"),
        ("tab\there", r"tab\there"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("zero\u200bwidth", r"zero\u200bwidth"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("nul\0", r"nul\x00"),
        ("\ud800", r"\ud800"),
        ("no\u00a0break", "no break"),
        ("\U000e0041", r"\U000e0041"),
        ("\u3164", r"\u3164"),
        ("naïve ✓ 東京 🙂", "naïve ✓ 東京 🙂"),
        ("e" + "\u0301" * 6, "e" + "\u0301" * 4 + r"\u0301\u0301"),
        ("x" * 60, "x" * 49 + "…"),
    ],
)
def test_what_nobody_sees_is_shown(text, shown):
    assert line(text, most=50) == shown


def test_lines_are_kept_where_a_text_may_have_them():
    assert lines("one\r\n\ttwo\u2028three\x07\n\n", most=100) == "one\n    two\nthree\\x07"


@pytest.mark.parametrize("address", LINKS)
def test_a_link_leads_to_a_page_or_is_dropped(address):
    assert link(address) == (address if address in LINKS[:2] else "")


def test_a_link_that_is_too_long_is_dropped():
    assert link("https://everwhen.example/" + "a" * MOST_LINK) == ""
