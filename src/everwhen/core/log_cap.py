"""How much of what an attempt prints is kept: the beginning, up to a number of bytes, and a line that says so."""

from typing import Final

MOST_PIECES: Final = 20_000
"""However small they are: each piece is a row and an object."""


def fitted(data: bytes, *, size: int, pieces: int, most: int) -> tuple[bytes, bool]:
    """Return what is kept of a piece behind `size` bytes in `pieces`, and whether the log ends with it.

    Never empty: a log that ends says why it does.
    """
    room = most - size
    if len(data) <= room and pieces + 1 < MOST_PIECES:
        return data, False
    kept = data[: max(0, room)]
    return kept + notice(most), True


def notice(most: int) -> bytes:
    """Return the line at the end of a log that was cut off."""
    kept = f"of an attempt at most {most:,} bytes in {MOST_PIECES:,} pieces are kept"
    return f"\n--- everwhen: the log ends here; {kept} ---\n".encode()
