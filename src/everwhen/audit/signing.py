"""Anchors that are signed with Ed25519, by a key that neither the database nor any server has.

What is signed is the anchor's line as canonical JSON without its signature, so whoever has the public key can check one
with any tool. Whoever notes anchors has the private key, whoever checks them the public one; both are spelt `name:key`,
the key being 32 bytes in base64. Nothing here has a representation, an error or a log line that holds a private key.
"""

import base64
import binascii
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from everwhen.core.audit_chain import canonical
from everwhen.errors import ConfigurationError

KEY_BYTES: Final = 32
SIGNATURE: Final = "signature"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True, repr=False)
class Signer:
    """The key that signs, by its name, which is all that it shows."""

    name: str
    key: Ed25519PrivateKey

    def sign(self, said: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is said with the key's name and its signature."""
        named = {**said, "key": self.name}
        return {**named, SIGNATURE: base64.b64encode(self.key.sign(_bytes_of(named))).decode()}

    @property
    def public_entry(self) -> str:
        """Return `name:key` of the public half."""
        return _entry(self.name, self.key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))

    def __repr__(self) -> str:
        return f"Signer({self.name})"


@dataclass(frozen=True, slots=True)
class PublicKeys:
    """The keys that are believed, by name."""

    keys: Mapping[str, Ed25519PublicKey]

    def fault_of(self, said: Mapping[str, Any]) -> str | None:
        """Say why what is said is not to be believed; None: its signature holds."""
        name = said.get("key")
        if name is None:
            return "it is not signed"
        key = self.keys.get(name) if isinstance(name, str) else None
        if key is None:
            return "it is signed by a key that is not given"
        try:
            key.verify(base64.b64decode(said[SIGNATURE], validate=True), _bytes_of(said))
        except (InvalidSignature, ValueError, TypeError):
            return f"its signature by {name} does not hold"
        return None


def new_entry(name: str) -> str:
    """Draw a private key and return its entry; raise ConfigurationError for a name that cannot be one."""
    if not _NAME.fullmatch(name):
        raise ConfigurationError("the name of a signing key is lower-case letters, digits, `.`, `_` and `-`")
    return _entry(name, secrets.token_bytes(KEY_BYTES))


def read_signer(text: str) -> Signer:
    """Read the entry of a private key; raise ConfigurationError."""
    name, key = _read(text.strip())
    return Signer(name, Ed25519PrivateKey.from_private_bytes(key))


def read_public_keys(entries: Iterable[str]) -> PublicKeys:
    """Read the entries of public keys; raise ConfigurationError."""
    found: dict[str, Ed25519PublicKey] = {}
    for entry in entries:
        name, key = _read(entry.strip())
        if name in found:
            raise ConfigurationError(f"the name {name} is given to two keys")
        found[name] = Ed25519PublicKey.from_public_bytes(key)
    return PublicKeys(found)


def _read(entry: str) -> tuple[str, bytes]:
    name, colon, encoded = entry.partition(":")
    if not colon or not _NAME.fullmatch(name):
        raise ConfigurationError("a key of the audit is spelt name:key; make one with everwhen audit key")
    try:
        key = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise ConfigurationError(f"the key {name} is not {KEY_BYTES} bytes in base64")
    return name, key


def _entry(name: str, key: bytes) -> str:
    return f"{name}:{base64.b64encode(key).decode()}"


def _bytes_of(said: Mapping[str, Any]) -> bytes:
    return canonical({field: value for field, value in said.items() if field != SIGNATURE}).encode()
