"""Writes the request of a webhook: the body, and what signs it."""

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from everwhen.alerts.texts.payload import thin as thinned

BODY_BYTES: Final = 262_144


def body_of(payload: Mapping[str, Any], *, thin: bool) -> bytes:
    """Write the payload; one that is larger than a receiver can be expected to take goes as its thin form."""
    full = _written(thinned(payload) if thin else payload)
    return full if len(full) <= BODY_BYTES else _written({**thinned(payload), "truncated": True})


def signed(body: bytes, *, keys: Sequence[bytes], delivery_id: UUID, now: datetime) -> dict[str, str]:
    """Return the headers that sign this body by each key; the id stays the same over retries, the time does not."""
    stamp = int(now.timestamp())
    content = f"{delivery_id}.{stamp}.".encode() + body
    signatures = [base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode() for key in keys]
    return {
        "content-type": "application/json",
        "webhook-id": str(delivery_id),
        "webhook-timestamp": str(stamp),
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }


def _written(payload: Mapping[str, Any]) -> bytes:
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
