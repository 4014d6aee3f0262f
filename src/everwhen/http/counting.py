"""Which buckets a request is counted in, in which order, and what it is told of them.

    address   requests to the control API from one address, before it is known whose they are
    failed    credentials from one address that were not met here before, and turn out to be none
    tenant    requests to the control API by a tenant's own tokens and members
    token     requests to the control API by one subject
    worker    requests of a tenant's workers: claims, heartbeats, reports; not the runs in them

The platform's own tokens are counted by `token` alone, so that nobody's tenant pays for an operator. Paths that need no
token are counted in nothing: whoever looks whether a server lives is not to be told that he looks too often.

A guess at a credential is taken from `failed` *before* it is looked at, and given back when it was none. So an address
that has used up its guesses is refused without finding out whether the next one would have been right. A credential
that was good here lately is looked at all the same: nobody is shut out by what others do behind the same proxy.

The fields are those of draft-ietf-httpapi-ratelimit-headers-11, structured fields both: `q` is what a bucket holds, `w`
in how many seconds it fills, `r` what this copy knows to be left, and `t` when there is more.
"""

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final
from uuid import UUID

from starlette.types import Scope

from everwhen import metrics
from everwhen.core.buckets import Allowance
from everwhen.errors import RateExceeded, Unauthenticated
from everwhen.http.addresses import Network, client_address, network_of
from everwhen.http.limits import Bucket, Held, RateLimits
from everwhen.http.principal import Principal
from everwhen.http.tallying import Tally

WORK_PREFIX: Final = "/v1/worker/"
POLICY: Final = b"ratelimit-policy"
STATE: Final = b"ratelimit"
WINDOW_SECONDS: Final = 10.0
LONG_WINDOW_SECONDS: Final = 60.0

WINDOWS: Final[Mapping[Bucket, float]] = {
    Bucket.ADDRESS: WINDOW_SECONDS,
    Bucket.FAILED: LONG_WINDOW_SECONDS,
    Bucket.TENANT: WINDOW_SECONDS,
    Bucket.TOKEN: WINDOW_SECONDS,
    Bucket.WORKER: LONG_WINDOW_SECONDS,
}
"""In how many seconds each bucket fills: its limit is told by the minute."""

SHARED_BY: Final[Mapping[Bucket, str]] = {
    Bucket.ADDRESS: "all requests from this address (in IPv6, from its /64 network)",
    Bucket.FAILED: "all unknown credentials from this address",
    Bucket.TENANT: "all tokens and members of the tenant",
    Bucket.TOKEN: "all tokens of this subject",
    Bucket.WORKER: "all workers of the tenant",
}
_TENANTS: Final = "/v1/tenants/"
_COUNTED: Final = "everwhen.counted"

Authenticate = Callable[[], Awaitable[Principal]]


def allowance_of(bucket: Bucket, a_minute: int) -> Allowance:
    """Return the allowance of a bucket that lets in so many a minute."""
    seconds = WINDOWS[bucket]
    return Allowance(max(1, round(a_minute * seconds / 60)), seconds)


