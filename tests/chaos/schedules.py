"""The schedules of chaos: how they are made, and whether each instant of those that nobody edits has its run.

Those that are edited fire when the people of chaos want; what they intended is for `everwhen verify` to say, which
expands every revision. The instants of the others are computed here, apart from the product.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random  # noqa: TID251  # a run of chaos is drawn by its printed seed
from typing import Any
from uuid import UUID

import httpx2

from everwhen.http.auth import Role
from tests.chaos.flows import definitions
from tests.chaos.judge import Execution, Verdict, judge_instants
from tests.chaos.people import calendar_of, is_open
from tests.system.fleet import Fleet, wait_until

PATIENCE = timedelta(seconds=180)
KEEP = {"policy": "replay", "grace_seconds": 3600, "window_seconds": None}
CLOSED_CALENDAR, EDITED_CALENDAR = "gaps", "edited"
KINDS: dict[str, tuple[int, int, dict[str, Any]]] = {  # name: how many, every so many seconds, the rest of the body
    "quick": (8, 5, {"task": "quick", "catch_up": KEEP}),
    "dense": (1, 1, {"task": "quick", "catch_up": KEEP}),
    "flaky": (4, 6, {"task": "flaky", "catch_up": KEEP}),
    "slow": (2, 7, {"task": "slow", "catch_up": KEEP}),
    "coalesce": (2, 4, {"task": "quick", "catch_up": {"policy": "coalesce", "grace_seconds": 2}}),
    "alone": (2, 2, {"task": "slow", "catch_up": KEEP, "overlap": {"policy": "skip"}}),
    "queued": (2, 4, {"task": "slow", "catch_up": KEEP, "overlap": {"policy": "buffer_all", "max_buffered": 1000}}),
    "skip": (2, 4, {"task": "quick", "catch_up": {"policy": "skip", "grace_seconds": 2}}),
    "closed": (2, 5, {"task": "quick", "catch_up": KEEP, "calendars": {"open": [CLOSED_CALENDAR]}}),
    "edited": (6, 4, {"task": "quick", "catch_up": KEEP}),
    "reshaped": (2, 5, {"task": "slow", "catch_up": KEEP, "overlap": {"policy": "skip"}}),
    "flows": (2, 15, {"workflow": "flow-a", "catch_up": KEEP}),
    "composed": (1, 20, {"workflow": "composed", "catch_up": KEEP}),
    "hasty": (1, 20, {"workflow": "hasty", "catch_up": KEEP}),
    "single": (1, 10, {"workflow": "flow-b", "catch_up": KEEP, "overlap": {"policy": "skip"}}),
    "hurried": (1, 12, {"workflow": "flow-b", "catch_up": KEEP, "overlap": {"policy": "terminate_other"}}),
    "told": (1, 12, {"workflow": "composed", "catch_up": KEEP, "overlap": {"policy": "cancel_other"}}),
    "moving": (2, 15, {"workflow": "flow-a", "catch_up": KEEP}),
}
EDITED = frozenset({"edited", "reshaped", "moving"})
TASKS = {
    "quick": {"max_attempts": 50},
    "slow": {"max_attempts": 50},
    "flaky": {"max_attempts": 12},
    "scripted": {"max_attempts": 1000},
}


@dataclass
class Made:
    """What was made: the schedules that may be edited, and the calendar that nobody changes."""

    edited: list[str] = field(default_factory=list)
    closed: dict[str, Any] = field(default_factory=dict)


def define(fleet: Fleet, port: int, random: Random) -> Made:
    """Make tasks, workflows, calendars and schedules, as anybody would."""
    headers = {"Authorization": f"Bearer {fleet.token(Role.ADMIN)}"}
    made = Made()
    with httpx2.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, trust_env=False, timeout=30.0) as client:
        wait_until(lambda: is_up(client), seconds=300, what="the API is up")
        for name, retry in TASKS.items():
            body = {"name": name, "queue": "line", "retry": {"base_seconds": 0.2, "cap_seconds": 2, **retry}}
            _create(client, "tasks", body)
        for name, definition in definitions(random).items():
            _create(client, "workflows", {"name": name, "definition": definition})
        made.closed = calendar_of(fleet.fetch("select now()")[0][0])
        for name in (CLOSED_CALENDAR, EDITED_CALENDAR):
            _create(client, "calendars", {"name": name, "definition": made.closed})
        for kind, (count, period, rest) in KINDS.items():
            for number in range(count):
                name = f"{kind}-{number}"
                trigger = {"kind": "every", "every": f"PT{period}S"}
                _create(client, "schedules", {"name": name, "trigger": trigger, **rest})
                made.edited += [name] if kind in EDITED else []
    return made


def judge_schedules(fleet: Fleet, verdict: Verdict, made: Made, executions: Mapping[UUID, Sequence[Execution]]) -> None:
    """Hold the instants of every schedule that nobody edits against its runs and what was executed."""
    schedules = fleet.fetch(
        "select s.uid, s.name, s.created_at, w.decided_until, s.spec from everwhen.schedules s"
        " join everwhen.watermarks w on w.schedule_uid = s.uid order by s.name"
    )
    verdict.figures["schedules"] = len(schedules)
    for uid, name, created, until, spec in schedules:
        kind = name.partition("-")[0]
        if kind in EDITED:
            continue
        intended = instants(spec, created, until, KINDS[kind][1])
        runs, idle = _runs(fleet, uid)
        if "calendars" in KINDS[kind][2]:  # what falls on a closed minute is skipped, and nothing else is
            intended = [at for at in intended if is_open(made.closed, at)]
            runs = {at: run_id for at, run_id in runs.items() if is_open(made.closed, at)}
            idle = 0
        judge_instants(
            verdict,
            name,
            intended=intended,
            runs=runs,
            skipped=idle,
            executions=executions,
            patience=PATIENCE,
        )


def instants(spec: Mapping[str, Any], created: datetime, until: datetime, period: int) -> list[datetime]:
    """Every so many seconds from the anchor on: what the product computes, in one line of its own."""
    anchor = spec["trigger"].get("anchor")
    first = datetime.fromisoformat(anchor).astimezone(UTC) if anchor else datetime(1970, 1, 1, tzinfo=UTC)
    step = timedelta(seconds=period)
    at = first + ((created - first) // step + 1) * step
    found = []
    while at <= until:
        found.append(at)
        at += step
    return found


def is_up(client: httpx2.Client) -> bool:
    """Say whether the API answers."""
    try:
        return client.get("/healthz/ready", timeout=5.0).is_success
    except httpx2.HTTPError:
        return False


def _runs(fleet: Fleet, uid: UUID) -> tuple[dict[datetime, UUID], int]:
    """Return a schedule's runs by instant, and how many of its instants did not run, in rows or in spans."""
    runs = {
        at.astimezone(UTC): run_id
        for at, run_id in fleet.fetch(
            "select nominal_at, run_id from everwhen.runs where schedule_uid = %s and source = 'schedule'", uid
        )
    }
    spans = "select coalesce(sum(instants), 0) from everwhen.spans where schedule_uid = %s"
    ends = (
        "select count(*) from everwhen.run_ends e join everwhen.runs r using (tenant_id, run_id)"
        " where r.schedule_uid = %s and e.state in ('skipped', 'missed', 'coalesced', 'cancelled')"
    )
    return runs, int(fleet.fetch(spans, uid)[0][0] + fleet.fetch(ends, uid)[0][0])


def _create(client: httpx2.Client, kind: str, body: dict[str, Any]) -> None:
    answer = client.post(f"/v1/tenants/acme/{kind}", json=body)
    assert answer.status_code == 201, answer.text
