"""What a tenant may have and do: the one table of its limits, with what holds for whoever has none of its own.

A limit is checked in the transaction that uses it (`limits/quotas.py` says how), so it is never exceeded by a commit.
Runs are counted by the day (UTC) on which they become due, and those of schedules when they are planned: what is over
the limit is recorded as skipped, `quota.runs_per_day`, since a run that waited for the next day would take that day's
room from its own. docs/concepts/limits.md has a row for each; a test keeps the two equal.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from enum import StrEnum
from itertools import groupby
from typing import Final
from uuid import UUID

from everwhen.core.ids import scheduled_run_id
from everwhen.core.lifecycle import RunState
from everwhen.core.planning import SPAN_FROM, Cursor, IntendedRun, Plan, Span
from everwhen.core.reasons import Reason

MOST: Final = 10**15
"""No limit can be set higher; to set this is to set none."""


class Limit(StrEnum):
    """What is limited."""

    ATTEMPTS = "attempts"
    CALENDARS = "calendars"
    CHANNELS = "channels"
    IN_FLIGHT = "in_flight"
    LOG_BYTES = "log_bytes"
    MEMBERS = "members"
    MINIMUM_INTERVAL = "minimum_interval_seconds"
    PAYLOAD_BYTES = "payload_bytes"
    QUEUES = "queues"
    REQUESTS = "requests_per_minute"
    RUNS = "runs_per_day"
    SCHEDULES = "schedules"
    SUBSCRIPTIONS = "subscriptions"
    TASKS = "tasks"
    TOKENS = "tokens"
    WORKFLOWS = "workflows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A limit: what is usual, the least that can be set, and what it is about.

    Usual None: a setting says so, or nothing is limited.
    """

    usual: int | None
    least: int
    sentence: str


KINDS: Final[Mapping[Limit, Kind]] = {
    Limit.ATTEMPTS: Kind(usual=1_000, least=1, sentence="Attempts that a task or a node of a workflow may ask for."),
    Limit.CALENDARS: Kind(usual=1_000, least=0, sentence="Calendars."),
    Limit.CHANNELS: Kind(usual=500, least=0, sentence="Channels of alerts."),
    Limit.IN_FLIGHT: Kind(
        usual=None, least=0, sentence="Runs in flight at once, at all queues together; what is over waits."
    ),
    Limit.LOG_BYTES: Kind(
        usual=None, least=0, sentence="Bytes of all logs of attempts together; what is over is not kept."
    ),
    Limit.MEMBERS: Kind(usual=10_000, least=0, sentence="Members."),
    Limit.MINIMUM_INTERVAL: Kind(
        usual=1, least=1, sentence="Seconds that lie at least between two fires of a schedule."
    ),
    Limit.PAYLOAD_BYTES: Kind(usual=None, least=0, sentence="Bytes of all payloads together."),
    Limit.QUEUES: Kind(usual=1_000, least=0, sentence="Queues that are defined; one that tasks only name is not."),
    Limit.REQUESTS: Kind(usual=None, least=6, sentence="Requests to the control API a minute."),
    Limit.RUNS: Kind(
        usual=1_000_000, least=0, sentence="Runs that become due on one day (UTC); nodes of workflows are not counted."
    ),
    Limit.SCHEDULES: Kind(usual=20_000, least=0, sentence="Schedules, paused ones included."),
    Limit.SUBSCRIPTIONS: Kind(usual=500, least=0, sentence="Subscriptions to alerts."),
    Limit.TASKS: Kind(usual=5_000, least=0, sentence="Tasks; workflows are not among them."),
    Limit.TOKENS: Kind(usual=1_000, least=0, sentence="Service tokens that hold."),
    Limit.WORKFLOWS: Kind(usual=5_000, least=0, sentence="Workflows."),
}
"""All of them, by name."""

Day = tuple[UUID, date]


def day_of(instant: datetime) -> date:
    """Return the day on which a run counts that becomes due then."""
    return instant.astimezone(UTC).date()


def count_by_day(plans: Sequence[tuple[Cursor, Plan]]) -> dict[Day, int]:
    """Return how many runs these plans intend, by tenant and day."""
    counts: dict[Day, int] = {}
    for cursor, plan in plans:
        for day, runs in groupby(plan.runs, key=lambda run: day_of(run.due_at)):
            key = cursor.tenant_id, day
            counts[key] = counts.get(key, 0) + sum(1 for _ in runs)
    return counts


def within(plans: Sequence[tuple[Cursor, Plan]], room: Mapping[Day, int]) -> list[tuple[Cursor, Plan]]:
    """Return the plans with no more runs than there is room for: the latest ones become verdicts.

    Days that are not in `room` have room for all.
    """
    over = _over(plans, room)
    return [(cursor, _without(cursor, plan, over)) for cursor, plan in plans]


def _over(plans: Sequence[tuple[Cursor, Plan]], room: Mapping[Day, int]) -> set[UUID]:
    """Return the ids of the runs for which there is no room: it is given to the earliest."""
    by_day: dict[Day, list[IntendedRun]] = {}
    for cursor, plan in plans:
        for run in plan.runs:
            key = cursor.tenant_id, day_of(run.due_at)
            if key in room:
                by_day.setdefault(key, []).append(run)
    over: set[UUID] = set()
    for key, runs in by_day.items():
        runs.sort(key=lambda run: (run.due_at, run.run_id))
        over |= {run.run_id for run in runs[room[key] :]}
    return over


def _without(cursor: Cursor, plan: Plan, over: set[UUID]) -> Plan:
    taken = [run for run in plan.runs if run.run_id in over]
    if not taken:
        return plan
    verdicts = tuple(_skipped(cursor, run) for run in taken)
    spans: tuple[Span, ...] = ()
    if len(taken) >= SPAN_FROM and _are_neighbours(plan, taken):
        first, last = taken[0].nominal_at, taken[-1].nominal_at
        state, reason = RunState.SKIPPED, Reason.QUOTA_RUNS_PER_DAY
        spans = (Span(first_at=first, last_at=last, instants=len(taken), verdict=state, reason=reason),)
        verdicts = ()
    return replace(
        plan,
        runs=tuple(run for run in plan.runs if run.run_id not in over),
        verdicts=(*plan.verdicts, *verdicts),
        spans=(*plan.spans, *spans),
    )


def _are_neighbours(plan: Plan, taken: Sequence[IntendedRun]) -> bool:
    """Say whether one span can stand for all of these: nothing else lies between, and no calendar has moved one."""
    first, last, ids = taken[0].nominal_at, taken[-1].nominal_at, {run.run_id for run in taken}
    others = [run.nominal_at for run in (*plan.runs, *plan.verdicts) if run.run_id not in ids]
    return (
        all(run.detail is None for run in taken)
        and not any(first < instant < last for instant in others)
        and not any(span.first_at <= last and span.last_at >= first for span in plan.spans)
    )


def _skipped(cursor: Cursor, run: IntendedRun) -> IntendedRun:
    """Return the verdict in a run's place; its id is that of an instant that nothing puts off."""
    run_id = scheduled_run_id(cursor.tenant_id, cursor.schedule_uid, nominal_at=run.nominal_at, due_at=run.nominal_at)
    return replace(run, run_id=run_id, due_at=run.nominal_at, state=RunState.SKIPPED, reason=Reason.QUOTA_RUNS_PER_DAY)
