"""Writes docs/reference/openapi.released.json, what clients hold us to: `python -m tests.contracts.openapi_released`.

It is the document of the latest release without what is there for people only. A release writes it; what breaks the one
before is refused, and named.
"""

import json
import sys
from collections.abc import Mapping
from typing import Any

from everwhen import clock
from tests.contracts.breaking import breaking
from tests.contracts.openapi_snapshot import FILE, app_for_its_document

RELEASED = FILE.with_name("openapi.released.json")
FOR_PEOPLE = frozenset({"description", "summary", "title", "tags", "example", "examples", "x-permission", "x-since"})
"""What may change: words. Below `properties` the same words are names of fields, and stay."""
OF_NAMES = frozenset({"properties", "patternProperties", "schemas", "responses", "headers", "paths", "mapping"})


def bare(document: Any, *, named: bool = False) -> Any:
    """Return a document without what is there for people only; `named`: its keys are names."""
    if isinstance(document, Mapping):
        return {
            key: bare(value, named=not named and key in OF_NAMES)
            for key, value in document.items()
            if named or key not in FOR_PEOPLE
        }
    return [bare(each) for each in document] if isinstance(document, list) else document


def released() -> Any:
    """The document of the latest release."""
    return json.loads(RELEASED.read_text(encoding="utf-8"))


def main() -> int:
    now = app_for_its_document().openapi()
    found = breaking(released(), now, today=clock.process_now().date()) if RELEASED.exists() else []
    if found:
        sys.stderr.write("\n".join(["breaks clients of the latest release:", *map(str, found)]) + "\n")
        return 1
    text = json.dumps(bare(now), indent=1, ensure_ascii=False, sort_keys=True)
    RELEASED.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
