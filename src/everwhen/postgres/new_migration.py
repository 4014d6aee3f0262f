"""Starts a migration: `make migration NAME=add_labels` makes the next numbered file."""

import re
import sys
from pathlib import Path

from everwhen.postgres.migrate import packaged_migrations

FOLDER = Path(__file__).with_name("migrations")

_TEMPLATE = """\
-- What changes, and why it is safe while older servers run.
-- Rules: expand first, contract a release later (with the header `everwhen: breaking`); a new index on a big table is
-- one `create index concurrently` in a file of its own (with the header `everwhen: no-transaction`).
-- Afterwards: `make schema`, and the store functions that the contract test names.

"""


def create(name: str, *, folder: Path = FOLDER) -> Path:
    """Make the file and return its path; raise ValueError on a name that is not lower_case_words."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ValueError(f"NAME={name!r} must be lower_case_words: make migration NAME=add_labels")
    last = max((int(migration.version[:4]) for migration in packaged_migrations()), default=0)
    path = folder / f"{last + 1:04d}_{name}.sql"
    with path.open("x", encoding="utf-8") as file:
        file.write(_TEMPLATE)
    return path


def main() -> int:
    try:
        path = create(sys.argv[1] if len(sys.argv) == 2 else "")
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
