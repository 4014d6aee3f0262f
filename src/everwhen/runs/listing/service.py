"""Lists of runs: which index serves a filter, and what is refused because none does.

    operation, origin        the few runs that were made so
    fingerprint              dead runs of one group
    a state                  where runs of that state are: the line, the leases, the ends
    a schedule               its own runs
    nothing of these         all runs, newest first

What is left of the filter is checked row by row along that index, MOST_LOOKED_AT rows for a page: it may be a short
one, and go on. So that a rare value does not make whoever follows the pages walk through years, a filter that leaves
something to check among ended runs looks back a week unless it says how far (`due>=`); the effective filter is echoed.

`due` bounds the instant in the run's id, which is when it became due; of a run that was asked for ahead of its instant
or made by an operation it is when that was asked for, of a backfill's run its nominal instant.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from everwhen.core.filters import (
    BEFORE,
    EQUAL,
    FROM,
    Filter,
    FilterError,
    Identifier,
    Moment,
    Term,
    Vocabulary,
    Word,
    moment,
    ordered,
    parse,
    within,
)
from everwhen.core.ids import first_id_at
from everwhen.core.lifecycle import RESTING, TERMINAL, RunState
from everwhen.core.targets import workflow_task
from everwhen.lists import FIRST_ID, LAST_ID, unreadable
from everwhen.postgres.pool import Connection
from everwhen.runs.listing import store
from everwhen.runs.listing.store import Place
from everwhen.runs.model import RunFilter

WEEK: Final = timedelta(days=7)
NO_FINGERPRINT: Final = "none"
"""How a filter spells dead runs whose error has no fingerprint."""

PAGE: Final = 2_000

MOST_LOOKED_AT: Final = 5_000
"""How many rows of its index a page looks at."""

LETTERS: Final = frozenset({"open", "redriven", "dismissed"})

RUNS: Final = Vocabulary(
    fields={
        "state": Word(choices=frozenset(RunState)),
        "schedule": Word(),
        "task": Word(),
        "workflow": Word(),
        "source": Word(),
        "reason": Word(),
        "fingerprint": Word(),
        "letter": Word(choices=LETTERS),
        "operation": Identifier(),
        "origin": Identifier(),
        "due": Moment(),
        "ended": Moment(),
    },
    short=within("due"),
)

_LIVE: Final = RESTING | {RunState.RUNNING}
_UNWELL: Final = TERMINAL - {RunState.SUCCEEDED}
_ALONE: Final = {
    "operation": frozenset({"operation", "state", "due"}),
    "origin": frozenset({"origin", "due"}),
}


def read_filter(text: str, *, now: datetime, pointer: str, implied: str = "") -> Filter:
    """Read a filter of runs, with what it leaves open filled in; `implied` are terms that come from elsewhere.

    Raises InvalidInput, which points at `pointer` and tells the place within the text.
    """
    try:
        asked = parse(text, RUNS, now=now)
        terms = list(asked.terms)
        for term in parse(implied, RUNS, now=now).terms:
            given = asked.term(term.name, term.operator)
            if given is None:
                terms.append(term)
            elif given != term and term.operator == EQUAL:
                raise _unserved(asked, {term.name}, f"here it is {term.value}")
        return effective(ordered(terms, RUNS), now=now)
    except FilterError as error:
        raise unreadable(error, pointer) from error


def effective(asked: Filter, *, now: datetime) -> Filter:
    """Return the filter with its defaults: dead, where only dead runs can be meant, and a week. Raises FilterError."""
    names = {term.name for term in asked.terms}
    terms = list(asked.terms)
    for name, allowed in _ALONE.items():
        if name in names and not names <= allowed:
            raise _unserved(asked, names - allowed, f"{name} goes with {', '.join(sorted(allowed - {name}))} only")
    if names & {"fingerprint", "letter"} and "state" not in names:
        terms.append(Term("state", ":", RunState.DEAD))
    state = next((RunState(term.value) for term in terms if term.name == "state"), None)
    if names & {"fingerprint", "letter"} and state is not RunState.DEAD:
        raise _unserved(asked, {"state"}, "only dead runs have a fingerprint or are letters")
    if names & {"reason", "ended"} and state not in _UNWELL:
        raise _unserved(asked, names & {"reason", "ended"}, "needs a state that is an end, such as state:dead")
    if {"task", "workflow"} <= names:
        raise _unserved(asked, {"workflow"}, "a run is of a task or of a workflow")
    if "operation" in names and state is not None and state not in TERMINAL:
        raise _unserved(asked, {"state"}, "an operation's runs are listed by how they ended")
    if _walks(names, state) and not any(term.name == "due" and term.operator == FROM for term in terms):
        terms.append(Term("due", FROM, moment(now - WEEK)))
    return ordered(terms, RUNS)


def run_filter(asked: Filter) -> RunFilter:
    """Return what an effective filter means."""
    state, fingerprint, workflow = asked.text("state"), asked.text("fingerprint"), asked.text("workflow")
    return RunFilter(
        schedule=asked.text("schedule"),
        task=asked.text("task") if workflow is None else workflow_task(workflow),
        state=None if state is None else RunState(state),
        source=asked.text("source"),
        reason=asked.text("reason"),
        fingerprint="" if fingerprint == NO_FINGERPRINT else fingerprint,
        letter=asked.text("letter"),
        operation_id=asked.identifier("operation"),
        origin_run_id=asked.identifier("origin"),
        due_from=asked.instant("due", FROM),
        due_before=asked.instant("due", BEFORE),
        ended_from=asked.instant("ended", FROM),
        ended_before=asked.instant("ended", BEFORE),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A filter with its schedule's uid, for one tenant."""

    tenant_id: UUID
    where: RunFilter
    schedule_uid: UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageOfIds:
    """Ids, the newest first, and the one below which the next page begins; None: there is none."""

    run_ids: list[UUID]
    following: UUID | None


