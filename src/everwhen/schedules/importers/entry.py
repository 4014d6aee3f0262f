"""What every importer returns, and how it reads: an item becomes an entry, or a refusal that says why.

An entry holds the rule twice: as the source means it, and as it will be stored. A proof compares the two. What is
stored keeps the source's rule for dates and times, and by default our own habits when clocks change; on demand the
source's habits as well.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, NoReturn, cast

from everwhen.core.cron_dialects import DIALECTS, HOUR
from everwhen.core.errors import TriggerError, quoted
from everwhen.core.presets import find_preset
from everwhen.core.triggers import AnyOf, Cron, Every, FoldPolicy, GapPolicy, Timing, Trigger

MOST_CHARACTERS: Final = 4_000_000
MOST_ITEMS: Final = 10_000
MOST_INPUT_BYTES: Final = 65_536

_LONGEST_NAME: Final = 180
_SHOWN: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to read.

    Attributes:
        timezone: the zone of what names none.
        keep: whether to keep the source's habits when clocks change.
        file: the file's own name, where that names a thing.
    """

    timezone: str = "UTC"
    keep: bool = False
    file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One item that becomes a schedule.

    Attributes:
        origin: where it stands in the file.
        text: the source's own expression.
        source: when the source fires.
        stored: when the schedule will.
        input: what the task is told.
        flex: the window, as JSON; None without one.
        catch_up: what becomes of what was missed, as JSON; None for the default.
        overlap: what becomes of runs beside each other, as JSON; None when they may overlap.
        pause_after_failures: after how many failures in a row it pauses itself.
        task: what the source says of its own target and a task has a field for, as JSON.
        paused: why it is created paused; None when it is not.
        notes: what the source says and the schedule does not, and what was assumed.
    """

    origin: str
    name: str
    text: str
    source: Timing
    stored: Timing
    input: Mapping[str, Any]
    flex: Mapping[str, Any] | None = None
    catch_up: Mapping[str, Any] | None = None
    overlap: Mapping[str, Any] | None = None
    pause_after_failures: int | None = None
    task: Mapping[str, Any] = field(default_factory=dict[str, Any])
    paused: str | None = None
    notes: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One item that cannot become a schedule; with the origin `file` the file as a whole."""

    origin: str
    text: str
    code: str
    reason: str


Items = Iterable[tuple[str, object]]
Read = Callable[[str, object], Entry]


def refuse(kind: str, message: str, *, key: str = "file") -> NoReturn:
    """Refuse an item, or while a file is split, the file."""
    raise TriggerError(f"import.{kind}", message, field=key)


def read_all(split: Callable[[], Items], read: Read) -> list[Entry | Refusal]:
    """Return what each item becomes, in the order of the file."""
    try:
        items = list(split())
        if len(items) > MOST_ITEMS:
            refuse("size", f"a file has at most {MOST_ITEMS} schedules, this one has {len(items)}; split it")
    except TriggerError as error:
        return [Refusal(origin="file", text="", code=error.code, reason=error.message)]
    found: list[Entry | Refusal] = []
    taken: set[str] = set()
    for origin, item in items:
        try:
            entry = read(origin, item)
            _check_input(entry.input)
        except TriggerError as error:
            found.append(Refusal(origin=origin, text=_text(item), code=error.code, reason=error.message))
            continue
        found.append(replace(entry, name=_unused(entry.name, taken)))
    return found


def read_json(text: str) -> list[Any]:
    """Return the JSON documents of a file, one after the other, as `jq` or a loop of commands prints them."""
    check_size(text)
    decoder, found, position = json.JSONDecoder(), list[Any](), 0
    try:
        while position < len(text):
            rest = re.compile(r"[\s,]*").match(text, position)
            position = rest.end() if rest else position
            if position < len(text):
                document, position = decoder.raw_decode(text, position)
                found.append(document)
    except RecursionError:
        refuse("json", "the JSON is nested too deeply")
    except ValueError as error:
        refuse("json", f"the file is no JSON: {error}")
    return found


def check_size(text: str) -> None:
    """Refuse a file that is too large to be read."""
    if len(text) > MOST_CHARACTERS:
        refuse("size", f"a file has at most {MOST_CHARACTERS:,} characters; split it")


def mapping_of(value: object, *, key: str) -> dict[str, Any]:
    """Return an object, whose keys are texts; nothing is an empty one."""
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in cast("dict[object, Any]", value)):
        refuse("type", f"{key} is an object", key=key)
    return cast("dict[str, Any]", value)


def list_of(value: object, *, key: str) -> list[Any]:
    """Return a list; nothing is an empty one."""
    if value is None:
        return []
    if not isinstance(value, list):
        refuse("type", f"{key} is a list", key=key)
    return cast("list[Any]", value)


