"""The shape of facts: which names there are, and what stands behind each. Templates are checked against it."""

from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

TEXT: Final = "a text"
NUMBER: Final = "a number"
EITHER: Final = "a text or a number"


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list whose items are alike."""

    item: "Shape"


Shape: TypeAlias = "str | ListOf | dict[str, Shape]"


def shape_of(value: Any) -> Shape:
    """Return the shape of facts. An empty list is taken for one of texts."""
    match value:
        case dict():
            names = cast("dict[str, Any]", value)
            return {name: shape_of(each) for name, each in names.items()}
        case list():
            items = cast("list[Any]", value)
            return ListOf(shape_of(items[0]) if items else TEXT)
        case int():
            return NUMBER
        case _:
            return TEXT


def describe(shape: Shape) -> str:
    """Say what it is, in the middle of a sentence."""
    match shape:
        case ListOf():
            return "a list"
        case dict():
            return "a group of values"
        case _:
            return shape
