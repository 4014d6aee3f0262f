"""An issuer's public keys: fetched, remembered, and forgotten in time.

The states of a cache, by the age of the document that it holds (`keys_seconds`, `stale_seconds` of the issuer):

    none            nobody gets in (503): the first request fetches, the others wait for it
    fresh           keys are taken from it; from four fifths of keys_seconds on a fetch goes on beside the requests
    over age        a request waits for a new document first. So a key that its issuer has retired is refused at most
                    keys_seconds later, while the issuer answers
    out of reach    it is over age, and the fetch failed: the old keys hold on until stale_seconds, and a fetch is tried
                    again at most every RETRY_SECONDS. An issuer's short outage keeps nobody out
    stale           as none

A document replaces its predecessor as a whole. An unknown `kid` fetches once, in case the issuer has just begun to use
a new key, but at most every LOOK_AGAIN_SECONDS whoever asks, and for one `kid` not again for UNKNOWN_SECONDS: what an
attacker invents costs a look into two mappings. There is never more than one fetch at a time.

A fetch is a GET of a configured https URL (or of the one that discovery at the configured issuer names): no redirect,
no proxy from the environment, no compression, FETCH_SECONDS for all of it, MOST_BYTES of body. What comes back is as
untrusted as any request: keys of another algorithm, weak ones, private ones and those whose id is given twice are left
out.
"""

import asyncio
import re
import ssl
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, cast

import httpx2
import jwt
import structlog
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from everwhen.errors import InvalidInput, Unavailable
from everwhen.http import strict_json
from everwhen.http.issuers import IssuerSettings

FETCH_SECONDS: Final = 5.0
RETRY_SECONDS: Final = 5.0
LOOK_AGAIN_SECONDS: Final = 10.0
UNKNOWN_SECONDS: Final = 60.0
MOST_UNKNOWN: Final = 1_000
MOST_BYTES: Final = 65_536
MOST_KEYS: Final = 100
EARLY: Final = 0.8

_KID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_FAMILY: Final = {"RS256": "RSA", "ES256": "EC", "EdDSA": "OKP"}
_RSA_BITS: Final = range(2048, 8193)

log = structlog.get_logger("everwhen.http.keys")

Fetch = Callable[[str], Awaitable[bytes]]


class FetchFailed(Exception):  # noqa: N818  # an answer of the network, not an accident
    """The issuer did not answer as it should."""


