"""The console's session as a cookie, and what has to come with it.

A browser sends a cookie by itself, whoever makes it: so whatever changes something needs a second proof that the page
is ours. The proof is a token that is made from the session's secret and has to be in a header, which the page of
another site can neither read nor send; where the browser says which site a request is from, it has to be the same one.
The cookie is HttpOnly (no script reads it), Secure, SameSite=Strict, and bound to the host by its name's prefix.

A request that has an Authorization header is judged by that alone.
"""

import hashlib
import hmac
import re
from typing import Final

from starlette.types import Scope

from everwhen.errors import Forbidden

COOKIE: Final = "__Host-everwhen"
CSRF_HEADER: Final = "X-CSRF-Token"
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})

_SECRET: Final = re.compile(r"[A-Za-z0-9_-]{43}")


def session_secret(scope: Scope) -> str | None:
    """Return the secret in a request's cookie; None without one, with two, or beside an Authorization header."""
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    if any(name == b"authorization" for name, _ in headers):
        return None
    cookies = [value.decode("latin-1") for name, value in headers if name == b"cookie"]
    pairs = [pair.strip().partition("=") for line in cookies for pair in line.split(";")]
    values = [value for name, _, value in pairs if name == COOKIE]
    return values[0] if len(values) == 1 and _SECRET.fullmatch(values[0]) else None


def csrf_token(secret: str) -> str:
    """Return the proof that goes with a session; nobody who lacks the secret can make it."""
    return hashlib.blake2b(secret.encode(), digest_size=24, person=b"everwhen csrf").hexdigest()


def insist_on_same_site(scope: Scope, secret: str) -> None:
    """Raise Forbidden for a request that changes something and may be another site's."""
    if scope["method"] in SAFE:
        return
    given = _values(scope, CSRF_HEADER.lower().encode())
    sites = _values(scope, b"sec-fetch-site")
    proven = len(given) == 1 and hmac.compare_digest(given[0], csrf_token(secret).encode())
    if not proven or any(site != b"same-origin" for site in sites):
        detail = f"A session that changes something has to send its token in {CSRF_HEADER}, from our own pages."
        raise Forbidden(detail, code="auth.csrf")


def set_cookie(secret: str, *, seconds: int) -> str:
    """Return the value of Set-Cookie; with no seconds it takes the cookie away."""
    return f"{COOKIE}={secret}; Path=/; Max-Age={seconds}; Secure; HttpOnly; SameSite=Strict"


def _values(scope: Scope, name: bytes) -> list[bytes]:
    return [value for key, value in scope["headers"] if key == name]
