"""The promises about instants: draws schedules, reads what became of their instants, and has it compared."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from everwhen.core.calendar_use import Book
from everwhen.core.triggers import Timing, calendar_names, next_look
from everwhen.core.zones import tz_version
from everwhen.postgres.pool import Database
from everwhen.schedules.binding import books_of
from everwhen.schedules.model import ScheduleState, bind_spec, parse_spec
from everwhen.verify import store
from everwhen.verify.model import SampledSchedule, Scope, Violation
from everwhen.verify.occurrences import Differences, Expand, compare, expand_by_core
from everwhen.verify.promises import MISCOUNTED, MISSING, UNINTENDED

EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)


async def check_instants(
    database: Database, scope: Scope, *, now: datetime, expand: Expand = expand_by_core
) -> dict[str, list[Violation]]:
    """Return the violations of each of the three promises, over the schedules that the scope draws."""
    found: dict[str, list[Violation]] = {MISSING: [], UNINTENDED: [], MISCOUNTED: []}
    async with database.system() as conn:
        drawn = await store.sample_schedules(conn, seed=scope.seed, sample=scope.sample)
    for schedule in drawn:
        differences = await _differences(database, schedule, scope, now=now, expand=expand)
        if differences:  # a change may have come between the two statements: what is wrong stays wrong
            differences = await _differences(database, schedule, scope, now=now, expand=expand)
        _report(schedule, differences, found)
    return found


async def _differences(
    database: Database, schedule: SampledSchedule, scope: Scope, *, now: datetime, expand: Expand
) -> Differences:
    since = max(EARLIEST, now - timedelta(days=scope.days))
    async with database.system() as conn:
        answers = await store.read_answers(conn, tenant_id=schedule.tenant_id, uid=schedule.uid, after=since)
        if answers is None:
            return Differences()
        specs = answers.revision_specs or [schedule.spec]
        books = await books_of(conn, [(schedule.tenant_id, text) for text in specs])
    timings = _timings(schedule, specs, books.get(schedule.tenant_id, {}))
    return compare(answers, timings, since=since, release=tz_version(), expand=expand)


def _timings(schedule: SampledSchedule, specs: Sequence[str], book: Book) -> list[Timing | None]:
    last = None if schedule.state == ScheduleState.DELETED else len(specs) - 1
    return [_timing(text, book, is_present=index == last) for index, text in enumerate(specs)]


def _timing(text: str, book: Book, *, is_present: bool) -> Timing | None:
    """Return a revision's timing, None when it cannot be told what it intended."""
    try:
        spec = parse_spec(text)
        names = calendar_names(spec.timing)
        if names and not (is_present and book.keys() >= set(names)):
            return None
        timing = bind_spec(spec, book).timing
        next_look(timing, EARLIEST)
    except Exception:  # noqa: BLE001  # the planner puts such a schedule off, whatever is wrong with it, and says why
        return None
    return timing


def _report(schedule: SampledSchedule, found: Differences, into: dict[str, list[Violation]]) -> None:
    def say(promise: str, detail: str) -> None:
        into[promise].append(Violation(tenant_id=schedule.tenant_id, subject=schedule.name, detail=detail))

    for at in found.missing:
        say(MISSING, f"{_text(at)} has neither a run nor a span")
    for at in found.unintended:
        say(UNINTENDED, f"a run stands for {_text(at)}, which the schedule never intended")
    for at, count, within in found.miscounted:
        say(MISCOUNTED, f"the span from {_text(at)} counts {count}, the schedule has {within} there")


def _text(at: datetime) -> str:
    return at.astimezone(UTC).isoformat()
