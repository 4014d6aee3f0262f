"""Fingerprints: alike errors are one group, different ones are not, and no text makes it slow or makes it fail."""

import re
import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from everwhen.core import fingerprints
from everwhen.core.fingerprints import MOST_SENTENCE, likeness, likeness_without_error, normalised

TRACE = """Traceback (most recent call last):
  File "/srv/app/releases/{release}/everwhen/worker/execution.py", line {line}, in _call
    value = attempt.task.function(**attempt.arguments)
  File "/srv/app/releases/{release}/billing/close.py", line {line}, in close_month
    post(entry)
  File "/srv/app/releases/{release}/billing/{file}", line {line}, in {function}
    raise ConnectionError(host)
ConnectionError: gone
"""
words = st.lists(st.text(string.ascii_letters, min_size=3, max_size=9), min_size=1, max_size=8)
uuids = st.uuids().map(str)
hexes = st.integers(1 << 40, (1 << 64) - 1).map(lambda n: f"0x{n:x}")
numbers = st.one_of(st.integers(0, 10**12).map(str), st.floats(0.001, 10**6, allow_nan=False).map(lambda x: f"{x:.3f}"))
instants = st.datetimes().map(lambda at: at.isoformat(sep="T", timespec="seconds") + "Z")
paths = st.lists(st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=8), min_size=1, max_size=5).map(
    lambda parts: "/" + "/".join(parts)
)
quoted = st.text(string.ascii_letters + string.digits + " .-", max_size=30).map(lambda text: f"'{text}'")
KINDS = {"uuid": uuids, "id": hexes, "number": numbers, "time": instants, "path": paths, "text": quoted}


def test_the_fingerprint_of_an_error_stays_what_it_is():
    """Stored ones are compared with new ones: whoever changes what is counted raises VERSION, and this line."""
    found = likeness(kind="ConnectionError", message="could not reach 10.0.0.7:5432 after 3 tries", traceback=None)

    assert found.fingerprint == "1-232b07360ded5833"
    assert found.sentence == "ConnectionError: could not reach <number> after <number> tries"


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), before=words, after=words)
def test_what_varies_does_not_count(kind, data, before, after):
    one, other = data.draw(KINDS[kind]), data.draw(KINDS[kind])
    message = " ".join([*before, "{}", *after])

    assert likeness(kind="E", message=message.format(one)) == likeness(kind="E", message=message.format(other))
    assert f"<{kind}>" in normalised(message.format(one))


@given(one=words, other=words)
def test_words_that_differ_make_another_group(one, other):
    same = " ".join(one) == " ".join(other)
    found = [likeness(kind="E", message=" ".join(each)).fingerprint for each in (one, other)]

    assert (found[0] == found[1]) == same


def test_the_class_counts_and_so_do_the_functions_of_the_last_frames():
    def of(kind="ConnectionError", *, release="41", line=7, file="post.py", function="post"):
        trace = TRACE.format(release=release, line=line, file=file, function=function)
        return likeness(kind=kind, message="gone", traceback=trace).fingerprint

    assert of() == of(release="42", line=99)
    assert len({of(), of("OSError"), of(file="send.py"), of(function="send")}) == 4


def test_frames_of_the_worker_itself_do_not_count():
    own = '  File "/x/everwhen/worker/execution.py", line 1, in anything\n'
    task = '  File "/x/app.py", line 1, in run\n'

    assert likeness(kind="E", message="", traceback=own + task) == likeness(kind="E", message="", traceback=task)


def test_frames_of_other_languages_count_from_the_top():
    top = "Error: gone\n" + "".join(f"    at app.f{n} (/srv/a.js:{n}:7)\n" for n in "abcdefgh")

    deeper = likeness(kind="Error", message="gone", traceback=top + "    at app.main (/srv/b.js:1:1)\n")

    assert likeness(kind="Error", message="gone", traceback=top).fingerprint == deeper.fingerprint
    assert likeness(kind="Error", message="gone", traceback=top.replace("app.fa", "app.g")) != deeper


texts = st.text(st.characters(codec=None), max_size=400) | st.text("'\"`/\\.:0f1a -_<>\n~+eTZ", max_size=400)


@given(kind=texts, message=texts, traceback=st.none() | texts)
@example(kind="", message="\ud800", traceback="\0")
@example(kind=" ", message="'it's' '", traceback="")
def test_every_text_has_a_fingerprint_and_a_sentence_on_one_line(kind, message, traceback):
    found = likeness(kind=kind, message=message, traceback=traceback)

    assert re.fullmatch(r"1-[0-9a-f]{16}", found.fingerprint)
    assert 1 <= len(found.sentence) <= MOST_SENTENCE
    assert not re.search(r"[\n\r\t]", found.sentence)


@given(message=texts)
@example(message="0\\=")
def test_no_number_is_left_in_a_normalised_message(message):
    assert not re.search(r"\d", normalised(message), re.ASCII)


@given(parts=st.lists(st.sampled_from([f"<{kind}>" for kind in KINDS]) | st.text(string.ascii_letters, min_size=1)))
def test_a_placeholder_among_words_stays_as_it_is(parts):
    assert normalised(" ".join(parts)) == " ".join(parts)


@pytest.mark.parametrize(
    "unit",
    ["'", "' ", '"', "1", "1.", "12:", "0x", "f0", "a", "/", "../", "~/", "1234-", " \n", "at ", "\n at x", "Jan "],
)
def test_no_text_is_looked_at_beyond_its_cut(unit, monkeypatch):
    """The patterns see cut texts only: a megabyte costs what its beginning costs."""
    seen: list[int] = []

    class Counting:
        def __init__(self, pattern):
            self.pattern = pattern

        def sub(self, by, text):
            seen.append(len(text))
            return self.pattern.sub(by, text)

        def finditer(self, text):
            seen.append(len(text))
            return self.pattern.finditer(text)

    rules = tuple((placeholder, Counting(pattern)) for placeholder, pattern in fingerprints._RULES)
    monkeypatch.setattr(fingerprints, "_RULES", rules)
    for name in ("_PYTHON_FRAME", "_OTHER_FRAME", "_SPACE"):
        monkeypatch.setattr(fingerprints, name, Counting(getattr(fingerprints, name)))
    megabyte = unit * (1_000_000 // len(unit))

    likeness(kind=megabyte, message=megabyte, traceback=megabyte)

    # A placeholder is longer than what it stands for, never by more than the seven characters around it.
    assert max(seen) <= max(8 * fingerprints.MOST_MESSAGE, fingerprints.MOST_TRACEBACK)


def test_attempts_without_an_error_are_grouped_by_how_they_ended():
    lost, timed_out = likeness_without_error("lost"), likeness_without_error("timed_out")

    assert (lost.sentence, timed_out.sentence) == ("attempt lost", "attempt timed out")
    assert lost.fingerprint != timed_out.fingerprint
