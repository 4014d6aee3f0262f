"""The only module that reads the wall clock or draws randomness.

Instants that decide anything come from the database's clock (one clock for every process); what is here serves only
what a process needs before it has asked the database, or apart from it: new ids, jitter, tokens, log lines.
"""

import secrets
from datetime import UTC, datetime
from random import Random
from uuid import UUID

from everwhen.core import ids

_JITTER = Random()  # noqa: S311  # spreads retries; nothing rests on nobody guessing it


def process_now() -> datetime:
    """Return this process's own idea of now, UTC. Never decide with it: another process disagrees."""
    return datetime.now(UTC)


def jitter() -> float:
    """Draw from [0, 1)."""
    return _JITTER.random()


def new_id(now: datetime) -> UUID:
    """Make a time-ordered id for this instant."""
    return ids.time_ordered_id(now, random_bits=secrets.randbits(ids.RANDOM_BITS))


def new_secret() -> str:
    """Draw 256 random bits, as URL-safe text."""
    return secrets.token_urlsafe(32)
