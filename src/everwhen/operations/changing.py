"""Changes of schedules, tasks and workflows by a filter: what one is about, and one step of carrying it out.

The set is what the filter finds, of what there was *at the instant of the plan*: what was made since is no part of it.
Carrying out looks at it again, and the same set is required. From then on it stands written down, and each item is
looked at once more when its turn comes, locked:

    deleted, or made anew under its name      skipped   operation.item_gone
    as it is to be already                    skipped   operation.done_already
    changed, so that the filter misses it     skipped   operation.item_changed
    refused, as a request for it would be     skipped   operation.item_refused, with the refusal's code
    else                                      changed, with its revision and its event in the audit, or with neither

Locks, in this order: the operation's row, the audit's hold on each thing (as requests take it, by name), the things by
key, and what each change takes besides. Pausing, resuming and deleting take locks on runs and on the schedule's gate,
which is why one step does one of them: whoever holds a gate must not wait for another schedule's runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

import psycopg
import structlog

from everwhen.audit import service as audit
from everwhen.audit.model import Actor, Deed
from everwhen.core.audit_telling import difference
from everwhen.core.bulk import CHANGES, TAGGING, OperationKind, Verb, fold_keys
from everwhen.core.errors import TriggerError
from everwhen.core.filters import Filter, FilterError, Term, fits, ordered, parse
from everwhen.core.reasons import Reason
from everwhen.core.tags import TagError, Tagged, retagged
from everwhen.errors import EverwhenError, InvalidInput
from everwhen.http.auditing import plain
from everwhen.lists import read_filter, unreadable
from everwhen.operations.kinds.protocol import Found, Standing, Things, Wish
from everwhen.operations.kinds.schedules import Schedules
from everwhen.operations.kinds.tasks import Tasks
from everwhen.operations.kinds.workflows import Workflows
from everwhen.operations.model import Item, OperationRow, Request
from everwhen.postgres.pool import Connection
from everwhen.runs.ends import Ended, OnEnded

KINDS: Final[Mapping[Tagged, Things]] = {
    Tagged.SCHEDULE: Schedules(),
    Tagged.TASK: Tasks(),
    Tagged.WORKFLOW: Workflows(),
}
MOST_THINGS: Final = 100_000
PAGE: Final = 1_000
RETAGGED_AT_ONCE: Final = 25
CREDENTIAL: Final = "operation"
"""How the audit calls it when a person's order is carried out later."""

_IMPLIED: Final = {Verb.PAUSE: "active", Verb.RESUME: "paused"}
_UNABLE: Final = (psycopg.DataError, psycopg.IntegrityError, ValueError, LookupError, TypeError)

log = structlog.get_logger("everwhen.operations")


