"""Taking runs from their lines: which of three statements a claim uses.

Nearly every claim finds nothing old in its lines, so it takes by priority alone (`claim_runs`). That statement tells
whether something had grown old after all. Then nothing of it is kept: the claim begins anew with the one that takes
what is old first (`claim_aged`), which costs an eighth more. The process remembers that for its next claims of the same
lines (`Aged`), until some in a row have found nothing old. The memory is a hint: without it a claim is done twice, and
nothing else.

Where limits decide, or runs are named, other statements have locked and chosen the places (`claim_chosen`).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypedDict
from uuid import UUID

from everwhen.claim_limits.model import CandidateRow
from everwhen.claim_limits.sitting import LaneKey
from everwhen.core.capability import Capacity
from everwhen.core.lanes import Lane, Share
from everwhen.core.targets import WORKFLOW_QUEUE
from everwhen.dispatch import store
from everwhen.dispatch.model import DEADLINE_GRACE_SECONDS, Lease
from everwhen.postgres.pool import Connection

MOST_AGED: Final = 1_000
"""Of how many different sets of lines it is remembered that something in them is old."""

CALM_CLAIMS: Final = 16
"""How many claims of them in a row have to meet nothing old until it is forgotten: at a queue that tenants share one
claim takes from lines with something old, and the next from others."""

Lines = tuple[UUID | None, tuple[str, ...]]


@dataclass(slots=True)
class Aged:
    """Lines in which claims of this process have lately met what had grown old."""

    _lines: dict[Lines, int] = field(default_factory=dict[Lines, int])

    def __contains__(self, lines: Lines) -> bool:
        return lines in self._lines

    def note(self, lines: Lines, *, has_old: bool) -> None:
        """Remember what a claim of these lines met."""
        if has_old and (lines in self._lines or len(self._lines) < MOST_AGED):
            self._lines[lines] = CALM_CLAIMS
        elif (left := self._lines.pop(lines, 0) - 1) > 0:
            self._lines[lines] = left


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a worker asks for. `tenant_id` None: a worker of the platform, at queues that tenants share.

    With `run_ids` it asks for these, of one tenant, and for no others.
    """

    tenant_id: UUID | None
    queues: tuple[str, ...]
    tasks: tuple[str, ...] | None
    worker: str
    limit: int
    lease_seconds: float
    instance: UUID | None = None
    """The worker, as it announced itself; None: it did not."""
    run_ids: tuple[UUID, ...] | None = None
    labels: tuple[tuple[str, str], ...] = ()
    free: tuple[tuple[str, float], ...] = ()
    """What the worker is, and what is free of its resources."""

    heeds_age: bool = True
    """Whether what has grown old goes first. Without it the claim is cheaper, and begins anew when it meets any."""

    @property
    def capacity(self) -> Capacity:
        """Return what may be asked of the worker."""
        return Capacity(labels=dict(self.labels), free=dict(self.free))


class UnmarkedLanes(Exception):  # noqa: N818  # rolls a claim back, which begins anew
    """Runs of these lines were taken without being counted.

    Those of limited tasks wait in them and nobody has noted it; or, where they are `stale`, there is a limit of their
    tenant's that nobody has noted, or one that was set when the claim had looked.
    """

    def __init__(self, lanes: set[LaneKey], *, stale: bool = False) -> None:
        super().__init__()
        self.lanes = lanes
        self.stale = stale


class AgedLines(Exception):  # noqa: N818  # rolls a claim back, which begins anew
    """Runs were taken by priority although something in their lines had grown old."""


class _Given(TypedDict):
    """What the three statements have in common."""

    capped: Collection[str]
    limit: int
    worker: str
    lease_seconds: float
    deadline_grace_seconds: float
    now: datetime
    open_tenants: Collection[UUID]
    open_queues: Collection[str]
    free_tenants: Collection[UUID]


async def take(
    conn: Connection,
    claim: Claim,
    shares: Sequence[Share],
    *,
    capped: Sequence[Share],
    now: datetime,
    chosen: Sequence[CandidateRow] = (),
) -> list[Lease]:
    """Lease from these lines, or what was chosen of them.

    Raises:
        UnmarkedLanes: one of them has a limit that nobody knew of.
        AgedLines: something has grown old, and the claim does not heed that.
    """
    given = _Given(
        capped={
            each.lane.queue for each in capped if each.lane.max_in_flight is not None or each.lane.has_tenant_limit
        },
        limit=claim.limit,
        worker=claim.worker,
        lease_seconds=claim.lease_seconds,
        deadline_grace_seconds=DEADLINE_GRACE_SECONDS,
        now=now,
        open_tenants=[claim.tenant_id] if claim.tenant_id is not None else (),
        open_queues={each.lane.queue for each in capped if not _is_known(each.lane)},
        free_tenants={each.lane.tenant_id for each in capped if not _is_known(each.lane, of_tenant=True)},
    )
    if chosen:
        places, limit_keys = [row.place for row in chosen], [row.limit_key for row in chosen]
        leases = await store.claim_chosen(conn, places=places, limit_keys=limit_keys, **given)
    else:
        leases = await (store.claim_aged if claim.heeds_age else store.claim_runs)(
            conn,
            tenant_ids=[share.lane.tenant_id for share in shares],
            queues=[share.lane.queue for share in shares],
            quotas=[share.quota for share in shares],
            tasks=claim.tasks,
            **given,
        )
    if leases and leases[0].is_stale:
        raise UnmarkedLanes({(share.lane.tenant_id, share.lane.queue) for share in capped}, stale=True)
    if leases and leases[0].has_old and not claim.heeds_age:
        raise AgedLines
    return leases


def _is_known(lane: Lane, *, of_tenant: bool = False) -> bool:
    """Say whether a claim knows that a line is limited; or its tenant, where it could be."""
    if of_tenant:
        return lane.has_tenant_limit or lane.queue == WORKFLOW_QUEUE
    return lane.has_tenant_limit or lane.is_limited or lane.max_in_flight is not None
