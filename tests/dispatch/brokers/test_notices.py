"""What a message says, and what is none."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everwhen.worker.brokers.notices import MOST_BYTES, Notice, read_notice, write_notice

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
MAIL = Notice(tenant_id=UUID(int=1), queue="mail", run_id=UUID(int=2), attempt=3, told_at=NOW)


def test_it_is_read_as_it_was_written_and_is_short():
    written = write_notice(MAIL)
    assert read_notice(written) == MAIL
    longest = msgspec.structs.replace(MAIL, queue="\N{SNOWMAN}" * 200)
    assert read_notice(write_notice(longest)) == longest


def test_its_id_is_of_run_attempt_and_telling():
    changed = [
        msgspec.structs.replace(MAIL, run_id=UUID(int=9)),
        msgspec.structs.replace(MAIL, attempt=4),
        msgspec.structs.replace(MAIL, told_at=NOW + timedelta(microseconds=1)),
    ]
    assert len({each.message_id for each in (MAIL, *changed)}) == 4
    assert MAIL.message_id == msgspec.structs.replace(MAIL).message_id


@pytest.mark.parametrize(
    "change",
    [
        {"attempt": 0},
        {"attempt": -1},
        {"attempt": 2**40},
        {"attempt": "3"},
        {"queue": ""},
        {"queue": "a" * 201},
        {"run_id": "x"},
        {"told_at": "yesterday"},
    ],
)
def test_what_cannot_be_is_none(change):
    fields = msgspec.to_builtins(MAIL) | change
    assert read_notice(msgspec.json.encode(fields)) is None


@given(st.one_of(st.binary(max_size=300), st.just(b"[" * MOST_BYTES), st.just(b'"' + b"a" * MOST_BYTES + b'"')))
def test_no_bytes_stop_a_reader(message):
    assert read_notice(message) is None