class KeyCache:
    """The keys of one issuer."""

    def __init__(
        self, issuer: IssuerSettings, *, fetch: Fetch | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._issuer = issuer
        self._fetch = fetch or fetch_document
        self._clock = clock
        self._keys: Mapping[str, Any] = {}
        self._fetched_at: float | None = None
        self._tried_at = float("-inf")
        self._fetching: asyncio.Task[None] | None = None
        self._unknown: OrderedDict[str, float] = OrderedDict()

    async def find(self, kid: str) -> Any | None:
        """Return the key of this id, None for an unknown one; raise Unavailable while there are no keys at all."""
        await self._keep_fresh()
        if self._age() > self._issuer.stale_seconds:
            raise Unavailable("The keys of the token's issuer cannot be had; try again.", code="auth.keys_unavailable")
        if kid not in self._keys and self._may_look_again(kid):
            await self._refresh()
            if kid not in self._keys:
                self._note_unknown(kid)
        return self._keys.get(kid)

    def _age(self) -> float:
        return float("inf") if self._fetched_at is None else self._clock() - self._fetched_at

    async def _keep_fresh(self) -> None:
        age = self._age()
        if age > self._issuer.keys_seconds:
            if self._fetching is not None or self._clock() - self._tried_at >= RETRY_SECONDS:
                await self._refresh()
        elif age > EARLY * self._issuer.keys_seconds and self._clock() - self._tried_at >= RETRY_SECONDS:
            self._begin()

    def _may_look_again(self, kid: str) -> bool:
        now = self._clock()
        return now - self._tried_at >= LOOK_AGAIN_SECONDS and self._unknown.get(kid, float("-inf")) <= now

    def _note_unknown(self, kid: str) -> None:
        self._unknown[kid] = self._clock() + UNKNOWN_SECONDS
        if len(self._unknown) > MOST_UNKNOWN:
            self._unknown.popitem(last=False)

    async def _refresh(self) -> None:
        """Wait for the one fetch; whoever is cancelled meanwhile leaves it to the others."""
        await asyncio.shield(self._begin())

    def _begin(self) -> "asyncio.Task[None]":
        if self._fetching is None:
            self._tried_at = self._clock()
            self._fetching = asyncio.create_task(self._replace())
        return self._fetching

    async def _replace(self) -> None:
        begun = self._clock()
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                url = self._issuer.jwks_url or await self._discovered()
                self._keys = parse_keys(await self._fetch(url), algorithm=self._issuer.algorithm)
            self._fetched_at = begun
        except (FetchFailed, InvalidInput, TimeoutError, ValueError, OSError, httpx2.HTTPError) as error:
            log.warning("keys.not_fetched", issuer=self._issuer.name, error=f"{type(error).__name__}: {error}"[:200])
        finally:
            self._fetching = None

    async def _discovered(self) -> str:
        found = strict_json.loads(await self._fetch(self._issuer.discovery_url))
        document = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
        if document.get("issuer") != self._issuer.issuer:
            raise FetchFailed("the document of discovery is another issuer's")
        url = document.get("jwks_uri")
        if not isinstance(url, str):
            raise FetchFailed("the document of discovery names no jwks_uri")
        self._issuer.check_url(url)
        return url


def parse_keys(document: bytes, *, algorithm: str) -> dict[str, Any]:
    """Return the keys of a JWKS document that can have signed with `algorithm`, by their ids; raise InvalidInput."""
    found = strict_json.loads(document)
    listed = cast("dict[str, Any]", found).get("keys") if isinstance(found, dict) else None
    if not isinstance(listed, list):
        raise InvalidInput("The document has no list of keys.")
    entries = [cast("dict[str, Any]", each) for each in cast("list[object]", listed) if isinstance(each, dict)]
    kids = [each.get("kid") for each in entries]
    keys: dict[str, Any] = {}
    for entry in entries[:MOST_KEYS]:
        kid = entry.get("kid")
        if isinstance(kid, str) and _KID.fullmatch(kid) and kids.count(kid) == 1:
            key = _public_key(entry, algorithm=algorithm)
            if key is not None:
                keys[kid] = key
    return keys


def _public_key(entry: Mapping[str, Any], *, algorithm: str) -> Any | None:
    fits = entry.get("kty") == _FAMILY[algorithm] and entry.get("alg", algorithm) == algorithm
    operations = entry.get("key_ops", ["verify"])
    verifies = isinstance(operations, list) and "verify" in operations
    if not fits or not verifies or entry.get("use", "sig") != "sig" or "d" in entry:
        return None
    try:
        key = jwt.PyJWK(dict(entry), algorithm=algorithm).key
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None
    return key if _is_strong(key) else None


def _is_strong(key: object) -> bool:
    match key:
        case RSAPublicKey():
            return key.key_size in _RSA_BITS and key.public_numbers().e >= 65537
        case EllipticCurvePublicKey():
            return key.curve.name == "secp256r1"
        case Ed25519PublicKey():
            return True
        case _:
            return False


async def fetch_document(url: str) -> bytes:
    """Return what a GET brings; raise FetchFailed for anything but a small, plain 200."""
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    client = httpx2.AsyncClient(
        verify=ssl.create_default_context(), trust_env=False, follow_redirects=False, timeout=FETCH_SECONDS
    )
    async with client, client.stream("GET", url, headers=headers) as answer:
        if answer.status_code != 200:
            raise FetchFailed(f"{url} answered {answer.status_code}")
        if "content-encoding" in answer.headers:
            raise FetchFailed(f"{url} answered in a compressed form")
        body = bytearray()
        async for chunk in answer.aiter_raw():
            body += chunk
            if len(body) > MOST_BYTES:
                raise FetchFailed(f"{url} answered with more than {MOST_BYTES} bytes")
        return bytes(body)
