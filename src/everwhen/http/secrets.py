"""Secrets that we make and keep only the hash of: service tokens and sessions.

A service token is `ew_`, 43 characters that carry 256 random bits, and 6 that check them. The fixed beginning and
length let a scanner find one that was published by mistake; the check lets it, and us, drop what only looks like one
without asking the database. A hash without salt is enough: nobody guesses 256 bits.
"""

import hashlib
import re
import secrets
import zlib
from typing import Final

PREFIX: Final = "ew_"
PATTERN: Final = r"ew_[0-9A-Za-z]{49}"

_ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_BITS: Final = 256
_LENGTH: Final = 43
_CHECK_LENGTH: Final = 6
_WHOLE: Final = re.compile(PATTERN)


def new_service_secret() -> str:
    """Draw the secret of a service token."""
    drawn = _digits(secrets.randbits(_BITS), _LENGTH)
    return f"{PREFIX}{drawn}{_check(drawn)}"


def is_service_secret(text: str) -> bool:
    """Tell whether this can be a service token at all."""
    if not _WHOLE.fullmatch(text):
        return False
    drawn = text[len(PREFIX) : -_CHECK_LENGTH]
    return text.endswith(_check(drawn))


def hash_of(secret: str) -> bytes:
    """Return what is stored in a secret's place."""
    return hashlib.sha256(secret.encode()).digest()


def _check(drawn: str) -> str:
    return _digits(zlib.crc32(drawn.encode()), _CHECK_LENGTH)


def _digits(number: int, length: int) -> str:
    digits: list[str] = []
    for _ in range(length):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))
