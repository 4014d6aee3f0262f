"""Pages of lists: an opaque cursor names the last key that was seen, so no page costs more than the first.

A cursor is bound to its list by a checksum: one that was cut, changed or taken from another list is refused rather than
misread. It is no secret and protects nothing: what it could name, the caller may read.
"""

import base64
import binascii
import hashlib
from collections.abc import Callable, Sequence
from typing import Annotated, Final, Generic, TypeVar
from urllib.parse import urlencode
from uuid import UUID

from fastapi import Query, Request
from pydantic import BaseModel

from everwhen.errors import InvalidInput

MOST_ITEMS: Final = 200
DEFAULT_ITEMS: Final = 50
MOST_CURSOR: Final = 512

MOST_DIGITS: Final = 18  # fits into 64 bits, and a revision's 32 are compared as such
_CHECK_BYTES: Final = 6

Item = TypeVar("Item")
Row = TypeVar("Row")
Limit = Annotated[int, Query(ge=1, le=MOST_ITEMS, description="The most items to return.")]
Cursor = Annotated[str | None, Query(max_length=MOST_CURSOR, description="From a previous page's `next`; opaque.")]


class Page(BaseModel, Generic[Item]):
    """One page. `next` is the path of the following one, null on the last."""

    items: list[Item]
    next: str | None


def read_cursor(cursor: str | None, *, of: str) -> str | None:
    """Return the key that a cursor of the list `of` names; raise InvalidInput when it is not one of its cursors."""
    if cursor is None:
        return None
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        check, key = raw[:_CHECK_BYTES], raw[_CHECK_BYTES:].decode()
    except (binascii.Error, ValueError):
        raise _bad_cursor() from None
    if check != _checksum(of, key) or not key.isprintable() or make_cursor(key, of=of) != cursor:
        raise _bad_cursor()
    return key


def read_number(cursor: str | None, *, of: str) -> int:
    """Return the number that a cursor names, 0 without one."""
    key = read_cursor(cursor, of=of) or "0"
    if not key.isascii() or not key.isdecimal() or len(key) > MOST_DIGITS:
        raise _bad_cursor()
    return int(key)


def read_id(cursor: str | None, *, of: str, default: UUID) -> UUID:
    """Return the id that a cursor names."""
    key = read_cursor(cursor, of=of)
    try:
        return default if key is None else UUID(key)
    except ValueError:
        raise _bad_cursor() from None


def make_cursor(key: str, *, of: str) -> str:
    """Return the cursor that stands after this key of the list `of`."""
    return base64.urlsafe_b64encode(_checksum(of, key) + key.encode()).rstrip(b"=").decode()


def next_page(  # what a page is made of
    request: Request, found: Sequence[Row], *, limit: int, of: str, key: Callable[[Row], str], **meant: str | None
) -> str | None:
    """Return the path of the page after this one; `found` holds one more than `limit` when there is such a page.

    `meant` are parameters as they were understood: the next page must mean the same, whenever it is asked for.
    """
    if len(found) <= limit:
        return None
    told = {name: value for name, value in meant.items() if value is not None}
    parameters = dict(request.query_params) | told | {"cursor": make_cursor(key(found[limit - 1]), of=of)}
    return f"{request.url.path}?{urlencode(parameters)}"


def _checksum(of: str, key: str) -> bytes:
    return hashlib.blake2s(f"{of}\0{key}".encode(), digest_size=_CHECK_BYTES).digest()


def _bad_cursor() -> InvalidInput:
    return InvalidInput.at("query:cursor", "This is not a cursor of this list.", code="page.cursor")
