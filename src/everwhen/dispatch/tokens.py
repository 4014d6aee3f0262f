"""Lease tokens on the wire: the fencing number, sealed for its run, so that nobody can guess a neighbour's.

A number that only grows can be guessed; with a seal of 64 bits it cannot. The seal is keyed with the server's secret,
so every copy of the API can check what another one sealed. A new secret makes open leases run out and be taken again.
"""

import hashlib
import hmac
import re
from uuid import UUID

NO_TOKEN = "0"  # noqa: S105  # it opens nothing
"""What stands for a token that does not hold: no lease has it."""

_SEAL_BYTES = 8
_NUMBER = re.compile(r"[1-9][0-9]{0,18}")


class LeaseTokens:
    """Seals and opens tokens with one secret."""

    def __init__(self, secret: str) -> None:
        self._key = hashlib.blake2b(secret.encode(), person=b"everwhen lease").digest()

    def seal(self, run_id: UUID, number: int) -> str:
        """Return what the worker gets."""
        return f"{number}.{self._seal(run_id, number)}"

    def open(self, run_id: UUID, text: str) -> str:
        """Return the number as text, or NO_TOKEN when it was not sealed here for this run."""
        digits, _, seal = text.partition(".")
        if not (_NUMBER.fullmatch(digits) and seal.isascii()):
            return NO_TOKEN
        return digits if hmac.compare_digest(seal, self._seal(run_id, int(digits))) else NO_TOKEN

    def _seal(self, run_id: UUID, number: int) -> str:
        message = run_id.bytes + number.to_bytes(10, "big")
        return hashlib.blake2b(message, key=self._key, digest_size=_SEAL_BYTES).hexdigest()
