"""The registry of reasons is whole, and says what it is asked with what it knows."""

import re
from pathlib import Path

import pytest

import everwhen
from everwhen.core.meanings import MEANINGS
from everwhen.core.reasons import Category, Reason, Severity
from everwhen.core.sentences import fields_of, sentence_of


def test_every_reason_has_a_meaning_and_every_meaning_a_reason():
    assert list(MEANINGS) == list(Reason)


def test_the_codes_are_in_order_and_of_one_form():
    assert list(Reason) == sorted(Reason)
    assert all(re.fullmatch(r"[a-z]+\.[a-z_]+", reason) for reason in Reason)
    assert all(reason.name == reason.value.replace(".", "_").upper() for reason in Reason)


TELLERS = {
    "reasons.py",
    "meanings.py",
    "meanings_of_fleets.py",
    "sentences.py",
    "tellings.py",
    "timeline.py",
    "remedies.py",
}
"""Who says what a reason means, and gives none."""


def test_every_reason_is_given_by_something():
    folder = Path(everwhen.__file__).parent
    sources = [path for path in folder.rglob("*") if path.suffix in {".py", ".sql"} and path.name not in TELLERS]
    text = "\n".join(path.read_text() for path in sources if "postgres" not in path.relative_to(folder).parts)
    given = {each for each in Reason if re.search(rf"Reason\.{each.name}\b|['\"]{re.escape(each.value)}['\"]", text)}
    assert set(Reason) - given == set()


@pytest.mark.parametrize("reason", Reason)
def test_what_it_says_is_a_sentence(reason):
    meaning = MEANINGS[reason]
    for text in filter(None, (meaning.sentence, meaning.telling, meaning.remedy)):
        assert re.fullmatch(r"[A-Z{].*\.", text), text
        assert "|" not in text, "it stands in a table"


@pytest.mark.parametrize("reason", [reason for reason in Reason if MEANINGS[reason].severity is Severity.ERROR])
def test_whatever_needs_a_person_says_what_to_do(reason):
    assert MEANINGS[reason].remedy


def test_every_category_has_a_reason():
    assert {meaning.category for meaning in MEANINGS.values()} == set(Category)


def test_the_telling_is_used_when_all_its_facts_are_known():
    facts = {"in_flight": 10, "limit": 10, "queue": "reports"}

    assert fields_of(MEANINGS[Reason.LIMIT_QUEUE].telling) == facts.keys()
    assert sentence_of("limit.queue", facts) == "10 of 10 runs allowed at queue reports were in flight."


def test_the_plain_sentence_stands_where_a_fact_is_missing():
    plain = "As many of the tenant's runs were in flight at the queue as its limit allows."

    assert sentence_of("limit.queue", {"in_flight": 10}) == plain
    assert sentence_of("limit.queue") == plain


def test_facts_are_never_read_as_formats():
    assert (
        sentence_of("queue.paused", {"queue": "{why}", "why": "{0.__class__}"})
        == "Queue {why} was paused{0.__class__}."
    )


def test_no_code_and_one_of_a_newer_release_have_no_sentence():
    assert sentence_of(None) is None
    assert sentence_of("moon.full") is None
