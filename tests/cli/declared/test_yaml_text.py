"""YAML by the rules of 1.2: what a text means, what is refused with its line, and that what is written reads back."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from everwhen.cli.declared.faults import Unreadable
from everwhen.cli.declared.yaml_text import MOST_DEEP, MOST_VALUES, read, write


def one(text):
    (found,) = read(text)
    return found.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on: 09:30", {"on": "09:30"}),
        ("[yes, no, off, y, N]", ["yes", "no", "off", "y", "N"]),
        ("[true, False, TRUE]", [True, False, True]),
        ("2026-12-24", "2026-12-24"),
        ("2026-12-24T10:00:00Z", "2026-12-24T10:00:00Z"),
        ("[1, -1, +2, 007, 0x1f, 0o17]", [1, -1, 2, 7, 31, 15]),
        ("[1.5, .5, 1e3, -2.]", [1.5, 0.5, 1000.0, -2.0]),
        ("- ~\n- null\n-\n- ''", [None, None, None, ""]),
        ("1_000", "1_000"),
        ("['1', \"true\", !!str 2]", ["1", "true", "2"]),
        ("0 4 * * *", "0 4 * * *"),
        ("1: a\nnull: b\n~: c", {"1": "a", "null": "b", "~": "c"}),
        ("a: |\n  x\n  y\n", {"a": "x\ny\n"}),
    ],
)
def test_a_text_means_what_stands_there(text, value):
    assert one(text) == value


def test_documents_know_the_lines_of_their_values():
    first, second = read("# nothing\n---\na:\n  - b: 1\n  - c/d: {~e: 2}\n---\nx: 1\n")

    assert (first.line, second.line) == (3, 7)
    assert first.lines == {"": 3, "/a": 4, "/a/0": 4, "/a/0/b": 4, "/a/1": 5, "/a/1/c~1d": 5, "/a/1/c~1d/~0e": 5}


@pytest.mark.parametrize("text", ["", "# only words\n", "---\n---\n"])
def test_what_is_empty_is_no_document(text):
    assert list(read(text)) == []


BOMB = "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]\n"


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (BOMB, 2, "alias"),
        ("a: &a\n  <<: *a\n", 2, "merge key"),
        ("a: {<<: {b: 1}}", 1, "merge key"),
        ("a: 1\nb: 2\na: 3\n", 3, "'a' is given twice"),
        ("x:\n  a: !!python/object/apply:os.system [ls]", 2, "tag"),
        ("!!set {a, b}", 1, "tag"),
        ("? [a]\n: b\n", 1, "a key is a text"),
        ("a: .nan", 1, "no number"),
        ("a: 1e999", 1, "too large"),
        ("a: 9999999999999999999", 1, "too long"),
        ("- " * (MOST_DEEP + 1) + "a", 1, f"more than {MOST_DEEP} levels"),
        ("[" * 100_000, 1, ""),
        ("a: [\n\n", 3, ""),
        ("a: b: c", 1, ""),
        ("a: 1\nb: \x00", 2, "character"),
    ],
)
def test_what_is_hostile_or_broken_is_refused_with_its_line(text, line, said):
    with pytest.raises(Unreadable) as caught:
        list(read(text))

    assert caught.value.line == line
    assert said in caught.value.message


def test_values_are_counted_over_all_documents():
    with pytest.raises(Unreadable, match="values"):
        list(read("---\n[" + "1," * (MOST_VALUES // 2) + "]\n---\n[" + "1," * (MOST_VALUES // 2) + "]"))


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"))
TREACHEROUS = st.sampled_from(
    ["on", "no", "09:30", "1e3", "0o17", "0x1f", "2026-12-24", "~", "", "=", "<<", "null", ".nan", "-.inf", "+1", "1_0",
     "- a", "#", "a: b", " a", "a ", "\ta", "'", '"', "&a", "*a", "!a", "|", ">", "%", "@", "`", "---", "...", "? a"]
)  # fmt: skip
KEYS = TREACHEROUS.filter(lambda key: key != "<<") | TEXTS
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**16), 10**16) | st.floats(allow_nan=False, allow_infinity=False)
    | TREACHEROUS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(VALUES.filter(lambda value: value is not None))
@example({"on": ["09:30", 1e16, "a\n\n b\n", "\n", "a \n"]})
@example(["\x85", "\u2028", "\ufeff", "\U0001f600", "\x1b"])
def test_what_is_written_reads_back_the_same(value):
    assert one(write(value)) == value
