"""The cryptography of sealed secrets; no database.

    sealing key   of the installation, named, outside the database: a ring of them in a setting or a file
       │ wraps    AES-256-GCM; bound to the tenant and to its own name
    tenant key    one for each tenant, in the database, only ever wrapped
       │ seals    AES-256-GCM; bound to the tenant, the secret's name and its version
    secret        in the row that it belongs to

* The first key of the ring wraps, every key opens. To change keys: put a new one in front, wrap the tenant keys again
  (`everwhen key rotate`), drop the old one. No secret is written anew.
* What a seal is bound to is not stored in it: a sealed secret that is moved to another tenant, name or version, or put
  back from an older version, does not open.
* A nonce is 96 random bits, drawn for each seal. A tenant key would have to seal four thousand million secrets before
  two of them might meet.
* Nothing here has a representation, an error or a log line that holds a key or a secret.
"""

import base64
import binascii
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from everwhen.errors import ConfigurationError, EverwhenError

KEY_FILE: Final = "sealing.keys"
"""Where `everwhen up` keeps the ring, in its data directory."""

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
_FORMAT: Final = b"\x01"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


class SealBroken(EverwhenError):  # noqa: N818  # the tree reads as answers
    """A sealed secret does not open: it is another tenant's, name's or version's, or it was altered."""

    code, title = "sealing.broken", "Sealed secret does not open"


class UnknownSealingKey(EverwhenError):  # noqa: N818
    """A tenant's key is wrapped by a sealing key that this process does not have."""

    code, title = "sealing.unknown_key", "Unknown sealing key"


@dataclass(frozen=True, slots=True, repr=False)
class KeyRing:
    """The installation's sealing keys by name; the first one wraps. It shows its names only."""

    keys: Mapping[str, bytes]

    @property
    def first(self) -> str:
        """The name of the key that wraps."""
        return next(iter(self.keys))

    def __repr__(self) -> str:
        return f"KeyRing({', '.join(self.keys)})"


@dataclass(frozen=True, slots=True, repr=False)
class TenantKey:
    """A tenant's own key, open."""

    tenant_id: UUID
    key: bytes

    def __repr__(self) -> str:
        return f"TenantKey({self.tenant_id})"

    def seal(self, text: str, *, name: str, version: int = 1) -> bytes:
        """Seal a secret under its name and version."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        bound = _bound("secret", self.tenant_id.bytes, name.encode(), str(version).encode())
        return _FORMAT + nonce + AESGCM(self.key).encrypt(nonce, text.encode("utf-8", "surrogatepass"), bound)

    def open(self, sealed: bytes, *, name: str, version: int = 1) -> str:
        """Return the secret; raise SealBroken when it was not sealed for this tenant, name and version."""
        bound = _bound("secret", self.tenant_id.bytes, name.encode(), str(version).encode())
        opened = _opened(self.key, sealed, bound)
        if opened is None:
            raise SealBroken(f"The sealed secret {name} does not open: it was altered, moved, or put back.")
        return opened.decode("utf-8", "surrogatepass")


def read_ring(text: str) -> KeyRing:
    """Read `name:key`, separated by commas or lines, the key being 32 bytes in base64; raise ConfigurationError."""
    keys: dict[str, bytes] = {}
    for number, entry in enumerate(re.split(r"[,\s]+", text.strip()), start=1):
        name, colon, encoded = entry.partition(":")
        if not colon or not _NAME.fullmatch(name):
            raise ConfigurationError(f"sealing_keys: entry {number} is not name:key; make one with `everwhen key new`")
        if name in keys:
            raise ConfigurationError(f"sealing_keys: the name {name} stands there twice")
        key = _decoded(encoded)
        if key is None or len(key) != KEY_BYTES:
            raise ConfigurationError(f"sealing_keys: the key {name} is not {KEY_BYTES} bytes in base64")
        keys[name] = key
    return KeyRing(keys)


def new_entry(name: str) -> str:
    """Make a key and return its entry for the ring; raise ConfigurationError for a name that cannot be one."""
    if not _NAME.fullmatch(name):
        raise ConfigurationError("the name of a sealing key is lower-case letters, digits, `.`, `_` and `-`")
    return f"{name}:{base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()}"


def new_tenant_key(tenant_id: UUID) -> TenantKey:
    """Draw a key for a tenant."""
    return TenantKey(tenant_id, secrets.token_bytes(KEY_BYTES))


def wrap(ring: KeyRing, tenant_key: TenantKey) -> bytes:
    """Wrap a tenant's key with the first key of the ring."""
    nonce = secrets.token_bytes(NONCE_BYTES)
    bound = _bound("tenant key", tenant_key.tenant_id.bytes, ring.first.encode())
    return _FORMAT + nonce + AESGCM(ring.keys[ring.first]).encrypt(nonce, tenant_key.key, bound)


def unwrap(ring: KeyRing, *, tenant_id: UUID, wrapped: bytes, wrapped_by: str) -> TenantKey:
    """Open a tenant's key; raise UnknownSealingKey, or SealBroken when it was altered."""
    if wrapped_by not in ring.keys:
        raise UnknownSealingKey(
            f"The sealing key {wrapped_by} is not in EVERWHEN_SEALING_KEYS, which has {', '.join(ring.keys)};"
            " put it back, after the first."
        )
    opened = _opened(ring.keys[wrapped_by], wrapped, _bound("tenant key", tenant_id.bytes, wrapped_by.encode()))
    if opened is None:
        raise SealBroken(
            f"The tenant key that {wrapped_by} wrapped does not open: it was altered, or it is another key."
        )
    return TenantKey(tenant_id, opened)


def _opened(key: bytes, sealed: bytes, bound: bytes) -> bytes | None:
    begin = len(_FORMAT) + NONCE_BYTES
    if not sealed.startswith(_FORMAT):
        return None
    try:
        return AESGCM(key).decrypt(sealed[len(_FORMAT) : begin], sealed[begin:], bound)
    except (InvalidTag, ValueError):
        return None


def _bound(*parts: str | bytes) -> bytes:
    """Join with lengths, so that no two lists of parts make the same bytes."""
    encoded = [part.encode() if isinstance(part, str) else part for part in ("everwhen", *parts)]
    return b"".join(len(part).to_bytes(4, "big") + part for part in encoded)


def _decoded(encoded: str) -> bytes | None:
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return None
