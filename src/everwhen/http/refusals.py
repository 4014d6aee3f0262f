"""Refused attempts, told in the audit: for want of a role, of a credential that holds, or of a tenant that is theirs.

A refusal changes nothing, so there is no transaction that it could be told in; and whoever is refused must not be able
to write as often as he likes. So attempts are counted in memory, by kind, and told every FLUSH_SECONDS, as often as
`core/refusals.py` lets them be. What a process has not told when it is killed is lost; one that is told to stop tells.

    401   a credential that was good once: a token of ours that has expired, or was revoked; in the chain of its tenant
    403   a role, a queue or a CSRF token that is missing
    404   a tenant that is none, or another's; in the chain of the caller's own tenant

An attempt of somebody of no tenant is told in the platform's chain. A credential that nobody knows is told nowhere:
that is counted, by `everwhen_rate_exceeded_total` and the bucket of wrong guesses.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import psycopg
import structlog
from starlette.requests import Request
from starlette.types import Scope

from everwhen.audit import service as audit
from everwhen.audit.model import PLATFORM, Actor, Deed, Outcome
from everwhen.core.refusals import Ledger, Told
from everwhen.errors import EverwhenError, Unauthenticated
from everwhen.http.addresses import Network
from everwhen.http.auditing import actor_from, request_id_of, resource_of
from everwhen.http.principal import Membership, Principal
from everwhen.postgres.pool import Database

FLUSH_SECONDS: Final = 10.0
TOLD_STATUSES: Final = frozenset({401, 403})
UNKNOWN_TENANT: Final = "tenant.unknown"
_TENANTS: Final = "/v1/tenants/"
_MOST_RESOURCE: Final = 200

log = structlog.get_logger("everwhen.audit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """Who tried what, and why that was refused."""

    actor: Actor
    operation: str
    resource: str
    request_id: str
    code: str


class Refusals:
    """Those of one process."""

    def __init__(
        self,
        database: Database,
        *,
        trusted: tuple[Network, ...] = (),
        seconds: float = FLUSH_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._trusted = trusted
        self._seconds = seconds
        self._clock = clock
        self._ledger = Ledger[Attempt]()
        self._timer: asyncio.TimerHandle | None = None
        self._telling: asyncio.Task[None] | None = None

    def note(self, scope: Scope, error: EverwhenError, principal: Principal | None) -> None:
        """Count a refusal, if it is one of those that are told."""
        if isinstance(error, Unauthenticated):
            principal = error.known_as if isinstance(error.known_as, Principal) else None
        if principal is None or (error.status not in TOLD_STATUSES and error.code != UNKNOWN_TENANT):
            return
        request = Request(scope)
        route = scope.get("route")
        membership = _membership(principal, scope["path"])
        roles = principal.roles if membership is None else membership.roles
        attempt = Attempt(
            actor=actor_from(scope, principal, roles, trusted=self._trusted),
            operation=getattr(route, "name", None) or "authenticate",
            resource=_resource(scope["path"], error)[:_MOST_RESOURCE],
            request_id=request_id_of(request),
            code=error.code,
        )
        tenant_id = principal.tenant_id or (PLATFORM if membership is None else membership.tenant_id)
        actor = attempt.actor
        kind = actor.subject, actor.token_id, actor.address, attempt.operation, attempt.code
        self._ledger.note(tenant_id, kind, attempt, now=self._clock())
        self._tell_later()

    async def flush(self) -> None:
        """Tell what may be told. What cannot be written is lost: a database that is away is not written to again."""
        told = self._ledger.take(now=self._clock())
        if told:
            try:
                await self._write(told)
            except (psycopg.Error, TimeoutError, OSError) as error:
                log.warning("refusals.lost", error=type(error).__name__, attempts=sum(each.times for each in told))
        if self._ledger:
            self._tell_later()

    def flush_soon(self) -> None:
        """Tell now, and do not wait for it."""
        if self._timer is not None:
            self._timer.cancel()
        self._begin()

    async def _write(self, told: list[Told[Attempt]]) -> None:
        async with self._database.system() as conn:
            for each in sorted(told, key=lambda each: each.tenant_id):
                attempt = each.attempt
                others = {"others": each.others} if each.others else {}
                deed = Deed(
                    operation=attempt.operation,
                    resource=attempt.resource,
                    outcome=Outcome.REFUSED,
                    request_id=attempt.request_id,
                    detail={"code": attempt.code, "times": each.times, **others},
                )
                await audit.record(conn, tenant_id=each.tenant_id, actor=attempt.actor, deed=deed)

    def _tell_later(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._begin)

    def _begin(self) -> None:
        self._timer = None
        self._telling = asyncio.get_running_loop().create_task(self.flush())


def _resource(path: str, error: EverwhenError) -> str:
    """Name what was tried; of another's tenant with that, since it is not the chain's."""
    return path.strip("/").removeprefix("v1/") if error.code == UNKNOWN_TENANT else resource_of(path)


def _membership(principal: Principal, path: str) -> Membership | None:
    """Return what a person is in the tenant of the path."""
    if not principal.memberships or not path.startswith(_TENANTS):
        return None
    return principal.memberships.get(path[len(_TENANTS) :].partition("/")[0])
