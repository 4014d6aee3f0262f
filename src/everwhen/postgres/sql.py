"""Loads a feature's statements from its `queries.sql`.

    -- name: claim_runs
    -- Why it is written so.
    select …

What several statements have in common is written once, as a fragment, which a line of its own puts in its place:

    -- fragment: lease_candidates
    ), taken as (delete …

    -- name: claim_runs
    with candidate as (…
    -- include: lease_candidates

Each statement is sent with a `/* everwhen.runs.claim_runs */` in front, so that pg_stat_statements, the slow-query log
and pg_stat_activity name the function. Whole-line comments stay in the file: the server need not read them each time.
"""

import re
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import LiteralString, cast

Query = LiteralString

_NAME = re.compile(r"^--\s*(?P<what>name|fragment|include):\s*(?P<name>[a-z][a-z0-9_]*)\s*$")


class StatementError(Exception):
    """A `queries.sql` cannot be loaded, or a statement is asked for that it does not hold."""


class Statements(Mapping[str, Query]):
    """The named statements of one package."""

    def __init__(self, package: str, queries: Mapping[str, Query]) -> None:
        self.package = package
        self._queries = dict(queries)

    def __getitem__(self, name: str) -> Query:
        if name not in self._queries:
            known = ", ".join(sorted(self._queries))
            raise StatementError(f"{self.package}/queries.sql has no statement named {name}; it has: {known}")
        return self._queries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._queries

    def __iter__(self) -> Iterator[str]:
        return iter(self._queries)

    def __len__(self) -> int:
        return len(self._queries)


def load(package: str) -> Statements:
    """Read the statements of `package`; raise StatementError when the file is missing or malformed."""
    file = resources.files(package) / "queries.sql"
    if not file.is_file():
        raise StatementError(f"{package} has no queries.sql")
    return parse(file.read_text(encoding="utf-8"), package=package)


def parse(text: str, *, package: str) -> Statements:
    """Split the text at its name lines. Text before the first name, a name given twice or left empty is an error."""
    bodies: dict[str, list[str]] = {}
    fragments: dict[str, list[str]] = {}
    current: list[str] | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        where = f"{package}/queries.sql:{number}"
        found = _NAME.match(line)
        if found and found["what"] != "include":
            current = _begin(bodies if found["what"] == "name" else fragments, found["name"], where=where)
        elif found is None and (not line.strip() or line.lstrip().startswith("--")):
            continue
        elif current is None:
            raise StatementError(f"{where}: text before the first `-- name:` line")
        else:
            current.extend([line] if found is None else _included(fragments, found["name"], where=where))
    return Statements(package, {name: _query(package, name, lines) for name, lines in bodies.items()})


def _included(fragments: Mapping[str, list[str]], name: str, *, where: str) -> list[str]:
    if name not in fragments:
        raise StatementError(f"{where}: no fragment named {name} stands above; write it first")
    return [line.removesuffix(";") for line in fragments[name]]


def _begin(bodies: dict[str, list[str]], name: str, *, where: str) -> list[str]:
    if name in bodies:
        raise StatementError(f"{where}: the name {name} is taken by an earlier statement; choose another")
    bodies[name] = []
    return bodies[name]


def _query(package: str, name: str, lines: list[str]) -> Query:
    body = "\n".join(lines).strip().removesuffix(";").rstrip()
    if not body:
        raise StatementError(f"{package}/queries.sql: the statement {name} is empty")
    # The type says "written by a developer, not by a user". It holds: the text is a file of the package itself.
    return cast("LiteralString", f"/* {package}.{name} */\n{body}")
