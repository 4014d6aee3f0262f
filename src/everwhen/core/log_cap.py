"""How much of what an attempt prints is kept: the beginning, up to a number of bytes, and a line that says so.

Two numbers bound it: the most of one attempt, and what all logs of the tenant may take together. A log always has room
for the line that says why it ends, so the tenant's number can be exceeded by that line, once an attempt.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MOST_PIECES: Final = 20_000
"""However small they are: each piece is a row and an object."""


class Cut(StrEnum):
    """By what a log ends."""

    ATTEMPT = "attempt"
    TENANT = "tenant"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What all logs of a tenant take, and may take."""

    used: int
    most: int


def fitted(data: bytes, *, size: int, pieces: int, most: int, shared: Shared | None = None) -> tuple[bytes, Cut | None]:
    """Return what is kept of a piece behind `size` bytes in `pieces`, and by what the log ends with it, if it does.

    Never empty: a log that ends says why it does.
    """
    room = most - size
    left = room if shared is None else shared.most - shared.used
    if shared is not None and left < min(room, len(data)):
        return data[: max(0, left)] + notice_of_tenant(shared.most), Cut.TENANT
    if len(data) <= room and pieces + 1 < MOST_PIECES:
        return data, None
    return data[: max(0, room)] + notice(most), Cut.ATTEMPT


def notice(most: int) -> bytes:
    """Return the line at the end of a log that was cut off."""
    kept = f"of an attempt at most {most:,} bytes in {MOST_PIECES:,} pieces are kept"
    return f"\n--- everwhen: the log ends here; {kept} ---\n".encode()


def notice_of_tenant(most: int) -> bytes:
    """Return the line at the end of a log for which the tenant had no room left."""
    kept = f"all logs of the tenant together take the {most:,} bytes that they may [quota.log_bytes]"
    return f"\n--- everwhen: the log ends here; {kept} ---\n".encode()
