"""Gathers occasions into messages: the one that is open for a receiver, or a new one.

    told      who was told of what: the key (receiver, occasion) refuses the second time
    message   the receiver's row names the one that gathers; it takes more until a notifier takes it

All of it is done under the locks of the receivers, taken in the order of their keys, in the transaction that takes the
signals: if it dies before the commit, the signals are still there and nobody was told; after it, all is written.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from everwhen import clock
from everwhen.alerts.matching import store
from everwhen.alerts.matching.model import Gathering, OutletState
from everwhen.alerts.message import Occasion
from everwhen.core.alert_folding import MOST_SHOWN, Manner, Pace, add_counts, is_urgent, leave
from everwhen.core.quiet_hours import parse_quiet
from everwhen.postgres.pool import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """That a channel is to tell of an occasion, for these subscriptions."""

    tenant_id: UUID
    channel: str
    occasion: Occasion
    subscriptions: frozenset[str]
    pierces: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """What one receiver is to be told by one message: the one that gathers, or a new one of this id."""

    outlet: OutletState
    urgent: bool
    delivery_id: UUID
    gathers: Gathering | None
    tellings: list[Telling]


async def gather(conn: Connection, tellings: Sequence[Telling], *, now: datetime) -> int:
    """Write who is told of what, and by which message; return how many of it is new."""
    if not tellings:
        return 0
    channels = sorted({(telling.tenant_id, telling.channel) for telling in tellings})
    outlets = await store.lock_outlets(
        conn, tenant_ids=[tenant_id for tenant_id, _ in channels], channels=[name for _, name in channels]
    )
    open_ones = await _lock_open(conn, outlets)
    wanted: dict[tuple[UUID, str], list[Telling]] = {}
    for telling in tellings:
        wanted.setdefault((telling.tenant_id, telling.channel), []).append(telling)
    slots = [
        slot
        for outlet in outlets
        for slot in _slots(outlet, wanted[outlet.tenant_id, outlet.channel], open_ones, now=now)
    ]
    fresh = await _keep_fresh(conn, slots)
    await _add(conn, [slot for slot in fresh if slot.gathers is not None])
    await _begin(conn, [slot for slot in fresh if slot.gathers is None], now=now)
    return sum(len(slot.tellings) for slot in fresh)


async def _lock_open(conn: Connection, outlets: Iterable[OutletState]) -> dict[UUID, Gathering]:
    named = sorted({
        (outlet.tenant_id, delivery_id)
        for outlet in outlets
        for delivery_id in (outlet.gathering, outlet.urgent_gathering)
        if delivery_id is not None
    })  # fmt: skip
    if not named:
        return {}
    found = await store.lock_gathering(
        conn, tenant_ids=[tenant_id for tenant_id, _ in named], delivery_ids=[each for _, each in named]
    )
    return {each.delivery_id: each for each in found}


def _slots(
    outlet: OutletState, tellings: Iterable[Telling], open_ones: dict[UUID, Gathering], *, now: datetime
) -> Iterable[Slot]:
    manner = manner_of(outlet)
    wanted: dict[bool, list[Telling]] = {}
    for telling in tellings:
        wanted.setdefault(is_urgent(manner, pierces=telling.pierces, now=now), []).append(telling)
    for urgent, mine in sorted(wanted.items()):
        named = outlet.urgent_gathering if urgent else outlet.gathering
        gathers = None if named is None else open_ones.get(named)
        made = clock.new_id(now) if gathers is None else gathers.delivery_id
        yield Slot(outlet=outlet, urgent=urgent, delivery_id=made, gathers=gathers, tellings=mine)


async def _keep_fresh(conn: Connection, slots: Iterable[Slot]) -> list[Slot]:
    """Write what is told, and return the slots with what was not told before; those without anything are left out."""
    rows = [(slot, telling) for slot in slots for telling in slot.tellings]
    if not rows:
        return []
    told = await store.insert_told(
        conn,
        tenant_ids=[slot.outlet.tenant_id for slot, _ in rows],
        channels=[slot.outlet.channel for slot, _ in rows],
        recipients=[slot.outlet.recipient for slot, _ in rows],
        occasion_ids=[telling.occasion.occasion_id for _, telling in rows],
        delivery_ids=[slot.delivery_id for slot, _ in rows],
        kinds=[telling.occasion.kind for _, telling in rows],
    )
    new = {(each.delivery_id, each.occasion_id) for each in told}
    kept = (
        replace(slot, tellings=[t for t in slot.tellings if (slot.delivery_id, t.occasion.occasion_id) in new])
        for slot in slots
    )
    return [slot for slot in kept if slot.tellings]


async def _add(conn: Connection, slots: Sequence[Slot]) -> None:
    if not slots:
        return
    contents = [_content(slot) for slot in slots]
    await store.add_to_gathering(
        conn,
        tenant_ids=[slot.outlet.tenant_id for slot in slots],
        delivery_ids=[slot.delivery_id for slot in slots],
        subscriptions=[content.subscriptions for content in contents],
        totals=[content.total for content in contents],
        counts=[content.counts for content in contents],
        shown=[content.shown for content in contents],
        window_froms=[content.window_from for content in contents],
        window_tos=[content.window_to for content in contents],
    )


async def _begin(conn: Connection, slots: Sequence[Slot], *, now: datetime) -> None:
    if not slots:
        return
    contents, due_ats = [_content(slot) for slot in slots], list[datetime]()
    outlets: dict[tuple[UUID, str, str], tuple[OutletState, Pace]] = {}
    for slot in slots:
        key = slot.outlet.tenant_id, slot.outlet.channel, slot.outlet.recipient
        outlet, pace = outlets.get(key, (slot.outlet, _pace(slot.outlet)))
        due_at, pace = leave(pace, manner_of(outlet), urgent=slot.urgent, now=now)
        named = {"urgent_gathering" if slot.urgent else "gathering": slot.delivery_id}
        outlets[key] = replace(outlet, **named), pace
        due_ats.append(due_at)
    await store.insert_gathering(
        conn,
        tenant_ids=[slot.outlet.tenant_id for slot in slots],
        delivery_ids=[slot.delivery_id for slot in slots],
        channels=[slot.outlet.channel for slot in slots],
        recipients=[slot.outlet.recipient for slot in slots],
        subscriptions=[content.subscriptions for content in contents],
        totals=[content.total for content in contents],
        counts=[content.counts for content in contents],
        shown=[content.shown for content in contents],
        window_froms=[content.window_from for content in contents],
        window_tos=[content.window_to for content in contents],
        due_ats=due_ats,
        now=now,
    )
    await store.set_paces(
        conn,
        tenant_ids=[outlet.tenant_id for outlet, _ in outlets.values()],
        channels=[outlet.channel for outlet, _ in outlets.values()],
        recipients=[outlet.recipient for outlet, _ in outlets.values()],
        opens_ats=[pace.opens_at for _, pace in outlets.values()],
        urgent_opens_ats=[pace.urgent_opens_at for _, pace in outlets.values()],
        allowances=[pace.allowance for _, pace in outlets.values()],
        gatherings=[outlet.gathering for outlet, _ in outlets.values()],
        urgent_gatherings=[outlet.urgent_gathering for outlet, _ in outlets.values()],
    )


def manner_of(outlet: OutletState) -> Manner:
    """Return how the receiver's channel wants its messages."""
    return Manner(
        window=timedelta(seconds=outlet.window_seconds),
        messages_an_hour=outlet.messages_an_hour,
        quiet=None if outlet.quiet is None else parse_quiet(json.loads(outlet.quiet)),
    )


