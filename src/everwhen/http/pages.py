"""Pages of lists: an opaque cursor names the last key that was seen, so no page costs more than the first.

A cursor goes out sealed (`seal`): a keyed digest binds it to the path, which names tenant and list, and to the filter
that was in force. One that was cut, changed, made up, or taken from another tenant, list or filter is refused rather
than misread. Every route unseals the one it gets before anything reads it (`unseal`), so a list deals with plain keys.
"""

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Final, Generic, TypeVar
from urllib.parse import parse_qsl, urlencode
from uuid import UUID

from fastapi import Query, Request
from pydantic import BaseModel, Field

from everwhen.core.filters import MOST_TEXT, Vocabulary, describe
from everwhen.errors import InvalidInput
from everwhen.http.plane import plane_of
from everwhen.lists import Listed

MOST_ITEMS: Final = 200
DEFAULT_ITEMS: Final = 50
MOST_CURSOR: Final = 512

MOST_DIGITS: Final = 18  # fits into 64 bits, and a revision's 32 are compared as such
CURSOR: Final = "cursor"
_CHECK_BYTES: Final = 6
_SEAL_BYTES: Final = 12

Item = TypeVar("Item")
Row = TypeVar("Row")
Limit = Annotated[int, Query(ge=1, le=MOST_ITEMS, description="The most items to return.")]
Cursor = Annotated[str | None, Query(max_length=MOST_CURSOR, description="From a previous page's `next`; opaque.")]


class Page(BaseModel, Generic[Item]):
    """One page. `next` is the path of the following one, null on the last; with a filter a page may be a short one."""

    items: list[Item]
    next: str | None
    filter: str | None = Field(
        default=None, description="The filter that was in force, with what it had left open; null: none."
    )


def filter_query(vocabulary: Vocabulary) -> Any:
    """Return the declaration of a list's filter: the query's parameter, and which terms there are."""
    return Query(alias="filter", max_length=MOST_TEXT, description=describe(vocabulary))


def page_of(request: Request, listed: Listed[Row], *, of: str, out: Callable[[Row], Item]) -> Page[Item]:
    """Return a page as the wire has it; the one that follows means the same, whenever it is asked for."""
    meant = listed.asked.canonical or None
    following = None
    if listed.following is not None:
        following = _path_after(request, listed.following, of=of, filter=meant)
    return Page(items=[out(row) for row in listed.rows], next=following, filter=meant)


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


def read_place(cursor: str | None, *, of: str, default: int) -> int:
    """Return the number that a cursor names, which may be below 0."""
    key = read_cursor(cursor, of=of)
    if key is None:
        return default
    digits = key.removeprefix("-")
    if not digits.isascii() or not digits.isdecimal() or len(digits) > MOST_DIGITS:
        raise _bad_cursor()
    return int(key)


def read_id(cursor: str | None, *, of: str, default: UUID) -> UUID:
    """Return the id that a cursor names."""
    key = read_cursor(cursor, of=of)
    try:
        return default if key is None else UUID(key)
    except ValueError:
        raise _bad_cursor() from None


def unseal(request: Request, *, key: bytes) -> None:
    """Put the plain cursor in place of the sealed one in the request's query; raise InvalidInput when it is none."""
    given = parse_qsl(request.scope["query_string"].decode("ascii", "replace"), keep_blank_values=True)
    cursors = [value for name, value in given if name == CURSOR]
    if not cursors:
        return
    cursor = cursors[0]
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise _bad_cursor() from None
    inner = base64.urlsafe_b64encode(raw[_SEAL_BYTES:]).rstrip(b"=").decode()
    rest = [(name, value) for name, value in given if name != CURSOR]
    if len(cursors) > 1 or not hmac.compare_digest(seal(inner, request.url.path, rest, key=key), cursor):
        raise _bad_cursor()
    request.scope["query_string"] = urlencode([*rest, (CURSOR, inner)]).encode()


def seal(inner: str, path: str, parameters: Iterable[tuple[str, str]], *, key: bytes) -> str:
    """Return the cursor as it goes out. How many items a page has is the caller's to change on the way."""
    said = sorted((name, value) for name, value in parameters if name not in {CURSOR, "limit"})
    raw = base64.urlsafe_b64decode(inner + "=" * (-len(inner) % 4))
    text = json.dumps([path, said]).encode() + b"\0" + raw
    digest = hashlib.blake2b(text, digest_size=_SEAL_BYTES, key=key, person=b"everwhen cursor").digest()
    return base64.urlsafe_b64encode(digest + raw).rstrip(b"=").decode()


def make_cursor(key: str, *, of: str) -> str:
    """Return the cursor that stands after this key of the list `of`."""
    return base64.urlsafe_b64encode(_checksum(of, key) + key.encode()).rstrip(b"=").decode()


def next_page(  # what a page is made of
    request: Request, found: Sequence[Row], *, limit: int, of: str, key: Callable[[Row], str], **meant: str | None
) -> str | None:
    """Return the path of the page after this one; `found` holds one more than `limit` when there is such a page.

    `meant` are parameters as they were understood: the next page must mean the same, whenever it is asked for.
    """
    return None if len(found) <= limit else _path_after(request, key(found[limit - 1]), of=of, **meant)


def _path_after(request: Request, key: str, *, of: str, **meant: str | None) -> str:
    told = {name: value for name, value in meant.items() if value is not None}
    parameters = dict(request.query_params) | told
    parameters.pop(CURSOR, None)
    inner, path = make_cursor(key, of=of), request.url.path
    cursor = seal(inner, path, parameters.items(), key=plane_of(request).cursor_key)
    return f"{path}?{urlencode(parameters | {CURSOR: cursor})}"


def _checksum(of: str, key: str) -> bytes:
    return hashlib.blake2s(f"{of}\0{key}".encode(), digest_size=_CHECK_BYTES).digest()


def _bad_cursor() -> InvalidInput:
    return InvalidInput.at(
        "query:cursor", "This is not a cursor of this list and filter: follow `next` as it is.", code="page.cursor"
    )
