"""Identity: a run's id is a pure function of its intention, and ids sort by time.

A run that a schedule intends has the UUIDv8

    48 bits  Unix milliseconds of the instant at which the run becomes due
    74 bits  of sha256(tenant, schedule uid, nominal instant, source)

so two schedulers, a replayed transaction or a promoted region all arrive at the same id and collide on the primary
key. A run that is made from another one (a redrive) has such an id as well: of its origin and of what made it. So
has a workflow's node: of its workflow's run, its own id and its place in a fan-out, at the instant of that run. A run
that nobody's schedule intends (an API request) and every definition has a UUIDv7 (RFC 9562). Either way a range of ids
is a range of time: tables partitioned by id prune a look-up to one partition.

Time and randomness are arguments; nothing here reads a clock.
"""

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_MICROSECOND: Final = timedelta(microseconds=1)
_VARIANT: Final = 0b10 << 62
_TIME_BITS: Final = 48
_RANDOM_HIGH_BITS: Final = 12
_RANDOM_LOW_BITS: Final = 62

RANDOM_BITS: Final = _RANDOM_HIGH_BITS + _RANDOM_LOW_BITS
"""How many random bits a UUIDv7 takes, and how many bits of the digest a UUIDv8 keeps."""

SOURCE_SCHEDULE: Final = "schedule"
"""The source of a run that a schedule's own trigger intends; a backfill uses `backfill:<id>`."""


def unix_milliseconds(instant: datetime) -> int:
    """Return whole milliseconds since 1970, rounded down; raise ValueError outside what 48 bits hold."""
    milliseconds = (instant - _EPOCH) // _MILLISECOND
    if not 0 <= milliseconds < 1 << _TIME_BITS:
        raise ValueError(f"{instant.isoformat()} is outside the range of a run id (1970 to 10889)")
    return milliseconds


def scheduled_run_id(
    tenant_id: UUID, schedule_uid: UUID, *, nominal_at: datetime, due_at: datetime, source: str = SOURCE_SCHEDULE
) -> UUID:
    """Return the id of the run that `source` intends for this schedule at this nominal instant (UTC, microseconds)."""
    nominal = (nominal_at - _EPOCH) // _MICROSECOND
    # Both uids have a fixed width and the number ends at the NUL, so two intentions never spell the same bytes.
    intention = tenant_id.bytes + schedule_uid.bytes + f"{nominal}\0{source}".encode()
    digest = int.from_bytes(hashlib.sha256(intention).digest()[:10], "big")
    return _uuid(8, unix_milliseconds(due_at), digest)


def derived_run_id(tenant_id: UUID, origin: UUID, *, by: str, at: datetime) -> UUID:
    """Return the id of the run that `by` (an operation, or one redrive) makes from the run `origin` at this instant."""
    making = tenant_id.bytes + origin.bytes + f"derived\0{by}".encode()
    return _uuid(8, unix_milliseconds(at), int.from_bytes(hashlib.sha256(making).digest()[:10], "big"))


def operation_id(tenant_id: UUID, *, token: str, at: datetime) -> UUID:
    """Return the id of the operation that carries out the plan of this token, which was made at this instant."""
    plan = tenant_id.bytes + f"operation\0{token}".encode()
    return _uuid(8, unix_milliseconds(at), int.from_bytes(hashlib.sha256(plan).digest()[:10], "big"))


def node_run_id(tenant_id: UUID, workflow_run_id: UUID, *, node: str, instance: int) -> UUID:
    """Return the id of the run that a node of a workflow's run is released as; `instance` is -1 but for a fan-out's.

    It has the instant of the workflow's run, so that one release has one id whenever it happens, and what belongs
    together lies together.
    """
    intention = tenant_id.bytes + workflow_run_id.bytes + f"node\0{node}\0{instance}".encode()
    return _uuid(8, workflow_run_id.int >> 80, int.from_bytes(hashlib.sha256(intention).digest()[:10], "big"))


def rerun_id(tenant_id: UUID, root_run_id: UUID, *, generation: int, now: datetime) -> UUID:
    """Return the id of a later generation of a workflow's run."""
    intention = tenant_id.bytes + root_run_id.bytes + f"generation\0{generation}".encode()
    return _uuid(8, unix_milliseconds(now), int.from_bytes(hashlib.sha256(intention).digest()[:10], "big"))


def hashed_id(digest: bytes, *, at: datetime) -> UUID:
    """Return the id of something that happened at this instant and is told apart by a digest of what it was."""
    return _uuid(8, unix_milliseconds(at), int.from_bytes(digest[:10], "big"))


def time_ordered_id(now: datetime, *, random_bits: int) -> UUID:
    """Return a UUIDv7 for this instant; `random_bits` supplies its RANDOM_BITS random bits."""
    return _uuid(7, unix_milliseconds(now), random_bits)


def instant_of(run_id: UUID) -> datetime:
    """Return the instant in the id's first 48 bits, to the millisecond."""
    return _EPOCH + (run_id.int >> (128 - _TIME_BITS)) * _MILLISECOND


def first_id_at(instant: datetime) -> UUID:
    """Return the smallest id of this instant: the bound between partitions, and of a range of time."""
    return UUID(int=unix_milliseconds(instant) << (128 - _TIME_BITS))


def _uuid(version: int, milliseconds: int, bits: int) -> UUID:
    high = (bits >> _RANDOM_LOW_BITS) & ((1 << _RANDOM_HIGH_BITS) - 1)
    low = bits & ((1 << _RANDOM_LOW_BITS) - 1)
    return UUID(int=(milliseconds << 80) | (version << 76) | (high << 64) | _VARIANT | low)
