"""Data between nodes: templates that refer to upstream results and to the run, and conditions over them. Plain JSON.

A template is any JSON value. In it stand for something else:

    {"$ref": "extract.result.files.0"}      a value; as a list, ["extract", "result", "a.b", 0], for keys with dots
    {"$ref": …, "default": []}              the same, or this where the path leads nowhere
    {"$text": ["eu-", {"$ref": …}]}         texts, numbers and booleans in one text
    {"$length": {"$ref": …}}                the length of a list, a text or an object
    {"$literal": {"$ref": "as it is"}}      the value itself, unread

A reference begins with `run`, with a node upstream, or within a fan-out with `item` or `index`. A condition is `true`,
`false`, a reference to one of them, or one operator: `==` `!=` `<` `<=` `>` `>=` `in` over two templates, `and` `or`
over a list of conditions, `not` over one, `exists` over a reference.

There is no code in it: nothing loops, nothing calls, and the size of both is bounded when a definition is read. What is
wrong in itself is found then (`scan`); what depends on data is a `DataError` when it is resolved, and fails the node.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from everwhen.core.dag_values import Fault, NodeState
from everwhen.core.errors import quoted

MOST_DEPTH: Final = 32
MOST_REFERENCES: Final = 500
MOST_OPERATORS: Final = 200
LONGEST_TEXT: Final = 65_536

RUN: Final = "run"
ITEM: Final = "item"
INDEX: Final = "index"
RESERVED: Final = frozenset({RUN, ITEM, INDEX})
RUN_FIELDS: Final = frozenset(
    {"id", "tenant", "workflow", "version", "generation", "schedule", "nominal_at", "due_at", "input"}
)
NODE_FIELDS: Final = frozenset({"result", "state"})

_COMPARISONS: Final = frozenset({"==", "!=", "<", "<=", ">", ">=", "in"})
_CONDITIONS: Final = _COMPARISONS | {"and", "or", "not", "exists"}
_TEMPLATES: Final = frozenset({"$ref", "$text", "$length", "$literal"})

_INDEX: Final = re.compile(r"[0-9]{1,9}", re.ASCII)

Path = tuple[str | int, ...]
_NO_DEFAULT: Final = object()


class DataError(Exception):
    """Data that is not there, or not of the kind that an operator needs.

    Attributes:
        code: `workflow.reference_missing`, `workflow.operand` or `workflow.text_too_long`.
        message: one sentence that names the reference.
    """

    def __init__(self, code: str, message: str) -> None:
        """Say what is wrong."""
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A path into a node, the run or a fan-out's item, and where it stands in the definition."""

    path: Path
    pointer: str
    default: Any = _NO_DEFAULT

    @property
    def root(self) -> str:
        """A node's id, `run`, `item` or `index`."""
        return str(self.path[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What references resolve to. `results` holds nodes that succeeded; `states` those that ended."""

    run: Mapping[str, Any]
    results: Mapping[str, Any] = field(default_factory=dict[str, Any])
    states: Mapping[str, NodeState] = field(default_factory=dict[str, NodeState])
    item: Any = _NO_DEFAULT
    index: int | None = None


# Reading


@dataclass(slots=True)
class _Scan:
    references: list[Reference] = field(default_factory=list[Reference])
    faults: list[Fault] = field(default_factory=list[Fault])
    operators: int = 0

    def blame(self, code: str, message: str, pointer: str) -> None:
        self.faults.append(Fault(f"workflow.{code}", message, pointer))

    def template(self, value: Any, pointer: str, depth: int) -> None:
        if depth > MOST_DEPTH:
            self.blame("template", f"a template is nested at most {MOST_DEPTH} deep", pointer)
        elif isinstance(value, list):
            for index, item in enumerate(cast("list[Any]", value)):
                self.template(item, f"{pointer}/{index}", depth + 1)
        elif isinstance(value, dict):
            self._object(cast("dict[str, Any]", value), pointer, depth)

    def _object(self, value: dict[str, Any], pointer: str, depth: int) -> None:
        special = [key for key in value if key.startswith("$")]
        if not special:
            for key, item in value.items():
                self.template(item, f"{pointer}/{_escaped(key)}", depth + 1)
        elif special[0] not in _TEMPLATES or set(value) - {special[0]} - ({"default"} if "$ref" in value else set()):
            known = ", ".join(sorted(_TEMPLATES))
            message = f"a key that begins with $ stands alone and is one of {known}; use $literal for data"
            self.blame("template", message, f"{pointer}/{_escaped(special[0])}")
        else:
            self._special(special[0], value, pointer, depth)

    def _special(self, key: str, value: dict[str, Any], pointer: str, depth: int) -> None:
        inner = value[key]
        match key:
            case "$ref":
                self.reference(value, pointer)
            case "$text" if not isinstance(inner, list):
                self.blame("template", "$text takes a list of parts", f"{pointer}/$text")
            case "$text" | "$length":
                self.template(inner, f"{pointer}/{key}", depth + 1)
            case _:
                pass

    def reference(self, value: dict[str, Any], pointer: str) -> None:
        path = path_of(value["$ref"])
        if path is None:
            message = "a reference is a path like 'extract.result.files', or a list of keys and indexes"
            self.blame("reference", message, f"{pointer}/$ref")
            return
        default = value.get("default", _NO_DEFAULT)
        self.references.append(Reference(path=path, pointer=f"{pointer}/$ref", default=default))
        if len(self.references) == MOST_REFERENCES + 1:
            self.blame("reference", f"a node has at most {MOST_REFERENCES} references", pointer)

    def condition(self, value: Any, pointer: str, depth: int) -> None:
        self.operators += 1
        if depth > MOST_DEPTH or self.operators > MOST_OPERATORS:
            if self.operators <= MOST_OPERATORS + 1:
                limits = f"nested at most {MOST_DEPTH} deep, with at most {MOST_OPERATORS} operators"
                self.blame("condition", f"a condition is {limits}", pointer)
        elif isinstance(value, dict) and "$ref" in value:
            self.template(value, pointer, depth)
        elif isinstance(value, dict) and len(cast("dict[str, Any]", value)) == 1:
            ((operator, operands),) = cast("dict[str, Any]", value).items()
            self._operator(operator, operands, f"{pointer}/{_escaped(operator)}", depth)
        elif not isinstance(value, bool):
            self.blame("condition", "a condition is true, false, a reference, or an object of one operator", pointer)

    def _operator(self, operator: str, operands: Any, pointer: str, depth: int) -> None:
        match operator:
            case "not":
                self.condition(operands, pointer, depth + 1)
            case "exists" if _is_reference(operands):
                self.template(operands, pointer, depth + 1)
            case "exists":
                self.blame("condition", "exists takes a reference", pointer)
            case "and" | "or" if isinstance(operands, list) and operands:
                for index, operand in enumerate(cast("list[Any]", operands)):
                    self.condition(operand, f"{pointer}/{index}", depth + 1)
            case "and" | "or":
                self.blame("condition", f"{operator} takes a list of conditions", pointer)
            case _ if operator not in _COMPARISONS:
                known = " ".join(sorted(_CONDITIONS))
                self.blame("condition", f"{quoted(operator)} is no operator; there are {known}", pointer)
            case _ if isinstance(operands, list) and len(cast("list[Any]", operands)) == 2:
                self.template(operands, pointer, depth + 1)
            case _:
                self.blame("condition", f"{operator} takes a list of two values", pointer)


def scan_template(value: Any, pointer: str) -> tuple[list[Reference], list[Fault]]:
    """Return a template's references, and what is wrong with it in itself."""
    found = _Scan()
    found.template(value, pointer, 1)
    return found.references, found.faults


def scan_condition(value: Any, pointer: str) -> tuple[list[Reference], list[Fault]]:
    """Return a condition's references, and what is wrong with it in itself."""
    found = _Scan()
    found.condition(value, pointer, 1)
    return found.references, found.faults


def path_of(value: Any) -> Path | None:
    """Read a path: a text with dots, of which whole numbers may index lists, or a list of keys and indexes."""
    parts: list[Any] = value.split(".") if isinstance(value, str) else cast("list[Any]", value)
    if not isinstance(parts, list) or not 1 <= len(parts) <= MOST_DEPTH:  # pyright: ignore[reportUnnecessaryIsInstance]
        return None
    if not isinstance(parts[0], str) or not all(part != "" and _is_key(part) for part in parts):
        return None
    return tuple(parts)


def _is_key(part: Any) -> bool:
    return isinstance(part, str) or (isinstance(part, int) and not isinstance(part, bool) and part >= 0)


def _is_reference(value: Any) -> bool:
    return isinstance(value, dict) and "$ref" in value


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


# Resolving


def resolve(template: Any, context: Context) -> Any:
    """Return the template's value; raise DataError where a reference without a default leads nowhere."""
    if isinstance(template, list):
        return [resolve(item, context) for item in cast("list[Any]", template)]
    if not isinstance(template, dict):
        return template
    value = cast("dict[str, Any]", template)
    special = next((key for key in value if key in _TEMPLATES), None)
    if special is None:
        return {key: resolve(item, context) for key, item in value.items()}
    return _special(special, value, context)


def _special(key: str, value: dict[str, Any], context: Context) -> Any:
    match key:
        case "$ref":
            return _referred(value, context)
        case "$text":
            return _text(resolve(value[key], context))
        case "$length":
            return _length(resolve(value[key], context))
        case _:
            return value[key]


def holds(condition: Any, context: Context) -> bool:
    """Return whether a condition is met; raise DataError where data is missing or of another kind."""
    if _is_reference(condition):
        condition = resolve(condition, context)
    if isinstance(condition, bool):
        return condition
    if not isinstance(condition, dict):
        raise DataError("workflow.operand", f"a condition is true or false, not {_shown(condition)}")
    ((operator, operands),) = cast("dict[str, Any]", condition).items()
    match operator:
        case "and":
            return all(holds(operand, context) for operand in operands)
        case "or":
            return any(holds(operand, context) for operand in operands)
        case "not":
            return not holds(operands, context)
        case "exists":
            return _exists(operands, context)
        case _:
            left, right = (resolve(operand, context) for operand in operands)
            return _compared(operator, left, right)


def _exists(reference: dict[str, Any], context: Context) -> bool:
    try:
        resolve({"$ref": reference["$ref"]}, context)
    except DataError:
        return False
    return True


def _referred(value: dict[str, Any], context: Context) -> Any:
    path = path_of(value["$ref"])
    try:
        if path is None:
            raise _missing((), "it is no path")
        return _followed(path, *_rooted(path, context))
    except DataError:
        if "default" in value:
            return value["default"]
        raise


def _rooted(path: Path, context: Context) -> tuple[Any, int]:
    """Return the value that a path starts from, and how much of the path it took."""
    match path[0]:
        case "run":
            return context.run, 1
        case "item" if context.item is not _NO_DEFAULT:
            return context.item, 1
        case "index" if context.index is not None:
            return context.index, 1
        case _:
            pass
    node, name = str(path[0]), path[1] if len(path) > 1 else None
    if name == "state" and node in context.states:
        return context.states[node].value, 2
    if name == "result" and node in context.results:
        return context.results[node], 2
    state = context.states.get(node)
    raise _missing(path, f"{quoted(node)} is {state}" if state else f"there is no {quoted(node)} with a result")


def _followed(path: Path, value: Any, taken: int) -> Any:
    for at in range(taken, len(path)):
        part = path[at]
        if isinstance(value, Mapping) and str(part) in value:
            value = cast("Mapping[str, Any]", value)[str(part)]
        elif isinstance(value, list) and _INDEX.fullmatch(str(part)) and int(part) < len(cast("list[Any]", value)):
            value = cast("list[Any]", value)[int(part)]
        else:
            raise _missing(path, f"{_dotted(path[:at])} has no {quoted(str(part))}")
    return value


def _missing(path: Path, why: str) -> DataError:
    return DataError("workflow.reference_missing", f"{_dotted(path)} leads nowhere: {why}")


def _dotted(path: Path) -> str:
    return quoted(".".join(map(str, path)), limit=200)


def _text(parts: list[Any]) -> str:
    texts = list(_texts(parts))
    if sum(map(len, texts)) > LONGEST_TEXT:
        raise DataError("workflow.text_too_long", f"a text has at most {LONGEST_TEXT:,} characters")
    return "".join(texts)


def _texts(parts: list[Any]) -> Iterator[str]:
    for part in parts:
        match part:
            case str():
                yield part
            case bool():
                yield "true" if part else "false"
            case int() | float():
                yield str(part)
            case _:
                raise DataError("workflow.operand", f"$text joins texts, numbers and booleans, not {_shown(part)}")


def _length(value: Any) -> int:
    if not isinstance(value, list | str | dict):
        raise DataError("workflow.operand", f"$length takes a list, a text or an object, not {_shown(value)}")
    return len(cast("list[Any]", value))


_ORDERED: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


def _compared(operator: str, left: Any, right: Any) -> bool:
    match operator:
        case "==":
            return is_same(left, right)
        case "!=":
            return not is_same(left, right)
        case "in":
            return _is_in(left, right)
        case _ if (_is_number(left) and _is_number(right)) or (isinstance(left, str) and isinstance(right, str)):
            return _ORDERED[operator](left, right)
        case _:
            raise DataError(
                "workflow.operand",
                f"{operator} orders two numbers or two texts, not {_shown(left)} and {_shown(right)}",
            )


def _is_in(left: Any, right: Any) -> bool:
    if isinstance(right, list):
        return any(is_same(left, item) for item in cast("list[Any]", right))
    if isinstance(right, str | dict) and isinstance(left, str):
        return left in right
    raise DataError("workflow.operand", f"in looks into a list, a text or an object's keys, not {_shown(right)}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_same(left: Any, right: Any) -> bool:
    """Compare as JSON does: 1 is 1.0, and true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        ours, theirs = cast("list[Any]", left), cast("list[Any]", right)
        return len(ours) == len(theirs) and all(map(is_same, ours, theirs))
    if isinstance(left, dict) and isinstance(right, dict):
        one, other = cast("dict[str, Any]", left), cast("dict[str, Any]", right)
        return one.keys() == other.keys() and all(is_same(one[key], other[key]) for key in one)
    return left == right


def _shown(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return quoted(value)
        case int() | float():
            return str(value)
        case list():
            return "a list"
        case _:
            return "an object"
