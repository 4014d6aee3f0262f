"""Works arrears off: a bounded batch a transaction, fairly, beside the live planning.

Each of the batch is locked, takes one step, and goes to the end of the line (the time at which it is looked at next),
so that nobody's long past keeps another's short one waiting. A crash before the commit leaves the rows where they were,
and the same step is taken again, with the same run ids; after it, the step is done. What a step writes and what is left
are committed together, so nothing is decided twice, whoever works on it.

One that cannot be worked on (a spec that this version cannot read, a row that PostgreSQL refuses) is put off with its
error, and keeps no other back. So is one whose tenant has used up its runs of the day: what was missed already can wait
for a day with room.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import psycopg
import structlog

from everwhen import failpoints
from everwhen.core.arrears import Arrears
from everwhen.core.arrears_steps import Step, step
from everwhen.core.calendar_use import Book
from everwhen.core.quotas import Day, day_of
from everwhen.core.reasons import Reason
from everwhen.core.zones import ZoneSource
from everwhen.limits import quotas
from everwhen.postgres.pool import Connection
from everwhen.runs.planning import CaughtUpStep, record_caught_up
from everwhen.schedules.arrears import store
from everwhen.schedules.arrears.model import ArrearsRow, arrears_from_row, span_to_json
from everwhen.schedules.binding import books_of
from everwhen.schedules.model import bind_spec, parse_spec
from everwhen.schedules.rezoning import version_of

MOST_ARREARS: Final = 200
MOST_INSTANTS: Final = 4_000
"""How many arrears, and how many instants of them, one transaction works on."""

FEW_ARREARS: Final = 20
FEW_INSTANTS: Final = 400
"""The same while live planning is behind: it goes first, but what is overdue never stands still."""

MOST_PUT_OFF: Final = timedelta(hours=1)

UNWRITABLE: Final = (psycopg.DataError, psycopg.IntegrityError, psycopg.errors.ProgramLimitExceeded)

log = structlog.get_logger("everwhen.schedules")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkedOff:
    """What one batch came to. `next_at` is when the next arrears are to be looked at, None without any."""

    runs: int
    arrears: int
    next_at: datetime | None

    def is_more(self, now: datetime) -> bool:
        """Whether there is more to do at once."""
        return self.next_at is not None and self.next_at <= now


class _Made(NamedTuple):
    """A step, and what it starts from."""

    row: ArrearsRow
    start: Arrears
    step: Step


async def work_off(
    conn: Connection, *, now: datetime, arrears: int, instants: int, zones: ZoneSource | None = None
) -> WorkedOff:
    """Take one step in each of up to so many arrears, of so many instants in all."""
    rows = await store.lock_arrears(conn, now=now, limit=arrears)
    failpoints.hit("catchup.after_claim")
    runs = 0
    if rows:
        made = await _steps(conn, rows, now=now, limit=max(1, instants // len(rows)), zones=zones)
        made = await _with_room(conn, made, now=now)
        runs = await _write_or_put_off(conn, made, now=now, zones=zones)
    next_at = await store.next_look(conn)
    failpoints.hit("catchup.before_commit")
    return WorkedOff(runs=runs, arrears=len(rows), next_at=next_at)


async def _steps(
    conn: Connection, rows: Sequence[ArrearsRow], *, now: datetime, limit: int, zones: ZoneSource | None
) -> list[_Made]:
    stored = await store.read_revision_specs(
        conn,
        tenant_ids=[row.tenant_id for row in rows],
        uids=[row.schedule_uid for row in rows],
        revisions=[row.revision for row in rows],
    )
    texts = {(each.uid, each.revision): each.spec for each in stored}
    named = [(row.tenant_id, texts[row.schedule_uid, row.revision]) for row in rows]
    books = await books_of(conn, named, zones=zones)
    made: list[_Made] = []
    for row, (tenant_id, text) in zip(rows, named, strict=True):
        try:
            start = _start(row, text, books.get(tenant_id), zones=zones)
            made.append(_Made(row, start, step(start, now=now, limit=limit)))
        except Exception as error:  # noqa: BLE001  # one bad schedule never stops the loop: it is put off, and says why
            await _put_off(conn, row, error, now=now)
    return made


def _start(row: ArrearsRow, text: str, book: Book | None, *, zones: ZoneSource | None) -> Arrears:
    spec = parse_spec(text, zones)
    return arrears_from_row(row, bind_spec(spec, book) if book else spec)


async def _with_room(conn: Connection, made: Sequence[_Made], *, now: datetime) -> list[_Made]:
    """Return the steps whose runs the tenants may still have today; smaller ones where there is room for less."""
    day = day_of(now)
    wanted: dict[Day, int] = {}
    for each in made:
        wanted[each.row.tenant_id, day] = wanted.get((each.row.tenant_id, day), 0) + len(each.step.runs)
    room = await quotas.use_runs(conn, wanted)
    fitting = [each for each in made if (each.row.tenant_id, day) not in room]
    for each in (each for each in made if (each.row.tenant_id, day) in room):
        key = each.row.tenant_id, day
        smaller = each if len(each.step.runs) <= room[key] else _shortened(each, most=room[key], now=now)
        if smaller is None:
            await _put_off(conn, each.row, f"{Reason.QUOTA_RUNS_PER_DAY}: the runs of the day are used up", now=now)
        else:
            fitting.append(smaller)
            room[key] -= len(smaller.step.runs)
    await quotas.give_back_runs(conn, room)
    return fitting


def _shortened(made: _Made, *, most: int, now: datetime) -> _Made | None:
    """Return a step from the same place with no more than so many runs; None: there is none."""
    smaller = made._replace(step=step(made.start, now=now, limit=most)) if most > 0 else None
    return smaller if smaller is not None and len(smaller.step.runs) <= most else None


async def _write_or_put_off(conn: Connection, made: Sequence[_Made], *, now: datetime, zones: ZoneSource | None) -> int:
    """Write the steps, and find one that cannot be written by halves, so that it keeps no other back."""
    if not made:
        return 0
    try:
        async with conn.transaction():
            return await _write(conn, made, now=now, zones=zones)
    except UNWRITABLE as error:
        if len(made) == 1:
            await _put_off(conn, made[0].row, error, now=now)
            return 0
    half = len(made) // 2
    first = await _write_or_put_off(conn, made[:half], now=now, zones=zones)
    return first + await _write_or_put_off(conn, made[half:], now=now, zones=zones)


async def _write(conn: Connection, made: Sequence[_Made], *, now: datetime, zones: ZoneSource | None) -> int:
    steps = [
        CaughtUpStep(
            step=each.step,
            revision=each.row.revision,
            detail=json.dumps({"catch_up": each.row.cause, "arrears": each.row.arrears_id}),
        )
        for each in made
    ]
    runs = await record_caught_up(conn, steps, now=now, tz_version=version_of(zones))
    await _save(conn, made, now=now)
    return runs


async def _save(conn: Connection, made: Sequence[_Made], *, now: datetime) -> None:
    rests = [each.step.rest for each in made]
    await store.save_steps(
        conn,
        tenant_ids=[rest.tenant_id for rest in rests],
        schedule_uids=[rest.schedule_uid for rest in rests],
        arrears_ids=[each.row.arrears_id for each in made],
        rest_afters=[rest.after for rest in rests],
        rest_untils=[rest.until for rest in rests],
        first_runs=[rest.first_run for rest in rests],
        last_runs=[rest.last_run for rest in rests],
        open_spans=[span_to_json(rest.open_span) for rest in rests],
        paced_untils=[rest.paced_until for rest in rests],
        runs=[rest.counts.runs for rest in rests],
        coalesced=[rest.counts.coalesced for rest in rests],
        skipped=[rest.counts.skipped for rest in rests],
        missed=[rest.counts.missed for rest in rests],
        look_ats=[each.step.look_at for each in made],
        now=now,
    )


async def _put_off(conn: Connection, row: ArrearsRow, error: Exception | str, *, now: datetime) -> None:
    wait = min(timedelta(minutes=1) * 2 ** min(row.failures, 10), MOST_PUT_OFF)
    text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    log.warning("arrears.put_off", schedule_uid=str(row.schedule_uid), error=text)
    await store.put_off_arrears(
        conn,
        tenant_id=row.tenant_id,
        schedule_uid=row.schedule_uid,
        arrears_id=row.arrears_id,
        look_at=now + wait,
        error=text.replace("\x00", "")[:1000],
    )
