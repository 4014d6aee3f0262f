"""Who a request is from: every kind of credential, checked in a fixed order.

* a token of our own, signed with HS256 and the installation's secret: the embedded server's, and the operators'
* a token of a configured issuer, signed with the one algorithm of its keys (`http/keys.py`)
* a service token, `ew_…`, looked up by its hash
* a session of the console, by its cookie (`http/sessions.py` says what has to come with it)

A signed token is checked step by step: its form, its header, its signature, its claims (`http/jwt_form.py`). Which
issuer's it is says its claim `iss`, of the configured ones; a header is never asked where a key is.

Whatever is wrong, the answer is the same, so that a forger learns nothing from it. What passed is remembered for
REMEMBER, so a hot path costs two looks into memory: is it remembered, and has it been revoked meanwhile.
"""

import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, Protocol
from uuid import UUID

import jwt
import psycopg

from everwhen import clock
from everwhen.errors import Unauthenticated, Unavailable
from everwhen.http.issuers import IssuerSettings
from everwhen.http.jwt_form import (
    MOST_TOKEN_BYTES,
    BadToken,
    Form,
    Rules,
    insist,
    insist_on_header,
    read_claims,
    take_apart,
    texts,
    visible_text,
)
from everwhen.http.keys import KeyCache
from everwhen.http.principal import Membership, Principal
from everwhen.http.revocations import News, RevocationList
from everwhen.http.roles import Role
from everwhen.http.secrets import PREFIX, hash_of, is_service_secret

ISSUER: Final = "everwhen"
AUDIENCE: Final = "everwhen"
ALGORITHM: Final = "HS256"
LEEWAY: Final = timedelta(seconds=30)
MOST_LIFETIME: Final = timedelta(hours=24)
REMEMBER: Final = timedelta(seconds=4)
MOST_REMEMBERED: Final = 4_096
LEAST_SECRET_BYTES: Final = 32

_QUEUE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_HEADER: Final = {"alg": ALGORITHM, "typ": "JWT"}


class Directory(Protocol):
    """What the database knows of credentials and people."""

    async def find_service_token(self, secret_hash: bytes) -> Principal | None:
        """Return who a live service token stands for."""
        ...

    async def find_dead_token(self, secret_hash: bytes) -> Principal | None:
        """Return who a service token stood for that has expired or was revoked."""
        ...

    async def find_session(self, secret_hash: bytes) -> Principal | None:
        """Return who a live session is of."""
        ...

    async def find_memberships(self, subject: str) -> Mapping[str, Membership]:
        """Return where this person is a member, by the tenants' names."""
        ...

    async def read_revocations(self, since: datetime | None) -> News:
        """Return what was revoked since then."""
        ...


@dataclass(frozen=True, slots=True)
class _Remembered:
    principal: Principal
    until: datetime


