"""A token as a form and as claims: what every issuer's tokens have to be like, whatever their signature.

The form: three canonical base64url parts, a header and claims that are plain JSON. A second spelling of the same bytes,
a key given twice, or a field that would change how the token is read (`crit`, `b64`, `zip`, a nested token) is refused.
Nothing in a header is ever followed: `jku`, `x5u`, `jwk` and `x5c` are as if they were not there.

The claims are checked here and not by the library, whose defaults accept a token without an expiry, one that is valid
for a thousand years, and numbers written as text.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

from everwhen.errors import InvalidInput
from everwhen.http import strict_json

MOST_TOKEN_BYTES: Final = 8_192
MOST_AUDIENCES: Final = 20

_PART: Final = re.compile(r"[A-Za-z0-9_-]+")
_KID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_VISIBLE: Final = re.compile(r"[\x21-\x7e]{1,200}")
_CHANGES_THE_READING: Final = frozenset({"crit", "b64", "zip", "cty", "enc"})


class BadToken(Exception):  # noqa: N818  # never leaves the package
    """The token does not hold; which step failed is nobody's business.

    `known_as` is who it stood for while it did, where that is beyond doubt: for the audit.
    """

    def __init__(self, known_as: object = None) -> None:
        super().__init__()
        self.known_as = known_as


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A token taken apart; nothing of it is believed yet."""

    token: str
    header: Mapping[str, Any]
    claims: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the claims of one issuer's tokens have to say."""

    issuer: str
    audience: str
    most_lifetime: timedelta
    leeway: timedelta
    subject_claim: str = "sub"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What a token says of itself, checked. `until` is its expiry with the leeway."""

    subject: str
    token_id: str
    issued_at: datetime
    expires_at: datetime
    until: datetime


def take_apart(token: str) -> Form:
    """Read a token's form; raise BadToken."""
    parts = token.split(".")
    if len(token) > MOST_TOKEN_BYTES or len(parts) != 3:
        raise BadToken
    try:
        header, payload, _ = (_canonical(part) for part in parts)
        return Form(token=token, header=_object(header), claims=_object(payload))
    except (InvalidInput, binascii.Error, ValueError) as error:
        raise BadToken from error


def insist_on_header(header: Mapping[str, Any], *, algorithm: str, types: tuple[str, ...]) -> str:
    """Return the key's id that the header of a foreign issuer's token names; raise BadToken."""
    kid, kind = header.get("kid"), header.get("typ", "")
    insist(header.get("alg") == algorithm)
    insist(not _CHANGES_THE_READING & header.keys())
    insist(isinstance(kind, str) and kind.lower() in {each.lower() for each in types})
    insist(isinstance(kid, str) and _KID.fullmatch(kid))
    return cast("str", kid)


def read_claims(claims: Mapping[str, Any], rules: Rules, *, now: datetime) -> Claims:
    """Return the claims that every token has; raise BadToken."""
    issued_at, expires_at = _instant(claims.get("iat")), _instant(claims.get("exp"))
    not_before = _instant(claims["nbf"]) if "nbf" in claims else issued_at
    insist(claims.get("iss") == rules.issuer and _is_for(claims.get("aud"), rules.audience))
    insist(now < expires_at + rules.leeway and max(issued_at, not_before) <= now + rules.leeway)
    insist(timedelta(0) < expires_at - issued_at <= rules.most_lifetime)
    visible_text(claims.get("sub"))
    return Claims(
        subject=visible_text(claims.get(rules.subject_claim)),
        token_id=visible_text(claims.get("jti")),
        issued_at=issued_at,
        expires_at=expires_at,
        until=expires_at + rules.leeway,
    )


def insist(condition: object) -> None:
    """Raise BadToken unless it holds."""
    if not condition:
        raise BadToken


def visible_text(value: object) -> str:
    """Return a text of visible ASCII; raise BadToken for anything else, look-alikes included."""
    insist(isinstance(value, str) and _VISIBLE.fullmatch(value))
    return cast("str", value)


def texts(value: object) -> list[str]:
    """Return a list of texts that is not empty; raise BadToken."""
    if not isinstance(value, list) or not value:
        raise BadToken
    items = cast("list[object]", value)
    insist(all(isinstance(item, str) for item in items))
    return cast("list[str]", items)


def _is_for(audience: object, wanted: str) -> bool:
    if not isinstance(audience, list):
        return audience == wanted
    named = texts(cast("object", audience))
    return len(named) <= MOST_AUDIENCES and wanted in named


def _object(raw: bytes) -> dict[str, Any]:
    value = strict_json.loads(raw)
    if not isinstance(value, dict):
        raise BadToken
    return cast("dict[str, Any]", value)


def _canonical(part: str) -> bytes:
    """Decode base64url without padding; refuse a second spelling of the same bytes."""
    insist(_PART.fullmatch(part))
    raw = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    insist(base64.urlsafe_b64encode(raw).rstrip(b"=").decode() == part)
    return raw


def _instant(value: object) -> datetime:
    if type(value) is not int:  # neither a float, nor a text, nor a bool
        raise BadToken
    insist(0 <= value < 1 << 34)
    return datetime.fromtimestamp(value, UTC)
