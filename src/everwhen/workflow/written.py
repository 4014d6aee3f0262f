"""Values that are known only when a workflow runs: written down as references, typed as what they will be.

`Written` stands in for a value. Attributes and keys of a `Reference` are references further in; comparing one gives a
`Condition`. Whatever would need the value now (`if`, `for`, `str`) says what to do instead.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final, NoReturn, TypeVar, cast

from everwhen.core.dag_data import path_of

_Value = TypeVar("_Value")


class Condition:
    """A comparison: the value of `when`, never of an `if`."""

    def __init__(self, written: Any) -> None:
        """Keep it as JSON with written values in it."""
        self.written = written

    def __bool__(self) -> NoReturn:
        """Refuse to be decided now."""
        raise TypeError("a condition is decided when the node is released; combine with all_of, any_of and not_")


class Written:
    """A value that is known only when the workflow runs. Its own attributes begin with `_`: others may be data's."""

    def __init__(self, json: Any) -> None:
        """Keep it as JSON with written values in it."""
        self._json = json

    def __lt__(self, other: Any) -> Condition:
        """Compare when the workflow runs."""
        return Condition({"<": [self, other]})

    def __le__(self, other: Any) -> Condition:
        """Compare when the workflow runs."""
        return Condition({"<=": [self, other]})

    def __gt__(self, other: Any) -> Condition:
        """Compare when the workflow runs."""
        return Condition({">": [self, other]})

    def __ge__(self, other: Any) -> Condition:
        """Compare when the workflow runs."""
        return Condition({">=": [self, other]})

    def __eq__(self, other: object) -> Condition:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Compare when the workflow runs."""
        return Condition({"==": [self, other]})

    def __ne__(self, other: object) -> Condition:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Compare when the workflow runs."""
        return Condition({"!=": [self, other]})

    __hash__ = None  # type: ignore[assignment]  # what equals nothing yet is a member of no set

    def __bool__(self) -> NoReturn:
        """Refuse to be decided now."""
        raise TypeError("this is known only when the workflow runs; compare it in `when`")

    def __iter__(self) -> NoReturn:
        """Refuse to be walked through now."""
        raise TypeError("this list is known only when the workflow runs; fan out over it with each()")

    def __contains__(self, _: object) -> NoReturn:
        """Refuse to be looked into now."""
        raise TypeError("this is known only when the workflow runs; use is_in() in `when`")

    def __len__(self) -> NoReturn:
        """Refuse to be measured now."""
        raise TypeError("this is known only when the workflow runs; use length()")

    def __str__(self) -> NoReturn:
        """Refuse to be shown now; an f-string would lose the reference."""
        raise TypeError("this is known only when the workflow runs; join texts with text()")


class Reference(Written):
    """A path into a result, an item or the run; `_items` is the list that its fan-out goes over."""

    def __init__(self, *path: str | int, items: Any = None) -> None:
        """Refer to a path."""
        super().__init__({"$ref": list(path)})
        self._path = path
        self._items = items

    def __getattr__(self, name: str) -> "Reference":
        """Refer to a part by its name."""
        if name.startswith("_"):  # what Python itself looks for is no part of a result
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, key: str | int) -> "Reference":
        """Refer to a part by its key or its index."""
        if isinstance(key, bool) or not isinstance(key, str | int):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError("a part of a result is named by a key or a whole number")
        return Reference(*self._path, key, items=self._items)

    def _or(self, value: Any) -> "Reference":
        found = Reference(*self._path, items=self._items)
        found._json = {**self._json, "default": value}
        return found


class Run:
    """The workflow's run, as its nodes may refer to it. Instants are texts with their offset."""

    id: str
    tenant: str
    workflow: str
    version: int
    generation: int
    schedule: str
    nominal_at: str
    due_at: str
    input: Any

    def __getattr__(self, name: str) -> Any:
        """Refer to a field of the run."""
        if name not in Run.__annotations__:
            raise AttributeError(name)
        return Reference("run", name)


run: Final = Run()


def each(items: Sequence[_Value]) -> _Value:
    """Fan the node out over a list: the argument is one of its items, in an instance of its own."""
    return cast("_Value", Reference("item", items=items))


def default(value: _Value, otherwise: _Value) -> _Value:
    """Return the value, or `otherwise` where it leads nowhere, such as the result of a node that failed."""
    if not isinstance(value, Reference):
        raise TypeError("default() takes a reference, such as node.result")
    return cast("_Value", value._or(otherwise))  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def text(*parts: str | float) -> str:
    """Join texts, numbers and references to a text."""
    return cast("str", Written({"$text": list(parts)}))


def length(value: Sequence[Any] | Mapping[str, Any]) -> int:
    """Return how long a list, a text or an object is."""
    return cast("int", Written({"$length": value}))


def literal(value: _Value) -> _Value:
    """Return data as it stands, also where it looks like a reference."""
    return cast("_Value", Written({"$literal": value}))


def equals(one: object, other: object) -> Condition:
    """Compare as JSON does; the same as `one == other` with a reference on either side."""
    return Condition({"==": [one, other]})


def is_in(one: object, other: object) -> Condition:
    """Whether a list, a text or an object's keys contain it."""
    return Condition({"in": [one, other]})


def exists(value: object) -> Condition:
    """Whether a reference leads anywhere."""
    return Condition({"exists": value})


def all_of(*conditions: bool | Condition) -> Condition:
    """All of them."""
    return Condition({"and": list(conditions)})


def any_of(*conditions: bool | Condition) -> Condition:
    """At least one of them."""
    return Condition({"or": list(conditions)})


def not_(condition: bool | Condition) -> Condition:  # noqa: FBT001  # a condition may be a plain bool
    """Not this."""
    return Condition({"not": condition})


class Json:
    """Turns written values into JSON, and keeps what it met on the way: the nodes, and the fan-outs' lists."""

    def __init__(self) -> None:
        """Have met nothing yet."""
        self.roots: dict[str, None] = {}
        self.lists: list[Any] = []

    def of(self, value: Any) -> Any:
        """Return the value as JSON."""
        if isinstance(value, Condition):
            return self.of(value.written)
        if isinstance(value, Written):
            return self._written(value)
        if is_dataclass(value) and not isinstance(value, type):
            return {field.name: self.of(getattr(value, field.name)) for field in fields(value)}
        if isinstance(value, Mapping):
            return self._object(cast("Mapping[Any, Any]", value))
        if isinstance(value, list | tuple):
            return [self.of(item) for item in cast("Sequence[Any]", value)]
        return _plain(value)

    def _written(self, value: Written) -> Any:
        if isinstance(value, Reference):
            return self._reference(value)
        return self.of(value._json)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]

    def _object(self, value: Mapping[Any, Any]) -> dict[str, Any]:
        if "$literal" in value:
            return dict(value)
        path = path_of(value["$ref"]) if "$ref" in value else None
        if path is not None:
            self.roots[str(path[0])] = None
        return {str(key): self.of(item) for key, item in value.items()}

    def _reference(self, value: Reference) -> dict[str, Any]:
        path, items = value._path, value._items  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        self.roots[str(path[0])] = None
        if items is not None and not any(items is other for other in self.lists):
            self.lists.append(items)
        written = dict(value._json)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        is_plain = all(isinstance(part, int) or (part and "." not in part and not part.isdecimal()) for part in path)
        written["$ref"] = ".".join(map(str, path)) if is_plain else list(path)
        return written


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"{type(value).__qualname__} is no JSON; give texts, numbers, lists and objects")
