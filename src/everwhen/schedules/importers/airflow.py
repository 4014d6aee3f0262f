"""Airflow cron timetables: a JSON object of DAG ids with their schedule, zone and catch-up.

A run of Airflow's is named after the beginning of its interval and starts at its end. What is imported are the starts.
"""

from typing import Any, Final

from everwhen.core.triggers import Cron
from everwhen.schedules.importers.entry import (
    Entry,
    Options,
    Refusal,
    mapping_of,
    name_of,
    read_all,
    read_json,
    refuse,
    text_at,
    timing_pair,
)

_KNOWN: Final = {"schedule", "timezone", "catchup", "is_paused"}
_QUARTERLY: Final = "0 0 1 */3 *"
_NO_TIMES: Final = {
    "@once": "runs once, when it is switched on",
    "@continuous": "starts again whenever it ends",
    "@reboot": "names no time",
}


def parse_airflow(text: str, options: Options) -> list[Entry | Refusal]:
    """Return what each DAG's timetable becomes."""
    return read_all(lambda: _items(text), lambda origin, item: _entry(origin, item, options))


def _items(text: str) -> list[tuple[str, object]]:
    documents = [mapping_of(document, key="file") for document in read_json(text)]
    return [
        (dag_id, {"schedule": value} if value is None or isinstance(value, str) else value)
        for document in documents
        for dag_id, value in document.items()
    ]


def _entry(origin: str, item: object, options: Options) -> Entry:
    given = mapping_of(item, key=origin)
    if extra := sorted(set(given) - _KNOWN):
        refuse("airflow.field", f"{extra[0]} is not known; use {', '.join(sorted(_KNOWN))}", key=extra[0])
    expr = _expression(given.get("schedule"))
    zone = text_at(given, "timezone", default=options.timezone)
    text = _QUARTERLY if expr == "@quarterly" else expr
    source, stored = timing_pair(Cron(text, dialect="airflow"), zone, preset="airflow", options=options)
    return Entry(
        origin=origin,
        name=name_of(origin),
        text=expr,
        source=source,
        stored=stored,
        input={"dag_id": origin},
        catch_up={"policy": "replay" if _flag(given, "catchup") else "coalesce"},
        paused="paused in Airflow" if _flag(given, "is_paused") else None,
        notes=() if "timezone" in given else (f"no timezone: taken to be {options.timezone}",),
    )


def _expression(schedule: object) -> str:
    if schedule is None:
        refuse("airflow.schedule", "the DAG has no schedule; it is started by hand", key="schedule")
    if not isinstance(schedule, str):
        refuse("airflow.schedule", "only cron timetables are imported, written as a text", key="schedule")
    expr = " ".join(schedule.split())
    if expr in _NO_TIMES:
        refuse("airflow.schedule", f"{expr} {_NO_TIMES[expr]}; no trigger says that", key="schedule")
    if not expr:
        refuse("airflow.schedule", "the schedule is empty", key="schedule")
    return expr


def _flag(given: dict[str, Any], key: str) -> bool:
    value = given.get(key, False)
    if not isinstance(value, bool):
        refuse("type", f"{key} is true or false", key=key)
    return value