async def page_ids(conn: Connection, asked: Asked, *, before: UUID, limit: int) -> PageOfIds:
    """Return up to `limit` ids below `before`, the newest first."""
    places = await _places(conn, asked, before=before, limit=limit + 1)
    walked_to = max((place.run_id for place in places if not place.fits), default=None)
    # Below the place where one line's walk ended, what the other line has is left to the next page.
    run_ids = sorted(
        (each.run_id for each in places if each.fits and (walked_to is None or each.run_id >= walked_to)), reverse=True
    )
    if len(run_ids) > limit:
        return PageOfIds(run_ids=run_ids[:limit], following=run_ids[limit - 1])
    return PageOfIds(run_ids=run_ids, following=walked_to)


async def _places(conn: Connection, asked: Asked, *, before: UUID, limit: int) -> list[Place]:
    where = asked.where
    bounds: dict[str, Any] = {
        "tenant_id": asked.tenant_id,
        "before": before if where.due_before is None else min(before, _bound(where.due_before)),
        "since": FIRST_ID if where.due_from is None else _bound(where.due_from),
        "limit": limit,
    }
    if where.origin_run_id is not None:
        return await store.page_origin_runs(conn, **bounds, origin_run_id=where.origin_run_id)
    bounds["walk"] = max(MOST_LOOKED_AT, limit)
    if where.operation_id is not None:
        return await store.page_operation_runs(conn, **bounds, operation_id=where.operation_id, state=where.state)
    if where.state is not None:
        return await _page_state(conn, asked, where.state, bounds)
    kinds: dict[str, Any] = {"task": where.task, "source": where.source}
    if asked.schedule_uid is not None:
        return await store.page_schedule_runs(conn, **bounds, schedule_uid=asked.schedule_uid, **kinds)
    return await store.page_runs(conn, **bounds, **kinds)


async def all_ids(conn: Connection, asked: Asked, *, most: int) -> list[UUID]:
    """Return every id that the filter finds, the newest first; up to `most` of them."""
    found: list[UUID] = []
    before: UUID | None = LAST_ID
    while before is not None and len(found) < most:
        page = await page_ids(conn, asked, before=before, limit=min(PAGE, most - len(found)))
        found += page.run_ids
        before = page.following
    return found


async def _page_state(conn: Connection, asked: Asked, state: RunState, bounds: dict[str, Any]) -> list[Place]:
    where = asked.where
    run: dict[str, Any] = {"schedule_uid": asked.schedule_uid, "task": where.task, "source": where.source}
    live: dict[str, Any] = run | {"planned_before": where.planned_before}
    match state:
        case RunState.SUCCEEDED:
            return await store.page_succeeded(conn, **bounds, **run, any_run=_is_any(run))
        case RunState.RUNNING:
            return await store.page_running(conn, **bounds, **live, any_run=_is_any(live))
        case RunState.WAITING | RunState.RETRYING | RunState.PLANNED:
            due, failed = state is RunState.WAITING, state is RunState.RETRYING
            resting: dict[str, Any] = {"due": due, "failed": failed, "now": conn.now}
            return await store.page_resting(conn, **bounds, **live, **resting, any_run=_is_any(live))
        case _:
            ended: dict[str, Any] = {
                "ended_from": where.ended_from,
                "ended_before": where.ended_before,
                "letter": where.letter,
                "reason": where.reason,
                "any_run": _is_any(run),
            }
            if where.fingerprint == "":
                return await store.page_dead_nameless(conn, **bounds, **run, **ended)
            if where.fingerprint is not None:
                return await store.page_dead(conn, **bounds, **run, **ended, fingerprint=where.fingerprint)
            return await store.page_ended(conn, **bounds, **run, **ended, state=state)


def _is_any(of_the_run: dict[str, Any]) -> bool:
    return all(value is None for value in of_the_run.values())


def _walks(names: set[str], state: RunState | None) -> bool:
    """Say whether something is left to check, row by row, along an index that may be long."""
    if state in _LIVE or names & {"operation", "origin"}:
        return False
    checked = names & {"task", "workflow", "source", "reason", "ended", "letter"}
    return bool(checked) or (state is not None and "schedule" in names)


def _bound(instant: datetime) -> UUID:
    return first_id_at(max(instant, datetime(1970, 1, 1, tzinfo=UTC)))


def _unserved(asked: Filter, blamed: set[str], why: str) -> FilterError:
    term = next(term for term in asked.terms if term.name in blamed)
    return FilterError(f"{term.name}: {why}", code="filter.unserved", position=term.position)
