"""The chain of the audit: what is hashed, so that nothing of it can be changed unnoticed.

    h(0) = SHA-256("everwhen audit" ‖ tenant)
    h(n) = SHA-256(h(n-1) ‖ n as 8 bytes ‖ epoch ‖ length of the record as 4 bytes ‖ record)

Each tenant has a chain of its own, which begins with its id: a link of one chain fits into no other. The record is an
event as canonical JSON, so an event that was read from anywhere, a database or a file, spells the same bytes again. The
epoch names the server, and the timeline of it, that made the link: two servers that both go on from one place, as after
a failover that lost something, never come to the same hash.

Pure: nothing here reads a clock or a database.
"""

import hashlib
import json
from typing import Any, Final
from uuid import UUID

HASH_BYTES: Final = 32
_BEGIN: Final = b"everwhen audit"


def canonical(value: Any) -> str:
    """Spell JSON in the one way: keys in order, no spaces, ASCII. Raises ValueError for NaN and infinity."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def genesis(tenant_id: UUID) -> bytes:
    """Return what a tenant's chain begins with: h(0)."""
    return hashlib.sha256(_BEGIN + tenant_id.bytes).digest()


def link(previous: bytes, *, seq: int, epoch: UUID, record: str) -> bytes:
    """Return the hash of the link at this place, the first of which is 1."""
    raw = record.encode()
    return hashlib.sha256(previous + seq.to_bytes(8, "big") + epoch.bytes + len(raw).to_bytes(4, "big") + raw).digest()
