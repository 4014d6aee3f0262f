"""Partitions by week, made when a row first needs one, and asked for once a week and process."""

from collections.abc import Awaitable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from everwhen.postgres.pool import Connection

_MONDAY: Final = datetime(1970, 1, 5, tzinfo=UTC)
_WEEK: Final = timedelta(weeks=1)


class Ensure(Protocol):
    """The statement that makes a week's partitions, and says whether they were missing."""

    def __call__(self, conn: Connection, *, instant: datetime) -> Awaitable[bool]:
        """Make them."""
        ...


class Weeks:
    """Which weeks have their partitions, for each database: they are only ever added while a process lives."""

    def __init__(self, ensure: Ensure) -> None:
        self._ensure = ensure
        self._known: set[tuple[str, datetime]] = set()
        # When the transaction began that made a week: until another one sees it, it may be rolled back.
        self._made: dict[tuple[str, datetime], datetime] = {}

    async def ensure(self, conn: Connection, instants: Iterable[datetime]) -> None:
        """Make the partitions of these instants' weeks.

        What this transaction itself makes is not remembered: it goes again if the transaction is rolled back.
        """
        database = f"{conn.info.host}:{conn.info.port}/{conn.info.dbname}"
        wanted = {(database, _MONDAY + (instant - _MONDAY) // _WEEK * _WEEK) for instant in instants}
        for key in sorted(wanted - self._known):
            if await self._ensure(conn, instant=key[1]):
                self._made[key] = conn.now
            elif self._made.get(key) != conn.now:
                self._known.add(key)
