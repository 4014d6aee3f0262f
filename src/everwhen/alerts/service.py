"""What can be done with channels: define them, prove whom they reach, and end what they send.

A channel has receivers: addresses, each by itself, or one without a name. Nothing is sent to a receiver until it is
verified, other than the test that verifies it:

    a channel without addresses   a test that arrives is the proof: its URL is a secret of whoever receives there
    an address                    the test carries a code, and whoever reads it sends it back

A change of where a channel sends to makes all of it unproved. A receiver that has unsubscribed gets nothing, not even a
test, until an editor takes that back.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import msgspec
import psycopg

from everwhen import clock
from everwhen.alerts import store
from everwhen.alerts.channels.protocol import ChannelKind
from everwhen.alerts.delivering import store as deliveries
from everwhen.alerts.message import Occasion
from everwhen.alerts.model import Channel, ChannelDraft, ChannelRow, OutletRow, Sealer
from everwhen.alerts.signing import Outlet, Signer
from everwhen.core.alert_kinds import AlertKind
from everwhen.core.alerting import occasion_id
from everwhen.core.filters import Vocabulary, Word
from everwhen.core.quiet_hours import quiet_json
from everwhen.core.quotas import Limit
from everwhen.errors import Conflict, InvalidInput, NotFound
from everwhen.limits import quotas
from everwhen.lists import Listed, read_filter, walk
from everwhen.postgres.pool import Connection, Database
from everwhen.postgres.wakeups import notify, queue_topic
from everwhen.revisions import ANY, Expected, refuse_stale

CHANNELS: Final = Vocabulary(
    fields={"kind": Word(), "state": Word(choices=frozenset({"unverified", "ready", "disabled"})), "by": Word()}
)
"""What a filter of channels says."""

MOST_RECIPIENTS: Final = 50
CODE_HOLDS: Final = timedelta(hours=1)
MOST_WRONG_CODES: Final = 10
TESTS_EVERY: Final = timedelta(seconds=10)
"""How often a receiver may be sent a test: a channel that is not proved is nobody's to write through."""

NOTIFIER_TOPIC: Final = queue_topic(None, "role:notifier")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kit:
    """What channels are made of: their kinds, and the installation's keys."""

    kinds: Mapping[str, ChannelKind]
    sealer: Sealer
    signer: Signer


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertsDesk:
    """Where channels are managed: the database and the kit."""

    database: Database
    kit: Kit


async def create_channel(desk: AlertsDesk, *, tenant_id: UUID, name: str, draft: ChannelDraft, by: str) -> Channel:
    """Define a channel; raise InvalidInput for what it cannot be, Conflict when the name is taken."""
    kind = kind_of(desk.kit, draft.kind)
    configuration = kind.check(draft.configuration, draft.secrets)
    _refuse_unknown_secrets(kind, draft.secrets)
    async with desk.database.tenant(tenant_id) as conn:
        written = await store.insert_channel(
            conn,
            tenant_id=tenant_id,
            name=name,
            kind=draft.kind,
            configuration=json.dumps(configuration),
            window_seconds=draft.window_seconds,
            messages_an_hour=draft.messages_an_hour,
            quiet=None if draft.quiet is None else json.dumps(quiet_json(draft.quiet)),
            by=by,
            now=conn.now,
        )
        if not written:
            raise Conflict(f"There is a channel {name!r} already.", code="channel.exists")
        await quotas.refuse_over(conn, Limit.CHANNELS, store.count_channels, tenant_id=tenant_id)
        await _put_parts(conn, desk.kit, tenant_id=tenant_id, name=name, configuration=configuration, draft=draft)
        return await _read(conn, tenant_id=tenant_id, name=name)


async def count_channels(conn: Connection, *, tenant_id: UUID) -> int:
    """Return how many there are, in the caller's transaction."""
    return await store.count_channels(conn, tenant_id=tenant_id)


