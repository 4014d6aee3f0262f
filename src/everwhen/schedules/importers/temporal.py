"""Temporal schedules as JSON, as `temporal schedule describe -o json` prints them.

A structured calendar is a cron of seven columns in all but its notation, and an interval counts from 1970; both are
kept exactly. The union of all of them, without the excluded calendars, is one trigger. A jitter becomes `flex`, so the
proof is about the instants from which the jitter runs.

Temporal's overlap policies are ours. After an outage it runs everything within the catch-up window, a year unless told
otherwise and never below ten seconds: `replay`. What passes in a pause does not run.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from everwhen.core.overlap import MOST_BUFFERED
from everwhen.core.triggers import AnyOf, Cron, Every, Trigger, parse_instant
from everwhen.schedules.importers.entry import (
    Entry,
    Options,
    Refusal,
    items_of,
    list_of,
    mapping_of,
    name_of,
    read_all,
    read_json,
    refuse,
    text_at,
    timing_pair,
    unknown,
)

_COLUMNS: Final = {
    "second": (0, 59),
    "minute": (0, 59),
    "hour": (0, 23),
    "dayOfMonth": (1, 31),
    "month": (1, 12),
    "dayOfWeek": (0, 6),
    "year": (2000, 2100),
}
_TIME: Final = ("second", "minute", "hour")
_ORDER: Final = ("second", "minute", "hour", "dayOfMonth", "month", "dayOfWeek", "year")
_SECONDS: Final = re.compile(r"([0-9]{1,12})(\.0{1,9})?s", re.ASCII)
_EVERY: Final = re.compile(r"@every\s+(?P<every>[0-9hms]{1,40})(/(?P<phase>[0-9hms]{1,40}))?", re.ASCII)
_SPAN: Final = re.compile(r"(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9})s)?", re.ASCII)
_WINDOW: Final = 86_400
_YEAR: Final = 365 * 86_400
_LEAST_WINDOW: Final = 10
_GRACE_SECONDS: Final = 60
_OVERLAPS: Final[dict[str, dict[str, Any] | None]] = {
    "SKIP": {"policy": "skip"},
    "UNSPECIFIED": {"policy": "skip"},
    "BUFFER_ONE": {"policy": "buffer_one"},
    "BUFFER_ALL": {"policy": "buffer_all", "max_buffered": MOST_BUFFERED},
    "CANCEL_OTHER": {"policy": "cancel_other"},
    "TERMINATE_OTHER": {"policy": "terminate_other"},
    "ALLOW_ALL": None,
}
_KINDS: Final = ("structuredCalendar", "calendar", "interval", "cronString")


def parse_temporal(text: str, options: Options) -> list[Entry | Refusal]:
    """Return what each schedule becomes."""
    return read_all(lambda: _items(text), lambda origin, item: _entry(origin, item, options))


def _items(text: str) -> list[tuple[str, object]]:
    found: list[Any] = []
    for document in read_json(text):
        found += items_of(document)
    return [(f"schedule {number}", item) for number, item in enumerate(found, start=1)]


def _entry(origin: str, item: object, options: Options) -> Entry:
    given = mapping_of(item, key="schedule")
    schedule = mapping_of(given.get("schedule", given), key="schedule")
    spec = mapping_of(schedule.get("spec"), key="spec")
    state = mapping_of(schedule.get("state"), key="state")
    if state.get("limitedActions"):
        refuse("temporal.limited", "limitedActions: a number of runs that remain is no rule", key="limitedActions")
    start = mapping_of(mapping_of(schedule.get("action"), key="action").get("startWorkflow"), key="startWorkflow")
    name = text_at(given, "scheduleId", default="") or text_at(start, "workflowId", default="")
    if not name:
        refuse("temporal.name", 'it has neither a scheduleId nor a workflowId; add "scheduleId"', key="scheduleId")
    if spec.get("timezoneData"):
        refuse("temporal.zone", "a zone of its own, timezoneData, is not imported", key="timezoneData")
    zone = text_at(spec, "timezoneName", default="UTC") if spec.get("timezoneName") else "UTC"
    source, stored = timing_pair(_trigger(spec), zone, preset="temporal", options=options)
    policies = mapping_of(schedule.get("policies"), key="policies")
    return Entry(
        origin=f"{origin}, {name}",
        name=name_of(name),
        text=", ".join(f"{kind} × {len(list_of(spec[kind], key=kind))}" for kind in _KINDS if spec.get(kind)),
        source=source,
        stored=stored,
        input={"schedule": name, "workflow": mapping_of(start.get("workflowType"), key="workflowType").get("name")},
        flex=_flex(spec),
        catch_up=_catch_up(policies),
        overlap=_overlap(policies),
        pause_after_failures=1 if policies.get("pauseOnFailure") else None,
        paused="paused in Temporal" if state.get("paused") else None,
    )


def _trigger(spec: dict[str, Any]) -> Trigger:
    readers: dict[str, Callable[[Any], Trigger]] = dict(
        zip(_KINDS, (_structured, _calendar, _interval, _cron_string), strict=True)
    )
    members = [readers[kind](item) for kind in _KINDS for item in list_of(spec.get(kind), key=kind)]
    if not members:
        refuse("temporal.empty", "the spec has no calendar, interval or cron string; it never fires", key="spec")
    exceptions = [_structured(item) for item in list_of(spec.get("excludeStructuredCalendar"), key="exclude")]
    exceptions += [_calendar(item) for item in list_of(spec.get("excludeCalendar"), key="exclude")]
    start, end = _bound(spec, "startTime"), _bound(spec, "endTime")
    if len(members) == 1 and not exceptions and start is None and end is None:
        return members[0]
    return AnyOf(triggers=tuple(members), exceptions=tuple(exceptions), start=start, end=end)


def _structured(item: object) -> Cron:
    given = mapping_of(item, key="structuredCalendar")
    return _cron(" ".join(_column(given, name) for name in _ORDER))


def _column(given: dict[str, Any], name: str) -> str:
    """Return a list of ranges as a column. JSON leaves out zeros; an end before its start is no end."""
    low, high = _COLUMNS[name]
    terms: list[str] = []
    for item in list_of(given.get(name), key=name):
        fields = mapping_of(item, key=name)
        start, end, step = (_number(fields, key) for key in ("start", "end", "step"))
        end, step = max(start, end), max(1, step)
        if start < low or end > high:
            refuse("temporal.range", f"{name} is from {low} to {high}, not {start} to {end}", key=name)
        whole = (start, end) == (low, high)
        terms.append(("*" if whole else f"{start}-{end}" if end > start else str(start)) + f"/{step}" * (step > 1))
    if not terms and name != "year":
        refuse("temporal.empty", f"a calendar without {name} matches nothing", key=name)
    return ",".join(terms) or "*"


def _calendar(item: object) -> Cron:
    """Read the older notation, texts such as `*/2`; days and months default to all, times to 0."""
    given = mapping_of(item, key="calendar")
    columns = [text_at(given, name, default="0" if name in _TIME else "*") for name in _ORDER]
    if any(len(column.split()) != 1 for column in columns):
        refuse("temporal.range", "a calendar's fields hold no blanks", key="calendar")
    return _cron(" ".join(columns))


def _cron(expr: str) -> Cron:
    return Cron(expr, seconds=True, dialect="temporal")


def _interval(item: object) -> Every:
    given = mapping_of(item, key="interval")
    return _every(_duration(given, "interval"), _duration(given, "phase"))


def _cron_string(item: object) -> Trigger:
    if not isinstance(item, str):
        refuse("type", "cronString is a list of texts", key="cronString")
    expr = " ".join(item.partition("#")[0].split())
    if every := _EVERY.fullmatch(expr):
        return _every(_span(every["every"]), _span(every["phase"] or "0s"))
    return Cron(expr, seconds=len(expr.split()) == 7, dialect="temporal")


def _every(seconds: int, phase: int) -> Every:
    if seconds < 1 or phase >= seconds:
        refuse("temporal.interval", "an interval is at least 1s, and longer than its phase", key="interval")
    return Every(f"PT{seconds}S", datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=phase))


def _span(text: str) -> int:
    match = _SPAN.fullmatch(text)
    if match is None:
        refuse("temporal.interval", "@every is followed by a duration such as 1h30m", key="cronString")
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds


def _duration(given: dict[str, Any], key: str) -> int:
    """Return a duration in seconds: `90s`, as protobuf's JSON has it."""
    value = given.get(key, "0s")
    match = _SECONDS.fullmatch(value) if isinstance(value, str) else None
    if match is None or int(match[1]) > 100 * 366 * 86_400:
        refuse("temporal.duration", f"{key} is whole seconds such as '90s', at most a century", key=key)
    return int(match[1])


