"""How two JSON values differ, by fields: what a person is told, and whether there is anything to tell.

To Python `true` is 1; to JSON it is not. 1 and 1.0 are one number to both: what PostgreSQL stores of 1e25 reads back as
a whole number, and has not changed by that.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

_NAMES: Final = ("id", "date", "name")
"""What tells the items of a list apart, where each of them has it and no two have the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A field, as `retry.max_attempts` or `nodes[load].task`, and its values; None where there is none."""

    field: str
    before: Any
    after: Any


def same(one: Any, other: Any) -> bool:
    """Tell whether two values are the same to JSON; of objects, whatever the order of their keys."""
    match one, other:
        case Mapping(), Mapping():
            left, right = cast("Mapping[str, Any]", one), cast("Mapping[str, Any]", other)
            return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
        case ((list() | tuple()), (list() | tuple())):
            items, others = cast("Sequence[Any]", one), cast("Sequence[Any]", other)
            return len(items) == len(others) and all(map(same, items, others))
        case (bool(), _) | (_, bool()):
            return one is other
        case (int(), float()) | (float(), int()):
            return float(one) == float(other)
        case _:
            return bool(one == other)


def differences(before: Any, after: Any, *, at: str = "") -> Iterator[Difference]:
    """Yield what differs, field by field, in the order of what there was; lists item by item where items have names.

    A value that became of another kind (its `kind` differs) is told as a whole.
    """
    if same(before, after):
        return
    old, new = _fields(before), _fields(after)
    if old is None or new is None or old.get("kind") != new.get("kind"):
        yield Difference(field=at, before=before, after=after)
        return
    is_item = _is_list(after)
    steps = [(key, _step(at, key, is_item)) for key in {**old, **new}]
    told = [each for key, step in steps for each in differences(old.get(key), new.get(key), at=step)]
    # Where each item is as it was, their order is not.
    yield from told or [Difference(field=at, before=before, after=after)]


def _fields(value: Any) -> Mapping[str, Any] | None:
    """Return the parts of a value by their names, None when it is to be told as a whole."""
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value)
    if not _is_list(value) or not value:
        return None
    items = cast("Sequence[Any]", value)
    if not all(isinstance(item, Mapping) for item in items):
        return None
    for name in _NAMES:
        named = {str(item.get(name)): item for item in cast("Sequence[Mapping[str, Any]]", items)}
        if len(named) == len(items) and all(item.get(name) is not None for item in items):
            return named
    return None


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _step(at: str, key: str, is_item: bool) -> str:  # noqa: FBT001  # says what it is
    if is_item:
        return f"{at}[{key}]"
    return f"{at}.{key}" if at else key
