"""Verify: every promise that can be checked in SQL, on a database as it stands.

A promise is a statement that returns what breaks it. Each is proven by a test that seeds one violation and sees exactly
that promise reported broken: a check that has never failed is no evidence.
"""

from typing import Final

from everwhen.postgres.pool import Database
from everwhen.verify import store
from everwhen.verify.model import Violation

MOST_SHOWN: Final = 20
"""How many violations of each promise are returned: enough to see what is wrong."""


WHOLE_TABLES: Final = (
    "set local enable_seqscan = on; set local enable_hashjoin = on; set local enable_mergejoin = on;"
    " set local plan_cache_mode = auto"
)
"""A check reads everything, so it undoes what the pools set for statements that read a few rows."""

PROMISES: Final = (
    store.occurrences_with_several_runs,
    store.runs_in_several_places,
    store.runs_in_no_place,
    store.overlapping_leases,
    store.tokens_that_do_not_grow,
    store.attempts_with_gaps,
    store.claims_before_due,
    store.successes_without_a_winner,
    store.states_that_history_does_not_tell,
    store.claims_that_history_does_not_tell,
    store.orphans,
    store.runs_behind_the_watermark,
)


async def verify(database: Database) -> dict[str, list[Violation]]:
    """Check every promise; return the broken ones, each with up to MOST_SHOWN violations.

    Each promise is one statement, so it sees one snapshot, also while the system works.
    """
    broken: dict[str, list[Violation]] = {}
    for promise in PROMISES:
        async with database.system() as conn:
            await conn.execute(WHOLE_TABLES)
            if found := await promise(conn, limit=MOST_SHOWN):
                broken[promise.__name__] = found
    return broken
