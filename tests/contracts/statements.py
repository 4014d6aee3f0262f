"""What a named statement and its store function owe each other, and how to find out where they differ.

PostgreSQL itself is asked: it prepares the statement and describes its parameters and columns.
"""

import ast
import dataclasses
import datetime as dt
import decimal
import importlib
import inspect
import re
import textwrap
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
from psycopg import postgres, pq

import everwhen
from everwhen.postgres.sql import Statements, load

_PLACEHOLDER = re.compile(r"%\((\w+)\)s")
_STRAY_PERCENT = re.compile(r"%(?!\(\w+\)s)")
_NOT_ROWS = (int, bool, type(None))

# What a value of this Python type may be in PostgreSQL. A parameter given as text may be cast by the statement.
_TYPES: dict[Any, set[str]] = {
    UUID: {"uuid"},
    dt.datetime: {"timestamptz"},
    dt.timedelta: {"interval"},
    bool: {"bool"},
    int: {"int2", "int4", "int8"},
    float: {"float4", "float8"},
    decimal.Decimal: {"numeric"},
    str: {"text", "varchar", "name"},
    bytes: {"bytea"},
}
_TEXT_PARAMETERS = {"json", "jsonb", "interval", "uuid"}


def packages() -> list[str]:
    """Every package of Everwhen that has a `queries.sql`."""
    root = Path(everwhen.__path__[0])
    folders = sorted(file.parent for file in root.rglob("queries.sql"))
    return [".".join(("everwhen", *folder.relative_to(root).parts)) for folder in folders]


def pairs() -> list[tuple[str, str]]:
    """(package, statement) of all of them."""
    return [(package, name) for package in packages() for name in load(package)]


def store_of(package: str) -> types.ModuleType | None:
    """The package's store module, None where there is none."""
    try:
        return importlib.import_module(f"{package}.store")
    except ModuleNotFoundError as error:
        if error.name != f"{package}.store":
            raise
        return None


def unpaired(statements: Statements, store: types.ModuleType | None) -> list[str]:
    """Statements without a function, public functions without a statement, and functions that use another's."""
    if store is None:
        return [f"{statements.package} has statements but no store.py"]
    functions = {
        name: function
        for name, function in inspect.getmembers(store, inspect.iscoroutinefunction)
        if function.__module__ == store.__name__ and not name.startswith("_")
    }
    found = [f"statement {name} has no function" for name in statements if name not in functions]
    found += [f"function {name} has no statement" for name in functions if name not in statements]
    for name, function in functions.items():
        asked, constants = _names_in(function)
        found += [f"function {name} asks for the statement {other}" for other in sorted(asked - {name})]
        found += [] if name in constants or asked else [f"function {name} does not ask for its statement"]
    return found


def differences(conn: psycopg.Connection, statements: Statements, name: str, function: Any) -> list[str]:
    """Where PostgreSQL's description of the statement and the function's signature differ.

    Without a function (see `unpaired`) only whether the statement can be prepared.
    """
    text = statements[name]
    if _STRAY_PERCENT.search(text.replace("%%", "")):
        return [f"{name}: a percent sign must be doubled"]
    if re.match(r"copy\s", _without_comment(text), re.IGNORECASE):
        return _copy_differences(conn, text, name)
    names = list(dict.fromkeys(_PLACEHOLDER.findall(text)))
    described = _describe(conn, text, names)
    if isinstance(described, str) or function is None:
        return [f"{name}: {described}"] if isinstance(described, str) else []
    parameters, columns = described
    hints = typing.get_type_hints(function)
    keywords = {p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY}
    found = [f"{name}: parameter {extra} is in the function only" for extra in sorted(keywords - set(names))]
    found += [f"{name}: parameter {extra} is in the statement only" for extra in sorted(set(names) - keywords)]
    for parameter, type_name in parameters.items():
        if parameter in keywords and not _fits(hints[parameter], type_name, as_parameter=True):
            found.append(f"{name}: parameter {parameter} is {type_name}, the function says {hints[parameter]}")
    return found + [f"{name}: {text}" for text in _row_differences(hints.get("return", type(None)), columns)]


def _describe(conn: psycopg.Connection, text: str, names: list[str]) -> tuple[dict[str, str], dict[str, str]] | str:
    prepared = conn.pgconn.prepare(b"", _numbered(text, names).encode())
    if prepared.status != pq.ExecStatus.COMMAND_OK:
        return prepared.error_message.decode().strip()
    result = conn.pgconn.describe_prepared(b"")
    columns = [(_decoded(result.fname(i)), _type_name(conn, result.ftype(i))) for i in range(result.nfields)]
    if len(dict(columns)) != len(columns):
        return f"two columns have one name: {[column for column, _ in columns]}"
    return {name: _type_name(conn, result.param_type(i)) for i, name in enumerate(names)}, dict(columns)


