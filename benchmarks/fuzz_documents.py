"""Feeds the readers of documents (calendars, iCalendar, importers) good texts, damaged: no crash, no slow case.

    python -m benchmarks.fuzz_documents                            a million cases each
    python -m benchmarks.fuzz_documents --only ical --cases 50000  some

A case is read; what becomes of a schedule is asked for its next instant as well. An answer, a refusal or a TriggerError
is right; anything else is a crash. Time and memory are judged as in `fuzz_rules`.
"""

import copy
import json
import random
import sys
from collections.abc import Callable
from typing import Any

from benchmarks.fuzz_rules import NASTY, NOW, main_of
from everwhen.core.calendar_json import definition_to_json, parse_definition
from everwhen.core.ical import closed_days
from everwhen.core.triggers import Cron, Timing, next_after
from everwhen.schedules.crontab import CrontabEntry, parse_crontab
from everwhen.schedules.importers.airflow import parse_airflow
from everwhen.schedules.importers.entry import Entry, Options
from everwhen.schedules.importers.eventbridge import parse_eventbridge
from everwhen.schedules.importers.kubernetes import parse_kubernetes
from everwhen.schedules.importers.quartz import parse_quartz
from everwhen.schedules.importers.systemd import parse_systemd
from everwhen.schedules.importers.temporal import parse_temporal

NOISE = (
    *"0123456789*/-,;:.=?LWH#@ \t\n\r\x00é\ud800{}[]\"'&!|>",
    "9" * 400,
    "BEGIN:VEVENT\n",
    "TZ=",
    "null",
    "- ",
    "..",
)

CALENDAR: dict[str, Any] = {
    "week": {"mon": [["09:00", "17:00"]], "sat": [["09:00", "13:00"], ["14:00", "24:00"]], "sun": "closed"},
    "days": [
        {"date": "2027-12-25", "hours": "closed", "label": "Christmas"},
        {"date": "2027-12-29", "until": "2027-12-31", "hours": [["09:00", "12:00"]]},
    ],
}
ICAL = """BEGIN:VCALENDAR
VERSION:2.0
BEGIN:VEVENT
UID:1@x
DTSTART;VALUE=DATE:20261224
DTEND;VALUE=DATE:20261227
SUMMARY:Christmas\\, and
  more
RRULE:FREQ=YEARLY;BYMONTH=12;BYDAY=-1FR
EXDATE;VALUE=DATE:20271224
RDATE:20270101,20270102
BEGIN:VALARM
TRIGGER:-PT1H
END:VALARM
END:VEVENT
BEGIN:VEVENT
DTSTART:20270501
DURATION:P2D
STATUS:CANCELLED
END:VEVENT
END:VCALENDAR
"""
CRONTAB = """# m h dom mon dow command
SHELL=/bin/sh
CRON_TZ=Europe/Berlin
PATH="/usr/bin:/bin"
*/5 * * * * root /usr/bin/run-parts --report "/etc/cron.hourly"
0 2 1-7 * 1 backup --full % line%more
@daily root test -x /x && /x
30 3 * JAN-MAR,DEC mon-fri mail -s "done" ann
"""
KUBERNETES = """apiVersion: batch/v1
kind: CronJob
metadata: {name: hello, namespace: ops}
spec:
  schedule: "*/7 1-5 * * *"
  timeZone: Europe/Berlin
  suspend: false
  concurrencyPolicy: Forbid
  startingDeadlineSeconds: 200
  jobTemplate: {spec: {template: {spec: {containers: [{name: hello, image: "busybox:1.28"}]}}}}
---
kind: List
items:
  - {apiVersion: batch/v1, kind: CronJob, metadata: {name: b}, spec: {schedule: "@hourly"}}
"""
TIMER = """[Unit]
Description=Daily rotation
[Timer]
OnCalendar=Mon..Fri,Sun 2027..2030-*-1/2 2..4,20:00/15:30 Europe/Berlin
OnCalendar=*-02~03 Europe/Berlin
OnCalendar=hourly Europe/Berlin
RandomizedDelaySec=1h 30min
AccuracySec=1us
Persistent=true
[Install]
WantedBy=timers.target
"""
QUARTZ = """# from a file of properties
0 0/5 14,18 ? * MON-FRI
0 15 10 ? * 6L 2026-2030
! another remark
report.cron = 0 11 11 L-2 11 ?
night.cron: 0 0/30 * W * ?
"""
QUARTZ_JSON: dict[str, Any] = {"a": "0 15 10 ? * 6#3", "b": {"expr": "0 0 12 1/5 * ?", "timezone": "Europe/Berlin"}}
EVENTBRIDGE: list[Any] = [
    {
        "Name": "nightly",
        "GroupName": "default",
        "ScheduleExpression": "cron(15 10 ? * 6L 2026-2030)",
        "ScheduleExpressionTimezone": "America/New_York",
        "FlexibleTimeWindow": {"Mode": "FLEXIBLE", "MaximumWindowInMinutes": 15},
        "StartDate": "2026-12-01T00:00:00+00:00",
        "EndDate": 1893456000.5,
        "State": "ENABLED",
        "Target": {"Arn": "arn:aws:lambda:x", "Input": '{"a": 1}', "RetryPolicy": {"MaximumRetryAttempts": 3}},
    },
    {"Name": "r", "ScheduleExpression": "rate(5 minutes)", "CreationDate": 1700000000.123},
    {"Name": "a", "ScheduleExpression": "at(2027-11-20T13:00:00)", "FlexibleTimeWindow": {"Mode": "OFF"}},
]
AIRFLOW: dict[str, Any] = {
    "etl": {"schedule": "0 5 * * 1", "timezone": "Europe/Berlin", "catchup": True, "is_paused": False},
    "b": {"schedule": "@quarterly", "is_paused": True},
    "c": "30 2 L * *",
    "d": None,
}
TEMPORAL: list[Any] = [
    {
        "scheduleId": "nightly",
        "schedule": {
            "spec": {
                "structuredCalendar": [
                    {
                        "second": [{}],
                        "minute": [{"start": 30, "end": 59, "step": 7}],
                        "hour": [{"start": 2}],
                        "dayOfMonth": [{"start": 1, "end": 31}],
                        "month": [{"start": 1, "end": 12}],
                        "dayOfWeek": [{"start": 1, "end": 5, "step": 1}],
                    }
                ],
                "interval": [{"interval": "5400s", "phase": "900s"}],
                "cronString": ["*/7 * * * *"],
                "jitter": "60s",
                "timezoneName": "Europe/Berlin",
                "startTime": "2026-12-01T00:00:00Z",
            },
            "policies": {"overlapPolicy": "SCHEDULE_OVERLAP_POLICY_SKIP", "catchupWindow": "31536000s"},
            "state": {"paused": True, "notes": "x"},
            "action": {"startWorkflow": {"workflowType": {"name": "Report"}}},
        },
    }
]


