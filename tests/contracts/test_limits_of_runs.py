"""Whoever lines runs up gives them the instant from which they may not begin: of both deadlines the earlier one."""

import re
from pathlib import Path

import everwhen

STATEMENTS = [
    (file.parent.name, *statement.split("\n", 1))
    for file in sorted(Path(everwhen.__path__[0]).rglob("queries.sql"))
    for statement in file.read_text(encoding="utf-8").split("-- name: ")[1:]
]


def half_limited(text: str) -> bool:
    """Say whether a statement computes with a task's start deadline and forgets its total deadline."""
    computes = re.search(r"make_interval\([^)]*start_deadline_seconds", text)
    return computes is not None and "total_deadline_seconds" not in text


def test_no_statement_forgets_the_total_deadline_where_it_sets_the_start_deadline():
    wrong = [f"{feature}.{name}" for feature, name, text in STATEMENTS if half_limited(text)]

    assert wrong == [], "use least(t.start_deadline_seconds, t.total_deadline_seconds)"


def test_one_that_forgets_it_is_found():
    assert half_limited("select now() + make_interval(secs => t.start_deadline_seconds)")
    assert not half_limited("make_interval(secs => least(t.start_deadline_seconds, t.total_deadline_seconds))")
