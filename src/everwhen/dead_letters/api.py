"""Dead letters over HTTP."""

# ruff: noqa: FAST003  # the tenant in the path is read by the dependency that grants access

import json
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, Field

from everwhen.core.overlap import OverlapWish
from everwhen.dead_letters import service
from everwhen.dead_letters.model import Group, RedriveRequest
from everwhen.http.access import Operator, Reader
from everwhen.http.bodies import ControlRoute
from everwhen.http.fields import Payload, Priority, Sentence, Utc, Wire
from everwhen.http.pages import DEFAULT_ITEMS, Cursor, Limit, Page, next_page, read_cursor, read_id
from everwhen.http.payloads import PayloadValue, WithPayloads
from everwhen.runs import service as runs
from everwhen.runs.api import RunRef
from everwhen.runs.listing.service import NO_FINGERPRINT
from everwhen.runs.wire import RunOut, RunPage, run_out

router = APIRouter(route_class=ControlRoute, tags=["dead letters"])

_GROUPS: Final = "dead-letters"
_RUNS: Final = "dead-runs"
_NOT_DEAD: Final[dict[int | str, dict[str, Any]]] = {
    409: {"description": "The run is not dead, or was redriven already"}
}

LetterState = Annotated[
    Literal["open", "redriven", "dismissed"], Query(description="Which letters count; open ones wait for a person.")
]
Fingerprint = Annotated[
    str, Path(pattern=r"^[A-Za-z0-9._:-]{1,100}$", description="A group's fingerprint; `none` for runs without one.")
]


class RedriveIn(Wire):
    """How to redrive one dead run."""

    reason: Sentence | None = Field(default=None, description="Why; kept with the new run and with the letter.")
    again: bool = Field(default=False, description="Although it was redriven before.")
    input: Payload = Field(default_factory=dict, description="Left out: the dead run's own input.")
    priority: Priority | None = Field(default=None, description="Null: the dead run's.")
    overlap: OverlapWish = Field(
        default=OverlapWish.WAIT,
        description="Where a schedule limits overlap: `wait` for room, `respect` its policy (may skip), `ignore` it.",
    )


class DismissIn(Wire):
    """Why nothing needs to be done."""

    reason: Sentence


class RestoreIn(Wire):
    """Why a dismissed letter is open again."""

    reason: Sentence | None = None


class GroupOut(WithPayloads):
    """Dead runs whose last errors are alike."""

    fingerprint: str = Field(description="`none` for runs whose error has no fingerprint.")
    letters: int = Field(description="How many there are in the state that was asked for.")
    exact: bool = Field(description=f"False when only the latest {service.MOST_COUNTED} runs were looked at.")
    first_at: Utc
    last_at: Utc
    tasks: list[str] = Field(description="Of its latest 100 runs.")
    latest_run_id: UUID
    error: PayloadValue = Field(description="The last error of the latest run.")


class DismissedOut(BaseModel):
    """What a dismissal did; `more`: ask again for the rest."""

    dismissed: int
    more: bool


@router.get("/v1/tenants/{tenant}/dead-letters")
async def list_dead_letters(
    *,
    request: Request,
    access: Reader,
    letter: LetterState = "open",
    limit: Limit = DEFAULT_ITEMS,
    cursor: Cursor = None,
) -> Page[GroupOut]:
    """List dead runs by what their last error looks like."""
    key = read_cursor(cursor, of=_GROUPS)
    after = None if key is None else "" if key == NO_FINGERPRINT else key
    found = await service.list_groups(
        access.database, tenant_id=access.tenant_id, letter=letter, after=after, limit=limit + 1
    )
    following = next_page(request, found, limit=limit, of=_GROUPS, key=_name)
    return Page(items=[_group_out(group) for group in found[:limit]], next=following)


@router.get("/v1/tenants/{tenant}/dead-letters/{fingerprint}/runs")
async def list_dead_runs(
    *,
    request: Request,
    fingerprint: Fingerprint,
    access: Reader,
    letter: LetterState = "open",
    limit: Limit = DEFAULT_ITEMS,
    cursor: Cursor = None,
) -> RunPage:
    """List the runs of one group, the newest first."""
    found, meant = await runs.find_runs(
        access.database,
        tenant_id=access.tenant_id,
        text=f"state:dead fingerprint:{fingerprint} letter:{letter} due>=1970-01-01",
        before=read_id(cursor, of=_RUNS, default=runs.LAST_ID),
        limit=limit + 1,
    )
    following = next_page(request, found, limit=limit, of=_RUNS, key=lambda view: str(view.row.run_id))
    return RunPage(items=[run_out(view) for view in found[:limit]], next=following, filter=meant)


@router.post("/v1/tenants/{tenant}/dead-letters/{fingerprint}/dismiss")
async def dismiss_dead_letters(*, fingerprint: Fingerprint, access: Operator, body: DismissIn) -> DismissedOut:
    """Mark the open letters of a group as seen to, up to 1,000 at a time."""
    dismissed, more = await service.dismiss_group(
        access.database,
        tenant_id=access.tenant_id,
        fingerprint="" if fingerprint == NO_FINGERPRINT else fingerprint,
        by=access.principal.subject,
        reason=body.reason,
    )
    return DismissedOut(dismissed=dismissed, more=more)


@router.post("/v1/tenants/{tenant}/runs/{run}/redrive", status_code=201, responses=_NOT_DEAD)
async def redrive_run(
    *, tenant: str, run: RunRef, access: Operator, response: Response, body: RedriveIn | None = None
) -> RunOut:
    """Make a new run from a dead one, with the same input or another; the two are linked."""
    asked = body or RedriveIn()
    view = await service.redrive_run(
        access.database,
        tenant_id=access.tenant_id,
        ref=run,
        request=RedriveRequest(
            by=access.principal.subject,
            reason=asked.reason,
            again=asked.again,
            input=asked.input,
            has_input="input" in asked.model_fields_set,
            priority=asked.priority,
            overlap=asked.overlap,
        ),
        on_ready=access.plane.on_ready,
    )
    response.headers["Location"] = f"/v1/tenants/{tenant}/runs/{view.row.run_id}"
    return run_out(view)


@router.post("/v1/tenants/{tenant}/runs/{run}/dismiss", responses=_NOT_DEAD)
async def dismiss_run(*, run: RunRef, access: Operator, body: DismissIn) -> RunOut:
    """Mark a dead run as seen to: no list of open letters and no bulk redrive names it any more."""
    view = await service.dismiss_run(
        access.database, tenant_id=access.tenant_id, ref=run, by=access.principal.subject, reason=body.reason
    )
    return run_out(view)


@router.post("/v1/tenants/{tenant}/runs/{run}/restore", responses=_NOT_DEAD)
async def restore_run(*, run: RunRef, access: Operator, body: RestoreIn | None = None) -> RunOut:
    """Open a dismissed letter again."""
    view = await service.restore_run(
        access.database,
        tenant_id=access.tenant_id,
        ref=run,
        by=access.principal.subject,
        reason=body and body.reason,
    )
    return run_out(view)


def _name(group: Group) -> str:
    return group.fingerprint or NO_FINGERPRINT


def _group_out(group: Group) -> GroupOut:
    return GroupOut(
        fingerprint=_name(group),
        letters=group.letters,
        exact=group.looked_at < service.MOST_COUNTED,
        first_at=group.first_at,
        last_at=group.last_at,
        tasks=group.tasks,
        latest_run_id=group.latest_run_id,
        error=None if group.error is None else json.loads(group.error),
    )
