"""Tokens of other issuers: forged and broken ones of every family get one answer, and keys come and go in time."""

import asyncio
import json
from datetime import UTC, datetime
from uuid import UUID

import pytest
from pydantic import ValidationError

from everwhen.errors import Unauthenticated, Unavailable
from everwhen.http import auth, keys
from everwhen.http.auth import Authenticator
from everwhen.http.issuers import IssuerSettings
from everwhen.http.keys import KeyCache, parse_keys
from everwhen.http.principal import Membership
from everwhen.http.revocations import News
from everwhen.http.roles import Role
from tests.http.signing import AUDIENCE, FAMILIES, ISSUER, b64, jwks, private_key, public_jwk, sign
from tests.people import SECRET

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
IAT = int(NOW.timestamp())
TENANT = UUID("01a22915-06ff-70da-a75e-79f816daceb5")
CLAIMS = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "iat": IAT, "exp": IAT + 600, "jti": "j1"}
DROP = object()


class People:
    """A directory in memory: ada is a viewer of acme."""

    async def find_memberships(self, subject):
        member = Membership(tenant_id=TENANT, tenant="acme", roles=frozenset({Role.VIEWER}))
        return {"acme": member} if subject == "login:ada" else {}

    async def read_revocations(self, since):
        return News(entries=[], now=NOW)


def issuer(algorithm="RS256", **changes) -> IssuerSettings:
    given = {"name": "login", "issuer": ISSUER, "audience": AUDIENCE, "algorithm": algorithm}
    return IssuerSettings(**(given | {"jwks_url": f"{ISSUER}/keys"} | changes))


@pytest.fixture
def documents(monkeypatch):
    """What is answered at each URL; a missing one does not answer. `asked` lists the requests."""
    answers = {"asked": []}

    async def fetch(url):
        answers["asked"].append(url)
        if url not in answers:
            raise keys.FetchFailed(f"{url} does not answer")
        return answers[url]

    monkeypatch.setattr(keys, "fetch_document", fetch)
    return answers


def checker(documents, algorithm, **changes) -> Authenticator:
    documents[f"{ISSUER}/keys"] = jwks(public_jwk(algorithm))
    return Authenticator(SECRET, issuers=[issuer(algorithm, **changes)], directory=People())


def token(algorithm, *, claims=None, header=None, key=None, signed_with=None) -> str:
    head = {"alg": algorithm, "typ": "JWT", "kid": "key-0"} | (header or {})
    body = CLAIMS | (claims or {})
    texts = [{name: value for name, value in each.items() if value is not DROP} for each in (head, body)]
    return sign(signed_with or algorithm, *(json.dumps(text).encode() for text in texts), key=key)