class Counter:
    """Counts requests in the buckets of one process."""

    def __init__(self, limits: RateLimits, *, trusted: Sequence[Network] = (), tally: Tally | None = None) -> None:
        self.limits = limits
        self.tally = tally
        self._trusted = trusted

    async def let_in(self, scope: Scope, authenticate: Authenticate, *, is_known: bool, is_guess: bool) -> Principal:
        """Count a request and return who it is from; raise RateExceeded, and what `authenticate` raises.

        `is_guess`: it brings a credential; `is_known`: one that was good here lately.
        """
        counted: list[Held] = []
        scope[_COUNTED] = counted
        is_work = scope["path"].startswith(WORK_PREFIX)
        if not (is_work and is_guess):  # a worker's credential is judged first: what it asks has a bucket of its own
            await self._count(counted, self.limits.find(Bucket.ADDRESS, self._address(scope)))
        if is_guess and not is_known:
            principal = await self._guessed(authenticate, scope, counted)
        else:
            principal = await self._known(authenticate, scope) if is_known else await authenticate()
        tenant_id = principal.tenant_id or (None if is_work else _tenant_in(scope["path"], principal))
        is_refused = True
        try:
            if is_work:
                await self._count(counted, self.limits.find(Bucket.WORKER, tenant_id or principal.subject))
            else:
                if tenant_id is not None:
                    await self._count(counted, self.limits.find(Bucket.TENANT, tenant_id, tenant_id))
                await self._count(counted, self.limits.find(Bucket.TOKEN, (principal.tenant_id, principal.subject)))
            is_refused = False
        finally:
            if tenant_id is not None and self.tally is not None:
                self.tally.count(tenant_id, is_work=is_work, is_refused=is_refused)
        return principal

    def look(self, scope: Scope) -> None:
        """Take note of the address's bucket, and count nothing."""
        held = self.limits.find(Bucket.ADDRESS, self._address(scope))
        scope[_COUNTED] = [] if held is None else [held]

    def fields(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        """Return the fields of the answer to a request; none without a limit."""
        counted: list[Held] = scope.get(_COUNTED, [])
        if not counted:
            return []
        now = self.limits.clock()
        policies = ", ".join([f'"{held.bucket}"{held.policy}' for held in counted])
        states = ", ".join([_state(held, now) for held in counted])
        return [(POLICY, policies.encode()), (STATE, states.encode())]

    def _address(self, scope: Scope) -> str:
        return network_of(client_address(scope, self._trusted))

    async def _known(self, authenticate: Authenticate, scope: Scope) -> Principal:
        """Look at a credential that was good lately; one that is not any more is a guess after the fact."""
        try:
            return await authenticate()
        except Unauthenticated:
            guesses = self.limits.find(Bucket.FAILED, self._address(scope))
            if guesses is not None:
                self.limits.owe(guesses)
            raise

    async def _guessed(self, authenticate: Authenticate, scope: Scope, counted: list[Held]) -> Principal:
        """Take a guess, look at the credential, and give the guess back unless it was a wrong one."""
        guesses = self.limits.find(Bucket.FAILED, self._address(scope))
        if guesses is None:
            return await authenticate()
        await self._count(counted, guesses)
        try:
            principal = await authenticate()
        except Unauthenticated:
            raise
        except BaseException:
            self.limits.refund(guesses)
            raise
        self.limits.refund(guesses)
        counted.remove(guesses)
        return principal

    async def _count(self, counted: list[Held], held: Held | None) -> None:
        if held is None:
            return
        counted.append(held)
        if not await self.limits.spend(held):
            raise _exceeded(held, self.limits.clock())


def _tenant_in(path: str, principal: Principal) -> UUID | None:
    """Return the tenant of the path where a person is a member of it."""
    if not principal.memberships or not path.startswith(_TENANTS):
        return None
    member = principal.memberships.get(path[len(_TENANTS) :].partition("/")[0])
    return None if member is None else member.tenant_id


def _exceeded(held: Held, now: float) -> RateExceeded:
    bucket, allowance = held.bucket, held.stock.allowance
    metrics.RATE_EXCEEDED.labels(bucket.value).inc()
    wait = max(1, math.ceil(held.stock.wait(now)))
    detail = f"More than {allowance.quota} in {allowance.seconds:g} s by {SHARED_BY[bucket]}: come back in {wait} s."
    told = {"bucket": bucket.value, "shared_by": SHARED_BY[bucket], "violated_policies": [bucket.value]}
    return RateExceeded(detail, told=told, retry_after=wait)


def _state(held: Held, now: float) -> str:
    stock = held.stock
    if stock.dry_until > now and not stock.left:
        return f'"{held.bucket}";r=0;t={math.ceil(stock.wait(now))}'
    return f'"{held.bucket}";r={stock.remaining(now)};t={held.next_in}'