def main() -> int:
    """Fuzz, print, and fail if anything was wrong."""
    return main_of(SUBJECTS, str(__doc__))


def _damaged_text(text: str) -> Callable[[random.Random], str]:
    def make(draw: random.Random) -> str:
        lines = text.splitlines(keepends=True)
        for _ in range(draw.choice((0, 1, 2))):
            at = draw.randrange(len(lines))
            lines[at : at + draw.choice((0, 1, 2))] = [lines[draw.randrange(len(lines))]] * draw.choice((0, 1, 2))
            lines = lines or [""]
        said = "".join(lines)
        for _ in range(draw.choice((0, 1, 1, 3, 8))):
            at = draw.randrange(len(said) + 1)
            said = said[:at] + draw.choice(NOISE) + said[at + draw.choice((0, 0, 1, 2, 5)) :]
        return said

    return make


def _damaged_data(data: Any) -> Callable[[random.Random], Any]:
    def make(draw: random.Random) -> Any:
        made = copy.deepcopy(data)
        for _ in range(draw.choice((0, 1, 1, 2, 3))):
            _damage(draw, made)
        return made

    return make


def _damage(draw: random.Random, value: Any) -> None:
    """Walk to a place by chance, and spoil what stands there."""
    while isinstance(value, dict | list) and value:
        keys: list[Any] = [*value] if isinstance(value, dict) else [*range(len(value))]
        key = draw.choice(keys)
        inner = value[key]
        if isinstance(inner, dict | list) and inner and draw.random() < 0.7:
            value = inner
            continue
        match draw.randrange(4):
            case 0:
                del value[key]
            case 1:
                value[key] = copy.deepcopy(draw.choice(NASTY))
            case 2:
                value[key] = _spoilt(draw, inner)
            case _ if isinstance(value, list):
                value.extend(copy.deepcopy(value) * draw.choice((1, 3)))
            case _:
                value[draw.choice((*keys, "x", ""))] = copy.deepcopy(inner)
        return


def _spoilt(draw: random.Random, value: Any) -> Any:
    if isinstance(value, str):
        at = draw.randrange(len(value) + 1)
        return value[:at] + draw.choice(NOISE) + value[at + draw.choice((0, 1, 3)) :]
    return copy.deepcopy(draw.choice(NASTY))


def _as_json(make: Callable[[random.Random], Any]) -> Callable[[random.Random], str]:
    def spell(draw: random.Random) -> str:
        text = json.dumps(make(draw), indent=draw.choice((None, 1)))
        if draw.random() < 0.2:
            at = draw.randrange(len(text) + 1)
            text = text[:at] + draw.choice(NOISE) + text[at + draw.choice((0, 1)) :]
        return text

    return spell


def _run_calendar(data: Any) -> Any:
    definition = parse_definition(data)
    again = parse_definition(definition_to_json(definition))
    if again != definition:
        raise AssertionError("the definition does not survive a round trip")
    return definition


def _run_ical(text: str) -> Any:
    return closed_days(text, years=range(2026, 2036))


def _run_crontab(text: str) -> Any:
    entries = [each for each in parse_crontab(text) if isinstance(each, CrontabEntry)]
    return [next_after(Timing(Cron(each.expr), each.timezone or "UTC"), NOW) for each in entries] or None


def _run(read: Callable[[str, Options], list[Any]]) -> Callable[[str], Any]:
    def run(text: str) -> Any:
        entries = [each for each in read(text, Options(file="x")) if isinstance(each, Entry)]
        return [(next_after(each.source, NOW), next_after(each.stored, NOW)) for each in entries] or None

    return run


SUBJECTS: dict[str, tuple[Any, Any]] = {
    "airflow": (_as_json(_damaged_data(AIRFLOW)), _run(parse_airflow)),
    "calendar": (_damaged_data(CALENDAR), _run_calendar),
    "crontab": (_damaged_text(CRONTAB), _run_crontab),
    "eventbridge": (_as_json(_damaged_data(EVENTBRIDGE)), _run(parse_eventbridge)),
    "ical": (_damaged_text(ICAL), _run_ical),
    "kubernetes": (_damaged_text(KUBERNETES), _run(parse_kubernetes)),
    "quartz": (_damaged_text(QUARTZ), _run(parse_quartz)),
    "quartz-json": (_as_json(_damaged_data(QUARTZ_JSON)), _run(parse_quartz)),
    "systemd": (_damaged_text(TIMER), _run(parse_systemd)),
    "temporal": (_as_json(_damaged_data(TEMPORAL)), _run(parse_temporal)),
}

if __name__ == "__main__":
    sys.exit(main())
