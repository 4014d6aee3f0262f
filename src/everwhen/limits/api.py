"""Limits and usage over HTTP."""

# ruff: noqa: FAST003  # the tenant in the path is read by the dependency that grants access

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field, Strict

from everwhen.core.claim_limits import MOST_PLACES
from everwhen.core.quotas import KINDS, MOST, Limit
from everwhen.http.access import Platform, Reader, TenantName
from everwhen.http.auditing import audited
from everwhen.http.bodies import ControlRoute
from everwhen.http.fields import Wire
from everwhen.http.preconditions import Change, tag
from everwhen.limits import service
from everwhen.limits.service import Limited, TenantLimits

router = APIRouter(route_class=ControlRoute, tags=["limits"])

MOST_DAYS: Final = 400

Days = Annotated[int, Query(ge=1, le=MOST_DAYS, description="How many days, today (UTC) included.")]


Count = Annotated[int, Strict(), Field(ge=0, le=MOST)]
Places = Annotated[int, Strict(), Field(ge=0, le=MOST_PLACES)]
Positive = Annotated[int, Strict(), Field(ge=1, le=MOST)]
Rate = Annotated[int, Strict(), Field(ge=6, le=MOST)]


def _about(limit: Limit) -> Any:
    return Field(default=None, description=f"{KINDS[limit].sentence} null: what is usual.")


class LimitsIn(Wire):
    """Limits to set; those that are not named stay."""

    attempts: Positive | None = _about(Limit.ATTEMPTS)
    calendars: Count | None = _about(Limit.CALENDARS)
    channels: Count | None = _about(Limit.CHANNELS)
    in_flight: Places | None = _about(Limit.IN_FLIGHT)
    log_bytes: Count | None = _about(Limit.LOG_BYTES)
    members: Count | None = _about(Limit.MEMBERS)
    minimum_interval_seconds: Positive | None = _about(Limit.MINIMUM_INTERVAL)
    payload_bytes: Count | None = _about(Limit.PAYLOAD_BYTES)
    queues: Count | None = _about(Limit.QUEUES)
    requests_per_minute: Rate | None = _about(Limit.REQUESTS)
    runs_per_day: Count | None = _about(Limit.RUNS)
    schedules: Count | None = _about(Limit.SCHEDULES)
    subscriptions: Count | None = _about(Limit.SUBSCRIPTIONS)
    tasks: Count | None = _about(Limit.TASKS)
    tokens: Count | None = _about(Limit.TOKENS)
    workflows: Count | None = _about(Limit.WORKFLOWS)


class LimitOut(BaseModel):
    """A limit."""

    limit: int | None = Field(description="What holds; null: nothing does.")
    source: str = Field(description="`set` for the tenant, or the `default`.", pattern="^(set|default)$")
    used: int | None = Field(description="What is used of it, of a day's what is used today; null where nothing is.")
    about: str


class LimitsOut(BaseModel):
    """The limits of a tenant, by name. The revision 0 says that none was ever set."""

    revision: int
    limits: dict[str, LimitOut]


class UsageDayOut(BaseModel):
    """What a tenant has used on a day (UTC). Requests are counted within ten seconds."""

    day: str
    runs: int = Field(description="Runs that became due, or will.")
    runs_skipped: int = Field(description="Runs that schedules intended beyond the limit.")
    requests: int = Field(description="Requests to the control API, refused ones included.")
    requests_refused: int = Field(description="Requests that a rate refused.")
    worker_requests: int


class UsageOut(BaseModel):
    """What a tenant has, and what it has used on each of the last days, today first."""

    active_schedules: int
    payloads: int
    payload_bytes: int
    log_bytes: int = Field(description="Bytes of all logs of attempts.")
    days: list[UsageDayOut]


@router.get("/v1/tenants/{tenant}/limits")
async def get_limits(*, access: Reader, response: Response) -> LimitsOut:
    """Read the limits of a tenant: what holds, whether it was set, and how much of it is used."""
    found = await service.get_limits(access.database, tenant_id=access.tenant_id, usual=access.plane.usual_limits)
    tag(response, found.revision)
    return _out(found)


@router.patch("/v1/tenants/{tenant}/limits")
@audited(tells_answer=True)
async def update_limits(
    *,
    tenant: TenantName,
    body: LimitsIn,
    access: Platform,
    expected: Change,
    response: Response,
) -> LimitsOut:
    """Set limits of a tenant, or give it what is usual (null). Needs the role platform."""
    plane = access.plane
    found = await plane.find_tenant(plane.database, name=tenant, bound_to=None)
    changed = await service.change_limits(
        plane.database,
        tenant_id=found.id,
        changes={Limit(name): getattr(body, name) for name in body.model_fields_set},
        by=access.principal.subject,
        usual=plane.usual_limits,
        expected=expected,
    )
    tag(response, changed.revision)
    return _out(changed)


@router.get("/v1/tenants/{tenant}/usage")
async def get_usage(*, access: Reader, days: Days = 30) -> UsageOut:
    """Read what a tenant has used, day by day."""
    found = await service.get_usage(access.database, tenant_id=access.tenant_id, days=days)
    return UsageOut(
        active_schedules=found.active_schedules,
        payloads=found.payloads,
        payload_bytes=found.payload_bytes,
        log_bytes=found.log_bytes,
        days=[
            UsageDayOut(
                day=each.day.isoformat(),
                runs=each.runs,
                runs_skipped=each.skipped,
                requests=each.requests,
                requests_refused=each.refused,
                worker_requests=each.worker_requests,
            )
            for each in found.days
        ],
    )


def _out(found: TenantLimits) -> LimitsOut:
    return LimitsOut(
        revision=found.revision, limits={limit.value: _limit(limit, each) for limit, each in found.limits.items()}
    )


def _limit(limit: Limit, found: Limited) -> LimitOut:
    source = "set" if found.is_own else "default"
    return LimitOut(limit=found.limit, source=source, used=found.used, about=KINDS[limit].sentence)
