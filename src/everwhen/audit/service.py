"""Writing the audit, and reading it.

An event is written in the transaction of what it tells, so there is no change without its event, and no event of what
was undone. Everything else happens later and elsewhere: `sealer.py` chains what was written, `checking.py`
asks whether it is still what it was.
"""

import hashlib
import json
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from everwhen import clock
from everwhen.audit import store
from everwhen.audit.model import PLATFORM, Actor, Deed, EventFilter, EventRow, Outcome
from everwhen.core.audit_chain import canonical
from everwhen.core.audit_telling import bounded
from everwhen.core.filters import (
    BEFORE,
    FROM,
    Filter,
    FilterError,
    Moment,
    Term,
    Vocabulary,
    Word,
    moment,
    ordered,
    parse,
)
from everwhen.core.ids import first_id_at
from everwhen.errors import InvalidInput, NotFound
from everwhen.postgres.pool import Connection, Database
from everwhen.postgres.weeks import Weeks

FIRST_ID: Final = UUID(int=0)
LAST_ID: Final = UUID(int=(1 << 128) - 1)
LOOK_BACK: Final = timedelta(days=90)
MOST_TEXT: Final = 500

EVENTS: Final = Vocabulary(
    fields={
        "actor": Word(),
        "operation": Word(),
        "resource": Word(),
        "outcome": Word(choices=frozenset(Outcome)),
        "request": Word(),
        "at": Moment(),
    },
    short={"since": ("at", FROM), "until": ("at", BEFORE)},
)

_WEEKS: Final = Weeks(store.ensure_week)


async def record(conn: Connection, *, tenant_id: UUID, actor: Actor, deed: Deed) -> UUID:
    """Write what somebody did, in the transaction in which it is done; return the event's id."""
    event_id = clock.new_id(conn.now)
    said = _record(event_id, conn.now, actor, deed)
    await _WEEKS.ensure(conn, [conn.now])
    await store.insert_event(
        conn,
        tenant_id=tenant_id,
        event_id=event_id,
        at=conn.now,
        actor=said["actor"],
        operation=deed.operation,
        resource=said["resource"],
        outcome=deed.outcome,
        request_id=deed.request_id,
        record=canonical(said),
    )
    return event_id


async def hold(conn: Connection, *, tenant_id: UUID, resource: str) -> None:
    """Let nobody else change this resource through the API until the transaction ends."""
    digest = hashlib.blake2b(tenant_id.bytes + resource.encode("utf-8", "replace"), digest_size=8, person=b"audit")
    await store.hold_resource(conn, number=int.from_bytes(digest.digest(), "big", signed=True))


async def list_events(
    db: Database, *, tenant_id: UUID, text: str, before: UUID = LAST_ID, limit: int
) -> tuple[list[EventRow], str]:
    """Return up to `limit` events with ids below `before`, the newest first, and the filter that was in force.

    Raises InvalidInput for a filter that cannot be read.
    """
    async with _scope(db, tenant_id) as conn:
        asked = read_filter(text, now=conn.now)
        return await _page(conn, tenant_id, event_filter(asked), before=before, limit=limit), asked.canonical


async def get_event(db: Database, *, tenant_id: UUID, event_id: UUID) -> EventRow:
    """Return one event; raise NotFound."""
    async with _scope(db, tenant_id) as conn:
        found = await store.get_event(conn, tenant_id=tenant_id, event_id=event_id)
    if found is None:
        raise NotFound("There is no such event.", code="audit.unknown")
    return found


def read_filter(text: str, *, now: datetime) -> Filter:
    """Read a filter of events, with how far it looks back where it would walk; raise InvalidInput."""
    try:
        asked = parse(text, EVENTS, now=now)
    except FilterError as error:
        detail = f"{error.message} (at character {error.position + 1})"
        raise InvalidInput.at("query:filter", detail, code=error.code) from error
    terms = list(asked.terms)
    names = {term.name for term in terms} - {"at"}
    if names - {"request"} and (len(names) > 1 or "outcome" in names) and asked.term("at", FROM) is None:
        terms.append(Term("at", FROM, moment(now - LOOK_BACK)))
    return ordered(terms, EVENTS)


def event_filter(asked: Filter) -> EventFilter:
    """Return what a filter means."""
    return EventFilter(
        actor=asked.text("actor"),
        operation=asked.text("operation"),
        resource=asked.text("resource"),
        outcome=asked.text("outcome"),
        request_id=asked.text("request"),
        since=asked.instant("at", FROM),
        until=asked.instant("at", BEFORE),
    )


def _scope(db: Database, tenant_id: UUID) -> AbstractAsyncContextManager[Connection]:
    return db.system() if tenant_id == PLATFORM else db.tenant(tenant_id)


async def _page(conn: Connection, tenant_id: UUID, where: EventFilter, *, before: UUID, limit: int) -> list[EventRow]:
    """Choose the index: a request has few events, a resource hardly more; what is left is checked row by row."""
    bounds: dict[str, Any] = {
        "tenant_id": tenant_id,
        "before": before if where.until is None else min(before, _bound(where.until)),
        "since": FIRST_ID if where.since is None else _bound(where.since),
        "limit": limit,
        "outcome": where.outcome,
    }
    actor: dict[str, Any] = {"actor": where.actor}
    operation: dict[str, Any] = {"operation": where.operation}
    if where.request_id is not None:
        resource: dict[str, Any] = {"resource": where.resource}
        return await store.page_by_request(
            conn, **bounds, **actor, **operation, **resource, request_id=where.request_id
        )
    if where.resource is not None:
        return await store.page_by_resource(conn, **bounds, **actor, **operation, resource=where.resource)
    if where.actor is not None:
        return await store.page_by_actor(conn, **bounds, **operation, actor=where.actor)
    if where.operation is not None:
        return await store.page_by_operation(conn, **bounds, operation=where.operation)
    return await store.page_events(conn, **bounds)


def _record(event_id: UUID, now: datetime, actor: Actor, deed: Deed) -> dict[str, Any]:
    """Return the whole event as it is hashed; what somebody sent is cut to what is kept."""
    return {
        "id": str(event_id),
        "at": moment(now),
        "actor": _cut(actor.subject),
        "token_id": _cut(actor.token_id),
        "credential": actor.kind,
        "roles": sorted(actor.roles),
        "address": actor.address,
        "agent": _cut(actor.agent),
        "operation": deed.operation,
        "resource": _cut(deed.resource),
        "outcome": deed.outcome,
        "request_id": deed.request_id,
        "reason": _cut(deed.reason),
        "before": bounded(deed.before),
        "after": bounded(deed.after),
        "detail": bounded(deed.detail),
    }


def _cut(text: str | None) -> Any:
    """Return a text as it is kept: printable, and not too long."""
    if text is None or (len(text) <= MOST_TEXT and text.isascii() and text.isprintable()):
        return text
    kept = "".join(character if character.isprintable() else "?" for character in text[:MOST_TEXT])
    return kept.encode("utf-8", "replace").decode()


def _bound(instant: datetime) -> UUID:
    return first_id_at(max(instant, datetime(1970, 1, 1, tzinfo=UTC)))


def parse_record(text: str) -> dict[str, Any]:
    """Return an event's record as it was told."""
    return json.loads(text)
