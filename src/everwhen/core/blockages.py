"""What blocks a line: from what is seen of it at one moment to the reasons why its due runs are not taken.

A line is one tenant's runs at one queue. It *stands* when its oldest due run has waited for longer than STANDING: below
that, waiting is the ordinary time from due to claimed, and there is nothing to tell. Several things may block a line at
once, and each is told, since who removes the first one wants to know of the second.

    limit.tenant                 as many in flight at all queues as its tenant may; since it was noticed
    limit.queue                  as many in flight as its limit allows; since the last of them was claimed
    limit.rate                   its queue has no token; since it was noticed
    worker.none_registered       nobody has asked for its runs for MEMORY
    worker.none_live             nobody asks any more; since the last one did
    worker.cordoned, .draining   nobody asks, and all live workers that are known are held back; since the last order
    worker.slots_full            nobody asks, but workers hold leases: they are busy; since the last one asked
    worker.no_capability_match   somebody asks, but nobody who knows the task; one for each such task
    priority.behind              somebody asks and takes, and there is more due than is taken at once
    broker.unreachable           the queue's broker is away, or no relay tells it of runs
    endpoint.rests               the endpoint of the queue failed, or asked for time, and nothing is posted to it
    workflow.no_conductor        of workflows' runs, which no worker asks for: nobody has taken one lately

How exact a beginning is: a limit's is the claim that filled the line, a worker's is when it was seen last (written
every few seconds), the others' is when it was noticed. An end is when it was noticed to be over, but never later than
when the run was claimed: whoever explains a run cuts it off there.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from everwhen.core.claim_limits import Rate
from everwhen.core.reasons import Reason

STANDING: Final = timedelta(seconds=1)
"""From when on a line that is not taken from stands."""

LIVE: Final = timedelta(seconds=15)
"""How long after it was seen last a fleet counts as live: a few times the interval in which sightings are written."""

RELAYED: Final = timedelta(seconds=60)
"""How long after a relay noted it last a broker counts as told of runs: a few times the interval of such notes."""

MEMORY: Final = timedelta(days=30)
"""How long it is remembered that somebody asked."""

EVERY_TASK: Final = ""

UNKNOWN: Final = "none of those that ask knows it"


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFleet:
    """The live workers of a line that announced themselves, with what they have of slots, all together.

    `cordoned` and `draining` of them are held back; the draining ones include those that are about to stop.
    """

    workers: int
    slots: int = 0
    cordoned: int = 0
    draining: int = 0
    held_back_at: datetime | None = None  # when the last of them was


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFacts:
    """What is seen of a line. `due` counts its due runs, up to a bound; `is_held` says that a lease of it is alive."""

    oldest_due_at: datetime
    due: int
    in_flight: int = 0
    limit: int | None = None
    tenant_limit: int | None = None  # over all lines of the tenant
    tenant_in_flight: int = 0
    rate: Rate | None = None  # of the queue
    rate_full_at: datetime | None = None
    filled_at: datetime | None = None  # when the last of those in flight was claimed
    is_held: bool = False
    last_seen_at: datetime | None = None
    live: LiveFleet | None = None  # the workers that announced themselves; None: none did
    unknown_tasks: Sequence[str] = ()  # tasks of the line that nobody who asks knows
    rests_until: datetime | None = None  # of the queue's endpoint: nothing is posted to it before
    rests_since: datetime | None = None
    endpoint_failures: int = 0  # in a row
    endpoint_error: str | None = None
    broker: str | None = None  # that delivers the queue, where it is not told of runs
    broker_away_since: datetime | None = None
    is_of_workflows: bool = False  # its runs are the conductor's to take, whom nobody sees asking


@dataclass(frozen=True, slots=True, kw_only=True)
class Blockage:
    """One thing that blocks a line, or one task of it (EVERY_TASK: all). `facts` are numbers for its sentence."""

    task: str
    reason: str
    since: datetime
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def key(self) -> tuple[str, str, Any]:
        """What makes it the same one the next time: a limit that was changed is another one."""
        return self.task, self.reason, self.facts.get("limit")


def diagnose(line: LineFacts, *, now: datetime) -> list[Blockage]:
    """Return everything that blocks the line, in no order of importance; nothing for a line that does not stand."""
    if line.oldest_due_at > now - STANDING:
        return []
    if line.rests_until is not None and line.rests_until > now:
        return [*_limit(line, now=now), _resting(line, line.rests_until, now=now)]
    takers = _conductor if line.is_of_workflows else _workers
    return [*_limit(line, now=now), *_broker(line, now=now), *takers(line, now=now)]


def _limit(line: LineFacts, *, now: datetime) -> Iterable[Blockage]:
    if line.tenant_limit is not None and line.tenant_in_flight >= line.tenant_limit:
        facts = {"in_flight": line.tenant_in_flight, "limit": line.tenant_limit}
        yield Blockage(task=EVERY_TASK, reason=Reason.LIMIT_TENANT, since=now, facts=facts)
    if line.rate is not None and line.rate.left(line.rate_full_at, now) == 0:
        facts = {"tokens": line.rate.tokens, "seconds": line.rate.seconds}
        yield Blockage(task=EVERY_TASK, reason=Reason.LIMIT_RATE, since=now, facts=facts)
    if line.limit is None or line.in_flight < line.limit:
        return
    facts = {"in_flight": line.in_flight, "limit": line.limit}
    since = line.filled_at or line.oldest_due_at
    yield Blockage(task=EVERY_TASK, reason=Reason.LIMIT_QUEUE, since=min(since, now), facts=facts)


def _resting(line: LineFacts, until: datetime, *, now: datetime) -> Blockage:
    facts = {
        "until": until.astimezone(UTC).isoformat(timespec="seconds"),
        "failures": line.endpoint_failures,
        "why": f": {line.endpoint_error}" if line.endpoint_error else "",
    }
    since = max(line.rests_since or line.oldest_due_at, line.oldest_due_at)
    return Blockage(task=EVERY_TASK, reason=Reason.ENDPOINT_RESTS, since=min(since, now), facts=facts)


def _broker(line: LineFacts, *, now: datetime) -> Iterable[Blockage]:
    if line.broker is None:
        return
    facts = {"broker": line.broker}
    since = max(line.broker_away_since or line.oldest_due_at, line.oldest_due_at)
    yield Blockage(task=EVERY_TASK, reason=Reason.BROKER_UNREACHABLE, since=min(since, now), facts=facts)


def _workers(line: LineFacts, *, now: datetime) -> Iterable[Blockage]:
    seen = line.last_seen_at
    if seen is None or seen < now - MEMORY:
        if not line.is_held:
            yield Blockage(task=EVERY_TASK, reason=Reason.WORKER_NONE_REGISTERED, since=line.oldest_due_at)
            return
        seen = line.filled_at or line.oldest_due_at
    if seen < now - LIVE:
        yield _nobody_asks(line, seen)
        return
    # Who holds leases and was never seen asking (a server that has just started) says nothing of what it knows.
    for task in line.unknown_tasks if line.last_seen_at == seen else ():
        yield Blockage(
            task=task, reason=Reason.WORKER_NO_CAPABILITY_MATCH, since=now, facts={"task": task, "why": UNKNOWN}
        )
    if line.due > 1:
        yield Blockage(task=EVERY_TASK, reason=Reason.PRIORITY_BEHIND, since=now, facts={"due": line.due})


def _conductor(line: LineFacts, *, now: datetime) -> Iterable[Blockage]:
    """Tell a conductor that is behind from one that is not there by when it took a run of the line last."""
    if line.filled_at is None or line.filled_at < now - LIVE:
        yield Blockage(task=EVERY_TASK, reason=Reason.WORKFLOW_NO_CONDUCTOR, since=line.oldest_due_at)
    elif line.due > 1:
        yield Blockage(task=EVERY_TASK, reason=Reason.PRIORITY_BEHIND, since=now, facts={"due": line.due})


def _nobody_asks(line: LineFacts, seen: datetime) -> Blockage:
    live = line.live
    if live is not None and live.workers == live.cordoned + live.draining:
        reason = Reason.WORKER_DRAINING if live.draining else Reason.WORKER_CORDONED
        facts = {"workers": live.workers, "cordoned": live.cordoned, "draining": live.draining}
        return Blockage(task=EVERY_TASK, reason=reason, since=live.held_back_at or seen, facts=facts)
    if line.is_held:
        facts = {"in_flight": line.in_flight} | slots_told(live)
        return Blockage(task=EVERY_TASK, reason=Reason.WORKER_SLOTS_FULL, since=seen, facts=facts)
    facts = {"last_seen": seen.astimezone(UTC).isoformat()}
    return Blockage(task=EVERY_TASK, reason=Reason.WORKER_NONE_LIVE, since=seen, facts=facts)


def slots_told(live: LiveFleet | None) -> dict[str, Any]:
    """Return what is told of the slots of workers that are all busy; nothing where none announced itself."""
    if live is None:
        return {}
    taking = live.workers - live.cordoned - live.draining
    why = f"all {live.slots} slots of {taking} live workers"
    return {"workers": taking, "slots": live.slots, "why": why}


def changes(known: Iterable[Blockage], found: Iterable[Blockage]) -> tuple[list[Blockage], list[Blockage]]:
    """Return (what begins, what is over) between what is open in the store and what was found now."""
    open_now, seen_now = {each.key: each for each in known}, {each.key: each for each in found}
    begins = [each for key, each in seen_now.items() if key not in open_now]
    over = [each for key, each in open_now.items() if key not in seen_now]
    return begins, over
