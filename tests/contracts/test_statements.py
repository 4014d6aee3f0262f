import sys
import types
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest

from everwhen.postgres.sql import load, parse
from tests.contracts import statements as contract
from tests.database import MIGRATED


@pytest.fixture(scope="session")
def conn(server):
    with psycopg.connect(server.owner(MIGRATED), autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="session")
def superuser(server):
    with psycopg.connect(server.superuser(MIGRATED), autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize("package", contract.packages())
def test_every_statement_has_a_function_of_its_name_and_the_reverse(package):
    assert contract.unpaired(load(package), contract.store_of(package)) == []


@pytest.mark.parametrize(("package", "name"), contract.pairs())
def test_a_statement_and_its_function_agree(conn, package, name):
    function = getattr(contract.store_of(package), name, None)

    assert contract.differences(conn, load(package), name, function) == []


@pytest.mark.parametrize(("package", "name"), contract.pairs())
def test_a_group_role_may_run_the_statement(superuser, package, name):
    assert contract.refusals(superuser, load(package), name) == []


# The contract itself, proven by what it must catch -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    id: UUID
    created_at: datetime


GOOD = """
-- name: find
select id, created_at from everwhen.tenants where id = any(%(ids)s::uuid[]) and name = %(name)s
"""


async def find(conn: Any, *, ids: Sequence[UUID], name: str) -> list[Tenant]: ...


async def find_renamed(conn: Any, *, identities: Sequence[UUID], name: str) -> list[Tenant]: ...


async def find_by_number(conn: Any, *, ids: Sequence[UUID], name: int) -> list[Tenant]: ...


async def find_count(conn: Any, *, ids: Sequence[UUID], name: str) -> int: ...


def found(conn, text, function=find):
    return contract.differences(conn, parse(text, package="seeded"), "find", function)


def test_what_agrees_raises_nothing(conn):
    assert found(conn, GOOD) == []
    assert found(conn, GOOD.replace("name = %", "name <> format('%%s', 1) and name = %")) == []


@pytest.mark.parametrize(
    ("text", "function", "expected"),
    [
        (GOOD, find_renamed, "parameter ids is in the statement only"),
        (GOOD, find_by_number, "parameter name is text, the function says <class 'int'>"),
        (GOOD, find_count, "one column expected"),
        (GOOD.replace("created_at from", "created_at, name from"), find, "column name is in the statement only"),
        (GOOD.replace(", created_at", ""), find, "column created_at is in Tenant only"),
        (GOOD.replace("created_at", "craeted_at"), find, 'column "craeted_at" does not exist'),
        (GOOD.replace("created_at", "created_at::timestamp"), find, "column created_at is timestamp,"),
        (GOOD.replace("name = %", "name like '%x' and name = %"), find, "percent sign must be doubled"),
        (GOOD.replace("any(%(ids)s::uuid[])", "%(ids)s"), find, "parameter ids is uuid, the function says"),
        (GOOD.replace("created_at from", "created_at, id from"), find, "two columns have one name"),
        ("-- name: find\ncopy everwhen.tenants (id, nmae) from stdin", find, 'column "nmae"'),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) and "name:" not in value else "",
)
def test_a_seeded_violation_is_named(conn, text, function, expected):
    assert any(expected in line for line in found(conn, text, function)), found(conn, text, function)


def test_a_statement_that_no_role_may_run_is_named(superuser):
    if superuser.info.server_version < 160000:
        return
    statements = parse("-- name: rewrite\nupdate everwhen.events set kind = %(kind)s", package="seeded")

    assert contract.refusals(superuser, statements, "rewrite") == [
        "everwhen_tenant: permission denied for table events",
        "everwhen_system: permission denied for table events",
    ]


STORE = """
async def claim(conn, *, ids):
    return _SQL["clam"]
async def helper_without_statement(conn):
    return _SQL["helper_without_statement"]
async def forgot(conn):
    return 1
"""


def test_a_seeded_store_is_taken_apart(tmp_path, monkeypatch):
    (tmp_path / "seeded_store.py").write_text(STORE)
    monkeypatch.syspath_prepend(tmp_path)
    import seeded_store  # pyright: ignore[reportMissingImports]

    statements = parse("-- name: claim\nselect 1\n-- name: lost\nselect 1\n-- name: forgot\nselect 1", package="seeded")

    assert contract.unpaired(statements, seeded_store) == [
        "statement lost has no function",
        "function helper_without_statement has no statement",
        "function claim asks for the statement clam",
        "function forgot does not ask for its statement",
    ]
    assert contract.unpaired(statements, None) == ["seeded has statements but no store.py"]
    del sys.modules["seeded_store"]
    assert isinstance(seeded_store, types.ModuleType)
