"""Names in a broker: no two lines ever share one, and none is more than a word."""

import re
from uuid import UUID

from hypothesis import example, given
from hypothesis import strategies as st

from everwhen.dispatch.brokers.naming import consumer, queue_word, subject

TENANT = UUID(int=7)
names = st.text(min_size=1, max_size=200)
WORD = re.compile(r"[nxh]-[a-z0-9_-]{1,120}")


@given(names, names)
@example("a.b", "612e62")
@example("x-61", "a")
@example("A", "a")
@example("é", "é")
def test_two_names_are_two_words(one, other):
    assert (queue_word(one) == queue_word(other)) == (one == other)


@given(names)
@example("*")
@example(">")
@example("everwhen.*.>")
@example("\ud800")
def test_a_name_is_one_word_without_grammar(name):
    assert WORD.fullmatch(queue_word(name))
    assert subject("E", TENANT, name).count(".") == 2
    assert "." not in consumer(TENANT, name)
    assert len(subject("everwhen" * 4, TENANT, name).encode()) < 255  # RabbitMQ's limit


def test_plain_names_can_be_read():
    assert subject("EVERWHEN", TENANT, "mail-eu_1") == f"EVERWHEN.{TENANT.hex}.n-mail-eu_1"
