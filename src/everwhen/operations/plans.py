"""Plan tokens: what a dry run saw, so that carrying it out can be held to it.

A token names when was looked, how many items there were, a digest of them in their order, and what was asked for. Who
carries out a plan sends it back: the same request is looked at again *as of the same instant*, and has to come to the
same items. What was added meanwhile is not touched; what has gone is noticed. It is no secret and protects nothing but
its sender from a surprise: what it could name, the caller may do.
"""

import base64
import binascii
import hashlib
import struct
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from everwhen.core.bulk import fold_keys

PREFIX: Final = "pln_"
VALID: Final = timedelta(minutes=10)
_FORM: Final = struct.Struct(">BQI12s12s")
_VERSION: Final = 1
_CHECK_BYTES: Final = 6
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """What was seen. `items` and `request` are digests of 12 bytes; `as_of` is a whole millisecond."""

    as_of: datetime
    count: int
    items: bytes
    request: bytes


def whole(instant: datetime) -> datetime:
    """Return the instant as a token can tell it."""
    return _EPOCH + (instant - _EPOCH) // _MILLISECOND * _MILLISECOND


def short_digest(digest: bytes) -> bytes:
    """Return as much of a digest of items as a token carries; of no items it is empty."""
    return digest[:12].ljust(12, b"\0")


def digest_of(*parts: str) -> bytes:
    """Return the digest of a request."""
    return short_digest(fold_keys(b"", (part.encode() for part in parts)))


def encode(token: Token) -> str:
    """Return the token as a text."""
    body = _FORM.pack(_VERSION, (token.as_of - _EPOCH) // _MILLISECOND, token.count, token.items, token.request)
    return PREFIX + base64.urlsafe_b64encode(body + _check(body)).decode()


def decode(text: str) -> Token | None:
    """Read what `encode` made; None for anything else."""
    try:
        raw = base64.b64decode(text.removeprefix(PREFIX), altchars=b"-_", validate=True)
        body, check = raw[:-_CHECK_BYTES], raw[-_CHECK_BYTES:]
        version, milliseconds, count, items, request = _FORM.unpack(body)
        token = Token(as_of=_EPOCH + milliseconds * _MILLISECOND, count=count, items=items, request=request)
    except (binascii.Error, ValueError, OverflowError, struct.error):
        return None
    return token if version == _VERSION and check == _check(body) and encode(token) == text else None


def _check(body: bytes) -> bytes:
    return hashlib.blake2s(body, digest_size=_CHECK_BYTES).digest()
