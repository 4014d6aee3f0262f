"""systemd timers: a unit's text, what `systemctl cat '*.timer'` prints, or lines of OnCalendar expressions."""

import hashlib
import re
from dataclasses import dataclass, field
from typing import Any, Final

from everwhen.core.triggers import AnyOf, FoldPolicy, GapPolicy, Timing, Trigger
from everwhen.schedules.importers.entry import (
    Entry,
    Options,
    Refusal,
    check_size,
    default_policies,
    mapping_of,
    name_of,
    read_all,
    refuse,
)
from everwhen.schedules.importers.on_calendar import OnCalendar, parse_on_calendar, recurrence_of, stored_of

_HEADER: Final = re.compile(r"#\s*/\S*?/(?P<unit>[^/\s]+\.timer)(\.d/[^/\s]+\.conf)?")
_ASSIGNMENT: Final = re.compile(r"(?P<key>[A-Za-z]+)\s*=\s*(?P<value>.*)")
_NAMED: Final = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9@._-]*)\s*=\s*(?P<expr>.*)")
_MONOTONIC: Final = ("OnActiveSec", "OnBootSec", "OnStartupSec", "OnUnitActiveSec", "OnUnitInactiveSec")
_EVENTS: Final = ("OnClockChange", "OnTimezoneChange")
_SPAN: Final = re.compile(r"(?P<value>[0-9]{1,9})\s*(?P<unit>[a-z]*)\s*", re.ASCII)
_UNITS: Final = {
    "": 1,
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hr", "hour", "hours"), 3600),
    **dict.fromkeys(("d", "day", "days"), 86_400),
}
_DAY: Final = 86_400
_LONGEST_SPAN: Final = 100
_YES: Final = frozenset({"1", "yes", "true", "on", "y", "t"})


@dataclass(slots=True)
class _Timer:
    """The settings of one unit so far, drop-ins included."""

    unit: str
    calendars: list[str] = field(default_factory=list[str])
    settings: dict[str, str] = field(default_factory=dict[str, str])


def parse_systemd(text: str, options: Options) -> list[Entry | Refusal]:
    """Return what each timer, or each line, becomes."""
    return read_all(lambda: _items(text, options), lambda origin, item: _entry(origin, item, options))


def _items(text: str, options: Options) -> list[tuple[str, object]]:
    check_size(text)
    lines = [line.strip() for line in text.replace("\\\n", " ").splitlines()]
    if "[Timer]" in lines:
        return [(timer.unit, _fields(timer)) for timer in _timers(lines, options.file)]
    found: list[tuple[str, object]] = []
    for number, line in enumerate(lines, start=1):
        if line and line[0] not in "#;":
            named = _NAMED.fullmatch(line)
            name, expr = (named["name"], named["expr"]) if named else ("", line)
            # `OnCalendar=` is the key of a unit's line, not a name.
            found.append((f"line {number}", {"name": "" if name == "OnCalendar" else name, "calendars": [expr]}))
    return found


def _timers(lines: list[str], file: str) -> list[_Timer]:
    timers: dict[str, _Timer] = {}
    unit, section = file if file.endswith(".timer") else "timer", ""
    for line in lines:
        if header := _HEADER.fullmatch(line):
            unit, section = header["unit"], ""
        elif line.startswith("["):
            section = line
        elif section == "[Timer]" and (found := _ASSIGNMENT.fullmatch(line)):
            timer = timers.setdefault(unit, _Timer(unit))
            if found["key"] != "OnCalendar":
                timer.settings[found["key"]] = found["value"].strip()
            elif found["value"].strip():
                timer.calendars.append(found["value"].strip())
            else:
                timer.calendars.clear()  # as a drop-in does to begin anew
    return list(timers.values())


def _fields(timer: _Timer) -> dict[str, Any]:
    return {"name": timer.unit.removesuffix(".timer"), "calendars": timer.calendars, "settings": timer.settings}


