"""What every list does: reads its filter, and finds a page that costs no more than any other one.

A term of a filter is served by an index, or it is a check of one row. So that a rare value does not make a page walk
through all there is, a page looks at MOST_LOOKED_AT rows and then ends where it is: it may hold fewer rows than were
asked for, even none, and still have one that follows.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Generic, TypeVar
from uuid import UUID

from everwhen.core.filters import Filter, FilterError, Values, Vocabulary, fits, parse
from everwhen.errors import InvalidInput

FIRST_ID: Final = UUID(int=0)
LAST_ID: Final = UUID(int=(1 << 128) - 1)

MOST_LOOKED_AT: Final = 1_000
"""How many rows a page of a filtered list looks at."""

STEP: Final = 250
"""How many of them it reads at once."""

Row = TypeVar("Row")
Key = TypeVar("Key", str, int, UUID)

Read = Callable[[Key, int], Awaitable[Sequence[Row]]]
"""Reads so many rows after a key, in the list's order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed(Generic[Row]):
    """A page: its rows, the key after which the next one begins (None: there is none), and the filter in force."""

    rows: Sequence[Row]
    following: str | None
    asked: Filter = field(default_factory=Filter)


def read_filter(text: str, vocabulary: Vocabulary, *, now: datetime, pointer: str = "query:filter") -> Filter:
    """Read a filter; raise InvalidInput, which points at `pointer` and tells the place within the text."""
    try:
        return parse(text, vocabulary, now=now)
    except FilterError as error:
        raise unreadable(error, pointer) from error


def unreadable(error: FilterError, pointer: str) -> InvalidInput:
    """Return the answer to whoever sent a filter that cannot be read, or that nothing serves."""
    return InvalidInput.at(pointer, f"{error.message} (at character {error.position + 1})", code=error.code)


async def walk(  # what a page is made of
    read: Read[Key, Row],
    *,
    start: Key,
    key: Callable[[Row], Key],
    limit: int,
    asked: Filter | None = None,
    values: Callable[[Row], Values] | None = None,
) -> Listed[Row]:
    """Return up to `limit` rows after `start` that fit a filter; `values` says what a row is compared by.

    Where there is nothing to check one read is enough.
    """
    meant = asked or Filter()
    step = limit + 1 if values is None or not meant.terms else max(STEP, limit + 1)
    rows: list[Row] = []
    after, looked = start, 0
    while True:
        found = await read(after, step)
        for row in found:
            if values is not None and not fits(meant, values(row)):
                continue
            if len(rows) == limit:
                return Listed(rows=rows, following=str(key(rows[-1])), asked=meant)
            rows.append(row)
        looked += len(found)
        if len(found) < step:
            return Listed(rows=rows, following=None, asked=meant)
        after = key(found[-1])
        if looked >= MOST_LOOKED_AT:
            return Listed(rows=rows, following=str(after), asked=meant)