async def update_channel(
    desk: AlertsDesk, *, tenant_id: UUID, name: str, draft: ChannelDraft, expected: Expected = ANY
) -> Channel:
    """Change a channel. Secrets that are not named stay; a changed configuration has to be proved anew.

    Raises NotFound, InvalidInput, and PreconditionFailed when it is not the revision that was expected.
    """
    kind = kind_of(desk.kit, draft.kind)
    _refuse_unknown_secrets(kind, draft.secrets)
    async with desk.database.tenant(tenant_id) as conn:
        locked = await store.lock_channel(conn, tenant_id=tenant_id, name=name)
        if locked is None:
            raise _no_channel(name)
        refuse_stale(expected, locked.revision)
        if locked.kind != draft.kind:
            raise InvalidInput.at("/kind", f"The channel is of the kind {locked.kind}.", code="channel.kind")
        kept = await _open_secrets(conn, desk.kit, tenant_id=tenant_id, name=name)
        configuration = kind.check(draft.configuration, kept | draft.secrets)
        await store.update_channel(
            conn,
            tenant_id=tenant_id,
            name=name,
            among=expected.among,
            configuration=json.dumps(configuration),
            window_seconds=draft.window_seconds,
            messages_an_hour=draft.messages_an_hour,
            quiet=None if draft.quiet is None else json.dumps(quiet_json(draft.quiet)),
            now=conn.now,
        )
        if configuration != json.loads(locked.configuration) or _moves(kept, draft.secrets):
            await store.unverify_outlets(conn, tenant_id=tenant_id, channel=name)
        await _put_parts(conn, desk.kit, tenant_id=tenant_id, name=name, configuration=configuration, draft=draft)
        return await _read(conn, tenant_id=tenant_id, name=name)


async def get_channel(db: Database, *, tenant_id: UUID, name: str) -> Channel:
    """Return a channel; raise NotFound."""
    async with db.tenant(tenant_id) as conn:
        return await _read(conn, tenant_id=tenant_id, name=name)


async def list_channels(
    db: Database, *, tenant_id: UUID, after: str | None, limit: int, where: str = ""
) -> Listed[Channel]:
    """Return up to `limit` channels after `after` that the filter `where` finds, by name."""
    async with db.tenant(tenant_id) as conn:

        async def read(after: str, limit: int) -> Sequence[Channel]:
            rows = await store.list_channels(conn, tenant_id=tenant_id, after=after, limit=limit)
            return await _with_parts(conn, tenant_id, rows)

        return await walk(
            read,
            start=after or "",
            key=lambda channel: channel.row.name,
            limit=limit,
            asked=read_filter(where, CHANNELS, now=conn.now),
            values=lambda channel: {
                "kind": channel.row.kind,
                "state": channel.state,
                "by": channel.row.created_by,
            },
        )


async def delete_channel(db: Database, *, tenant_id: UUID, name: str, expected: Expected = ANY) -> None:
    """Delete a channel; raise Conflict while subscriptions send to it. What it was to send is dead."""
    async with db.tenant(tenant_id) as conn:
        await _lock(conn, tenant_id, name, expected)
        users = await store.list_routes(conn, tenant_id=tenant_id, channel=name, limit=5)
        if users:
            raise Conflict(f"Subscriptions send to it: {', '.join(users)}.", code="channel.in_use")
        try:
            await store.delete_channel(conn, tenant_id=tenant_id, name=name, among=expected.among)
        except psycopg.errors.ForeignKeyViolation:
            raise Conflict("A subscription has just begun to send to it.", code="channel.in_use") from None


async def set_enabled(
    db: Database, *, tenant_id: UUID, name: str, enabled: bool, reason: str | None, expected: Expected = ANY
) -> Channel:
    """Let a channel send again, or no longer."""
    async with db.tenant(tenant_id) as conn:
        state = "enabled" if enabled else "disabled"
        why = None if enabled else reason or "by a person"
        await _lock(conn, tenant_id, name, expected)
        await store.set_channel_state(
            conn, tenant_id=tenant_id, name=name, state=state, reason=why, among=expected.among, now=conn.now
        )
        return await _read(conn, tenant_id=tenant_id, name=name)


