"""What only this installation can have made: the codes of test messages, and the tokens of unsubscribe links.

Both are keyed digests, so nothing of them is stored: a code is made when its message is sent and made again when
somebody sends it back, and a link holds for as long as the key does. The key is derived from the one that signs access
tokens, with a name of its own, so that neither can stand for the other.
"""

import base64
import binascii
import hashlib
import hmac
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

import msgspec

_PERSON: Final = b"everwhen alerts"
_CODE_ALPHABET: Final = "23456789ABCDEFGHJKMNPQRSTVWXYZ"
CODE_LETTERS: Final = 8
_TAG_BYTES: Final = 16
MOST_TOKEN: Final = 1_000


class Outlet(msgspec.Struct, frozen=True, array_like=True):
    """Whom a link unsubscribes from what."""

    tenant_id: UUID
    channel: str
    recipient: str


@dataclass(frozen=True, slots=True)
class Signer:
    """Makes and checks codes and tokens."""

    key: bytes = field(repr=False)

    @classmethod
    def derived_from(cls, secret: str) -> "Signer":
        """Derive the key from the installation's secret."""
        return cls(hmac.digest(secret.encode(), _PERSON, hashlib.sha256))

    def code(self, outlet: Outlet, test: UUID) -> str:
        """Return the code that the test message of this id carries to this receiver."""
        number = int.from_bytes(self._digest(b"code", msgspec.json.encode((outlet, test))), "big")
        letters: list[str] = []
        for _ in range(CODE_LETTERS):
            number, index = divmod(number, len(_CODE_ALPHABET))
            letters.append(_CODE_ALPHABET[index])
        return f"{''.join(letters[:4])}-{''.join(letters[4:])}"

    def is_code(self, given: str, outlet: Outlet, test: UUID) -> bool:
        """Say whether somebody has sent the code of that message; capitals and dashes do not matter."""
        plain = given.upper().replace("-", "").replace(" ", "").encode()
        return hmac.compare_digest(plain, self.code(outlet, test).replace("-", "").encode())

    def token(self, outlet: Outlet) -> str:
        """Return the token of an unsubscribe link."""
        payload = msgspec.json.encode(outlet)
        signed = self._digest(b"unsubscribe", payload)[:_TAG_BYTES] + payload
        return base64.urlsafe_b64encode(signed).rstrip(b"=").decode()

    def read_token(self, token: str) -> Outlet | None:
        """Return whom a token unsubscribes; None when we have not made it."""
        if len(token) > MOST_TOKEN:
            return None
        try:
            signed = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
            tag, payload = signed[:_TAG_BYTES], signed[_TAG_BYTES:]
            if not hmac.compare_digest(tag, self._digest(b"unsubscribe", payload)[:_TAG_BYTES]):
                return None
            return msgspec.json.decode(payload, type=Outlet)
        except (binascii.Error, msgspec.DecodeError, ValueError):
            return None

    def _digest(self, purpose: bytes, text: bytes) -> bytes:
        return hmac.digest(self.key, purpose + b"\0" + text, hashlib.sha256)
