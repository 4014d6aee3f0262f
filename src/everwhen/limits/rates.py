"""Draws from the buckets that all copies of the API share, and counts requests, as the edge asks for it."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from everwhen.core.buckets import Allowance, Drawn
from everwhen.core.quotas import day_of
from everwhen.http.limits import Want
from everwhen.http.tallying import Requests
from everwhen.limits import store
from everwhen.postgres.pool import Database

_KEY_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class DatabaseDraw:
    """Draws of one installation."""

    database: Database

    async def __call__(self, wants: Sequence[Want], /) -> Sequence[tuple[Drawn, Allowance]]:
        """Draw from all of them in one statement."""
        keys = [_key(want) for want in wants]
        ordered = sorted(zip(keys, wants, strict=True), key=lambda pair: pair[0])
        async with self.database.system() as conn:
            rows = await store.draw_allowances(
                conn,
                keys=[key for key, _ in ordered],
                tenant_ids=[want.tenant_id for _, want in ordered],
                quotas=[want.allowance.quota for _, want in ordered],
                seconds=[want.allowance.seconds for _, want in ordered],
                owed=[want.owed - want.kept for _, want in ordered],
                wanted=[want.wanted for _, want in ordered],
                now=conn.now,
            )
        found = {row.key: (Drawn(row.granted, row.full_in), Allowance(row.quota, row.seconds)) for row in rows}
        return [found[key] for key in keys]


@dataclass(frozen=True, slots=True)
class DatabaseTally:
    """Counts of requests of one installation."""

    database: Database

    async def __call__(self, counts: Mapping[UUID, Requests], /) -> None:
        """Add them to the day."""
        ordered = sorted(counts.items())
        async with self.database.system() as conn:
            await store.add_requests(
                conn,
                tenant_ids=[tenant_id for tenant_id, _ in ordered],
                requests=[each.requests for _, each in ordered],
                refused=[each.refused for _, each in ordered],
                worker_requests=[each.worker_requests for _, each in ordered],
                day=day_of(conn.now),
            )


def _key(want: Want) -> bytes:
    """Return what names a bucket in the database: nobody reads an address or a subject off it."""
    whose = "\0".join(map(str, want.whose)) if isinstance(want.whose, tuple) else str(want.whose)
    text = f"{want.bucket}\0{whose}"
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=_KEY_BYTES, person=b"everwhen bucket").digest()
