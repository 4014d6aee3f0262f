"""Backfill: which instants of a past range get a run, and whose id it has.

An instant is left out when it ran already, unless all of them are wanted, or only those with certain verdicts. The id
of a backfill's run is the id of its instant with the source `backfill:<id>`, so the same backfill makes the same runs,
however often it is asked for, and never a second one for an instant.
"""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

from everwhen.core.ids import scheduled_run_id
from everwhen.core.triggers import Timing, look

LOOKED_AT_ONCE: Final = 5_000
"""How many instants are looked at in one step."""

RAN: Final = frozenset({"succeeded", "dead", "redriven", "live"})
"""Outcomes of an instant that ran, or is about to. `live`: its run has not ended; `redriven`: dead, and run anew."""

VERDICTS: Final = frozenset({"dead", "missed", "skipped", "coalesced", "expired", "cancelled"})


class Include(StrEnum):
    """Which instants of the range."""

    NOT_RUN = "not_run"  # those that have not run
    ALL = "all"  # also those that have


@dataclass(frozen=True, slots=True, kw_only=True)
class Instant:
    """An instant that the schedule intends, and its local offset."""

    nominal_at: datetime
    utc_offset: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictSpan:
    """Neighbouring instants with one verdict, both ends included."""

    first_at: datetime
    last_at: datetime
    verdict: str


def next_instants(timing: Timing, *, after: datetime, before: datetime) -> tuple[list[Instant], datetime]:
    """Return the fires after an instant and before another, and up to where was looked: at most LOOKED_AT_ONCE."""
    until = before - timedelta(microseconds=1)
    if until <= after:
        return [], until
    found, _ = look(timing, after=after, until=until, limit=LOOKED_AT_ONCE)
    reached = found[-1].nominal_at if len(found) == LOOKED_AT_ONCE else until
    fires = [each for each in found if each.skipped is None]
    return [
        Instant(nominal_at=each.nominal_at, utc_offset=each.local.utcoffset() or timedelta(0)) for each in fires
    ], reached


def is_wanted(outcomes: Collection[str], *, include: Include, only: Collection[str]) -> bool:
    """Say whether an instant with these outcomes (of its runs, or of a span) gets a run; `only` narrows it."""
    if include is Include.ALL:
        return True
    if only:
        ran = RAN - {"dead"} if "dead" in only else RAN
        return not ran.intersection(outcomes) and not set(only).isdisjoint(outcomes)
    return not RAN.intersection(outcomes)


def spanned(at: datetime, spans: Sequence[VerdictSpan]) -> list[str]:
    """Return the verdicts of the spans that an instant lies in."""
    return [span.verdict for span in spans if span.first_at <= at <= span.last_at]


def backfill_id_of(*parts: str) -> str:
    """Return the id that a backfill has when nobody gives it one: the same for the same request."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]


def backfilled_run_id(tenant_id: UUID, schedule_uid: UUID, *, nominal_at: datetime, backfill_id: str) -> UUID:
    """Return the id of a backfill's run; its time is the nominal instant, whenever it is made."""
    return scheduled_run_id(
        tenant_id, schedule_uid, nominal_at=nominal_at, due_at=nominal_at, source=f"backfill:{backfill_id}"
    )