def _number(given: dict[str, Any], key: str) -> int:
    value = given.get(key, 0)
    if isinstance(value, bool) or not isinstance(value, int):
        refuse("type", f"{key} is a whole number", key=key)
    return value


def _bound(spec: dict[str, Any], key: str) -> datetime | None:
    if not spec.get(key):
        return None
    instant = parse_instant(text_at(spec, key), field=key)
    if instant.tzinfo is None:
        refuse("type", f"{key} is an instant with its offset", key=key)
    return instant


def _flex(spec: dict[str, Any]) -> dict[str, Any] | None:
    seconds = _duration(spec, "jitter")
    if seconds > _WINDOW:
        refuse("temporal.jitter", "a jitter of more than a day is not possible here", key="jitter")
    return {"mode": "hash", "window_seconds": seconds} if seconds else None


def _overlap(policies: dict[str, Any]) -> dict[str, Any] | None:
    given = policies.get("overlapPolicy", "SKIP")
    name = str(given).rpartition("POLICY_")[2] or "SKIP"
    if name not in _OVERLAPS:
        unknown("temporal.overlap", "overlapPolicy", given, ", ".join(_OVERLAPS))
    return _OVERLAPS[name]


def _catch_up(policies: dict[str, Any]) -> dict[str, Any]:
    """After an outage each runs that is no older than the window; what passed in a pause never does."""
    seconds = _duration(policies, "catchupWindow") if policies.get("catchupWindow") else _YEAR
    window = max(seconds, _LEAST_WINDOW)
    grace = {} if window >= _GRACE_SECONDS else {"grace_seconds": window}
    return {"policy": "replay", "window_seconds": window, **grace, "on_resume": {"policy": "skip"}}
