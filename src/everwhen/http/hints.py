"""What somebody may have meant who named a field that there is not: the model is asked which there are."""

import difflib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, cast

from pydantic import BaseModel

MOST_NAMED: Final = 12


def hint(model: type[BaseModel], location: Sequence[str | int]) -> str:
    """Return what to say about an unknown field at the end of a location; empty when the model does not know."""
    *above, name = location
    fields = _fields_at(_schema(model), above)
    if not fields:
        return ""
    near = difflib.get_close_matches(str(name), fields, n=1)
    if near:
        return f"did you mean {near[0]}?"
    more = ", …" if len(fields) > MOST_NAMED else ""
    return f"there are {', '.join(fields[:MOST_NAMED])}{more}"


@cache
def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema(by_alias=True)


def _fields_at(schema: Mapping[str, Any], steps: Sequence[str | int]) -> list[str]:
    """Return the names of the fields of the object that the steps lead to."""
    at: Sequence[Mapping[str, Any]] = _alternatives(schema, schema)
    for step in steps:
        below: list[Mapping[str, Any]] = []
        for each in at:
            inner = each.get("items") if isinstance(step, int) else each.get("properties", {}).get(step)
            below += [] if inner is None else _alternatives(inner, schema)
        tagged = [each for each in at if _tag(each) == step]
        at = below or tagged or at
    return list(dict.fromkeys(name for each in at for name in each.get("properties", {})))


def _alternatives(part: Mapping[str, Any], schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the objects and lists that a part of a schema allows, its references followed."""
    if "$ref" in part:
        part = schema["$defs"][str(part["$ref"]).rpartition("/")[2]]
    found = [part] if part.get("properties") or part.get("items") else []
    for several in ("anyOf", "oneOf", "allOf"):
        for each in cast("list[Mapping[str, Any]]", part.get(several, [])):
            found += _alternatives(each, schema)
    return found


def _tag(part: Mapping[str, Any]) -> Any:
    return part.get("properties", {}).get("kind", {}).get("const")
