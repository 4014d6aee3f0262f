"""YAML of version 1.2 as a person writes it, read safely and within bounds, and written so that it reads back the same.

The parser's events are put together here, without recursion, because each value needs its line, and because the older
rules that the library's own loader follows are treacherous in a schedule: by them `09:30` is the number 570, the key
`on` is `true`, and `2026-12-24` is an object. By those of 1.2 (the core schema) they are texts. What is written is
quoted wherever either version would read something else than the text.

Aliases are refused rather than counted, since ten of them a level multiply. So are tags but `!!str`, keys that are
given twice, and whatever JSON could not say.
"""

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, cast

import yaml

from everwhen.cli.declared.faults import Unreadable

MOST_DEEP: Final = 30
MOST_VALUES: Final = 200_000
MOST_DIGITS: Final = 18

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TEXT_TAG: Final = "tag:yaml.org,2002:str"

_NULL: Final = re.compile(r"~|null|Null|NULL|")
_TRUE: Final = re.compile(r"true|True|TRUE")
_FALSE: Final = re.compile(r"false|False|FALSE")
_INTEGER: Final = re.compile(r"[-+]?[0-9]+")
_BASED: Final = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_NUMBER: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_LINE_ENDS: Final = re.compile("[\r\x85\u2028\u2029\ufeff]")
_NO_NUMBER: Final = re.compile(r"[-+]?(\.inf|\.Inf|\.INF)|\.nan|\.NaN|\.NAN")


class Found(NamedTuple):
    """A document: its value, the line that it begins on, and the line of each value by its pointer."""

    value: Any
    line: int
    lines: dict[str, int]


class _Open(NamedTuple):
    """A mapping or a list that is not at its end, and where it is."""

    value: Any
    pointer: str
    key: list[str]  # of a mapping: the key whose value comes next


def read(text: str) -> Iterator[Found]:
    """Yield the documents of a text; raises Unreadable with the line."""
    try:
        yield from _documents(_events(text))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise Unreadable(error.problem or "it is no YAML", line=None if mark is None else mark.line + 1) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise Unreadable("a character that YAML does not allow", line=line) from error
    except yaml.YAMLError as error:
        raise Unreadable(f"it is no YAML: {' '.join(str(error).split())[:200]}") from error


def write(value: Any) -> str:
    """Return a value as YAML, keys in their order."""
    return yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=10_000, indent=2
    )


def _events(text: str) -> Iterator[Any]:
    return cast("Any", yaml).parse(text, Loader=_LOADER)


def _documents(events: Iterator[Any]) -> Iterator[Found]:
    count = 0
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            lines: dict[str, int] = {}
            value, count = _document(events, lines, count)
            if lines:
                yield Found(value, min(lines.values()), lines)


def _document(events: Iterator[Any], lines: dict[str, int], count: int) -> tuple[Any, int]:
    """Return the next document's value, and how many values there have been in all."""
    stack: list[_Open] = []
    root: Any = None
    for event in events:
        if isinstance(event, yaml.DocumentEndEvent):
            break
        line = event.start_mark.line + 1
        if isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            stack.pop()
            continue
        count += 1
        if count > MOST_VALUES or len(stack) >= MOST_DEEP:
            most = f"more than {MOST_DEEP} levels" if count <= MOST_VALUES else f"more than {MOST_VALUES:,} values"
            raise Unreadable(f"it has {most}", line=line)
        if _is_key(stack):
            stack[-1].key.append(_key(event, stack[-1], line))
            continue
        pointer = _pointer(stack)
        value = _value(event, line)
        if stack or not _is_empty(event):
            lines[pointer] = line
        _put(stack, value)
        if not stack:
            root = value
        if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            stack.append(_Open(value, pointer, []))
    return root, count


def _is_key(stack: Sequence[_Open]) -> bool:
    return bool(stack) and isinstance(stack[-1].value, dict) and not stack[-1].key


def _is_empty(event: Any) -> bool:
    return isinstance(event, yaml.ScalarEvent) and _is_plain(event) and not event.value


def _is_plain(event: Any) -> bool:
    """Tell whether a scalar stands there without quotes and without a tag."""
    return bool(event.implicit[0])


def _key(event: Any, inside: _Open, line: int) -> str:
    if not isinstance(event, yaml.ScalarEvent):
        raise Unreadable("a key is a text", line=line)
    _refuse_tag(event, line)
    key = str(event.value)
    if key in inside.value:
        raise Unreadable(f"the key {key!r} is given twice", line=line)
    if key == "<<" and _is_plain(event):
        raise Unreadable("a merge key is not read here: write it out", line=line)
    return key


def _pointer(stack: Sequence[_Open]) -> str:
    if not stack:
        return ""
    inside = stack[-1]
    step = inside.key[0].replace("~", "~0").replace("/", "~1") if inside.key else str(len(inside.value))
    return f"{inside.pointer}/{step}"


def _put(stack: Sequence[_Open], value: Any) -> None:
    if not stack:
        return
    inside = stack[-1]
    if inside.key:
        inside.value[inside.key.pop()] = value
    else:
        inside.value.append(value)


def _value(event: Any, line: int) -> Any:
    if isinstance(event, yaml.AliasEvent):
        raise Unreadable("an alias is not read here: write out what it stands for", line=line)
    _refuse_tag(event, line)
    if isinstance(event, yaml.MappingStartEvent):
        return {}
    if isinstance(event, yaml.SequenceStartEvent):
        return []
    text = str(event.value)
    return _plain(text, line) if _is_plain(event) else text


def _refuse_tag(event: Any, line: int) -> None:
    is_text = isinstance(event, yaml.ScalarEvent) and event.tag == _TEXT_TAG
    # A quoted scalar has the tag "!" by its form alone.
    if event.tag not in {None, "!"} and not is_text:
        raise Unreadable(f"the tag {event.tag} is not read here", line=line)


def _plain(text: str, line: int) -> Any:
    """Return what an unquoted text is by the core schema of YAML 1.2."""
    for pattern, value in ((_NULL, None), (_TRUE, True), (_FALSE, False)):
        if pattern.fullmatch(text):
            return value
    if _INTEGER.fullmatch(text) or _BASED.fullmatch(text):
        if len(text) > MOST_DIGITS:
            raise Unreadable("the number is too long; put it in quotes if it is a text", line=line)
        return int(text, 0) if _BASED.fullmatch(text) else int(text)
    if _NO_NUMBER.fullmatch(text):
        raise Unreadable(f"{text} is no number that JSON has", line=line)
    if not _NUMBER.fullmatch(text):
        return text
    if not math.isfinite(number := float(text)):
        raise Unreadable("the number is too large", line=line)
    return number


class _Dumper(yaml.SafeDumper):
    """Writes by the library's rules; adds those of YAML 1.2, so that what either would misread is quoted."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  # the library's signature
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002
        super().increase_indent(flow, indentless=False)


def _represent_text(dumper: Any, text: str) -> Any:
    # The older rules take some characters for ends of lines; between double quotes they are escaped.
    style = '"' if _LINE_ENDS.search(text) else "|" if "\n" in text else None
    return dumper.represent_scalar(_TEXT_TAG, text, style=style)


_Dumper.add_representer(str, _represent_text)
for _name, _pattern in (("int", _BASED), ("int", _INTEGER), ("float", _NUMBER), ("float", _NO_NUMBER)):
    _Dumper.add_implicit_resolver(  # pyright: ignore[reportUnknownMemberType]
        f"tag:yaml.org,2002:{_name}", re.compile(f"(?:{_pattern.pattern})\\Z"), list("-+.0123456789")
    )