class Authenticator:
    """Checks credentials. Without a directory it knows signed tokens only, and nobody's are revoked."""

    def __init__(
        self,
        secret: str,
        *,
        most_lifetime: timedelta = MOST_LIFETIME,
        issuers: Sequence[IssuerSettings] = (),
        directory: Directory | None = None,
        revocations: RevocationList | None = None,
    ) -> None:
        """Raise ValueError for a secret that could be guessed."""
        self._key = secret.encode()
        if len(self._key) < LEAST_SECRET_BYTES:
            raise ValueError(f"the key of tokens needs at least {LEAST_SECRET_BYTES} bytes")
        self._rules = Rules(issuer=ISSUER, audience=AUDIENCE, most_lifetime=most_lifetime, leeway=LEEWAY)
        self._issuers = {each.issuer: (each, KeyCache(each)) for each in issuers if each.issuer != ISSUER}
        self._directory = directory
        self._revocations = revocations
        if directory is not None and revocations is None:
            self._revocations = RevocationList(directory.read_revocations)
        self._jws = jwt.PyJWS(algorithms=[ALGORITHM, "RS256", "ES256", "EdDSA"])
        self._remembered: OrderedDict[str, _Remembered] = OrderedDict()

    async def authenticate(self, authorization: str | None, *, now: datetime) -> Principal:
        """Return who the value of an Authorization header stands for.

        Raises Unauthenticated, always the same, and Unavailable while that cannot be known.
        """
        return await self._known(_bearer(authorization), now=now)

    async def authenticate_session(self, secret: str, *, now: datetime) -> Principal:
        """Return who a session's cookie stands for; raise as above."""
        return await self._known(f"session {secret}", now=now)

    def has_met(self, authorization: str | None, session: str | None) -> bool:
        """Say whether a credential was good here lately; it may not be any more."""
        credential = (authorization or "").partition(" ")[2] if session is None else f"session {session}"
        return credential in self._remembered

    def forget_session(self, secret: str) -> None:
        """Remember a session no longer: it was ended here."""
        self._remembered.pop(f"session {secret}", None)

    async def _known(self, credential: str, *, now: datetime) -> Principal:
        try:
            found = self._remembered.get(credential)
            if found is None or now >= found.until:
                found = await self._checked(credential, now=now)
            if self._revocations is not None:
                await self._revocations.keep_fresh()
                _refuse(found.principal, when=self._revocations.forbids(found.principal))
        except (BadToken, jwt.PyJWTError, ValueError) as error:
            self._remembered.pop(credential, None)
            raise Unauthenticated(known_as=getattr(error, "known_as", None)) from None
        except (psycopg.OperationalError, TimeoutError, OSError) as error:
            raise Unavailable("The database is away; try again.", code="database.unavailable") from error
        return found.principal

    async def _checked(self, credential: str, *, now: datetime) -> _Remembered:
        if credential.startswith(PREFIX):
            principal, until = await self._service(credential), now + REMEMBER
        elif credential.startswith("session "):
            principal, until = await self._session(credential.removeprefix("session ")), now + REMEMBER
        else:
            principal, until = await self._signed(take_apart(credential), now=now)
        found = _Remembered(principal, min(now + REMEMBER, until))
        self._remembered[credential] = found
        self._remembered.move_to_end(credential)
        if len(self._remembered) > MOST_REMEMBERED:
            self._remembered.popitem(last=False)
        return found

    async def _service(self, secret: str) -> Principal:
        if self._directory is None or not is_service_secret(secret):
            raise BadToken
        found = await self._directory.find_service_token(hash_of(secret))
        if found is None:
            raise BadToken(await self._directory.find_dead_token(hash_of(secret)))
        return found

    async def _session(self, secret: str) -> Principal:
        if self._directory is None:
            raise BadToken
        return _insisted(await self._directory.find_session(hash_of(secret)))

    async def _signed(self, form: Form, *, now: datetime) -> tuple[Principal, datetime]:
        name = form.claims.get("iss")
        if name == ISSUER:
            return self._own(form, now=now)
        issuer, keys = self._issuers.get(name, (None, None)) if isinstance(name, str) else (None, None)
        if issuer is None or keys is None:
            raise BadToken
        kid = insist_on_header(form.header, algorithm=issuer.algorithm, types=issuer.types)
        key = await keys.find(kid)
        if key is None:
            raise BadToken
        self._jws.decode_complete(form.token, key, [issuer.algorithm])  # pyright: ignore[reportUnknownMemberType]
        claims = read_claims(form.claims, issuer.rules, now=now)
        person = Principal(
            subject=f"{issuer.name}:{claims.subject}",
            tenant_id=None,
            roles=frozenset(),
            token_id=f"{issuer.name}:{claims.token_id}",
            issued_at=claims.issued_at,
            expires_at=claims.expires_at,
        )
        return await self._with_rights(person, issuer, form.claims), claims.until

    async def _with_rights(self, person: Principal, issuer: IssuerSettings, claims: Mapping[str, Any]) -> Principal:
        tenant = None if issuer.tenant_claim is None else visible_text(claims.get(issuer.tenant_claim))
        if issuer.rights == "claims":
            named = texts(claims.get(issuer.roles_claim))
            roles = frozenset(issuer.role_map[name] for name in named if name in issuer.role_map)
            return replace(person, tenant_id=_tenant_id(tenant), roles=roles)
        if self._directory is None:
            raise BadToken
        found = await self._directory.find_memberships(person.subject)
        if tenant is not None:
            found = {name: each for name, each in found.items() if tenant in {name, str(each.tenant_id)}}
        return replace(person, memberships=found)

    def _own(self, form: Form, *, now: datetime) -> tuple[Principal, datetime]:
        insist(form.header == _HEADER)
        self._jws.decode_complete(form.token, self._key, [ALGORITHM])  # pyright: ignore[reportUnknownMemberType]
        insist(isinstance(form.claims.get("aud"), str))
        try:
            claims = read_claims(form.claims, self._rules, now=now)
        except BadToken:
            raise BadToken(_expired(form.claims)) from None
        queues = _queues(form.claims["queues"]) if "queues" in form.claims else None
        principal = Principal(
            subject=claims.subject,
            tenant_id=_tenant_id(form.claims["tid"]) if "tid" in form.claims else None,
            roles=frozenset(Role(name) for name in texts(form.claims.get("roles"))),
            queues=queues,
            token_id=claims.token_id,
            issued_at=claims.issued_at,
            expires_at=claims.expires_at,
        )
        return principal, claims.until


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


def _expired(claims: Mapping[str, Any]) -> Principal | None:
    """Return who a token of ours was for, whose signature holds and whose time does not."""
    try:
        return Principal(
            subject=visible_text(claims.get("sub")),
            tenant_id=_tenant_id(claims["tid"]) if "tid" in claims else None,
            roles=frozenset(),
            token_id=visible_text(claims.get("jti")),
        )
    except (BadToken, ValueError):
        return None


def _refuse(principal: Principal, *, when: bool) -> None:
    if when:
        raise BadToken(principal)


def _insisted(principal: Principal | None) -> Principal:
    if principal is None:
        raise BadToken
    return principal


def _bearer(authorization: str | None) -> str:
    scheme, _, token = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not 0 < len(token) <= MOST_TOKEN_BYTES:
        raise Unauthenticated
    return token


def _tenant_id(value: object) -> UUID:
    if not isinstance(value, str) or str(UUID(value)) != value:
        raise BadToken
    return UUID(value)


def _queues(value: object) -> frozenset[str]:
    names = texts(value)
    insist(all(_QUEUE.fullmatch(name) for name in names))
    return frozenset(names)
