"""YAML, read safely and within bounds.

Tags make nothing but plain values. Aliases are refused rather than counted: through merge keys ten of them a level
multiply, and no tool that exports schedules writes any.
"""

from collections.abc import Iterable
from typing import Any, Final, cast

import yaml

from everwhen.schedules.importers.entry import refuse

MOST_CHARACTERS: Final = 1_000_000  # read at a fraction of the speed of JSON
DEEPEST: Final = 60


def read_yaml(text: str) -> list[Any]:
    """Return the documents of a file."""
    if len(text) > MOST_CHARACTERS:
        refuse("size", f"a YAML file has at most {MOST_CHARACTERS:,} characters; split it, or export JSON")
    try:
        events: Iterable[Any] = cast("Any", yaml).parse(text, Loader=yaml.SafeLoader)
        _check_events(type(event).__name__ for event in events)
        return list(yaml.safe_load_all(text))
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        refuse("yaml", f"the file is no YAML that can be read: {' '.join(str(error).split())[:200]}")


def _check_events(names: Iterable[str]) -> None:
    depth = 0
    for name in names:
        if name == "AliasEvent":
            refuse("yaml.alias", "the YAML refers to an anchor with an alias; write it out, or export JSON")
        depth += {"MappingStartEvent": 1, "SequenceStartEvent": 1}.get(name, 0)
        depth -= {"MappingEndEvent": 1, "SequenceEndEvent": 1}.get(name, 0)
        if depth > DEEPEST:
            refuse("yaml.depth", f"the YAML is nested more than {DEEPEST} levels deep")