class Outcome(NamedTuple):
    """What became of an item; `reason` None: it was changed. `detail` is the code of what refused it."""

    seq: int
    reason: Reason | None
    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Whose operation it is, what it does, with which filter, as of when; who hears of ends that it brings about."""

    row: OperationRow
    request: Request
    asked: Filter
    as_of: datetime
    on_ended: OnEnded

    @property
    def verb(self) -> Verb:
        """How things are changed."""
        return CHANGES[self.request.kind][0]

    @property
    def things(self) -> Things:
        """What is changed."""
        return KINDS[CHANGES[self.request.kind][1]]


def at_once(kind: OperationKind) -> int:
    """Return how many items one step takes at most."""
    return RETAGGED_AT_ONCE if CHANGES[kind][0] in TAGGING else 1


def read_bulk_filter(kind: OperationKind, text: str, *, as_of: datetime) -> Filter:
    """Read the filter of such an operation, with what its kind implies; raise InvalidInput.

    A pause takes schedules that are active, a resumption those that are paused. A deletion says of what.
    """
    verb, thing = CHANGES[kind]
    vocabulary = KINDS[thing].vocabulary
    asked = read_filter(text, vocabulary, now=as_of, pointer="/filter")
    if verb is Verb.DELETE and not asked.terms:
        detail = "Say which: a deletion is never of whatever there is."
        raise InvalidInput.at("/filter", detail, code="operation.filter_required")
    if (state := _IMPLIED.get(verb)) is None:
        return asked
    term = asked.term("state") or Term("state", ":", state)
    if term.value != state:
        detail = f"state: only what is {state} can be {verb}d"
        raise unreadable(FilterError(detail, code="filter.unserved", position=term.position), "/filter")
    return ordered({*asked.terms, term}, vocabulary)


def parse_filter(kind: OperationKind, canonical: str, *, now: datetime) -> Filter:
    """Read a filter that was read before."""
    return parse(canonical, KINDS[CHANGES[kind][1]].vocabulary, now=now)


async def select(
    conn: Connection, *, tenant_id: UUID, kind: OperationKind, asked: Filter, as_of: datetime
) -> list[Found]:
    """Return what a filter finds of what there was at an instant, oldest first, up to one more than MOST_THINGS."""
    things = KINDS[CHANGES[kind][1]]
    found: list[Found] = []
    after: str | None = ""
    while after is not None and len(found) <= MOST_THINGS:
        page = await things.find(conn, tenant_id, asked, after=after, limit=PAGE)
        found += [each for each in page.rows if each.created_at <= as_of]
        after = page.following
    return sorted(found[: MOST_THINGS + 1], key=lambda each: (each.created_at, each.name))


def digest(found: Sequence[Found]) -> bytes:
    """Return the digest of things in this order."""
    return fold_keys(b"", (f"{each.uid} {each.name}".encode() for each in found))


async def carry_out(conn: Connection, step: Step, items: Sequence[Item]) -> list[Outcome]:
    """Change these items, or skip them."""
    named = [(item.name, item.uid) for item in items if item.name is not None]
    for name in sorted(name for name, _ in named):
        await audit.hold(conn, tenant_id=step.row.tenant_id, resource=f"{step.things.folder}/{name}")
    await step.things.lock(conn, step.row.tenant_id, named)
    ended: list[Ended] = []
    outcomes = [await _one(conn, step, item, ended) for item in items]
    if ended:
        await step.on_ended(conn, ended, conn.now)
    return outcomes


async def _one(conn: Connection, step: Step, item: Item, ended: list[Ended]) -> Outcome:
    own: list[Ended] = []
    try:
        async with conn.transaction():  # a savepoint: what is refused leaves nothing, and the others go on
            reason = await _change(conn, step, item, own)
    except (EverwhenError, TriggerError) as error:
        if isinstance(error, EverwhenError) and error.retryable:
            raise
        return Outcome(item.seq, Reason.OPERATION_ITEM_REFUSED, error.code)
    except _UNABLE:
        log.exception("operation.item_unable", operation_id=str(step.row.id), tenant_id=str(step.row.tenant_id))
        return Outcome(item.seq, Reason.OPERATION_ITEM_REFUSED, "internal")
    ended += own
    return Outcome(item.seq, reason)


async def _change(conn: Connection, step: Step, item: Item, ended: list[Ended]) -> Reason | None:
    tenant_id, things = step.row.tenant_id, step.things
    assert item.name is not None
    now = await things.stand(conn, tenant_id, item.name, item.uid)
    if now is None or now.created_at > step.as_of:
        return Reason.OPERATION_ITEM_GONE
    tags = _tags(step, now)
    if things.already(step.verb, now) or (step.verb in TAGGING and set(tags) == set(now.tags)):
        return Reason.OPERATION_DONE_ALREADY
    if not fits(step.asked, now.says):
        return Reason.OPERATION_ITEM_CHANGED

    async def collect(conn: Connection, more: Sequence[Ended], at: datetime) -> None:  # noqa: ARG001  # as followers are called
        ended.extend(more)

    wish = Wish(
        verb=step.verb,
        by=step.row.requested_by,
        reason=step.row.reason,
        tags=tags,
        until=step.request.until,
        on_ended=collect,
    )
    before = plain(await things.look(conn, tenant_id, now))
    await things.change(conn, tenant_id, now, wish)
    after = None if step.verb is Verb.DELETE else plain(await things.look(conn, tenant_id, now))
    await _tell(conn, step, now, before=before, after=after)
    return None


def _tags(step: Step, now: Standing) -> Sequence[str]:
    asked = step.request.tags
    try:
        if step.verb is Verb.TAG:
            return retagged(now.tags, more=asked)
        return retagged(now.tags, less=asked) if step.verb is Verb.UNTAG else now.tags
    except TagError as error:
        raise InvalidInput.at("/tags", error.message, code="tags.too_many") from error


async def _tell(conn: Connection, step: Step, now: Standing, *, before: object, after: object) -> None:
    old, new = difference(before, after)
    deed = Deed(
        operation=step.things.told_as[step.verb],
        resource=f"{step.things.folder}/{now.name}",
        reason=step.row.reason,
        before=old,
        after=new,
        detail={"operation": str(step.row.id)},
    )
    actor = Actor(subject=step.row.requested_by, token_id=str(step.row.id), kind=CREDENTIAL)
    await audit.record(conn, tenant_id=step.row.tenant_id, actor=actor, deed=deed)


def counted(row: OperationRow, outcomes: Sequence[Outcome]) -> OperationRow:
    """Return an operation with these items counted: what was changed has succeeded at once."""
    done = sum(outcome.reason is None for outcome in outcomes)
    return replace(
        row, done=row.done + done, skipped=row.skipped + len(outcomes) - done, succeeded=row.succeeded + done
    )
