"""Forged and broken tokens: none passes, and all get one answer."""

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta
from uuid import UUID

import jwt
import pytest

from everwhen.errors import Unauthenticated
from everwhen.http.auth import MOST_LIFETIME, REMEMBER, Authenticator, mint_token
from everwhen.http.roles import Role
from tests.people import SECRET

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
IAT = int(NOW.timestamp())
TENANT = "01a22915-06ff-70da-a75e-79f816daceb5"
CLAIMS = {
    "iss": "everwhen",
    "aud": "everwhen",
    "sub": "mallory",
    "iat": IAT,
    "exp": IAT + 3600,
    "jti": "1",
    "tid": TENANT,
    "roles": ["admin"],
}
HEADER = {"alg": "HS256", "typ": "JWT"}
DROP = object()


def b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def signed(header: bytes, payload: bytes, *, secret: str = SECRET, digest=hashlib.sha256) -> str:
    body = f"{b64(header)}.{b64(payload)}"
    return f"{body}.{b64(hmac.new(secret.encode(), body.encode(), digest).digest())}"


def claims(**changes) -> bytes:
    merged = {name: value for name, value in (CLAIMS | changes).items() if value is not DROP}
    return json.dumps(merged).encode()


def with_claims(**changes) -> str:
    return signed(json.dumps(HEADER).encode(), claims(**changes))


def with_header(**changes) -> str:
    return signed(json.dumps(HEADER | changes).encode(), claims())


def unsigned(algorithm: str, signature: str = "") -> str:
    return f"{b64(json.dumps(HEADER | {'alg': algorithm}).encode())}.{b64(claims())}.{signature}"