def refusals(conn: psycopg.Connection, statements: Statements, name: str) -> list[str]:
    """Why neither group role may run the statement; nothing when one of them may. `conn` is a superuser's.

    Planning it without values checks every privilege. PostgreSQL 15 cannot, and is not asked.
    """
    text = statements[name]
    names = list(dict.fromkeys(_PLACEHOLDER.findall(text)))
    if conn.info.server_version < 160000 or _without_comment(text).lower().startswith("copy"):
        return []
    found: list[str] = []
    for role in ("everwhen_tenant", "everwhen_system"):
        conn.execute(f"set role {role}")
        try:
            conn.execute("explain (generic_plan) " + _numbered(text, names))
        except psycopg.errors.InsufficientPrivilege as error:
            found.append(f"{role}: {error.diag.message_primary}")
        finally:
            conn.execute("reset role")
    return found if len(found) == 2 else []


def _row_differences(returns: Any, columns: Mapping[str, str]) -> Iterator[str]:
    row = _row_type(returns)
    if isinstance(row, type) and (dataclasses.is_dataclass(row) or hasattr(row, "__struct_fields__")):
        fields = {
            name: hint
            for name, hint in typing.get_type_hints(row).items()
            if typing.get_origin(hint) is not typing.ClassVar
        }
        yield from (f"column {extra} is in the statement only" for extra in sorted(columns.keys() - fields.keys()))
        yield from (f"column {extra} is in {row.__name__} only" for extra in sorted(fields.keys() - columns.keys()))
        for name in sorted(fields.keys() & columns.keys()):
            if not _fits(fields[name], columns[name], as_parameter=False):
                yield f"column {name} is {columns[name]}, {row.__name__} says {fields[name]}"
    elif row is type(None):
        yield from (f"column {extra} is thrown away" for extra in columns)
    elif not columns and returns in _NOT_ROWS:
        return  # the row count
    elif len(columns) != 1:
        yield f"one column expected for {returns}, the statement has {sorted(columns)}"
    elif returns is not bool and not _fits(row, next(iter(columns.values())), as_parameter=False):
        yield f"the column is {next(iter(columns.values()))}, the function says {returns}"


def _row_type(returns: Any) -> Any:
    """X of `list[X]`, `X | None` and X."""
    if typing.get_origin(returns) in (list, set, frozenset, tuple):
        return _row_type(typing.get_args(returns)[0])
    bare = _without_none(returns)
    return bare if bare is returns else _row_type(bare)


def _fits(hint: Any, type_name: str, *, as_parameter: bool) -> bool:
    hint = _plain(hint)
    arguments = typing.get_args(hint)
    if arguments and isinstance(origin := typing.get_origin(hint), type) and not issubclass(origin, Mapping):
        return type_name.endswith("[]") and _fits(arguments[0], type_name.removesuffix("[]"), as_parameter=as_parameter)
    if not isinstance(hint, type):
        return True
    for python, allowed in _TYPES.items():
        if issubclass(hint, python) and not (hint is bool and python is int):
            return type_name in allowed or (as_parameter and python is str and type_name in _TEXT_PARAMETERS)
    return True


def _plain(hint: Any) -> Any:
    """Without None, NewType, Annotated and Literal around it."""
    hint = _without_none(hint)
    if supertype := getattr(hint, "__supertype__", None):
        return _plain(supertype)
    if typing.get_origin(hint) is typing.Annotated:
        return _plain(typing.get_args(hint)[0])
    if typing.get_origin(hint) is typing.Literal:
        return type(typing.get_args(hint)[0])
    return hint


def _without_none(hint: Any) -> Any:
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return hint
    rest = [argument for argument in typing.get_args(hint) if argument is not type(None)]
    return rest[0] if len(rest) == 1 else hint


def _copy_differences(conn: psycopg.Connection, text: str, name: str) -> list[str]:
    """COPY cannot be prepared: begin it, which checks table and columns, and break it off."""
    conn.execute("begin")
    try:
        result = conn.pgconn.exec_(text.encode())
        if result.status == pq.ExecStatus.COPY_IN:
            conn.pgconn.put_copy_end(b"only a check")
            while conn.pgconn.get_result():
                pass
            return []
        return [f"{name}: {result.error_message.decode().strip()}"]
    finally:
        conn.execute("rollback")


def _names_in(function: Any) -> tuple[set[str], set[str]]:
    """The names in `_SQL["…"]` within a function, and all its text constants (the name, given to a private helper)."""
    asked: set[str] = set()
    constants: set[str] = set()
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
        match node:
            case ast.Subscript(value=ast.Name(id="_SQL"), slice=ast.Constant(value=str(name))):
                asked.add(name)
            case ast.Constant(value=str(text)):
                constants.add(text)
    return asked, constants


def _numbered(text: str, names: list[str]) -> str:
    """The statement as PostgreSQL takes it, with $1 for %(name)s."""
    return _PLACEHOLDER.sub(lambda found: f"${names.index(found[1]) + 1}", text).replace("%%", "%")


def _without_comment(text: str) -> str:
    return text.split("*/", 1)[-1].lstrip()


def _type_name(conn: psycopg.Connection, oid: int) -> str:
    info = postgres.types.get(oid)
    if info is None:
        return f"type {oid}"
    return f"{info.name}[]" if info.array_oid == oid else info.name


def _decoded(name: bytes | None) -> str:
    return (name or b"").decode()
