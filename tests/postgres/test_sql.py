from dataclasses import dataclass

import psycopg
import pytest

from everwhen.postgres.fetch import execute_count, fetch_all, fetch_one, fetch_optional
from everwhen.postgres.sql import StatementError, load, parse

TEXT = """
-- name: first
-- Why it is so.
select 1 as number
  -- and why this line
  where true;

-- name: second
select 2
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    left: int
    right: str | None


def test_statements_carry_their_name_and_lose_their_comments():
    statements = parse(TEXT, package="everwhen.demo")

    assert list(statements) == ["first", "second"]
    assert statements["first"] == "/* everwhen.demo.first */\nselect 1 as number\n  where true"


def test_what_statements_share_is_written_once():
    text = """
-- fragment: rest
-- What both have.
from generate_series(1, 3) n;
-- name: all
select n
-- include: rest
-- name: even
select n
-- include: rest
where n % 2 = 0;
"""
    statements = parse(text, package="demo")

    assert dict(statements) == {
        "all": "/* demo.all */\nselect n\nfrom generate_series(1, 3) n",
        "even": "/* demo.even */\nselect n\nfrom generate_series(1, 3) n\nwhere n % 2 = 0",
    }


def test_a_misspelt_name_is_answered_with_the_right_ones():
    with pytest.raises(StatementError, match="has no statement named frist; it has: first, second"):
        parse(TEXT, package="everwhen.demo")["frist"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("select 1\n-- name: late\nselect 1", "demo/queries.sql:1: text before the first"),
        ("-- name: twice\nselect 1\n-- name: twice\nselect 1", "demo/queries.sql:3: the name twice is taken"),
        ("-- name: odd\nselect 1\n-- include: rest", "demo/queries.sql:3: no fragment named rest stands above"),
        ("-- name: empty\n-- nothing\n-- name: next\nselect 1", "the statement empty is empty"),
    ],
)
def test_a_malformed_file_is_refused(text, complaint):
    with pytest.raises(StatementError, match=complaint):
        parse(text, package="demo")


def test_a_package_without_statements_is_refused():
    with pytest.raises(StatementError, match=r"everwhen has no queries.sql"):
        load("everwhen")


async def test_rows_become_objects_and_single_columns_values(database):
    pairs = "select n as left, null as right from generate_series(1, %(n)s::int) n"
    async with database.system() as conn:
        assert await fetch_all(conn, pairs, {"n": 2}, Pair) == [Pair(left=1, right=None), Pair(left=2, right=None)]
        assert await fetch_all(conn, "select generate_series(1, 3)", {}, int) == [1, 2, 3]
        assert await fetch_optional(conn, pairs, {"n": 0}, Pair) is None
        assert await fetch_one(conn, "select 'x'", {}, str) == "x"


async def test_the_wrong_number_of_rows_is_a_defect(database):
    async with database.system() as conn:
        with pytest.raises(psycopg.ProgrammingError, match="expected one row, got none"):
            await fetch_one(conn, "select 1 where false", {}, int)
        with pytest.raises(psycopg.ProgrammingError, match="expected at most one row, got 2"):
            await fetch_optional(conn, "select generate_series(1, 2)", {}, int)


async def test_a_count_is_what_was_written(database):
    async with database.system() as conn:
        query = "insert into everwhen.tenants select gen_random_uuid(), 'n' || n, now() from generate_series(1, 3) n"
        assert await execute_count(conn, query, {}) == 3
