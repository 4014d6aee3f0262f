"""What an audit event tells of a change: the fields that differ, before and after, within a bound.

What is told of a thing is what reading it answers to who may not see payloads. As a second wall, fields that are named
like secrets are left out here, whatever they hold. Pure: no clock, no database.
"""

import hashlib
from typing import Any, Final, cast

from everwhen.core.audit_chain import canonical

MOST_BYTES: Final = 8_192
"""How long each of the two may be, as JSON. A longer one loses its longest fields; their digests stay."""

LEFT_OUT: Final = "$left_out"
SECRET: Final = {LEFT_OUT: "secret"}
SECRETS: Final = frozenset({"authorization", "csrf_token", "password", "private_key", "secret"})


def difference(before: Any, after: Any) -> tuple[Any, Any]:
    """Return what is to be told of a thing before and after: what differs of objects, else the whole."""
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return cast("Any", before), after
    old, new = cast("dict[str, Any]", before), cast("dict[str, Any]", after)
    differ = [name for name in sorted(old.keys() | new.keys()) if old.get(name) != new.get(name)]
    return {name: old[name] for name in differ if name in old}, {name: new[name] for name in differ if name in new}


def bounded(value: Any) -> Any:
    """Return a value without secrets, and as much of it as may be told."""
    if value is None:
        return None
    value = _without_secrets(value)
    text = canonical(value)
    if len(text) <= MOST_BYTES:
        return value
    if not isinstance(value, dict):
        return _left_out(text)
    left = dict(cast("dict[str, Any]", value))
    fields, too_much = {name: canonical(inner) for name, inner in left.items()}, len(text) - MOST_BYTES
    for name, text in sorted(fields.items(), key=lambda field: len(field[1]), reverse=True):
        if too_much <= 0:
            break
        left[name] = _left_out(text)
        too_much -= len(text) - len(canonical(left[name]))
    return left if too_much <= 0 else _left_out(canonical(value))


def _left_out(text: str) -> dict[str, Any]:
    return {LEFT_OUT: {"bytes": len(text), "sha256": hashlib.sha256(text.encode()).hexdigest()}}


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {name: _shown(name, inner) for name, inner in fields.items()}
    if isinstance(value, list):
        return [_without_secrets(inner) for inner in cast("list[Any]", value)]
    return value


def _shown(name: str, value: Any) -> Any:
    return SECRET if name in SECRETS and value is not None else _without_secrets(value)
