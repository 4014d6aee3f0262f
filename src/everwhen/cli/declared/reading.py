"""Files to documents. Whatever is wrong is told with its file and line, all of it at once, before anything is asked.

A document names its `kind` and `name`; its `spec` has the fields of the API and is the server's to judge. A file of
YAML may hold several, one of TOML as `[[documents]]`. What is read is bounded: files, bytes, documents, levels.
"""

import difflib
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from everwhen.cli.declared import yaml_text
from everwhen.cli.declared.faults import Fault, Faulty, Unreadable
from everwhen.cli.output import API_VERSION

KINDS: Final = ("Calendar", "Queue", "Task", "Workflow", "Schedule")
"""In the order in which one needs the other."""

MOST_FILES: Final = 10_000
MOST_FILE_BYTES: Final = 2_000_000
MOST_BYTES: Final = 50_000_000
MOST_DOCUMENTS: Final = 20_000
MOST_DEEP: Final = yaml_text.MOST_DEEP

_YAML: Final = frozenset({".yaml", ".yml"})
_TOML: Final = ".toml"
_FIELDS: Final = ("apiVersion", "kind", "name", "spec")
_DOCUMENTS: Final = "documents"


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What one document declares, and where it stands. `lines` has the line of each value by its pointer."""

    kind: str
    name: str
    spec: Mapping[str, Any]
    file: Path
    line: int | None
    lines: Mapping[str, int]

    @property
    def key(self) -> tuple[str, str]:
        """What it is about."""
        return self.kind, self.name

    def fault(self, message: str, *, pointer: str = "", code: str = "file") -> Fault:
        """Return what is wrong with a value, at its line or at the nearest one above it."""
        at, line = pointer, self.lines.get(pointer)
        while line is None and at:
            at = at.rpartition("/")[0]
            line = self.lines.get(at)
        return Fault(file=self.file, message=message, line=line or self.line, pointer=pointer, code=code)


def read_documents(paths: Iterable[Path]) -> list[Document]:
    """Return the documents of files and of folders, by file; raises Faulty with all that is wrong.

    Of a folder every `.yaml`, `.yml` and `.toml` file below it counts, but for what is hidden.
    """
    faults: list[Fault] = []
    documents: list[Document] = []
    for file in _files(paths, faults):
        documents += _of_file(file, faults)
    if len(documents) > MOST_DOCUMENTS:
        faults.append(Fault(file=documents[MOST_DOCUMENTS].file, message=f"there are more than {MOST_DOCUMENTS:,}"))
    faults += _twice(documents)
    if not documents and not faults:
        named = next(iter(paths), Path())
        faults.append(Fault(file=named, message="no .yaml, .yml or .toml file in there holds a document"))
    if faults:
        raise Faulty(faults)
    return documents


def _files(paths: Iterable[Path], faults: list[Fault]) -> list[Path]:
    found: dict[Path, None] = {}
    size = 0
    for path in paths:
        if not path.exists():
            faults.append(Fault(file=path, message="there is no such file or folder"))
        for file in sorted(_below(path)) if path.is_dir() else [path] * path.exists():
            if file in found:
                continue
            found[file] = None
            size += file.stat().st_size
            if len(found) > MOST_FILES or size > MOST_BYTES:
                raise Faulty(
                    [Fault(file=path, message=f"over {MOST_FILES:,} files or {MOST_BYTES:,} bytes: name less")]
                )
    return list(found)


def _below(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        is_hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if not is_hidden and path.suffix in {*_YAML, _TOML} and path.is_file():
            yield path


def _of_file(file: Path, faults: list[Fault]) -> Iterator[Document]:
    try:
        for value, line, lines in _values(file):
            document = _document(file, value, line, lines)
            if isinstance(document, Document):
                yield document
            else:
                faults.append(document)
    except Unreadable as error:
        faults.append(Fault(file=file, message=error.message, line=error.line))


def _values(file: Path) -> Iterator[tuple[Any, int | None, Mapping[str, int]]]:
    text = _text(file)
    if file.suffix == _TOML:
        yield from _of_toml(text)
    else:
        yield from yaml_text.read(text)


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            raw = opened.read(MOST_FILE_BYTES + 1)
    except OSError as error:
        raise Unreadable(f"it cannot be read: {error.strerror}") from error
    if len(raw) > MOST_FILE_BYTES:
        raise Unreadable(f"it has more than {MOST_FILE_BYTES:,} bytes; split it")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise Unreadable("it is not UTF-8", line=raw.count(b"\n", 0, error.start) + 1) from error


def _of_toml(text: str) -> Iterator[tuple[Any, int | None, Mapping[str, int]]]:
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Unreadable(f"it is no TOML: {error}") from error
    except RecursionError:
        raise Unreadable(f"it has more than {MOST_DEEP} levels") from None
    if set(found) == {_DOCUMENTS}:
        listed = _plain(found[_DOCUMENTS])
        yield from ((each, None, {}) for each in (cast("list[Any]", listed) if isinstance(listed, list) else [listed]))
    elif found:
        yield _plain(found), None, {}


def _plain(value: Any, depth: int = 0) -> Any:
    """Return a value of TOML as JSON has it: dates and times are texts."""
    if depth > MOST_DEEP:
        raise Unreadable(f"it has more than {MOST_DEEP} levels")
    if isinstance(value, dict):
        return {key: _plain(each, depth + 1) for key, each in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_plain(each, depth + 1) for each in cast("list[Any]", value)]
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, float) and (value != value or value in {float("inf"), float("-inf")}):  # noqa: PLR0124  # NaN
        raise Unreadable(f"{value} is no number that JSON has")
    return value


def _document(file: Path, value: Any, line: int | None, lines: Mapping[str, int]) -> Document | Fault:
    """Return the document that a value is, or the first thing that is wrong with it."""
    wrong = next(_wrong(value), None)
    if wrong is not None:
        pointer = f"/{wrong.field}" if wrong.field else ""
        return Fault(file=file, message=wrong.message, line=lines.get(pointer, line), pointer=pointer)
    return Document(kind=value["kind"], name=value["name"], spec=value["spec"], file=file, line=line, lines=lines)


class _Wrong(NamedTuple):
    message: str
    field: str = ""


def _wrong(value: Any) -> Iterator[_Wrong]:
    if not isinstance(value, dict):
        yield _Wrong(f"a document is a mapping of {', '.join(_FIELDS)}")
        return
    given = cast("dict[str, Any]", value)
    yield from (_Wrong(f"there is no field {f!r}{_near(f, _FIELDS)}", f) for f in given if f not in _FIELDS)
    yield from (_Wrong(f"the field {f} is missing{_hint(f)}") for f in _FIELDS if f not in given)
    if given["apiVersion"] != API_VERSION:
        yield _Wrong(f"it is {API_VERSION}, the only version there is", "apiVersion")
    if given["kind"] not in KINDS:
        yield _Wrong(f"there is no kind {given['kind']!r}{_near(str(given['kind']), KINDS)}", "kind")
    if not isinstance(given["name"], str):
        yield _Wrong("a name is a text: put it in quotes", "name")
    if not isinstance(given["spec"], dict):
        yield _Wrong("the spec is a mapping of fields", "spec")


def _near(given: str, known: Iterable[str]) -> str:
    names = {name.lower(): name for name in known}
    near = difflib.get_close_matches(given.lower(), names, n=1)
    return f": did you mean {names[near[0]]}?" if near else f": there are {', '.join(names.values())}"


def _hint(field: str) -> str:
    return {"apiVersion": f": add apiVersion: {API_VERSION}", "kind": f": one of {', '.join(KINDS)}"}.get(field, "")


def _twice(documents: Iterable[Document]) -> Iterator[Fault]:
    known: dict[tuple[str, str], Document] = {}
    for document in documents:
        first = known.setdefault(document.key, document)
        if first is not document:
            where = f"{first.file}" if first.line is None else f"{first.file}:{first.line}"
            yield document.fault(f"{document.kind} {document.name} is declared in {where} already", pointer="/name")
