"""The hunt for secrets finds what is there, however it is written."""

import base64
import urllib.parse

import pytest

from tests.hunting import found

SECRET = "canary+7f3c/äö?&=\x7e"


@pytest.mark.parametrize(
    "text",
    [
        SECRET,
        f"\\x{SECRET.encode().hex()}",
        SECRET.encode().hex().upper(),
        urllib.parse.quote(SECRET, safe=""),
        *(base64.b64encode(b"\0user\0"[:cut] + SECRET.encode() + b"!").decode() for cut in range(7)),
        *(base64.urlsafe_b64encode(b"\0user\0"[:cut] + SECRET.encode()).decode() for cut in range(3)),
    ],
)
def test_a_secret_is_found_in_every_form(text):
    assert found(f"before {text} after", ["another-secret", SECRET]) == [SECRET]


def test_what_is_not_there_is_not_found():
    assert found("canary+7f3d " + base64.b64encode(b"canary+7f3d").decode(), [SECRET]) == []