def _pace(outlet: OutletState) -> Pace:
    return Pace(opens_at=outlet.opens_at, urgent_opens_at=outlet.urgent_opens_at, allowance=outlet.allowance)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Content:
    """What a message holds; the texts are JSON."""

    subscriptions: str
    total: int
    counts: str
    shown: str
    window_from: datetime
    window_to: datetime


def _content(slot: Slot) -> _Content:
    before = slot.gathers
    shown = msgspec.json.decode(before.shown, type=list[msgspec.Raw]) if before else []
    more = slot.tellings[: MOST_SHOWN - len(shown)]
    encoded = [msgspec.Raw(msgspec.json.encode(telling.occasion)) for telling in more]
    names = set(json.loads(before.subscriptions) if before else []).union(*(t.subscriptions for t in slot.tellings))
    counts = add_counts(
        json.loads(before.counts) if before else {}, (telling.occasion.kind for telling in slot.tellings)
    )
    ats = [telling.occasion.at for telling in slot.tellings]
    if before:
        ats += [before.window_from, before.window_to]
    return _Content(
        subscriptions=json.dumps(sorted(names)),
        total=sum(counts.values()),
        counts=json.dumps(counts),
        shown=msgspec.json.encode([*shown, *encoded]).decode(),
        window_from=min(ats),
        window_to=max(ats),
    )
