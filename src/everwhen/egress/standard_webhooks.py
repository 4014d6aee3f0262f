"""What every signed request of ours is made of: the keys, the headers that sign, and the headers a tenant may add.

The signature is that of Standard Webhooks 1.0 (https://www.standardwebhooks.com): HMAC-SHA256 over id, time and body,
one `v1,…` for each key that holds, the newest first, so that receivers can move from one secret to the next. The id
stays the same when the same thing is sent again; the time does not.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from everwhen.egress.client import HEADER_NAME, HEADER_VALUE

PREFIX: Final = "whsec_"
MOST_HEADERS: Final = 20
MOST_HEADER_CHARACTERS: Final = 1000
_OURS: Final = frozenset({
    "host", "content-length", "content-type", "content-encoding", "transfer-encoding", "connection", "keep-alive",
    "proxy-authorization", "proxy-authenticate", "proxy-connection", "te", "trailer", "upgrade", "expect", "user-agent",
    "accept-encoding", "cookie", "date", "via", "forwarded",
})  # fmt: skip
_OURS_BY_PREFIX: Final = ("webhook-", "x-forwarded-", "sec-", "proxy-", "everwhen-")


class WrongHeader(ValueError):  # noqa: N818  # a verdict, not an accident
    """A header that is not for a tenant to set; `name` says which, None: all of them together."""

    def __init__(self, why: str, *, name: str | None = None) -> None:
        super().__init__(why)
        self.name = name


def read_key(text: str) -> bytes | None:
    """Return the key of a signing secret, None when it is none: `whsec_`, then 24 to 64 bytes in base64."""
    try:
        key = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        return None
    return key if text.startswith(PREFIX) and 24 <= len(key) <= 64 else None


def signed(body: bytes, *, keys: Sequence[bytes], message_id: str, now: datetime) -> dict[str, str]:
    """Return the headers that sign this body by each key."""
    stamp = int(now.timestamp())
    content = f"{message_id}.{stamp}.".encode() + body
    signatures = [base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode() for key in keys]
    return {
        "content-type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": str(stamp),
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }


def check_headers(headers: Mapping[str, str]) -> None:
    """Raise WrongHeader for headers that are not a tenant's to set."""
    for name, value in headers.items():
        _check_header(name, value)
    if len({name.lower() for name in headers}) < len(headers):
        raise WrongHeader("a header stands there twice")


def fits(value: str) -> bool:
    """Say whether this can be the value of a header: one short line of printable ASCII."""
    return len(value) <= MOST_HEADER_CHARACTERS and HEADER_VALUE.fullmatch(value) is not None


def _check_header(name: str, value: str) -> None:
    lower = name.lower()
    if not HEADER_NAME.fullmatch(name) or not fits(value):
        raise WrongHeader("a header is a name and one line of printable ASCII", name=name)
    if lower == "authorization":
        raise WrongHeader("this header is a secret: give it as secrets.authorization", name=name)
    if lower in _OURS or lower.startswith(_OURS_BY_PREFIX):
        raise WrongHeader("this header is not yours to set", name=name)
