"""Runs a named statement and returns typed rows.

`row_type` is a dataclass (or any class that takes the columns by keyword); a plain type such as `UUID` or `int` means
that the statement returns one column and its values are wanted.
"""

import functools
import keyword
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from datetime import datetime
from typing import Any, LiteralString, TypeVar

import psycopg
from psycopg import AsyncConnection, AsyncCursor
from psycopg.rows import RowMaker, no_result

Row = TypeVar("Row")
Params = Mapping[str, Any]


async def fetch_all(conn: AsyncConnection[Any], query: LiteralString, params: Params, row_type: type[Row]) -> list[Row]:
    """Return every row."""
    async with conn.cursor(row_factory=rows_of(row_type)) as cursor:
        await cursor.execute(query, params)
        return await cursor.fetchall()


async def fetch_optional(
    conn: AsyncConnection[Any], query: LiteralString, params: Params, row_type: type[Row]
) -> Row | None:
    """Return the only row, or None. More than one is a defect of the statement and raises."""
    rows = await fetch_all(conn, query, params, row_type)
    if len(rows) > 1:
        raise psycopg.ProgrammingError(f"expected at most one row, got {len(rows)}: {query.splitlines()[0]}")
    return rows[0] if rows else None


async def fetch_one(conn: AsyncConnection[Any], query: LiteralString, params: Params, row_type: type[Row]) -> Row:
    """Return the only row; none or several are a defect of the statement and raise."""
    row = await fetch_optional(conn, query, params, row_type)
    if row is None:
        raise psycopg.ProgrammingError(f"expected one row, got none: {query.splitlines()[0]}")
    return row


async def execute_count(conn: AsyncConnection[Any], query: LiteralString, params: Params) -> int:
    """Run the statement and return how many rows it wrote."""
    return (await conn.execute(query, params)).rowcount


def instants_text(instants: Sequence[datetime]) -> str | None:
    """Write a list as PostgreSQL reads it, None when it is empty: lists of several lengths are no array of arrays."""
    return f"{{{','.join(at.isoformat() for at in instants)}}}" if instants else None


def rows_of(row_type: type[Row]) -> Callable[[AsyncCursor[Any]], RowMaker[Row]]:
    """A psycopg row factory for this type."""

    def factory(cursor: AsyncCursor[Any]) -> RowMaker[Row]:
        if cursor.description is None:
            return no_result
        if not is_dataclass(row_type) and not hasattr(row_type, "__struct_fields__"):
            return _first
        return _maker(row_type, tuple(column.name for column in cursor.description))

    return factory


@functools.cache
def _maker(row_type: type[Any], names: tuple[str, ...]) -> RowMaker[Any]:
    """`lambda v: Row(a=v[0], b=v[1])`, compiled once: half the time that a dict for every row takes."""
    for name in names:
        if not name.isidentifier() or keyword.iskeyword(name):
            raise psycopg.ProgrammingError(f"the column {name!r} cannot be a field of {row_type.__name__}")
    arguments = ", ".join(f"{name}=v[{index}]" for index, name in enumerate(names))
    return eval(f"lambda v: row_type({arguments})", {"row_type": row_type})  # noqa: S307 - checked identifiers only


def _first(values: Sequence[Any]) -> Any:
    return values[0]
