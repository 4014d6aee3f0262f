"""`everwhen logs`: what programs print steers no terminal, and following goes on where a connection broke."""

import contextlib

import pytest

from everwhen.cli import logs as module
from everwhen.cli.client import CallFailed
from everwhen.cli.logs import Printer, printable

LINK = "\x1b]8;;https://evil.test\x07click\x1b]8;;\x07"
CASES = [
    ("plain ü 漢\n\tand more\n", "plain ü 漢\n\tand more\n"),
    ("\x1b[31mred\x1b[0m", "red"),
    ("\x1b[2J\x1b[H\x1b[?1049hhidden", "hidden"),
    ("\x1b]0;title\x07text", "text"),
    ("\x1b]52;c;ZXZpbA==\x1b\\text", "text"),
    (LINK, "click"),
    ("\x1bPq#0\x1b\\sixel", "sixel"),
    ("\x1bcreset", "reset"),
    ("\x1b(0lqk", "lqk"),
    ("\x9b31mc1\x9d0;t\x9ctext", "c1text"),
    ("bell\x07 back\x08 null\x00", "bell\ufffd back\ufffd null\ufffd"),
    ("10%\r20%\r\ndone", "10%\n20%\ndone"),
    ("user\u202egnp.exe", "user\ufffdgnp.exe"),
    ("\x1b", "\ufffd"),
]


@pytest.mark.parametrize(("text", "shown"), CASES)
def test_nothing_that_steers_a_terminal_is_left(text, shown):
    assert printable(text) == shown


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_cut_anywhere_it_is_shown_the_same(size):
    for text, shown in CASES:
        out = []
        printer = Printer(out.append)
        data = text.encode()
        for start in range(0, len(data), size):
            printer(data[start : start + size])
        printer(b"")

        assert "".join(out) == shown, text


def test_bytes_that_are_no_text_and_sequences_without_an_end_hold_nothing_up():
    out = []
    printer = Printer(out.append)
    printer(b"\xff\xfe ok\n")
    printer(b"\x1b]0;" + b"x" * 5_000)
    printer(b"")

    assert "".join(out).startswith("\ufffd\ufffd ok\n")
    assert "\x1b" not in "".join(out)


class Answer:
    is_success = True

    def __init__(self, offset, data, *, is_open, breaks=False):
        self.headers = {"log-attempt": "3", "log-offset": str(offset), "log-open": "true" if is_open else "false"}
        self._data, self._breaks = data, breaks

    def iter_raw(self):
        yield self._data
        if self._breaks:
            raise CallFailed({"detail": "gone"}, exit_code=5)


class Api:
    """Answers in this order; keeps what was asked."""

    def __init__(self, *answers):
        self._answers, self.asked = list(answers), []

    def tenant_path(self, *parts):
        return "/".join(parts)

    @contextlib.contextmanager
    def stream(self, method, path, *, query):
        self.asked.append((path, dict(query)))
        yield self._answers.pop(0)


def test_following_asks_again_from_where_it_is_until_the_attempt_has_ended(monkeypatch):
    monkeypatch.setattr(module, "RECONNECT_SECONDS", 0.0)
    monkeypatch.setattr(module, "UNAVAILABLE", 5)
    api = Api(
        Answer(10, b"one\n", is_open=True, breaks=True),
        Answer(14, b"two\n", is_open=True),
        Answer(18, b"", is_open=False),
    )

    chunks = list(module._chunks(api, "run", None, follow=True, tail=4))

    assert b"".join(chunks) == b"one\ntwo\n"
    assert api.asked == [
        ("runs/run/attempts/latest/logs", {"tail": "4", "follow": "true"}),
        ("runs/run/attempts/3/logs", {"offset": "14", "follow": "true"}),
        ("runs/run/attempts/3/logs", {"offset": "18", "follow": "true"}),
    ]


def test_without_following_one_answer_is_all(shell):
    api = Api(Answer(0, b"so far\n", is_open=True))

    assert list(module._chunks(api, "run", 3, follow=False, tail=None)) == [b"so far\n"]
    result = shell("logs", "01a22915-06ff-70da-a75e-79f816daceb5", exit_code=3)
    assert "run.unknown" in result.stderr