async def _lock(conn: Connection, tenant_id: UUID, name: str, expected: Expected) -> None:
    """Keep a channel at the revision that the caller means; each statement that writes it says so again."""
    locked = await store.lock_channel(conn, tenant_id=tenant_id, name=name)
    if locked is None:
        raise _no_channel(name)
    refuse_stale(expected, locked.revision)


async def send_tests(db: Database, *, tenant_id: UUID, name: str, recipient: str | None = None) -> list[UUID]:
    """Send a test to a receiver, or to all of them; return the deliveries' ids."""
    async with db.tenant(tenant_id) as conn:
        channel = await _read(conn, tenant_id=tenant_id, name=name)
        outlets = [each for each in channel.outlets if recipient is None or each.recipient == recipient]
        if not outlets:
            raise NotFound(f"The channel {name!r} has no receiver {recipient!r}.", code="channel.no_receiver")
        wanted = [each for each in outlets if each.unsubscribed_at is None]
        if not wanted:
            raise Conflict("The receiver has unsubscribed.", code="channel.unsubscribed")
        if any(each.tested_at and conn.now < each.tested_at + TESTS_EVERY for each in wanted):
            raise Conflict("A test was sent a moment ago; wait ten seconds.", code="channel.tested")
        made = [await _send_test(conn, tenant_id, outlet) for outlet in wanted]
        await notify(conn, [NOTIFIER_TOPIC])
        return made


async def verify_channel(desk: AlertsDesk, *, tenant_id: UUID, name: str, code: str) -> Channel:
    """Take the receiver whose test carried this code as verified; raise InvalidInput when no test did."""
    async with desk.database.tenant(tenant_id) as conn:
        await _read(conn, tenant_id=tenant_id, name=name)
        outlets = await store.list_outlets(conn, tenant_id=tenant_id, channels=[name])
        found = [outlet for outlet in outlets if outlet.wrong_codes < MOST_WRONG_CODES and outlet.tested_at]
        for outlet in found:
            key = Outlet(tenant_id, name, outlet.recipient)
            if (
                outlet.recipient
                and outlet.tested_by
                and outlet.tested_at
                and conn.now <= outlet.tested_at + CODE_HOLDS
                and desk.kit.signer.is_code(code, key, outlet.tested_by)
            ):
                await store.verify_outlet(
                    conn,
                    tenant_id=tenant_id,
                    channel=name,
                    recipient=outlet.recipient,
                    delivery_id=outlet.tested_by,
                    now=conn.now,
                )
                return await _read(conn, tenant_id=tenant_id, name=name)
        await store.count_wrong_code(conn, tenant_id=tenant_id, channel=name)
    raise InvalidInput.at("/code", "No test that holds carried this code: send a new one.", code="channel.code")


async def unsubscribe(db: Database, outlet: Outlet) -> None:
    """Stop sending to a receiver, as its link asks; what is so already, or gone, stays as it is."""
    async with db.tenant(outlet.tenant_id) as conn:
        await store.set_unsubscribed(
            conn,
            tenant_id=outlet.tenant_id,
            channel=outlet.channel,
            recipient=outlet.recipient,
            is_unsubscribed=True,
            now=conn.now,
        )


async def resubscribe(db: Database, *, tenant_id: UUID, name: str, recipient: str) -> Channel:
    """Send to a receiver again who had unsubscribed."""
    async with db.tenant(tenant_id) as conn:
        if not await store.set_unsubscribed(
            conn, tenant_id=tenant_id, channel=name, recipient=recipient, is_unsubscribed=False, now=conn.now
        ):
            raise NotFound("No such receiver has unsubscribed.", code="channel.no_receiver")
        return await _read(conn, tenant_id=tenant_id, name=name)


def kind_of(kit: Kit, name: str) -> ChannelKind:
    """Return a kind of channel; raise InvalidInput."""
    kind = kit.kinds.get(name)
    if kind is None:
        raise InvalidInput.at("/kind", f"A kind is one of {', '.join(sorted(kit.kinds))}.", code="channel.kind")
    return kind


def _refuse_unknown_secrets(kind: ChannelKind, secrets: Mapping[str, str]) -> None:
    for name in sorted(set(secrets) - set(kind.secret_names)):
        known = ", ".join(kind.secret_names) or "none"
        raise InvalidInput.at(f"/secrets/{name}", f"The secrets of this kind are {known}.", code="channel.secret")


