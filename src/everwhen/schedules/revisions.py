"""Revisions and what they changed."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from everwhen.schedules.model import Revision

MOST_DEEP: Final = {"catch_up", "flex", "calendars", "overlap"}
"""The parts of a spec that are told field by field; what is not, such as a trigger, is told as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A field and its JSON values; None where it was not, or is not, set."""

    field: str
    before: Any
    after: Any


def differences(before: Revision, after: Revision) -> list[Difference]:
    """Return what one revision changed of the one before it, by the fields' names."""
    return [
        Difference(field=name, before=old, after=new)
        for name, old, new in _pairs(_flat(before), _flat(after))
        if old != new
    ]


def _flat(revision: Revision) -> dict[str, Any]:
    spec = cast("dict[str, Any]", json.loads(revision.spec))
    found = {
        "task": revision.task,
        "input": json.loads(revision.input),
        "priority": revision.priority,
        "tags": revision.tags,
        "owner": revision.owner,
    }
    for name, value in spec.items():
        if name in MOST_DEEP and isinstance(value, Mapping):
            found |= _fields(name, cast("Mapping[str, Any]", value))
        else:
            found[name] = value
    return found


def _fields(prefix: str, value: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, each in value.items():
        if isinstance(each, Mapping):
            found |= _fields(f"{prefix}.{name}", cast("Mapping[str, Any]", each))
        else:
            found[f"{prefix}.{name}"] = each
    return found


def _pairs(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    return ((name, before.get(name), after.get(name)) for name in {**before, **after})