def items_of(document: object) -> list[Any]:
    """Return what a document lists; one that is no list, as the only item."""
    return cast("list[Any]", document) if isinstance(document, list) else [document]


def text_at(given: Mapping[str, Any], key: str, *, default: str | None = None) -> str:
    """Return a text that is not empty, or the default; refuse if there is neither."""
    value = given.get(key)
    if value is None and default is not None:
        return default
    if not isinstance(value, str) or not value.strip():
        refuse("type" if value is not None else "missing", f"{key} is required, and a text", key=key)
    return value


def name_of(*parts: str) -> str:
    """Return a schedule's name: the parts, with what a name cannot hold replaced."""
    clean = [re.sub(r"[^A-Za-z0-9._-]+", "-", part).strip("-._") for part in parts]
    name = ".".join(part for part in clean if part)[:_LONGEST_NAME]
    if not name:
        refuse("name", "it has no name of which letters or digits remain", key="name")
    return name


def timing_pair(trigger: Trigger, zone: str, *, preset: str, options: Options) -> tuple[Timing, Timing]:
    """Return a trigger as a preset's scheduler fires it, and as it will be stored."""
    if _is_elapsed(trigger):
        elapsed = Timing(trigger, zone)  # no clock on a wall has a say
        return elapsed, elapsed
    habits = find_preset(preset)
    source = Timing(trigger, zone, habits.gap, habits.fold)
    return source, stored_of(source, options=options)


def stored_of(source: Timing, *, options: Options) -> Timing:
    """Return what will be stored of a source."""
    policies = default_policies(_kinds(source.trigger))
    if options.keep or policies is None:
        return source
    gap, fold = policies
    return Timing(source.trigger, source.timezone, gap, fold)


def default_policies(kinds: set[bool]) -> tuple[GapPolicy, FoldPolicy] | None:
    """Return what we do when clocks change, whatever the dialect's own habit.

    It depends on the hours: of all members, whether they ride on elapsed time. For both kinds in one schedule there is
    no one answer, and None keeps what the source does.
    """
    if len(kinds) > 1:
        return None
    return (GapPolicy.SKIP, FoldPolicy.BOTH) if True in kinds else (GapPolicy.GAP_END, FoldPolicy.FIRST)


def bounded(trigger: Trigger, *, start: datetime | None, end: datetime | None) -> Trigger:
    """Return a trigger between its bounds; without bounds, as it is."""
    return trigger if start is None and end is None else AnyOf(triggers=(trigger,), start=start, end=end)


def _kinds(trigger: Trigger) -> set[bool]:
    """Return whether the members ride on elapsed time; those that no clock on a wall touches do not count."""
    if isinstance(trigger, AnyOf):
        return {kind for member in trigger.triggers for kind in _kinds(member)}
    return set[bool]() if _is_elapsed(trigger) else {_rides_on(trigger)}


def _rides_on(trigger: Trigger) -> bool:
    match trigger:
        case Cron(expr=expr, dialect=dialect, seconds=seconds):
            words = expr.split()
            if words[0].startswith("@"):
                return words[0].lower() == "@hourly"
            layouts = DIALECTS[dialect].with_seconds if seconds else DIALECTS[dialect].layouts
            return bool(set("*/").intersection(words[layouts[len(words)].index(HOUR)]))
        case _:
            return False


def _is_elapsed(trigger: Trigger) -> bool:
    match trigger:
        case Every(mode=mode):
            return mode == "elapsed"
        case AnyOf(triggers=triggers, exceptions=exceptions):
            return all(map(_is_elapsed, (*triggers, *exceptions)))
        case _:
            return False


def _check_input(given: Mapping[str, Any]) -> None:
    try:
        size = len(json.dumps(given, ensure_ascii=False, allow_nan=False).encode())
    except (ValueError, TypeError, RecursionError):
        refuse("input", "what the task would be told cannot be written as JSON", key="input")
    if size > MOST_INPUT_BYTES:
        refuse("input", f"what the task would be told has {size} bytes; at most {MOST_INPUT_BYTES} are stored")


def _text(item: object) -> str:
    text = item if isinstance(item, str) else json.dumps(item, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _unused(name: str, taken: set[str]) -> str:
    chosen, number = name, 1
    while chosen in taken:
        number += 1
        chosen = f"{name}-{number}"
    taken.add(chosen)
    return chosen


def whole_at(given: Mapping[str, Any], key: str, *, least: int = 0) -> int | None:
    """Return a whole number; None when there is none; refuse anything else."""
    value = given.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        refuse("type", f"{key} is a whole number" + (f", {least} or more" if least else ""), key=key)
    return value


def unknown(kind: str, what: str, value: object, known: str) -> NoReturn:
    """Refuse a value that is none of those that are known."""
    refuse(kind, f"{what} {quoted(str(value))} is not imported; it is {known}", key=what)
