"""What of limits has had its time: rows of days that are over, and buckets that are full."""

from datetime import datetime, timedelta
from typing import Final

from everwhen.core.quotas import day_of
from everwhen.limits import store
from everwhen.postgres.pool import Connection

YESTERDAY: Final = timedelta(days=1)


async def sweep_buckets(conn: Connection, *, now: datetime, limit: int) -> int:
    """Forget up to `limit` buckets that are full; return how many."""
    return await store.drop_full(conn, now=now, limit=limit)


async def fold_days(conn: Connection, *, now: datetime, limit: int) -> int:
    """Join up to `limit` rows of days before yesterday; return how many."""
    return await store.fold_days(conn, before=day_of(now - YESTERDAY), limit=limit)
