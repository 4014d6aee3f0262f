"""Verify: every promise, checked on a database as it stands, or on a copy of one.

A promise is a question for what breaks it. Each is proven by a test that seeds one violation and sees exactly that
promise reported broken: a check that has never failed is no evidence.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from everwhen.postgres.pool import Database
from everwhen.verify import store
from everwhen.verify.instants import check_instants
from everwhen.verify.model import Checked, Scope, Violation
from everwhen.verify.promises import COUNTED, PROMISES, QUIESCENT, Promise

MOST_SHOWN: Final = 20
"""How many violations of each promise are returned: enough to see what is wrong."""

MOST_COUNTED: Final = 10_000
"""How far violations of one promise are counted."""

WHOLE_TABLES: Final = (
    "set local enable_seqscan = on; set local enable_hashjoin = on; set local enable_mergejoin = on;"
    " set local plan_cache_mode = auto"
)
"""A check reads everything, so it undoes what the pools set for statements that read a few rows."""


async def verify(database: Database, *, counted: bool = False) -> dict[str, list[Violation]]:
    """Check every promise; return the broken ones, each with up to MOST_SHOWN violations.

    With `counted` also that runs were counted against their days: not so of rows that somebody has written by hand.
    """
    found = await check(database, Scope())
    broken = {checked.name: list(checked.first) for checked in found if checked.count}
    return broken if counted else {name: first for name, first in broken.items() if name != COUNTED}


async def check(database: Database, scope: Scope) -> list[Checked]:
    """Check every promise within the scope; return what each came to, in the order of PROMISES."""
    now = scope.as_of or await _now(database)
    about_instants = await check_instants(database, scope, now=now)
    promises = (*PROMISES, QUIESCENT) if scope.quiescent else PROMISES
    return [await _check(database, promise, about_instants, now=now) for promise in promises]


async def find_newest_instant(database: Database) -> datetime | None:
    """Return when the data were last written: what stands for now in a copy. None: there are none."""
    async with database.system() as conn:
        return await store.newest_instant(conn)


async def _now(database: Database) -> datetime:
    async with database.system() as conn:
        return conn.now


async def _check(
    database: Database, promise: Promise, about_instants: Mapping[str, Sequence[Violation]], *, now: datetime
) -> Checked:
    found = about_instants.get(promise.name, [])
    if promise.check is not None:
        async with database.system() as conn:
            await conn.execute(WHOLE_TABLES)
            found = await promise.check(conn, MOST_COUNTED, now)
    return Checked(
        name=promise.name,
        invariants=promise.invariants,
        sentence=promise.sentence,
        count=len(found),
        first=found[:MOST_SHOWN],
    )
