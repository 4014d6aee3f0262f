"""What a broker carries: that a run's attempt waits at a queue. No input, no secret, nothing to act on by itself.

Whoever reads one asks the server for the run's lease, and only the answer counts. So a message that anybody has forged,
doubled, delayed or held back changes nothing but when somebody asks.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec

MOST_BYTES: Final = 2_048
"""Longer than any notice; what is longer is none, and is not parsed."""


class Notice(msgspec.Struct, kw_only=True, frozen=True):
    """That this attempt of this run waits. `told_at` is when this was decided: each time it is told anew is another."""

    tenant_id: UUID
    queue: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    run_id: UUID
    attempt: Annotated[int, msgspec.Meta(ge=1, le=100_000)]
    told_at: datetime

    @property
    def message_id(self) -> str:
        """By which a broker knows it again: run, attempt, and which telling of it.

        A publish that is repeated because its answer was lost carries the same one. What is told again because nobody
        has come carries another, or the broker would take the second telling for the first and drop it.
        """
        return f"{self.run_id.hex}.{self.attempt}.{int(self.told_at.timestamp() * 1_000_000):x}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A message as it came. `notice` None: it is none that can be read. `handle` is the broker's own."""

    notice: Notice | None
    handle: Any


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Notice)


def write_notice(notice: Notice) -> bytes:
    """Return the message."""
    return _encoder.encode(notice)


def read_notice(message: bytes) -> Notice | None:
    """Return what a message says; None for whatever is no notice."""
    if len(message) > MOST_BYTES:
        return None
    try:
        return _decoder.decode(message)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