def _moves(kept: Mapping[str, str], given: Mapping[str, str]) -> bool:
    """A secret that is a URL says where the channel sends to."""
    return any(value.startswith("https://") and kept.get(name) != value for name, value in given.items())


async def _put_parts(
    conn: Connection, kit: Kit, *, tenant_id: UUID, name: str, configuration: dict[str, Any], draft: ChannelDraft
) -> None:
    recipients = list(dict.fromkeys(kit.kinds[draft.kind].recipients(configuration)))
    if len(recipients) > MOST_RECIPIENTS:
        raise InvalidInput.at(
            "/configuration", f"A channel has at most {MOST_RECIPIENTS} receivers.", code="channel.receivers"
        )
    await store.delete_outlets(conn, tenant_id=tenant_id, channel=name, recipients=recipients)
    await store.put_outlets(conn, tenant_id=tenant_id, channel=name, recipients=recipients)
    given = {f"{name}/{secret}": text for secret, text in draft.secrets.items() if text}
    for place, sealed in (await kit.sealer.seal(conn, tenant_id, given)).items():
        secret = place.removeprefix(f"{name}/")
        await store.put_secret(conn, tenant_id=tenant_id, channel=name, name=secret, sealed=sealed)
    for secret, text in draft.secrets.items():
        if not text:
            await store.delete_secret(conn, tenant_id=tenant_id, channel=name, name=secret)


async def _open_secrets(conn: Connection, kit: Kit, *, tenant_id: UUID, name: str) -> dict[str, str]:
    rows = await store.list_secrets(conn, tenant_id=tenant_id, channels=[name])
    opened = await kit.sealer.open(conn, tenant_id, {f"{name}/{row.name}": row.sealed for row in rows})
    return {place.removeprefix(f"{name}/"): text for place, text in opened.items()}


async def _read(conn: Connection, *, tenant_id: UUID, name: str) -> Channel:
    row = await store.get_channel(conn, tenant_id=tenant_id, name=name)
    if row is None:
        raise _no_channel(name)
    return (await _with_parts(conn, tenant_id, [row]))[0]


async def _with_parts(conn: Connection, tenant_id: UUID, rows: Sequence[ChannelRow]) -> list[Channel]:
    names = [row.name for row in rows]
    outlets = await store.list_outlets(conn, tenant_id=tenant_id, channels=names)
    secrets = await store.list_secrets(conn, tenant_id=tenant_id, channels=names)
    return [
        Channel(
            row=row,
            outlets=tuple(each for each in outlets if each.channel == row.name),
            secret_names=tuple(each.name for each in secrets if each.channel == row.name),
        )
        for row in rows
    ]


async def _send_test(conn: Connection, tenant_id: UUID, outlet: OutletRow) -> UUID:
    delivery_id = clock.new_id(conn.now)
    occasion = Occasion(
        occasion_id=occasion_id(tenant_id, AlertKind.CHANNEL_TEST, str(delivery_id), at=conn.now),
        kind=AlertKind.CHANNEL_TEST,
        at=conn.now,
        subject=outlet.channel,
        sentence="This is a test of the channel. Somebody has asked Everwhen to send its alerts here.",
        remedy="" if outlet.recipient else "There is nothing to do: that it arrived is the proof.",
    )
    await deliveries.insert_test(
        conn,
        tenant_id=tenant_id,
        delivery_id=delivery_id,
        channel=outlet.channel,
        recipient=outlet.recipient,
        counts=json.dumps({AlertKind.CHANNEL_TEST: 1}),
        shown=msgspec.json.encode([occasion]).decode(),
        now=conn.now,
    )
    await store.set_tested(
        conn,
        tenant_id=tenant_id,
        channel=outlet.channel,
        recipient=outlet.recipient,
        delivery_id=delivery_id,
        now=conn.now,
    )
    return delivery_id


def _no_channel(name: str) -> NotFound:
    return NotFound(f"There is no channel {name!r}.", code="channel.unknown")