def forged(algorithm) -> dict[str, str]:
    good, other = token(algorithm), next(each for each in FAMILIES if each != algorithm)
    head, body, signature = good.split(".")
    unsigned = b64(json.dumps({"alg": "none", "typ": "JWT", "kid": "key-0"}).encode())
    public = json.dumps(public_jwk(algorithm)).encode()
    pem_like = sign("HS256", json.dumps({"alg": "HS256", "typ": "JWT", "kid": "key-0"}).encode(),
                    json.dumps(CLAIMS).encode(), key=public)  # fmt: skip
    raw_header = json.dumps({"alg": algorithm, "typ": "JWT", "kid": "key-0"}).encode()
    altered = b64(json.dumps(CLAIMS | {"sub": "root"}).encode())
    return {
        "alg none": f"{unsigned}.{body}.",
        "alg none with a signature": f"{unsigned}.{body}.{signature}",
        "HMAC with the public key": pem_like,
        "HMAC under the right name": sign("HS256", raw_header, json.dumps(CLAIMS).encode(), key=public),
        "the header of another family": token(algorithm, header={"alg": other}),
        "signed by another family": token(algorithm, signed_with=other, key=private_key(other, 0)),
        "another family, rightly signed": token(other),
        "another key of the family": token(algorithm, key=private_key(algorithm, 7)),
        "alg in another case": token(algorithm, header={"alg": algorithm.lower()}),
        "alg a list": token(algorithm, header={"alg": [algorithm]}),
        "alg missing": token(algorithm, header={"alg": DROP}),
        "alg twice": sign(algorithm, raw_header[:-1] + b',"alg":"none"}', json.dumps(CLAIMS).encode()),
        "altered claims": f"{head}.{altered}.{signature}",
        "signature cut": good[:-6],
        "no signature": f"{head}.{body}.",
        "padding": good + "=",
        "kid missing": token(algorithm, header={"kid": DROP}),
        "kid unknown": token(algorithm, header={"kid": "other"}),
        "kid of a file": token(algorithm, header={"kid": "../../dev/null"}),
        "kid as SQL": token(algorithm, header={"kid": "' or 1=1 --"}),
        "kid as a URL": token(algorithm, header={"kid": "https://evil.example/keys"}),
        "kid long": token(algorithm, header={"kid": "k" * 65}),
        "kid of a megabyte": token(algorithm, header={"kid": "k" * 1_000_000}),
        "kid a number": token(algorithm, header={"kid": 0}),
        "kid empty": token(algorithm, header={"kid": ""}),
        "kid with a line break": token(algorithm, header={"kid": "key-0\n"}),
        "own key in jwk": token(algorithm, header={"jwk": public_jwk(algorithm, 7)}, key=private_key(algorithm, 7)),
        "own key at jku": token(algorithm, header={"jku": "https://evil.example"}, key=private_key(algorithm, 7)),
        "own key at x5u": token(algorithm, header={"x5u": "https://evil.example"}, key=private_key(algorithm, 7)),
        "own key in x5c": token(algorithm, header={"x5c": ["MIIB"]}, key=private_key(algorithm, 7)),
        "crit": token(algorithm, header={"crit": ["exp"]}),
        "b64 false": token(algorithm, header={"b64": False}),
        "zip": token(algorithm, header={"zip": "DEF"}),
        "a nested token": token(algorithm, header={"cty": "JWT"}),
        "encrypted": token(algorithm, header={"enc": "A256GCM"}),
        "typ missing": token(algorithm, header={"typ": DROP}),
        "typ another": token(algorithm, header={"typ": "logout+jwt"}),
        "typ a list": token(algorithm, header={"typ": ["JWT"]}),
        "header a list": sign(algorithm, b"[]", json.dumps(CLAIMS).encode()),
        "payload a list": sign(algorithm, raw_header, b"[]"),
        "a claim twice": sign(algorithm, raw_header, json.dumps(CLAIMS).encode()[:-1] + b',"sub":"root"}'),
        "NaN": sign(algorithm, raw_header, json.dumps(CLAIMS | {"exp": float("nan")}).encode()),
        "another issuer": token(algorithm, claims={"iss": "https://evil.example"}),
        "the issuer with a slash": token(algorithm, claims={"iss": f"{ISSUER}/"}),
        "the issuer in capitals": token(algorithm, claims={"iss": ISSUER.upper()}),
        "our own issuer": token(algorithm, claims={"iss": "everwhen", "aud": "everwhen", "roles": ["admin"]}),
        "iss a list": token(algorithm, claims={"iss": [ISSUER]}),
        "iss missing": token(algorithm, claims={"iss": DROP}),
        "another audience": token(algorithm, claims={"aud": "other"}),
        "other audiences": token(algorithm, claims={"aud": ["other", "another"]}),
        "aud an empty list": token(algorithm, claims={"aud": []}),
        "aud nested": token(algorithm, claims={"aud": [[AUDIENCE]]}),
        "aud of many": token(algorithm, claims={"aud": [AUDIENCE, *map(str, range(20))]}),
        "aud missing": token(algorithm, claims={"aud": DROP}),
        "exp missing": token(algorithm, claims={"exp": DROP}),
        "exp passed": token(algorithm, claims={"iat": IAT - 600, "exp": IAT - 31}),
        "exp a text": token(algorithm, claims={"exp": str(IAT + 600)}),
        "exp a float": token(algorithm, claims={"exp": IAT + 600.5}),
        "exp negative": token(algorithm, claims={"exp": -1}),
        "exp far ahead": token(algorithm, claims={"exp": 10**12}),
        "a life too long": token(algorithm, claims={"exp": IAT + 3_601}),
        "iat missing": token(algorithm, claims={"iat": DROP}),
        "iat ahead": token(algorithm, claims={"iat": IAT + 31}),
        "iat true": token(algorithm, claims={"iat": True}),
        "nbf ahead": token(algorithm, claims={"nbf": IAT + 31}),
        "sub missing": token(algorithm, claims={"sub": DROP}),
        "sub a look-alike": token(algorithm, claims={"sub": "\u0430da"}),
        "sub long": token(algorithm, claims={"sub": "a" * 201}),
        "jti missing": token(algorithm, claims={"jti": DROP}),
        "jti a number": token(algorithm, claims={"jti": 1}),
    }  # fmt: skip


