"""One function for each statement of `queries.sql`; the names are the statements'."""

from typing import Any

from psycopg import AsyncConnection

from everwhen.postgres.fetch import fetch_all
from everwhen.postgres.sql import load
from everwhen.verify.model import Violation

_SQL = load("everwhen.verify")

Conn = AsyncConnection[Any]


async def _broken(conn: Conn, name: str, limit: int) -> list[Violation]:
    return await fetch_all(conn, _SQL[name], {"limit": limit}, Violation)


async def occurrences_with_several_runs(conn: Conn, *, limit: int) -> list[Violation]:
    """Return intentions that have more than one run."""
    return await _broken(conn, "occurrences_with_several_runs", limit)


async def runs_in_several_places(conn: Conn, *, limit: int) -> list[Violation]:
    """Return runs that wait, are leased or have ended more than once over."""
    return await _broken(conn, "runs_in_several_places", limit)


async def runs_in_no_place(conn: Conn, *, limit: int) -> list[Violation]:
    """Return runs that vanished."""
    return await _broken(conn, "runs_in_no_place", limit)


async def overlapping_leases(conn: Conn, *, limit: int) -> list[Violation]:
    """Return attempts that were claimed before the last was closed."""
    return await _broken(conn, "overlapping_leases", limit)


async def tokens_that_do_not_grow(conn: Conn, *, limit: int) -> list[Violation]:
    """Return attempts whose fencing token is not larger than the last one."""
    return await _broken(conn, "tokens_that_do_not_grow", limit)


async def attempts_with_gaps(conn: Conn, *, limit: int) -> list[Violation]:
    """Return runs whose attempts are not numbered 1 to n."""
    return await _broken(conn, "attempts_with_gaps", limit)


async def claims_before_due(conn: Conn, *, limit: int) -> list[Violation]:
    """Return attempts that were claimed before their run was due."""
    return await _broken(conn, "claims_before_due", limit)


async def successes_without_a_winner(conn: Conn, *, limit: int) -> list[Violation]:
    """Return runs whose success and whose attempts disagree."""
    return await _broken(conn, "successes_without_a_winner", limit)


async def states_that_history_does_not_tell(conn: Conn, *, limit: int) -> list[Violation]:
    """Return runs that are not where their last event says."""
    return await _broken(conn, "states_that_history_does_not_tell", limit)


async def claims_that_history_does_not_tell(conn: Conn, *, limit: int) -> list[Violation]:
    """Return runs whose attempts and recorded claims differ in number."""
    return await _broken(conn, "claims_that_history_does_not_tell", limit)


async def orphans(conn: Conn, *, limit: int) -> list[Violation]:
    """Return rows of runs that are not there."""
    return await _broken(conn, "orphans", limit)


async def runs_behind_the_watermark(conn: Conn, *, limit: int) -> list[Violation]:
    """Return runs beyond the instant until which their schedule is decided."""
    return await _broken(conn, "runs_behind_the_watermark", limit)
