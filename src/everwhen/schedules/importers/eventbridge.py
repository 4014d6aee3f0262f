"""EventBridge Scheduler exports: what `get-schedule` returns, one, several, or a list; rules of EventBridge as well.

`rate(…)` counts elapsed time from StartDate, else from the creation; a file that says neither does not say when it
fires, so that is refused. A flexible window becomes `flex`: the proof is about the instants from which a window runs.
A target's retry policy becomes its task's.
"""

import re
from datetime import UTC, datetime
from typing import Any, Final

from everwhen.core.retry import MAX_ATTEMPTS_LIMIT
from everwhen.core.triggers import At, Cron, Every, Trigger, parse_instant
from everwhen.schedules.importers.entry import (
    Entry,
    Options,
    Refusal,
    bounded,
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
    whole_at,
)

_CALL: Final = re.compile(r"\s*(?P<kind>cron|rate|at)\s*\((?P<inner>[^()]*)\)\s*")
_RATE: Final = re.compile(r"\s*(?P<value>[0-9]{1,9})\s+(?P<unit>minute|hour|day)s?\s*", re.ASCII)
_UNITS: Final = {"minute": "PT{}M", "hour": "PT{}H", "day": "P{}D"}
_LISTS: Final = ("Schedules", "Rules")
_LATEST: Final = 253_402_214_400  # the last day of the year 9999


def parse_eventbridge(text: str, options: Options) -> list[Entry | Refusal]:
    """Return what each schedule becomes."""
    return read_all(lambda: _items(text), lambda origin, item: _entry(origin, item, options))


def _items(text: str) -> list[tuple[str, object]]:
    found: list[Any] = []
    for document in read_json(text):
        for item in items_of(document):
            given = mapping_of(item, key="schedule")
            lists = [list_of(given[key], key=key) for key in _LISTS if key in given]
            found += lists[0] if lists else [given]
    return [(f"schedule {number}", item) for number, item in enumerate(found, start=1)]


def _entry(origin: str, item: object, options: Options) -> Entry:
    given = mapping_of(item, key="schedule")
    name, group = text_at(given, "Name"), text_at(given, "GroupName", default="default")
    expr = text_at(given, "ScheduleExpression")
    zone = text_at(given, "ScheduleExpressionTimezone", default=options.timezone)
    source, stored = timing_pair(_trigger(expr, given), zone, preset="eventbridge", options=options)
    state = text_at(given, "State", default="ENABLED")
    if state not in {"ENABLED", "DISABLED"}:
        unknown("eventbridge.state", "State", state, "ENABLED or DISABLED")
    target = mapping_of(given.get("Target"), key="Target")
    return Entry(
        origin=f"{origin}, {group}/{name}",
        name=name_of(*(() if group == "default" else (group,)), name),
        text=expr,
        source=source,
        stored=stored,
        input={"group": group, "name": name, "target": target.get("Arn"), "input": target.get("Input")},
        flex=_flex(given),
        task=_task(target),
        paused="disabled in EventBridge" if state == "DISABLED" else None,
        notes=_notes(given, options),
    )


def _trigger(expr: str, given: dict[str, Any]) -> Trigger:
    call = _CALL.fullmatch(expr)
    if call is None:
        refuse("eventbridge.expression", "ScheduleExpression is cron(…), rate(…) or at(…)", key="ScheduleExpression")
    inner = call["inner"].strip()
    if call["kind"] == "at":
        at = parse_instant(inner, field="ScheduleExpression")
        if at.tzinfo is not None:
            refuse("eventbridge.at", "at(…) has no offset; its zone stands beside it", key="ScheduleExpression")
        return At(at)  # start and end do not count for it
    start, end = _instant(given, "StartDate"), _instant(given, "EndDate")
    if call["kind"] == "cron":
        return bounded(Cron(inner, dialect="eventbridge"), start=start, end=end)
    rate = _RATE.fullmatch(inner)
    if rate is None or not int(rate["value"]):
        refuse("eventbridge.rate", "rate(…) holds a number of minutes, hours or days", key="ScheduleExpression")
    anchor = start or _instant(given, "CreationDate")
    if anchor is None:
        refuse(
            "eventbridge.anchor",
            "rate(…) counts from StartDate, or from CreationDate, and the file has neither; use get-schedule",
            key="StartDate",
        )
    return bounded(Every(_UNITS[rate["unit"]].format(int(rate["value"])), anchor), start=start, end=end)


def _instant(given: dict[str, Any], key: str) -> datetime | None:
    """Return an instant in whole seconds: a text, or seconds since 1970 as older clients print them."""
    value = given.get(key)
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _LATEST:
        return datetime.fromtimestamp(int(value), UTC)
    if not isinstance(value, str):
        refuse("type", f"{key} is an instant such as 2027-01-01T00:00:00Z", key=key)
    instant = parse_instant(value, field=key)
    return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).replace(microsecond=0)


def _flex(given: dict[str, Any]) -> dict[str, Any] | None:
    window = mapping_of(given.get("FlexibleTimeWindow"), key="FlexibleTimeWindow")
    if window.get("Mode", "OFF") == "OFF":
        return None
    minutes = window.get("MaximumWindowInMinutes")
    if isinstance(minutes, bool) or not isinstance(minutes, int) or not 1 <= minutes <= 1440:
        refuse("eventbridge.window", "MaximumWindowInMinutes is a whole number from 1 to 1440", key="window")
    return {"mode": "hash", "window_seconds": 60 * minutes}


def _notes(given: dict[str, Any], options: Options) -> tuple[str, ...]:
    found: list[str] = []
    if "ScheduleExpressionTimezone" not in given:
        found.append(f"no zone: taken to be {options.timezone}")
    if given.get("ActionAfterCompletion") == "DELETE":
        found.append("ActionAfterCompletion DELETE is not imported: the schedule stays when it has ended")
    return tuple(found)


def _task(target: dict[str, Any]) -> dict[str, Any]:
    """Return what the target's retry policy is on a task: retries are attempts but for the first."""
    policy = mapping_of(target.get("RetryPolicy"), key="RetryPolicy")
    retries, age = whole_at(policy, "MaximumRetryAttempts"), whole_at(policy, "MaximumEventAgeInSeconds", least=1)
    retry = {
        "max_attempts": None if retries is None else min(retries + 1, MAX_ATTEMPTS_LIMIT),
        "max_age_seconds": age,
    }
    given = {name: value for name, value in retry.items() if value is not None}
    return {"retry": given} if given else {}