@pytest.mark.parametrize("algorithm", FAMILIES)
async def test_no_forged_token_of_a_family_passes_and_all_get_one_answer(documents, algorithm):
    authenticator, table = checker(documents, algorithm), forged(algorithm)
    passed, answers = [], set()
    for name, forgery in table.items():
        try:
            await authenticator.authenticate(f"Bearer {forgery}", now=NOW)
            passed.append(name)
        except Unauthenticated as error:
            answers.add((error.detail, error.code, error.errors, error.__cause__))

    assert len(table) >= 60
    assert passed == []
    assert len(answers) == 1
    assert len(documents["asked"]) <= 2  # the keys, and one look for an unknown key


@pytest.mark.parametrize("algorithm", FAMILIES)
async def test_a_persons_token_brings_the_rights_of_its_memberships(documents, algorithm):
    authenticator = checker(documents, algorithm)
    ada = await authenticator.authenticate(f"Bearer {token(algorithm)}", now=NOW)
    bob = await authenticator.authenticate(f"Bearer {token(algorithm, claims={'sub': 'bob'})}", now=NOW)
    listed = token(algorithm, claims={"aud": ["account", AUDIENCE]}, header={"typ": "at+jwt", "x5t": "ignored"})

    assert (ada.subject, ada.tenant_id, ada.roles, ada.token_id) == ("login:ada", None, frozenset(), "login:j1")
    assert ada.memberships["acme"].roles == {Role.VIEWER}
    assert bob.memberships == {}
    assert (await authenticator.authenticate(f"Bearer {listed}", now=NOW)).subject == "login:ada"


async def test_a_claimed_tenant_is_checked_against_the_memberships(documents):
    authenticator = checker(documents, "ES256", tenant_claim="org")

    for org, places in (("acme", {"acme"}), (str(TENANT), {"acme"}), ("other", set())):
        found = await authenticator.authenticate(f"Bearer {token('ES256', claims={'org': org})}", now=NOW)
        assert set(found.memberships) == places
    with pytest.raises(Unauthenticated):
        await authenticator.authenticate(f"Bearer {token('ES256')}", now=NOW)


async def test_claims_bring_rights_only_where_the_issuer_is_trusted_with_them(documents):
    mapped = {"rights": "claims", "tenant_claim": "org", "roles_claim": "groups", "role_map": {"ops": "operator"}}
    authenticator = checker(documents, "ES256", **mapped)
    claims = {"org": str(TENANT), "groups": ["ops", "platform", "admin"]}
    found = await authenticator.authenticate(f"Bearer {token('ES256', claims=claims)}", now=NOW)

    assert (found.tenant_id, found.roles, found.memberships) == (TENANT, {Role.OPERATOR}, None)
    for wrong in ({"org": "acme"}, {"org": DROP}, {"groups": "ops"}, {"groups": DROP}):
        with pytest.raises(Unauthenticated):
            await authenticator.authenticate(f"Bearer {token('ES256', claims=claims | wrong)}", now=NOW)


@pytest.mark.parametrize(
    "wrong",
    [
        {"jwks_url": "http://login.example/keys"},
        {"jwks_url": "http://127.0.0.1/keys"},
        {"jwks_url": "http://evil.example/keys", "allow_http_loopback": True},
        {"jwks_url": "file:///etc/passwd"},
        {"jwks_url": "https://user:word@login.example/keys"},
        {"jwks_url": None, "issuer": "login"},
        {"algorithm": "HS256"},
        {"algorithm": "none"},
        {"leeway_seconds": 31},
        {"token_seconds_max": 86_401},
        {"rights": "claims"},
        {"rights": "claims", "tenant_claim": "t", "role_map": {"root": "platform"}},
        {"name": "Log In"},
        {"unknown": 1},
    ],
    ids=str,
)
def test_settings_of_an_issuer_that_would_not_be_safe_are_refused(wrong):
    with pytest.raises(ValidationError):
        issuer(**wrong)


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def cache(documents):
    clock = Clock()
    made = KeyCache(issuer("EdDSA"), fetch=keys.fetch_document, clock=clock)
    return made, clock, documents


URL = f"{ISSUER}/keys"


async def test_a_new_key_is_found_and_a_retired_one_refused_in_time(cache):
    made, clock, documents = cache
    documents[URL] = jwks(public_jwk("EdDSA", 0))
    assert await made.find("key-0") is not None

    documents[URL] = jwks(public_jwk("EdDSA", 1))  # rotated: the new key is looked for at once
    clock.now += keys.LOOK_AGAIN_SECONDS
    assert await made.find("key-1") is not None
    assert await made.find("key-0") is None

    documents[URL] = jwks()  # retired, and nobody asks for another
    assert await made.find("key-1") is not None
    clock.now += 301
    assert await made.find("key-1") is None


