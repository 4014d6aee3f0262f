"""Quartz expressions: lines, with or without a name, or a JSON object of names."""

import hashlib
import re
from typing import Any, Final

from everwhen.core.triggers import Cron
from everwhen.schedules.importers.entry import (
    Entry,
    Options,
    Refusal,
    check_size,
    mapping_of,
    name_of,
    read_all,
    read_json,
    refuse,
    text_at,
    timing_pair,
)

_NAMED: Final = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9._-]*)\s*=\s*(?P<expr>.*)")


def parse_quartz(text: str, options: Options) -> list[Entry | Refusal]:
    """Return what each expression becomes."""
    return read_all(lambda: _items(text), lambda origin, item: _entry(origin, item, options))


def _items(text: str) -> list[tuple[str, object]]:
    if text.lstrip()[:1] == "{":
        documents = [mapping_of(document, key="file") for document in read_json(text)]
        return [(name, {"name": name, **_fields(value)}) for document in documents for name, value in document.items()]
    check_size(text)
    found: list[tuple[str, object]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        # Only at the beginning: `6#3` is the third Friday.
        if line.strip() and not line.lstrip().startswith(("#", "!")):
            named = _NAMED.fullmatch(line.strip())
            found.append((f"line {number}", named.groupdict() if named else {"expr": line.strip()}))
    return found


def _fields(value: object) -> dict[str, Any]:
    return {"expr": value} if isinstance(value, str) else mapping_of(value, key="a value")


def _entry(origin: str, item: object, options: Options) -> Entry:
    given = mapping_of(item, key="expression")
    if extra := sorted(set(given) - {"name", "expr", "timezone"}):
        refuse("quartz.field", f"{extra[0]} is not known; an expression has expr and timezone", key=extra[0])
    expr = " ".join(text_at(given, "expr").split())
    zone = text_at(given, "timezone", default=options.timezone)
    source, stored = timing_pair(Cron(expr, dialect="quartz"), zone, preset="quartz", options=options)
    digest = hashlib.sha256(f"{expr}\0{zone}".encode("utf-8", "replace")).hexdigest()[:8]
    name = text_at(given, "name", default=f"quartz-{digest}")
    return Entry(
        origin=origin,
        name=name_of(name),
        text=expr,
        source=source,
        stored=stored,
        input={"trigger": name},
        notes=() if "timezone" in given else (f"no zone: taken to be {options.timezone}",),
    )
