"""Payloads as a task gets them: whole and right, or not at all."""

import hashlib

import pytest

from everwhen.worker import CancelRequested, Context, PayloadBroken, PayloadUnknown
from everwhen.worker import payloads as module
from everwhen.worker.errors import RequestRefused, ServerAway
from everwhen.worker.payloads import digest_in, fetch_to

CONTENT = b"a program"
DIGEST = "sha256:" + hashlib.sha256(CONTENT).hexdigest()
REFERENCE = {"$payload": DIGEST}
RUN = Context.fake()._lease.run


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.0)


def never():
    """Nothing has ended."""


def test_a_payload_is_written_to_a_file(tmp_path):
    context = Context.fake(payloads={DIGEST: CONTENT})

    assert context.payload(REFERENCE, tmp_path / "program").read_bytes() == CONTENT
    assert [file.name for file in tmp_path.iterdir()] == ["program"]


def test_a_payload_is_opened_as_a_file():
    with Context.fake(payloads={DIGEST: CONTENT}).open_payload(DIGEST) as file:
        assert file.read() == CONTENT


@pytest.mark.parametrize("reference", [None, 5, {}, {"$payload": 5}, []])
def test_what_refers_to_nothing_is_named(reference):
    with pytest.raises(PayloadUnknown, match="refers to no payload"):
        digest_in(reference)


def test_one_that_is_not_there_leaves_no_file(tmp_path):
    with pytest.raises(PayloadUnknown):
        Context.fake().payload(REFERENCE, tmp_path / "program")
    assert list(tmp_path.iterdir()) == []


def test_what_breaks_off_or_is_broken_is_fetched_again(tmp_path):
    answers = [b"a prog", b"A program", CONTENT]

    def download(run, digest, write):
        answer = answers.pop(0)
        write(answer)
        if answer == b"a prog":
            raise ServerAway("gone")

    assert fetch_to(tmp_path / "program", REFERENCE, RUN, download, check=never).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("error", "seen"),
    [
        (ServerAway("gone"), ServerAway),
        (RequestRefused("no", status=404), PayloadUnknown),
        (None, PayloadBroken),
    ],
)
def test_what_never_comes_right_is_said_and_leaves_no_file(tmp_path, error, seen):
    def download(run, digest, write):
        write(b"something else")
        if error is not None:
            raise error

    with pytest.raises(seen):
        fetch_to(tmp_path / "program", REFERENCE, RUN, download, check=never)
    assert list(tmp_path.iterdir()) == []


def test_a_cancelled_attempt_stops_its_download(tmp_path):
    context = Context.fake(payloads={DIGEST: CONTENT}, cancel_requested=True)

    with pytest.raises(CancelRequested):
        context.payload(REFERENCE, tmp_path / "program")
    assert list(tmp_path.iterdir()) == []
