"""Endpoints of queues over HTTP."""

# ruff: noqa: FAST003  # the tenant in the path is read by the dependency that grants access

import json
from typing import Annotated, Any, Final, cast

from fastapi import APIRouter, Path, Request, Response
from pydantic import BaseModel, Field

from everwhen.egress.standard_webhooks import MOST_HEADERS
from everwhen.endpoints import service
from everwhen.endpoints.model import USUAL_ACCEPT_SECONDS, USUAL_ANSWER_SECONDS, Endpoint, EndpointDraft
from everwhen.endpoints.service import EndpointsDesk
from everwhen.http.access import NAME_PATTERN, Access, Editor, Reader
from everwhen.http.auditing import audited
from everwhen.http.bodies import ControlRoute
from everwhen.http.fields import Utc, Wire
from everwhen.http.preconditions import Change, Put, tag

router = APIRouter(route_class=ControlRoute, tags=["queues"])

QueueName = Annotated[str, Path(pattern=NAME_PATTERN, description="The queue's name.")]
Header = Annotated[str, Field(max_length=1000)]
Secret = Annotated[str, Field(max_length=1000)]

_TESTED: Final[dict[int | str, dict[str, Any]]] = {409: {"description": "A test was asked for a moment ago"}}


class EndpointSettings(Wire):
    """Where a queue's runs are posted."""

    url: str = Field(max_length=2048, description="HTTPS, to a host that the installation lets be reached.")
    headers: dict[str, Header] = Field(default={}, max_length=MOST_HEADERS, description="Headers of your own.")
    answer_seconds: float = Field(
        default=USUAL_ANSWER_SECONDS, ge=1, le=300, description="How long an answer may take."
    )
    accept_seconds: float = Field(
        default=USUAL_ACCEPT_SECONDS,
        ge=10,
        le=604_800,
        description="How long a run that was accepted (202) is waited for between two signs of life.",
    )
    secrets: dict[str, Secret] = Field(
        default={},
        max_length=10,
        description="`secret` signs (`whsec_…`), `secret_previous` signs as well, `authorization` is sent as the "
        "header of that name. What is not named stays; an empty one is removed. They are never shown.",
    )

    def draft(self) -> EndpointDraft:
        """Return what the endpoint is to be."""
        return EndpointDraft(
            url=self.url,
            headers=self.headers,
            answer_seconds=self.answer_seconds,
            accept_seconds=self.accept_seconds,
            secrets=self.secrets,
        )


class EndpointTestOut(BaseModel):
    """The last test."""

    wanted_at: Utc | None = Field(description="Asked for, and not posted yet.")
    posted_at: Utc | None
    answer: str | None


class EndpointOut(BaseModel):
    """Where a queue's runs are posted, and how the endpoint does."""

    queue: str
    url: str
    headers: dict[str, str]
    answer_seconds: float
    accept_seconds: float
    secrets: list[str] = Field(description="Which are set; what they are is never shown.")
    failures: int = Field(description="Failures in a row; 0: it is well.")
    failing_since: Utc | None
    rests_until: Utc | None = Field(description="Nothing is posted before.")
    last_failure_at: Utc | None
    last_error: str | None
    test: EndpointTestOut
    revision: int
    changed_by: str
    created_at: Utc
    updated_at: Utc


def _desk(request: Request, access: Access) -> EndpointsDesk:
    kit = cast("EndpointsDesk", request.app.state.endpoints)
    return EndpointsDesk(database=access.database, sealer=kit.sealer, policy=kit.policy)


@router.put(
    "/v1/tenants/{tenant}/queues/{queue}/endpoint",
    responses={201: {"model": EndpointOut, "description": "The queue had none"}},
)
@audited(seen_by="get_endpoint")
async def put_endpoint(
    *,
    request: Request,
    queue: QueueName,
    body: EndpointSettings,
    access: Editor,
    expected: Put,
    response: Response,
) -> EndpointOut:
    """Say where a queue's runs are posted. Secrets that are not named stay as they are."""
    made, is_new = await service.put_endpoint(
        _desk(request, access),
        tenant_id=access.tenant_id,
        queue=queue,
        draft=body.draft(),
        by=access.principal.subject,
        expected=expected,
    )
    response.status_code = 201 if is_new else 200
    return _out(response, made)


@router.get("/v1/tenants/{tenant}/queues/{queue}/endpoint")
async def get_endpoint(*, queue: QueueName, access: Reader, response: Response) -> EndpointOut:
    """Show where a queue's runs are posted, and how the endpoint does."""
    return _out(response, await service.get_endpoint(access.database, tenant_id=access.tenant_id, queue=queue))


@router.delete("/v1/tenants/{tenant}/queues/{queue}/endpoint", status_code=204)
@audited(seen_by="get_endpoint")
async def delete_endpoint(*, queue: QueueName, access: Editor, expected: Change) -> None:
    """Post nothing more: the queue's runs wait for workers."""
    await service.delete_endpoint(access.database, tenant_id=access.tenant_id, queue=queue, expected=expected)


@router.post("/v1/tenants/{tenant}/queues/{queue}/endpoint/test", status_code=202, responses=_TESTED)
@audited(tells_answer=True)
async def send_endpoint_test(*, queue: QueueName, access: Editor) -> EndpointOut:
    """Have a signed test posted. What it was answered stands in `test` a moment later."""
    return endpoint_out(await service.ask_for_test(access.database, tenant_id=access.tenant_id, queue=queue))


def _out(response: Response, endpoint: Endpoint) -> EndpointOut:
    tag(response, endpoint.row.revision)
    return endpoint_out(endpoint)


def endpoint_out(endpoint: Endpoint) -> EndpointOut:
    """Return an endpoint as the API shows it."""
    row = endpoint.row
    return EndpointOut(
        queue=row.queue,
        url=row.url,
        headers=json.loads(row.headers),
        answer_seconds=row.answer_seconds,
        accept_seconds=row.accept_seconds,
        secrets=list(endpoint.secret_names),
        failures=row.failures,
        failing_since=row.failing_since,
        rests_until=row.rests_until,
        last_failure_at=row.last_failure_at,
        last_error=row.last_error,
        test=EndpointTestOut(wanted_at=row.test_wanted_at, posted_at=row.tested_at, answer=row.test_answer),
        revision=row.revision,
        changed_by=row.changed_by,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
