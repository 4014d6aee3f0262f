"""A corpus of bodies: what is plain is read, what is not is refused by its code."""

import json

import pytest

from everwhen.errors import InvalidInput
from everwhen.http.strict_json import MOST_DEPTH, MOST_INTEGER, MOST_KEYS, loads

PLAIN = [
    (b"{}", {}),
    (b"null", None),
    (b" [1, 2.5, -3, true, null] ", [1, 2.5, -3, True, None]),
    ('{"a": "é\u2028😀"}'.encode(), {"a": "é\u2028😀"}),
    (b'{"a": "\\ud83d\\ude00"}', {"a": "😀"}),
    (b'{"a": {"a": 1}}', {"a": {"a": 1}}),
    (str(MOST_INTEGER).encode(), MOST_INTEGER),
    (str(-MOST_INTEGER).encode(), -MOST_INTEGER),
    (b"1e300", 1e300),
    (b"[" * MOST_DEPTH + b"]" * MOST_DEPTH, None),
    (json.dumps({str(n): n for n in range(MOST_KEYS)}).encode(), None),
]
HOSTILE = [
    (b'{"a": 1, "a": 2}', "json.duplicate_key"),
    (b'{"a": {"b": 1, "b": 1}}', "json.duplicate_key"),
    (b'{"a": 1, "\\u0061": 2}', "json.duplicate_key"),
    (b"NaN", "json.number"),
    (b"[Infinity]", "json.number"),
    (b"[-Infinity]", "json.number"),
    (b"1e400", "json.number"),
    (b"-1e400", "json.number"),
    (str(MOST_INTEGER + 1).encode(), "json.number"),
    (b"1" * 1_000_000, "json.number"),
    (b"[" * (MOST_DEPTH + 1) + b"]" * (MOST_DEPTH + 1), "json.depth"),
    (b"[" * 200_000, "json.depth"),
    (b'{"a":' * 200_000, "json.depth"),
    (b'"\\u0000"', "json.character"),
    (b'{"\\u0000": 1}', "json.character"),
    (b'"\\ud800"', "json.character"),
    (b'"\\udc00\\ud800"', "json.character"),
    (b'{"a": ["\\ud83d"]}', "json.character"),
    (b'"\xff"', "json.encoding"),
    (b'"\xed\xa0\x80"', "json.encoding"),
    (b'"\xc0\xaf"', "json.encoding"),
    ("{}".encode("utf-16"), "json.encoding"),
    (b"\xef\xbb\xbf{}", "json.syntax"),
    (b"", "json.syntax"),
    (b"   ", "json.syntax"),
    (b"{", "json.syntax"),
    (b"{} {}", "json.syntax"),
    (b"{}x", "json.syntax"),
    (b"{'a': 1}", "json.syntax"),
    (b"{a: 1}", "json.syntax"),
    (b'{"a": 1,}', "json.syntax"),
    (b"[1,]", "json.syntax"),
    (b"01", "json.syntax"),
    (b"+1", "json.syntax"),
    (b".5", "json.syntax"),
    (b"1.", "json.syntax"),
    (b"0x10", "json.syntax"),
    (b'"\t"', "json.syntax"),
    (b'"\\x41"', "json.syntax"),
    (b"// a\n{}", "json.syntax"),
    (b"undefined", "json.syntax"),
    (b"True", "json.syntax"),
    (json.dumps({str(n): n for n in range(MOST_KEYS + 1)}).encode(), "json.keys"),
]


@pytest.mark.parametrize(("raw", "value"), PLAIN)
def test_plain_json_is_read(raw, value):
    read = loads(raw)

    assert value is None or read == value


@pytest.mark.parametrize(("raw", "code"), HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_json_is_refused_by_its_code(raw, code):
    with pytest.raises(InvalidInput) as refused:
        loads(raw)

    assert refused.value.code == code


def test_a_refusal_does_not_repeat_what_was_sent():
    with pytest.raises(InvalidInput) as refused:
        loads(b'{"password-hunter2": }')

    assert "hunter2" not in refused.value.detail
