"""One function for each statement of `queries.sql`; the names are the statements'."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.alerts.model import ChannelRow, LockedChannel, OutletRow, SecretRow, SubscriptionRow
from everwhen.postgres.fetch import execute_count, fetch_all, fetch_one, fetch_optional
from everwhen.postgres.sql import load

_SQL = load("everwhen.alerts")

Conn = AsyncConnection[Any]


async def insert_channel(
    conn: Conn,
    *,
    tenant_id: UUID,
    name: str,
    kind: str,
    configuration: str,
    window_seconds: float,
    messages_an_hour: int | None,
    quiet: str | None,
    by: str,
    now: datetime,
) -> int:
    """Write a channel; 0: the name is taken."""
    params = {
        "tenant_id": tenant_id,
        "name": name,
        "kind": kind,
        "configuration": configuration,
        "window_seconds": window_seconds,
        "messages_an_hour": messages_an_hour,
        "quiet": quiet,
        "by": by,
        "now": now,
    }
    return await execute_count(conn, _SQL["insert_channel"], params)


async def update_channel(
    conn: Conn,
    *,
    tenant_id: UUID,
    name: str,
    configuration: str,
    window_seconds: float,
    messages_an_hour: int | None,
    quiet: str | None,
    among: Sequence[int] | None,
    now: datetime,
) -> int:
    """Change a channel; 0: there is none."""
    params = {
        "tenant_id": tenant_id,
        "name": name,
        "among": None if among is None else list(among),
        "configuration": configuration,
        "window_seconds": window_seconds,
        "messages_an_hour": messages_an_hour,
        "quiet": quiet,
        "now": now,
    }
    return await execute_count(conn, _SQL["update_channel"], params)


async def set_channel_state(
    conn: Conn,
    *,
    tenant_id: UUID,
    name: str,
    state: str,
    reason: str | None,
    among: Sequence[int] | None,
    now: datetime,
) -> int:
    """Enable or disable a channel; 0: there is none."""
    params = {
        "tenant_id": tenant_id,
        "name": name,
        "among": None if among is None else list(among),
        "state": state,
        "reason": reason,
        "now": now,
    }
    return await execute_count(conn, _SQL["set_channel_state"], params)


async def lock_channel(conn: Conn, *, tenant_id: UUID, name: str) -> LockedChannel | None:
    """Lock a channel until the transaction ends; None: there is none."""
    return await fetch_optional(conn, _SQL["lock_channel"], {"tenant_id": tenant_id, "name": name}, LockedChannel)


async def get_channel(conn: Conn, *, tenant_id: UUID, name: str) -> ChannelRow | None:
    """Return a channel."""
    return await fetch_optional(conn, _SQL["get_channel"], {"tenant_id": tenant_id, "name": name}, ChannelRow)


async def list_channels(conn: Conn, *, tenant_id: UUID, after: str, limit: int) -> list[ChannelRow]:
    """Return channels by name."""
    params = {"tenant_id": tenant_id, "after": after, "limit": limit}
    return await fetch_all(conn, _SQL["list_channels"], params, ChannelRow)


async def count_channels(conn: Conn, *, tenant_id: UUID) -> int:
    """Return how many channels there are."""
    return await fetch_one(conn, _SQL["count_channels"], {"tenant_id": tenant_id}, int)


async def delete_channel(conn: Conn, *, tenant_id: UUID, name: str, among: Sequence[int] | None) -> int:
    """Delete a channel; 0: there is none."""
    return await execute_count(
        conn,
        _SQL["delete_channel"],
        {"tenant_id": tenant_id, "name": name, "among": None if among is None else list(among)},
    )


async def list_routes(conn: Conn, *, tenant_id: UUID, channel: str, limit: int) -> list[str]:
    """Return subscriptions that send to a channel."""
    params = {"tenant_id": tenant_id, "channel": channel, "limit": limit}
    return await fetch_all(conn, _SQL["list_routes"], params, str)


async def put_secret(conn: Conn, *, tenant_id: UUID, channel: str, name: str, sealed: bytes) -> int:
    """Write a sealed secret."""
    params = {"tenant_id": tenant_id, "channel": channel, "name": name, "sealed": sealed}
    return await execute_count(conn, _SQL["put_secret"], params)


async def delete_secret(conn: Conn, *, tenant_id: UUID, channel: str, name: str) -> int:
    """Forget a secret."""
    params = {"tenant_id": tenant_id, "channel": channel, "name": name}
    return await execute_count(conn, _SQL["delete_secret"], params)


async def list_secrets(conn: Conn, *, tenant_id: UUID, channels: Sequence[str]) -> list[SecretRow]:
    """Return the sealed secrets of channels."""
    params = {"tenant_id": tenant_id, "channels": list(channels)}
    return await fetch_all(conn, _SQL["list_secrets"], params, SecretRow)


async def put_outlets(conn: Conn, *, tenant_id: UUID, channel: str, recipients: Sequence[str]) -> int:
    """Add the receivers that are missing."""
    params = {"tenant_id": tenant_id, "channel": channel, "recipients": list(recipients)}
    return await execute_count(conn, _SQL["put_outlets"], params)


async def delete_outlets(conn: Conn, *, tenant_id: UUID, channel: str, recipients: Sequence[str]) -> int:
    """Delete the receivers that are none of these."""
    params = {"tenant_id": tenant_id, "channel": channel, "recipients": list(recipients)}
    return await execute_count(conn, _SQL["delete_outlets"], params)


async def unverify_outlets(conn: Conn, *, tenant_id: UUID, channel: str) -> int:
    """Forget what the receivers have proved."""
    return await execute_count(conn, _SQL["unverify_outlets"], {"tenant_id": tenant_id, "channel": channel})


async def list_outlets(conn: Conn, *, tenant_id: UUID, channels: Sequence[str]) -> list[OutletRow]:
    """Return the receivers of channels."""
    params = {"tenant_id": tenant_id, "channels": list(channels)}
    return await fetch_all(conn, _SQL["list_outlets"], params, OutletRow)


async def set_tested(
    conn: Conn, *, tenant_id: UUID, channel: str, recipient: str, delivery_id: UUID, now: datetime
) -> int:
    """Say which test a receiver is to answer."""
    params = {
        "tenant_id": tenant_id,
        "channel": channel,
        "recipient": recipient,
        "delivery_id": delivery_id,
        "now": now,
    }
    return await execute_count(conn, _SQL["set_tested"], params)


async def verify_outlet(
    conn: Conn, *, tenant_id: UUID, channel: str, recipient: str, delivery_id: UUID, now: datetime
) -> int:
    """Take a receiver as verified by this test; 0: it is to answer another."""
    params = {
        "tenant_id": tenant_id,
        "channel": channel,
        "recipient": recipient,
        "delivery_id": delivery_id,
        "now": now,
    }
    return await execute_count(conn, _SQL["verify_outlet"], params)


async def count_wrong_code(conn: Conn, *, tenant_id: UUID, channel: str) -> int:
    """Count a code that was none."""
    return await execute_count(conn, _SQL["count_wrong_code"], {"tenant_id": tenant_id, "channel": channel})


async def set_unsubscribed(
    conn: Conn, *, tenant_id: UUID, channel: str, recipient: str, is_unsubscribed: bool, now: datetime
) -> int:
    """Stop sending to a receiver, or begin again; 0: there is none, or it is so already."""
    params = {
        "tenant_id": tenant_id,
        "channel": channel,
        "recipient": recipient,
        "is_unsubscribed": is_unsubscribed,
        "now": now,
    }
    return await execute_count(conn, _SQL["set_unsubscribed"], params)


async def insert_subscription(
    conn: Conn,
    *,
    tenant_id: UUID,
    name: str,
    scope: str,
    target: str | None,
    kinds: Sequence[str],
    filter: str,  # noqa: A002  # the column's name
    after_failures: int,
    pierces: bool,
    is_enabled: bool,
    by: str,
    now: datetime,
) -> int:
    """Write a subscription; 0: the name is taken."""
    params = {
        "tenant_id": tenant_id,
        "name": name,
        "scope": scope,
        "target": target,
        "kinds": list(kinds),
        "filter": filter,
        "after_failures": after_failures,
        "pierces": pierces,
        "is_enabled": is_enabled,
        "by": by,
        "now": now,
    }
    return await execute_count(conn, _SQL["insert_subscription"], params)


async def update_subscription(
    conn: Conn,
    *,
    tenant_id: UUID,
    name: str,
    scope: str,
    target: str | None,
    kinds: Sequence[str],
    filter: str,  # noqa: A002  # the column's name
    after_failures: int,
    pierces: bool,
    is_enabled: bool,
    among: Sequence[int] | None,
    now: datetime,
) -> int:
    """Change a subscription; 0: there is none."""
    params = {
        "tenant_id": tenant_id,
        "name": name,
        "among": None if among is None else list(among),
        "scope": scope,
        "target": target,
        "kinds": list(kinds),
        "filter": filter,
        "after_failures": after_failures,
        "pierces": pierces,
        "is_enabled": is_enabled,
        "now": now,
    }
    return await execute_count(conn, _SQL["update_subscription"], params)


async def delete_subscription(conn: Conn, *, tenant_id: UUID, name: str, among: Sequence[int] | None) -> int:
    """Delete a subscription; 0: there is none."""
    return await execute_count(
        conn,
        _SQL["delete_subscription"],
        {"tenant_id": tenant_id, "name": name, "among": None if among is None else list(among)},
    )


async def put_listening(conn: Conn, *, tenant_id: UUID, subscription: str, words: Sequence[str], now: datetime) -> int:
    """Say which words of the history a subscription listens for."""
    params = {"tenant_id": tenant_id, "subscription": subscription, "words": list(words), "now": now}
    return await execute_count(conn, _SQL["put_listening"], params)


async def put_routes(conn: Conn, *, tenant_id: UUID, subscription: str, channels: Sequence[str]) -> int:
    """Say where a subscription sends to."""
    params = {"tenant_id": tenant_id, "subscription": subscription, "channels": list(channels)}
    return await execute_count(conn, _SQL["put_routes"], params)


async def find_channels(conn: Conn, *, tenant_id: UUID, names: Sequence[str]) -> list[str]:
    """Return those of the names that are channels, and keep them until the transaction ends."""
    return await fetch_all(conn, _SQL["find_channels"], {"tenant_id": tenant_id, "names": list(names)}, str)


async def get_subscription(conn: Conn, *, tenant_id: UUID, name: str) -> SubscriptionRow | None:
    """Return a subscription."""
    params = {"tenant_id": tenant_id, "name": name}
    return await fetch_optional(conn, _SQL["get_subscription"], params, SubscriptionRow)


async def list_subscriptions(conn: Conn, *, tenant_id: UUID, after: str, limit: int) -> list[SubscriptionRow]:
    """Return subscriptions by name."""
    params = {"tenant_id": tenant_id, "after": after, "limit": limit}
    return await fetch_all(conn, _SQL["list_subscriptions"], params, SubscriptionRow)


async def count_subscriptions(conn: Conn, *, tenant_id: UUID) -> int:
    """Return how many subscriptions there are."""
    return await fetch_one(conn, _SQL["count_subscriptions"], {"tenant_id": tenant_id}, int)
