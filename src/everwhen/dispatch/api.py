"""The worker API: claim, heartbeat, complete. Plain routes and msgspec, since every run passes through here twice.

A batch is one request, one transaction, and no model is built for a row. The wire is `everwhen.worker.protocol`.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from uuid import UUID

import msgspec
from msgspec import UNSET
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from everwhen.core.named import Named
from everwhen.core.targets import RESERVED
from everwhen.dispatch.brokers.mailboxes import Mailboxes
from everwhen.dispatch.lines import Lines
from everwhen.dispatch.model import Lease, Renewal, ToRenew
from everwhen.dispatch.reports import parse_token, payload_text, readable_instant
from everwhen.dispatch.service import Claim, Dispatch, Grant
from everwhen.dispatch.tokens import LeaseTokens
from everwhen.errors import Forbidden, InvalidInput
from everwhen.http.access import PermittedRoute
from everwhen.http.edge import principal_of
from everwhen.http.messages import Message, check_amounts, check_labels, check_name, message_response, read_message
from everwhen.http.principal import Principal
from everwhen.http.roles import Permission
from everwhen.worker.protocol import (
    ClaimedRun,
    ClaimRequest,
    ClaimResponse,
    CompleteRequest,
    CompleteResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    HeldLease,
    LeaseResult,
    MailboxesRequest,
    MailboxesResponse,
    NamedRun,
    Report,
    RunError,
    StandsFor,
)

MOST_RUNS: Final = 1_000
MOST_QUEUES: Final = 64
MOST_TASKS: Final = 1_000
MOST_PAYLOAD_BYTES: Final = 65_536
MOST_ERROR_CHARACTERS: Final = 32_768
MOST_BASES: Final = 64
BODY_FACTOR: Final = 8
"""A worker's batch may be this many times as large as a control request."""

Told = TypeVar("Told", HeldLease, Report)
Handler = Callable[["Request", Principal], Awaitable[msgspec.Struct]]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLimits:
    """What a worker may ask for at most."""

    lease_seconds: float
    wait_seconds: float
    body_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerApi:
    """The three routes. Whom a request is from is the edge's business, as is what an error looks like."""

    dispatch: Dispatch
    lines: Lines
    tokens: LeaseTokens
    limits: WorkerLimits
    mailboxes: Mailboxes | None = None
    """None: no broker is set."""

    def routes(self) -> list[PermittedRoute]:
        """Return the routes to add to the application."""
        handlers: dict[str, Handler] = {
            "claim": self.claim,
            "heartbeat": self.heartbeat,
            "complete": self.complete,
            "mailboxes": self.find_mailboxes,
        }
        return [
            PermittedRoute(
                f"/v1/worker/{name}",
                self._endpoint(handler),
                permission=Permission.WORK,
                methods=["POST"],
                name=f"worker.{name}",
            )
            for name, handler in handlers.items()
        ]

    async def claim(self, request: Request, principal: Principal) -> ClaimResponse:
        """Lease due runs, waiting for the first one if asked to."""
        wanted = await self._read(request, ClaimRequest)
        claim = _claim(wanted, principal, most_lease_seconds=self.limits.lease_seconds)
        if wanted.run_ids is not None:
            return await self._claim_named(claim, wanted.run_ids)
        wait = min(max(wanted.wait_seconds, 0.0), self.limits.wait_seconds)

        async def still_there() -> bool:
            return not await request.is_disconnected()

        grant = await self.lines.take(claim, wait_seconds=wait, still_there=still_there)
        if grant is None:
            raise ClientDisconnect
        return ClaimResponse(runs=self._granted(grant), server_time=grant.now, held_back=grant.is_held_back)

    async def find_mailboxes(self, request: Request, principal: Principal) -> MailboxesResponse:
        """Say where brokers keep the notices of these queues, for those that one delivers."""
        wanted = await self._read(request, MailboxesRequest)
        queues = _check_queues(wanted.queues, principal)
        found = await self.mailboxes.find(principal.tenant_id, queues) if self.mailboxes is not None else []
        return MailboxesResponse(mailboxes=found)

    async def _claim_named(self, claim: Claim, run_ids: Sequence[UUID]) -> ClaimResponse:
        """Lease those of these runs that can be had, and say of each what became of it."""
        grant = await self.lines.claim_named(claim)
        named = [NamedRun(run_id=each, outcome=grant.named.get(each, Named.GONE).value) for each in run_ids]
        runs = self._granted(grant)
        return ClaimResponse(runs=runs, server_time=grant.now, held_back=grant.is_held_back, named=named)

    def _granted(self, grant: Grant) -> list[ClaimedRun]:
        return [_claimed(lease, token=self.tokens.seal(lease.run_id, lease.lease_token)) for lease in grant.leases]

    async def heartbeat(self, request: Request, principal: Principal) -> HeartbeatResponse:
        """Renew leases, and tell which runs shall stop."""
        beat = await self._read(request, HeartbeatRequest)
        _check_batch(len(beat.leases), "/leases")
        seconds = _lease_seconds(beat.lease_seconds, most=self.limits.lease_seconds)
        leases = [self._opened(lease) for lease in beat.leases]
        mine = [_renewal(lease) for lease in leases if _is_mine(lease.tenant_id, principal)]
        renewed = await self.dispatch.renew(principal.tenant_id, mine, lease_seconds=seconds, queues=principal.queues)
        return HeartbeatResponse(results=[_lease_result(lease, renewed) for lease in leases])

    async def complete(self, request: Request, principal: Principal) -> CompleteResponse:
        """Take reports; a stale one is refused, recorded, and says so."""
        done = await self._read(request, CompleteRequest)
        _check_batch(len(done.reports), "/reports")
        check_name(done.worker, "/worker")
        for index, report in enumerate(done.reports):
            _check_report(report, principal, index)
        reports = [self._opened(report) for report in done.reports]
        results = await self.dispatch.complete(principal.tenant_id, done.worker, reports, queues=principal.queues)
        return CompleteResponse(results=results)

    def _opened(self, told: Told) -> Told:
        return msgspec.structs.replace(told, lease_token=self.tokens.open(told.run_id, told.lease_token))

    def _endpoint(self, handler: Handler) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        async def endpoint(request: Request) -> Response:
            return message_response(await handler(request, principal_of(request)))

        return endpoint

    async def _read(self, request: Request, message: type[Message]) -> Message:
        return await read_message(request, message, most_bytes=self.limits.body_bytes)


