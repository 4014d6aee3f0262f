"""Issuers of tests: their keys, their documents, and tokens signed with them in every wrong way."""

import base64
import functools
import hmac
import json

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

FAMILIES = ("RS256", "ES256", "EdDSA")
ISSUER = "https://login.example"
AUDIENCE = "everwhen-api"


@functools.cache
def private_key(algorithm: str, number: int = 0):
    """One key of a family; another number, another key."""
    match algorithm:
        case "RS256":
            return rsa.generate_private_key(public_exponent=65537, key_size=2048)
        case "weak":
            return rsa.generate_private_key(public_exponent=65537, key_size=1024)
        case "ES256":
            return ec.generate_private_key(ec.SECP256R1())
        case "P-384":
            return ec.generate_private_key(ec.SECP384R1())
        case _:
            return ed25519.Ed25519PrivateKey.generate()


def public_jwk(algorithm: str, number: int = 0, **changes) -> dict:
    """The key's entry in a JWKS document."""
    of = {"weak": "RS256", "P-384": "ES384"}.get(algorithm, algorithm)
    entry = json.loads(jwt.get_algorithm_by_name(of).to_jwk(private_key(algorithm, number).public_key()))
    merged = entry | {"kid": f"key-{number}", "use": "sig"} | changes
    return {name: value for name, value in merged.items() if value is not None}


def jwks(*entries: dict) -> bytes:
    """The document with these keys."""
    return json.dumps({"keys": list(entries)}).encode()


def b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def sign(algorithm: str, header: bytes, payload: bytes, *, key=None) -> str:
    """A token of exactly these bytes, signed with the algorithm, whatever the header says."""
    body = f"{b64(header)}.{b64(payload)}"
    if algorithm == "HS256":  # by hand: the library refuses a public key as a secret
        return f"{body}.{b64(hmac.digest(key, body.encode(), 'sha256'))}"
    signer = jwt.get_algorithm_by_name(algorithm)
    return f"{body}.{b64(signer.sign(body.encode(), signer.prepare_key(key or private_key(algorithm, 0))))}"
