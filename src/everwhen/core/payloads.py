"""How an input refers to a payload: `{"$payload": "sha256:…"}`, an object with this one key, anywhere in the input.

The digest is the payload's name: the same bytes have the same one, and whoever has fetched them can check that they are
what was meant.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

KEY: Final = "$payload"
DIGEST_PATTERN: Final = r"^sha256:[0-9a-f]{64}$"

_DIGEST: Final = re.compile(DIGEST_PATTERN.removesuffix("$") + r"\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A payload that an input refers to, and the JSON pointer to where it does."""

    digest: str
    pointer: str


class BadReferenceError(ValueError):
    """An object has the key of a reference and is none."""

    def __init__(self, pointer: str, detail: str) -> None:
        super().__init__(detail)
        self.pointer = pointer


def is_digest(text: str) -> bool:
    """Say whether this is a digest as it is written here: `sha256:` and 64 lower-case hexadecimal digits."""
    return _DIGEST.match(text) is not None


def digest_of(sha256_hex: str) -> str:
    """Return the digest of a payload with this SHA-256."""
    return f"sha256:{sha256_hex}"


def reference_to(digest: str) -> dict[str, str]:
    """Return what stands for the payload in an input."""
    return {KEY: digest}


def references_in(value: Any, *, pointer: str = "") -> Iterator[Reference]:
    """Yield the references in an input; raise BadReferenceError for an object that only looks like one."""
    if isinstance(value, dict):
        data = cast("dict[str, Any]", value)
        if KEY in data:
            yield _read(data, pointer)
        else:
            for key, inner in data.items():
                yield from references_in(inner, pointer=f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}")
    elif isinstance(value, list):
        for index, inner in enumerate(cast("list[Any]", value)):
            yield from references_in(inner, pointer=f"{pointer}/{index}")


def _read(data: dict[str, Any], pointer: str) -> Reference:
    digest = data[KEY]
    if len(data) > 1:
        raise BadReferenceError(pointer, f"a reference to a payload has the one key {KEY}")
    if not isinstance(digest, str) or not is_digest(digest):
        detail = "a payload is named by sha256: and 64 lower-case hexadecimal digits"
        raise BadReferenceError(f"{pointer}/{KEY}", detail)
    return Reference(digest=digest, pointer=f"{pointer}/{KEY}")