def _claim(wanted: ClaimRequest, principal: Principal, *, most_lease_seconds: float) -> Claim:
    if not 1 <= wanted.limit <= MOST_RUNS:
        raise InvalidInput.at("/limit", f"limit is {wanted.limit}; it must lie between 1 and {MOST_RUNS}")
    if wanted.tasks is not None and len(wanted.tasks) > MOST_TASKS:
        raise InvalidInput.at("/tasks", f"name at most {MOST_TASKS} tasks")
    check_name(wanted.worker, "/worker")
    queues = _check_queues(wanted.queues, principal)
    _check_names("/tasks", wanted.tasks or ())
    check_labels(wanted.labels, "/labels")
    check_amounts(wanted.free, "/free")
    if principal.tasks is not None and (foreign := set(wanted.tasks or ()) - principal.tasks):
        raise Forbidden(f"the token does not allow the task {min(foreign)}")
    tenant_id, run_ids = _named(wanted, principal)
    return Claim(
        tenant_id=tenant_id,
        queues=queues,
        tasks=_tasks(wanted, principal),
        worker=wanted.worker,
        limit=wanted.limit,
        lease_seconds=_lease_seconds(wanted.lease_seconds, most=most_lease_seconds),
        instance=wanted.instance,
        run_ids=run_ids,
        labels=tuple(sorted(wanted.labels.items())),
        free=tuple(sorted(wanted.free.items())),
    )


def _named(wanted: ClaimRequest, principal: Principal) -> tuple[UUID | None, tuple[UUID, ...] | None]:
    """Return whose runs are named, and which; of a tenant that is not the worker's there are none."""
    if wanted.run_ids is None:
        return principal.tenant_id, None
    if not 1 <= len(wanted.run_ids) <= MOST_RUNS:
        raise InvalidInput.at("/run_ids", f"name between 1 and {MOST_RUNS} runs")
    tenant_id = principal.tenant_id or wanted.tenant_id
    if tenant_id is None:
        raise InvalidInput.at("/tenant_id", "a worker of the platform says whose runs it names")
    is_foreign = wanted.tenant_id not in {None, tenant_id}
    return tenant_id, () if is_foreign else tuple(dict.fromkeys(wanted.run_ids))


def _check_queues(queues: Sequence[str], principal: Principal) -> tuple[str, ...]:
    """Return the queues that are asked about, each once; the token has to allow them."""
    if not 1 <= len(queues) <= MOST_QUEUES:
        raise InvalidInput.at("/queues", f"name between 1 and {MOST_QUEUES} queues")
    _check_names("/queues", queues)
    allowed = principal.queues
    if principal.tenant_id is None and allowed is None:
        raise Forbidden("a worker of the platform needs a token that names its queues")
    if allowed is not None and (foreign := set(queues) - set(allowed)):
        raise Forbidden(f"the token does not allow the queue {min(foreign)}")
    return tuple(dict.fromkeys(queues))