async def test_unknown_kids_cost_nothing(cache):
    made, clock, documents = cache
    documents[URL] = jwks(public_jwk("EdDSA", 0))
    await made.find("key-0")
    clock.now += keys.LOOK_AGAIN_SECONDS
    for number in range(2_000):
        assert await made.find(f"invented-{number}") is None

    assert len(documents["asked"]) == 2
    assert len(made._unknown) <= keys.MOST_UNKNOWN


async def test_many_at_once_fetch_once(cache):
    made, _, documents = cache
    documents[URL] = jwks(public_jwk("EdDSA", 0))
    found = await asyncio.gather(*(made.find("key-0") for _ in range(50)))

    assert all(each is not None for each in found)
    assert len(documents["asked"]) == 1


async def test_an_issuer_that_is_away_keeps_nobody_out_for_a_while(cache):
    made, clock, documents = cache
    with pytest.raises(Unavailable):
        await made.find("key-0")
    documents[URL] = jwks(public_jwk("EdDSA", 0))
    clock.now += keys.RETRY_SECONDS
    assert await made.find("key-0") is not None

    fresh = documents.pop(URL)
    clock.now += 301
    for _ in range(3):
        assert await made.find("key-0") is not None  # stale, and asked for once
    assert len(documents["asked"]) == 3
    clock.now += 3_600
    with pytest.raises(Unavailable):
        await made.find("key-0")
    documents[URL] = fresh
    clock.now += keys.RETRY_SECONDS
    assert await made.find("key-0") is not None


async def test_keys_are_fetched_ahead_of_time_beside_the_requests(cache):
    made, clock, documents = cache
    documents[URL] = jwks(public_jwk("EdDSA", 0))
    await made.find("key-0")
    clock.now += 241
    await made.find("key-0")
    await made._fetching

    assert len(documents["asked"]) == 2
    clock.now += 200  # were they not fetched anew, they would be too old by now
    assert await made.find("key-0") is not None
    assert len(documents["asked"]) == 2


@pytest.mark.parametrize(
    ("document", "finds"),
    [
        ({"issuer": ISSUER, "jwks_uri": f"{ISSUER}/keys"}, True),
        ({"issuer": "https://evil.example", "jwks_uri": f"{ISSUER}/keys"}, False),
        ({"issuer": ISSUER, "jwks_uri": "http://login.example/keys"}, False),
        ({"issuer": ISSUER, "jwks_uri": "file:///keys"}, False),
        ({"issuer": ISSUER}, False),
        ([], False),
    ],
)
async def test_discovery_is_believed_for_the_configured_issuer_only(documents, document, finds):
    documents[URL] = jwks(public_jwk("EdDSA", 0))
    documents[f"{ISSUER}/.well-known/openid-configuration"] = json.dumps(document).encode()
    made = KeyCache(issuer("EdDSA", jwks_url=None), fetch=keys.fetch_document)
    try:
        assert (await made.find("key-0") is not None) == finds
    except Unavailable:
        assert not finds


def test_keys_that_cannot_have_signed_are_left_out():
    entries = [
        public_jwk("RS256", 0),
        public_jwk("RS256", 1, use="enc"),
        public_jwk("RS256", 2, alg="RS512"),
        public_jwk("RS256", 3, key_ops=["sign"]),
        public_jwk("RS256", 4, kid="../x"),
        public_jwk("RS256", 5, kid=None),
        public_jwk("RS256", 6, n="AQAB"),
        public_jwk("weak", 7),
        public_jwk("ES256", 8),
        public_jwk("EdDSA", 9),
        {"kty": "oct", "k": "c2VjcmV0", "kid": "key-10"},
        public_jwk("RS256", 11, kid="twice"),
        public_jwk("RS256", 12, kid="twice"),
        public_jwk("RS256", 13, d="AQAB"),
    ]

    assert set(parse_keys(jwks(*entries), algorithm="RS256")) == {"key-0"}
    assert set(parse_keys(jwks(public_jwk("P-384", 1), public_jwk("ES256", 2)), algorithm="ES256")) == {"key-2"}


def test_what_is_remembered_is_forgotten_before_a_revocation_would_be_late():
    assert auth.REMEMBER.total_seconds() < 5
