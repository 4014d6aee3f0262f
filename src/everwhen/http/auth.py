"""Who a request is from: HS256 tokens, made and checked here.

A token is checked in a fixed order, each step on its own: its form (three canonical base64url parts), its header (only
the fields we know, so that no key can be smuggled in or named), its signature, its claims. PyJWT computes the
signature, with the algorithm pinned; the claims are checked here, because a library's defaults accept a token without
an expiry, one that is valid for a thousand years, and numbers written as text.

Whatever is wrong, the answer is the same, so that a forger learns nothing from it. A token that passed is remembered
for REMEMBER, which also bounds how long a token could outlive its revocation.
"""

import base64
import binascii
import re
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast
from uuid import UUID

import jwt

from everwhen import clock
from everwhen.errors import InvalidInput, Unauthenticated
from everwhen.http import strict_json
from everwhen.http.roles import Role

ISSUER: Final = "everwhen"
AUDIENCE: Final = "everwhen"
ALGORITHM: Final = "HS256"
LEEWAY: Final = timedelta(seconds=30)
MOST_LIFETIME: Final = timedelta(hours=24)
REMEMBER: Final = timedelta(seconds=5)
MOST_REMEMBERED: Final = 4_096
MOST_TOKEN_BYTES: Final = 8_192
LEAST_SECRET_BYTES: Final = 32

_PART: Final = re.compile(r"[A-Za-z0-9_-]+")
_SUBJECT: Final = re.compile(r"[\x21-\x7e]{1,200}")
_QUEUE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_HEADER: Final = {"alg": ALGORITHM, "typ": "JWT"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who a request is from. Without a tenant it is the platform's; `queues` None means every queue of the tenant."""

    subject: str
    tenant_id: UUID | None
    roles: frozenset[Role]
    queues: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class _Remembered:
    principal: Principal
    until: datetime


class Authenticator:
    """Checks tokens against one secret."""

    def __init__(self, secret: str, *, most_lifetime: timedelta = MOST_LIFETIME) -> None:
        """Raise ValueError for a secret that could be guessed."""
        self._key = secret.encode()
        if len(self._key) < LEAST_SECRET_BYTES:
            raise ValueError(f"the key of tokens needs at least {LEAST_SECRET_BYTES} bytes")
        self._most_lifetime = most_lifetime
        self._jws = jwt.PyJWS(algorithms=[ALGORITHM])
        self._remembered: OrderedDict[str, _Remembered] = OrderedDict()

    def authenticate(self, authorization: str | None, *, now: datetime) -> Principal:
        """Return who the value of an Authorization header stands for; raise Unauthenticated, always the same."""
        token = _bearer(authorization)
        known = self._remembered.get(token)
        if known is not None and now < known.until:
            return known.principal
        try:
            claims = self._verified(token)
            principal, expires_at = _principal(claims, now=now, most_lifetime=self._most_lifetime)
        except (_Bad, InvalidInput, jwt.InvalidTokenError, binascii.Error, ValueError):
            raise Unauthenticated from None
        self._remember(token, _Remembered(principal, min(now + REMEMBER, expires_at)))
        return principal

    def _verified(self, token: str) -> dict[str, Any]:
        parts = token.split(".")
        if len(token) > MOST_TOKEN_BYTES or len(parts) != 3:
            raise _Bad
        header, payload, _ = (_canonical(part) for part in parts)
        if strict_json.loads(header) != _HEADER:
            raise _Bad
        self._jws.decode_complete(token, self._key, [ALGORITHM])  # pyright: ignore[reportUnknownMemberType]
        claims = strict_json.loads(payload)
        if not isinstance(claims, dict):
            raise _Bad
        return cast("dict[str, Any]", claims)

    def _remember(self, token: str, entry: _Remembered) -> None:
        self._remembered[token] = entry
        self._remembered.move_to_end(token)
        if len(self._remembered) > MOST_REMEMBERED:
            self._remembered.popitem(last=False)


def mint_token(  # noqa: PLR0913  # a token's claims
    secret: str,
    *,
    subject: str,
    roles: Iterable[Role],
    tenant_id: UUID | None = None,
    queues: Iterable[str] | None = None,
    now: datetime,
    lifetime: timedelta = MOST_LIFETIME,
) -> str:
    """Make a token that `Authenticator` accepts for `lifetime`."""
    claims: dict[str, Any] = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": subject,
        "iat": int(now.timestamp()),
        "exp": int((now + lifetime).timestamp()),
        "jti": clock.new_id(now).hex,
        "roles": sorted(roles),
    }
    if tenant_id is not None:
        claims["tid"] = str(tenant_id)
    if queues is not None:
        claims["queues"] = sorted(queues)
    return jwt.encode(claims, secret.encode(), ALGORITHM)  # pyright: ignore[reportUnknownMemberType]


class _Bad(Exception):  # noqa: N818  # never leaves this module
    """The token does not hold; which step failed is nobody's business."""


def _bearer(authorization: str | None) -> str:
    scheme, _, token = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise Unauthenticated
    return token


def _canonical(part: str) -> bytes:
    """Decode base64url without padding; refuse a second spelling of the same bytes."""
    if not _PART.fullmatch(part):
        raise _Bad
    raw = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    if base64.urlsafe_b64encode(raw).rstrip(b"=").decode() != part:
        raise _Bad
    return raw


def _principal(claims: dict[str, Any], *, now: datetime, most_lifetime: timedelta) -> tuple[Principal, datetime]:
    issued_at, expires_at = _instant(claims.get("iat")), _instant(claims.get("exp"))
    not_before = _instant(claims["nbf"]) if "nbf" in claims else issued_at
    _insist(claims.get("iss") == ISSUER and claims.get("aud") == AUDIENCE)
    _insist(now < expires_at + LEEWAY and max(issued_at, not_before) <= now + LEEWAY)
    _insist(timedelta(0) < expires_at - issued_at <= most_lifetime)
    subject, token_id = claims.get("sub"), claims.get("jti")
    _insist(isinstance(subject, str) and _SUBJECT.fullmatch(subject))
    _insist(isinstance(token_id, str) and _SUBJECT.fullmatch(token_id))
    principal = Principal(
        subject=cast("str", subject),
        tenant_id=_tenant_id(claims.get("tid")) if "tid" in claims else None,
        roles=_roles(claims.get("roles")),
        queues=_queues(claims.get("queues")) if "queues" in claims else None,
    )
    return principal, expires_at + LEEWAY


def _insist(condition: object) -> None:
    if not condition:
        raise _Bad


def _instant(value: object) -> datetime:
    if type(value) is not int:  # neither a float, nor a text, nor a bool
        raise _Bad
    if not 0 <= value < 1 << 34:
        raise _Bad
    return datetime.fromtimestamp(value, UTC)


def _tenant_id(value: object) -> UUID:
    if not isinstance(value, str) or str(UUID(value)) != value:
        raise _Bad
    return UUID(value)


def _roles(value: object) -> frozenset[Role]:
    return frozenset(Role(name) for name in _texts(value))


def _queues(value: object) -> frozenset[str]:
    names = _texts(value)
    _insist(all(_QUEUE.fullmatch(name) for name in names))
    return frozenset(names)


def _texts(value: object) -> list[str]:
    if not isinstance(value, list) or not value:
        raise _Bad
    items = cast("list[object]", value)
    if not all(isinstance(item, str) for item in items):
        raise _Bad
    return cast("list[str]", items)