def _entry(origin: str, item: object, options: Options) -> Entry:
    given = mapping_of(item, key="timer")
    settings: dict[str, str] = given.get("settings", {})
    texts: list[str] = given["calendars"]
    _refuse_others(settings, texts)
    calendars = [parse_on_calendar(text) for text in texts]
    zone = _zone(calendars, options)
    source, stored = _timings(calendars, zone, options)
    digest = hashlib.sha256("\0".join([*texts, zone]).encode("utf-8", "replace")).hexdigest()[:8]
    name = given["name"] if given["name"] not in {"", "timer"} else f"timer-{digest}"
    flex, notes = _flex(settings)
    if not any(calendar.timezone for calendar in calendars):
        notes = (*notes, f"no zone: the machine's is taken to be {options.timezone}")
    return Entry(
        origin=origin,
        name=name_of(name),
        text=", ".join(texts),
        source=source,
        stored=stored,
        input={"unit": settings.get("Unit") or f"{name}.service"},
        flex=flex,
        catch_up=_catch_up(settings),
        notes=notes,
    )


def _refuse_others(settings: dict[str, str], texts: list[str]) -> None:
    for key in _MONOTONIC:
        if settings.get(key):
            refuse("systemd.monotonic", f"{key} counts from an event of the machine's; no trigger says that", key=key)
    for key in _EVENTS:
        if settings.get(key, "").lower() in _YES:
            refuse("systemd.event", f"{key} starts on an event, not at a time", key=key)
    if not texts:
        refuse("systemd.none", "the timer has no OnCalendar", key="OnCalendar")


def _zone(calendars: list[OnCalendar], options: Options) -> str:
    zones = {calendar.timezone or options.timezone for calendar in calendars}
    if len(zones) > 1:
        refuse("systemd.zones", f"a schedule has one zone, this timer {len(zones)}; split it", key="OnCalendar")
    return zones.pop()


def _timings(calendars: list[OnCalendar], zone: str, options: Options) -> tuple[Timing, Timing]:
    source = Timing(_union(map(recurrence_of, calendars)), zone, GapPolicy.SKIP, FoldPolicy.FIRST)
    policies = default_policies({calendar.rides_on for calendar in calendars})
    if options.keep or policies is None:
        policies = (GapPolicy.SKIP, FoldPolicy.FIRST)
    gap, fold = policies
    return source, Timing(_union(map(stored_of, calendars)), zone, gap, fold)


def _union(members: Any) -> Trigger:
    found: tuple[Trigger, ...] = tuple(members)
    return found[0] if len(found) == 1 else AnyOf(triggers=found)


def _flex(settings: dict[str, str]) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    text = settings.get("RandomizedDelaySec", "")
    seconds = _seconds(text) if text else 0
    if not seconds:
        return None, ()
    if seconds > _DAY:
        refuse(
            "systemd.delay", "a RandomizedDelaySec of more than a day is not possible here", key="RandomizedDelaySec"
        )
    fixed = settings.get("FixedRandomDelay", "").lower() in _YES
    note = () if fixed else ("RandomizedDelaySec is drawn once for the schedule here, not for each run",)
    return {"mode": "hash", "window_seconds": seconds}, note


def _seconds(text: str) -> int:
    """Return a time span in seconds: plain ones, or numbers with units, which add up."""
    spans = list(_SPAN.finditer(text[:_LONGEST_SPAN]))
    known = all(span["unit"] in _UNITS for span in spans)
    if not known or "".join(span[0] for span in spans) != text:
        refuse("systemd.delay", "RandomizedDelaySec is like 30, 90s, 5min or 1h 30min", key="RandomizedDelaySec")
    return sum(int(span["value"]) * _UNITS[span["unit"]] for span in spans)


def _catch_up(settings: dict[str, str]) -> dict[str, Any] | None:
    """Return what becomes of times when the machine was off; lines say nothing about it."""
    if not settings:
        return None
    return {"policy": "coalesce" if settings.get("Persistent", "").lower() in _YES else "skip"}
