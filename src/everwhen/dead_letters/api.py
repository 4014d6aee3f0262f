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
from everwhen.http.pages import DEFAULT_ITEMS, Cursor, Limit, Page, filter_query, page_of, read_cursor, read_id
from everwhen.http.payloads import PayloadValue, WithPayloads
from everwhen.lists import LAST_ID
from everwhen.runs import service as runs
from everwhen.runs.api import RunRef
from everwhen.runs.listing.service import NO_FINGERPRINT, RUNS
from everwhen.runs.wire import RunOut, run_out

router = APIRouter(route_class=ControlRoute, tags=["dead letters"])

_GROUPS: Final = "dead-letters"
_RUNS: Final = "dead-runs"
_NOT_DEAD: Final[dict[int | str, dict[str, Any]]] = {
    409: {"description": "The run is not dead, or was redriven already"}
}

LetterState = Annotated[
    Literal["open", "redriven", "dismissed"], Query(description="Which letters count; open ones wait for a person.")
]
GroupWhere = Annotated[str, filter_query(service.GROUPS)]
Fingerprint = Annotated[
    str, Path(pattern=r"^[A-Za-z0-9._:-]{1,100}$", description="A group's fingerprint; `none` for runs without one.")
]


class DeadRunQuery(BaseModel):
    """Which runs of a group to list."""

    letter: LetterState = "open"
    filter: Annotated[str, filter_query(RUNS)] = ""
    limit: Limit = DEFAULT_ITEMS
    cursor: Cursor = None


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
    where: GroupWhere = "",
    limit: Limit = DEFAULT_ITEMS,
    cursor: Cursor = None,
) -> Page[GroupOut]:
    """List dead runs by what their last error looks like; a page looks at `limit` groups, and may show fewer."""
    found = await service.list_groups(
        access.database,
        tenant_id=access.tenant_id,
        letter=letter,
        after=read_cursor(cursor, of=_GROUPS),
        limit=limit,
        where=where,
    )
    return page_of(request, found, of=_GROUPS, out=_group_out)


@router.get("/v1/tenants/{tenant}/dead-letters/{fingerprint}/runs")
async def list_dead_runs(
    *, request: Request, fingerprint: Fingerprint, access: Reader, query: Annotated[DeadRunQuery, Query()]
) -> Page[RunOut]:
    """List the runs of one group, the newest first; the filter's terms come on top."""
    found = await runs.find_runs(
        access.database,
        tenant_id=access.tenant_id,
        text=query.filter,
        implied=f"state:dead fingerprint:{fingerprint} letter:{query.letter} due>=1970-01-01",
        before=read_id(query.cursor, of=_RUNS, default=LAST_ID),
        limit=query.limit,
    )
    return page_of(request, found, of=_RUNS, out=run_out)


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
