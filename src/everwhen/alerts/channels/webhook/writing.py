"""Writes the body of a webhook's request."""

import json
from collections.abc import Mapping
from typing import Any, Final

from everwhen.alerts.texts.payload import thin as thinned

BODY_BYTES: Final = 262_144


def body_of(payload: Mapping[str, Any], *, thin: bool) -> bytes:
    """Write the payload; one that is larger than a receiver can be expected to take goes as its thin form."""
    full = _written(thinned(payload) if thin else payload)
    return full if len(full) <= BODY_BYTES else _written({**thinned(payload), "truncated": True})


def _written(payload: Mapping[str, Any]) -> bytes:
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
