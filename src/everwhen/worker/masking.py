"""Hides secrets in what is printed: each occurrence becomes asterisks, also one that two chunks have half of each.

What could still become a secret is held back until the next bytes tell. It is a courtesy to whoever prints by mistake,
no wall: a program that wants to tell a secret only has to spell it in another way.
"""

import re
from collections.abc import Iterable
from typing import Final

LEAST_SECRET: Final = 4
"""A shorter one is no secret, and would be found in every other word."""

STARS: Final = b"********"


class Masker:
    """Masks one stream of bytes."""

    def __init__(self, secrets: Iterable[bytes]) -> None:
        """Hide these; the longest first, so that one that begins with another is hidden whole."""
        self._secrets = sorted({each for each in secrets if len(each) >= LEAST_SECRET}, key=len, reverse=True)
        self._pattern = re.compile(b"|".join(map(re.escape, self._secrets))) if self._secrets else None
        self._held = b""

    def mask(self, data: bytes) -> bytes:
        """Return what can be shown by now."""
        if self._pattern is None:
            return data
        whole = self._held + data
        shown, end = self._masked(whole, open_at=self._undecided(whole))
        self._held = whole[end:]
        return shown

    def rest(self) -> bytes:
        """Return what was held back, at the end of the stream."""
        held, self._held = self._held, b""
        return self._masked(held, open_at=[])[0]

    def _masked(self, whole: bytes, *, open_at: list[int]) -> tuple[bytes, int]:
        """Return what is shown of it, up to the first place that is undecided, and where that is."""
        if self._pattern is None:
            return whole, len(whole)
        masked, at = bytearray(), 0
        while True:
            found = self._pattern.search(whole, at)
            undecided = next((place for place in open_at if place >= at), len(whole))
            if found is None or undecided <= found.start():
                return bytes(masked + whole[at:undecided]), undecided
            masked += whole[at : found.start()] + STARS
            at = found.end()

    def _undecided(self, whole: bytes) -> list[int]:
        """Return where secrets may begin that the next bytes would end."""
        first = max(0, len(whole) - len(self._secrets[0]) + 1)
        return [at for at in range(first, len(whole)) if self._may_begin(whole[at:])]

    def _may_begin(self, tail: bytes) -> bool:
        return any(len(secret) > len(tail) and secret.startswith(tail) for secret in self._secrets)