def _check_names(pointer: str, names: Sequence[str]) -> None:
    for name in names:
        check_name(name, pointer)
        if name.startswith(RESERVED):
            raise InvalidInput.at(pointer, f"{name} is the server's own; no worker may claim from it")


def _tasks(wanted: ClaimRequest, principal: Principal) -> tuple[str, ...] | None:
    """Return the tasks to claim; a token that names some claims no others, whatever is asked for."""
    if wanted.tasks is not None:
        return tuple(wanted.tasks)
    return None if principal.tasks is None else tuple(sorted(principal.tasks))


def _lease_seconds(seconds: float, *, most: float) -> float:
    if not 1.0 <= seconds <= most:
        raise InvalidInput.at("/lease_seconds", f"lease_seconds must lie between 1 and {most:g}")
    return seconds


def _check_batch(size: int, pointer: str) -> None:
    if size > MOST_RUNS:
        raise InvalidInput.at(pointer, f"{size} in one batch; send at most {MOST_RUNS}")


def _check_report(report: Report, principal: Principal, index: int) -> None:
    if not _is_mine(report.tenant_id, principal):
        raise InvalidInput.at(f"/reports/{index}/tenant_id", "the token is not for this tenant")
    if too_large := refusal_of(report):
        raise InvalidInput.at(f"/reports/{index}/result", too_large)
    error = report.error
    if error and _length(error) > MOST_ERROR_CHARACTERS:
        raise InvalidInput.at(f"/reports/{index}/error", f"an error has at most {MOST_ERROR_CHARACTERS} characters")
    if error and len(error.bases) > MOST_BASES:
        raise InvalidInput.at(f"/reports/{index}/error/bases", f"an error names at most {MOST_BASES} base classes")
    after = report.retry_after_seconds
    if after is not None and not 0.0 <= after <= 604_800.0:
        raise InvalidInput.at(f"/reports/{index}/retry_after_seconds", "must lie between 0 and 604800")


def refusal_of(report: Report) -> str | None:
    """Return why a report's result is not taken: it is too large to be stored beside its run; None when it is not."""
    if len(bytes(report.result)) <= MOST_PAYLOAD_BYTES:
        return None
    return f"a result has at most {MOST_PAYLOAD_BYTES} bytes; write what is larger elsewhere, and return where"


def _length(error: RunError) -> int:
    texts = (error.type, error.message, error.traceback or "", *error.bases)
    return sum(map(len, texts))


def _is_mine(tenant_id: UUID, principal: Principal) -> bool:
    return principal.tenant_id is None or principal.tenant_id == tenant_id


def _claimed(lease: Lease, *, token: str) -> ClaimedRun:
    return ClaimedRun(
        tenant_id=lease.tenant_id,
        run_id=lease.run_id,
        task=lease.task,
        queue=lease.queue,
        priority=lease.priority,
        attempt=lease.attempt,
        max_attempts=lease.max_attempts,
        lease_token=token,
        lease_until=lease.lease_until,
        claimed_at=lease.claimed_at,
        deadline_at=lease.deadline_at,
        total_deadline_at=lease.total_deadline_at,
        nominal_at=lease.nominal_at,
        due_at=lease.due_at,
        schedule=lease.schedule,
        input=msgspec.Raw(lease.input),
        resources=UNSET if lease.resources is None else msgspec.json.decode(lease.resources),
        stands_for=UNSET if lease.stands_for is None else msgspec.json.decode(lease.stands_for, type=StandsFor),
    )


def _renewal(lease: HeldLease) -> ToRenew:
    if len(bytes(lease.details)) > MOST_PAYLOAD_BYTES:
        raise InvalidInput.at("/leases", f"details have at most {MOST_PAYLOAD_BYTES} bytes")
    return ToRenew(
        tenant_id=lease.tenant_id,
        run_id=lease.run_id,
        lease_token=parse_token(lease.lease_token),
        details=payload_text(lease.details),
        started_at=readable_instant(lease.started_at),
        is_zombie=lease.zombie,
    )


def _lease_result(lease: HeldLease, renewals: Mapping[int, Renewal]) -> LeaseResult:
    renewed = renewals.get(parse_token(lease.lease_token))
    if renewed is None or renewed.run_id != lease.run_id:
        return LeaseResult(run_id=lease.run_id, status="lost")
    return LeaseResult(
        run_id=lease.run_id,
        status="held",
        lease_until=renewed.lease_until,
        cancel_requested=renewed.cancel_requested,
    )