def respelt(token: str) -> str:
    """The same signature bytes, spelt with other unused bits."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return token[:-1] + alphabet[alphabet.index(token[-1]) ^ 1]


GOOD = with_claims()
FORGED = {
    "nothing": "",
    "not a token": "hello",
    "two parts": ".".join(GOOD.split(".")[:2]),
    "four parts": f"{GOOD}.x",
    "five parts, as an encrypted token": "a.b.c.d.e",
    "empty parts": "..",
    "alg none": unsigned("none"),
    "alg None": unsigned("None"),
    "alg nOnE": unsigned("nOnE"),
    "alg none with a signature": unsigned("none", GOOD.split(".")[2]),
    "HS256 without a signature": unsigned("HS256"),
    "alg HS384, rightly signed": signed(b'{"alg":"HS384","typ":"JWT"}', claims(), digest=hashlib.sha384),
    "alg HS512, rightly signed": signed(b'{"alg":"HS512","typ":"JWT"}', claims(), digest=hashlib.sha512),
    "alg RS256 over an HMAC": with_header(alg="RS256"),
    "alg ES256 over an HMAC": with_header(alg="ES256"),
    "alg EdDSA over an HMAC": with_header(alg="EdDSA"),
    "alg hs256": with_header(alg="hs256"),
    "alg a list": with_header(alg=["HS256"]),
    "alg null": with_header(alg=None),
    "no alg": signed(b'{"typ":"JWT"}', claims()),
    "alg twice": signed(b'{"alg":"none","alg":"HS256","typ":"JWT"}', claims()),
    "typ at+jwt": with_header(typ="at+jwt"),
    "typ missing": signed(b'{"alg":"HS256"}', claims()),
    "kid of a file": with_header(kid="../../dev/null"),
    "kid as SQL": with_header(kid="' or 1=1 --"),
    "kid of a megabyte": with_header(kid="k" * 1_000_000),
    "kid harmless": with_header(kid="1"),
    "jku": with_header(jku="https://evil.example/keys"),
    "jwk": with_header(jwk={"kty": "oct", "k": b64(b"x" * 32)}),
    "x5u": with_header(x5u="https://evil.example/cert"),
    "crit": with_header(crit=["exp"]),
    "b64 false": with_header(b64=False, crit=["b64"]),
    "zip": with_header(zip="DEF"),
    "cty, a nested token": with_header(cty="JWT"),
    "header a list": signed(b'["HS256"]', claims()),
    "header no JSON": signed(b"hello", claims()),
    "header of deep brackets": signed(b"[" * 5_000, claims()),
    "another secret": signed(json.dumps(HEADER).encode(), claims(), secret="x" * 48),
    "an empty secret": signed(json.dumps(HEADER).encode(), claims(), secret=""),
    "the claims of another token": f"{GOOD.split('.')[0]}.{b64(claims(sub='root'))}.{GOOD.split('.')[2]}",
    "a signature cut short": GOOD[:-4],
    "a signature spelt otherwise": respelt(GOOD),
    "a signature with padding": f"{GOOD}=",
    "a signature with a blank": f"{GOOD[:-1]} {GOOD[-1]}",
    "a signature in plain base64": GOOD.replace("-", "+").replace("_", "/") + "+",
    "a newline at the end": f"{GOOD}\n",
    "unicode look-alikes": GOOD.replace("e", "\u0435"),
    "payload a list": signed(json.dumps(HEADER).encode(), b"[]"),
    "payload a text": signed(json.dumps(HEADER).encode(), b'"admin"'),
    "payload no JSON": signed(json.dumps(HEADER).encode(), b"\xff"),
    "payload with a claim twice": signed(json.dumps(HEADER).encode(), claims()[:-1] + b', "sub": "root"}'),
    "payload with NaN": signed(json.dumps(HEADER).encode(), claims(exp=float("nan"))),
    "exp missing": with_claims(exp=DROP),
    "exp a text": with_claims(exp=str(IAT + 3600)),
    "exp a float": with_claims(exp=IAT + 3600.5),
    "exp true": with_claims(exp=True),
    "exp null": with_claims(exp=None),
    "exp negative": with_claims(exp=-1),
    "exp passed": with_claims(iat=IAT - 7200, exp=IAT - 31),
    "exp in a thousand years": with_claims(exp=10**12),
    "exp beyond 64 bits": signed(json.dumps(HEADER).encode(), claims(exp=10**30)),
    "a lifetime over the limit": with_claims(exp=IAT + int(MOST_LIFETIME.total_seconds()) + 1),
    "exp before iat": with_claims(iat=IAT + 10, exp=IAT + 5),
    "iat missing": with_claims(iat=DROP),
    "iat in the future": with_claims(iat=IAT + 60),
    "iat a text": with_claims(iat=str(IAT)),
    "nbf in the future": with_claims(nbf=IAT + 60),
    "nbf a text": with_claims(nbf="now"),
    "aud missing": with_claims(aud=DROP),
    "aud another": with_claims(aud="elsewhen"),
    "aud a list": with_claims(aud=["everwhen", "elsewhen"]),
    "aud in another case": with_claims(aud="Everwhen"),
    "iss missing": with_claims(iss=DROP),
    "iss in another case": with_claims(iss="EverWhen"),
    "iss with a slash": with_claims(iss="everwhen/"),
    "sub missing": with_claims(sub=DROP),
    "sub empty": with_claims(sub=""),
    "sub a number": with_claims(sub=7),
    "sub with a line break": with_claims(sub="a\nb"),
    "sub with a look-alike": with_claims(sub="\u0430dmin"),
    "jti missing": with_claims(jti=DROP),
    "jti a number": with_claims(jti=1),
    "tid a name": with_claims(tid="acme"),
    "tid null": with_claims(tid=None),
    "tid a list": with_claims(tid=[TENANT]),
    "tid in capitals": with_claims(tid=TENANT.upper()),
    "tid in braces": with_claims(tid="{" + TENANT + "}"),
    "roles missing": with_claims(roles=DROP),
    "roles empty": with_claims(roles=[]),
    "roles a text": with_claims(roles="admin"),
    "roles unknown": with_claims(roles=["god"]),
    "roles nested": with_claims(roles=[["admin"]]),
    "queues empty": with_claims(queues=[]),
    "queues a text": with_claims(queues="default"),
    "queues a pattern": with_claims(queues=["*"]),
}


def authenticator() -> Authenticator:
    return Authenticator(SECRET)


@pytest.mark.parametrize("token", FORGED.values(), ids=FORGED)
async def test_no_forged_token_passes_and_all_get_one_answer(token):
    with pytest.raises(Unauthenticated) as refused:
        await authenticator().authenticate(f"Bearer {token}", now=NOW)

    assert (refused.value.detail, refused.value.code, refused.value.errors) == (
        Unauthenticated().detail,
        "auth.required",
        (),
    )
    assert refused.value.__cause__ is None


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", f"Basic {GOOD}", GOOD, f"Bearer  {GOOD}"])
async def test_a_header_that_is_no_bearer_token_is_refused(header):
    with pytest.raises(Unauthenticated):
        await authenticator().authenticate(header, now=NOW)


async def test_the_good_token_of_the_table_passes():
    principal = await authenticator().authenticate(f"bearer {GOOD}", now=NOW)

    assert (principal.subject, principal.tenant_id, principal.roles) == ("mallory", UUID(TENANT), {Role.ADMIN})
    assert principal.queues is None


async def test_a_minted_token_says_what_was_asked_for():
    minted = mint_token(SECRET, subject="w1", roles=[Role.WORKER], queues=["b", "a"], now=NOW)
    principal = await authenticator().authenticate(f"Bearer {minted}", now=NOW)

    assert principal.tenant_id is None
    assert principal.queues == {"a", "b"}
    assert jwt.get_unverified_header(minted) == HEADER


async def test_a_token_holds_until_it_expires_and_a_leeway_more():
    checker = authenticator()
    expiry = NOW + timedelta(seconds=3600)
    await checker.authenticate(f"Bearer {GOOD}", now=expiry + timedelta(seconds=29))

    with pytest.raises(Unauthenticated):
        await checker.authenticate(f"Bearer {GOOD}", now=expiry + timedelta(seconds=30))


async def test_a_token_is_remembered_for_a_moment_only():
    checker = authenticator()
    first = await checker.authenticate(f"Bearer {GOOD}", now=NOW)

    assert (await checker.authenticate(f"Bearer {GOOD}", now=NOW + REMEMBER / 2)) is first
    assert (await checker.authenticate(f"Bearer {GOOD}", now=NOW + REMEMBER)) is not first


async def test_a_refused_token_is_never_remembered():
    checker = authenticator()
    await checker.authenticate(f"Bearer {GOOD}", now=NOW)

    with pytest.raises(Unauthenticated):
        await checker.authenticate(f"Bearer {respelt(GOOD)}", now=NOW)


def test_a_secret_that_could_be_guessed_is_refused():
    with pytest.raises(ValueError, match="at least 32 bytes"):
        Authenticator("short")
