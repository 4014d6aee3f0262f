"""What a person can do: the registry's remedies for what is to blame, each with the command and the path that do it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from everwhen.core.meanings import MEANINGS
from everwhen.core.reasons import Reason

MOST_REMEDIES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Whose remedy it is: the tenant's path, and the names and the instant that a command needs.

    `node` is (workflow's run, node) of a run that is a workflow's node.
    """

    tenant: str
    at: datetime
    run: str | None
    schedule: str | None
    task: str | None
    queue: str | None = None
    node: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """What to do. `action` is a command; `href` is the path of what is to be changed or looked at."""

    reason: str
    text: str
    action: str | None
    href: str | None


_Said = Callable[[Place], tuple[str, str] | None]


def remedies_for(reasons: Iterable[str], place: Place) -> list[Remedy]:
    """Return what helps against these reasons, the most important first; each text once."""
    found: dict[str, Remedy] = {}
    for reason in reasons:
        meaning = MEANINGS.get(reason)
        if meaning is None or not meaning.remedy:
            continue
        action, href = _way(reason, place) or (None, None)
        found.setdefault(meaning.remedy, Remedy(reason=reason, text=meaning.remedy, action=action, href=href))
    return list(found.values())[:MOST_REMEDIES]


def _way(reason: str, place: Place) -> tuple[str, str] | None:
    said = _WAYS.get(reason)
    return None if said is None else said(place)


def _path(place: Place, kind: str, name: str) -> str:
    return f"/v1/tenants/{place.tenant}/{kind}/{name}"


def _schedule(verb: str, tail: str = "") -> _Said:
    def said(place: Place) -> tuple[str, str] | None:
        if place.schedule is None:
            return None
        return f"everwhen schedule {verb} {place.schedule}", _path(place, "schedules", place.schedule) + tail

    return said


def _task(place: Place) -> tuple[str, str] | None:
    if place.task is None:
        return None
    return f"everwhen task update {place.task}", _path(place, "tasks", place.task)


def _attempts(place: Place) -> tuple[str, str] | None:
    if place.run is None:
        return None
    return f"everwhen run attempts {place.run}", _path(place, "runs", place.run) + "/attempts"


def _redrive(place: Place) -> tuple[str, str] | None:
    if place.run is None:
        return None
    if place.node is not None:
        run, node = place.node
        return f"everwhen workflow rerun {run} --from {node}", _path(place, "workflow-runs", run) + "/rerun"
    return f"everwhen dead redrive {place.run}", _path(place, "runs", place.run) + "/redrive"


def _backfill(place: Place) -> tuple[str, str] | None:
    if place.schedule is None:
        return None
    since, until = place.at.astimezone(UTC), place.at.astimezone(UTC) + timedelta(seconds=1)
    span = f"--from {since.isoformat()} --until {until.isoformat()}"
    return f"everwhen schedule backfill {place.schedule} {span}", _path(place, "schedules", place.schedule)


def _resume_queue(place: Place) -> tuple[str, str] | None:
    if place.queue is None:
        return None
    return f"everwhen queue resume {place.queue}", _path(place, "queues", place.queue) + "/resume"


def _queue(place: Place) -> tuple[str, str] | None:
    if place.queue is None:
        return None
    return f"everwhen queue set {place.queue}", _path(place, "queues", place.queue)


def _limits(place: Place) -> tuple[str, str] | None:
    return f"everwhen limits set --tenant {place.tenant}", f"/v1/tenants/{place.tenant}/limits"


def _resume_tenant(place: Place) -> tuple[str, str] | None:
    return f"everwhen tenant resume --tenant {place.tenant}", f"/v1/tenants/{place.tenant}/resume"


_WAYS: Final[Mapping[str, _Said]] = {
    Reason.ATTEMPT_FAILED: _attempts,
    Reason.ATTEMPT_NOT_RETRYABLE: _redrive,
    Reason.ATTEMPT_TIMED_OUT: _task,
    Reason.CALENDAR_DST_DUPLICATE: _schedule("update"),
    Reason.CALENDAR_DST_GAP: _schedule("update"),
    Reason.CALENDAR_EXCLUDED: _schedule("update"),
    Reason.CATCHUP_COALESCED: _schedule("update"),
    Reason.CATCHUP_EXCEEDED: _backfill,
    Reason.CATCHUP_SKIP: _backfill,
    Reason.CATCHUP_WINDOW: _backfill,
    Reason.EXECUTOR_EXIT: _redrive,
    Reason.FLEX_WINDOW: _schedule("update"),
    Reason.LEASE_EXPIRED: _attempts,
    Reason.LIMIT_KEY: _task,
    Reason.LIMIT_QUEUE: _queue,
    Reason.LIMIT_RATE: _task,
    Reason.LIMIT_TASK: _task,
    Reason.LIMIT_TENANT: _limits,
    Reason.OVERLAP_BUFFERED: _schedule("update"),
    Reason.OVERLAP_BUFFER_FULL: _schedule("update"),
    Reason.OVERLAP_PREVIOUS_RUNNING: _schedule("update"),
    Reason.OVERLAP_SUPERSEDED: _schedule("update"),
    Reason.OVERLAP_LINE_HELD: _schedule("release", "/release"),
    Reason.QUEUE_PAUSED: _resume_queue,
    Reason.RETRY_EXHAUSTED: _redrive,
    Reason.RETRY_MAX_AGE: _redrive,
    Reason.RETRY_UNREADABLE: _task,
    Reason.SCHEDULE_BEFORE_CREATION: _backfill,
    Reason.SCHEDULE_FAILING: _schedule("get"),
    Reason.SCHEDULE_PAUSED: _schedule("resume", "/resume"),
    Reason.START_DEADLINE: _task,
    Reason.TENANT_PAUSED: _resume_tenant,
    Reason.WORKER_NO_CAPABILITY_MATCH: _task,
    Reason.WINDOW_AFTER_END: _schedule("update"),
    Reason.WINDOW_BEFORE_START: _schedule("update"),
}
