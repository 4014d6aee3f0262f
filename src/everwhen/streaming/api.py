"""Streams of events over HTTP."""

# the tenant in the path is read by the dependency that grants access

from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Query, Request, Response

from everwhen import clock
from everwhen.core.filters import Filter
from everwhen.errors import Unauthenticated, Unavailable
from everwhen.http.access import Access, Reader
from everwhen.http.bodies import ControlRoute
from everwhen.http.edge import authenticated
from everwhen.http.pages import filter_query
from everwhen.http.plane import plane_of
from everwhen.http.roles import Permission, allowed
from everwhen.http.sse import MEDIA_TYPE
from everwhen.lists import read_filter
from everwhen.runs import service as runs
from everwhen.runs.api import RunRef
from everwhen.streaming import service
from everwhen.streaming.hub import Hub
from everwhen.streaming.model import MOST_PLACE
from everwhen.streaming.telling import MayListen
from everwhen.streaming.wire import EVENTS

router = APIRouter(route_class=ControlRoute, tags=["events"])

After = Annotated[
    str | None, Query(max_length=MOST_PLACE, description="Go on behind the event that was told with this id.")
]
LastEventId = Annotated[
    str | None,
    Header(alias="Last-Event-ID", max_length=MOST_PLACE, description="As `after`; it wins, as browsers send both."),
]
Follow = Annotated[bool, Query(description="False: tell what there is by now, and end.")]

# OpenAPI 3.2's word for what a stream is made of, which generators and fuzzers know already. A `schema` would be of the
# body as a whole, which is text.
_MESSAGE: Final[dict[str, Any]] = {
    "type": "object",
    "description": "One message. `id`: how far the stream is. Without an `event` its data are an event of a run.",
    "properties": {
        "event": {"type": "string", "enum": ["message", "ready", "reset", "end"]},
        "id": {"type": "string"},
        "data": {"type": "string", "contentMediaType": "application/json"},
        "retry": {"type": "integer"},
    },
}
_EXAMPLE: Final = 'id: 1796083200123456.8412\ndata: {"id":8412,"kind":"claimed","attempt":1}\n\n'
_STREAM: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": (
            "Server-sent events. `ready` begins, each message without a name is one event as JSON, `reset` says that"
            " the id is not known any more, `end` says why nothing follows. A comment every 15 s tells that it lives."
        ),
        "content": {MEDIA_TYPE: {"itemSchema": _MESSAGE, "example": _EXAMPLE}},
    }
}


@router.get("/v1/tenants/{tenant}/events/stream", response_class=Response, responses=_STREAM)
async def stream_events(  # noqa: PLR0913  # what a stream is about
    *,
    request: Request,
    tenant: str,
    access: Reader,
    filter: Annotated[str | None, filter_query(EVENTS)] = None,  # noqa: A002  # the word of all lists
    after: After = None,
    last_event_id: LastEventId = None,
    follow: Follow = True,
) -> Response:
    """Tell what is decided about runs, as it is committed, from now on or behind an event that was told."""
    asked = Filter() if filter is None else read_filter(filter, EVENTS, now=clock.process_now())
    return await service.open_stream(
        hub_of(access),
        tenant_id=access.tenant_id,
        asked=asked,
        run_id=None,
        place=service.place_of(header=last_event_id, query=after),
        follow=follow,
        may_listen=_listener(request, access, tenant),
    )


@router.get("/v1/tenants/{tenant}/runs/{run}/events/stream", response_class=Response, responses=_STREAM)
async def stream_run_events(  # noqa: PLR0913  # what a stream is about
    *,
    request: Request,
    tenant: str,
    run: RunRef,
    access: Reader,
    after: After = None,
    last_event_id: LastEventId = None,
    follow: Follow = True,
) -> Response:
    """Tell what was decided about a run, from its beginning, and go on telling."""
    place = service.place_of(header=last_event_id, query=after)
    found = await runs.get_run(access.database, tenant_id=access.tenant_id, ref=run)
    return await service.open_stream(
        hub_of(access),
        tenant_id=access.tenant_id,
        asked=Filter(),
        run_id=found.row.run_id,
        place=place,
        follow=follow,
        may_listen=_listener(request, access, tenant),
    )


def hub_of(access: Access) -> Hub:
    """Return the hub of the process."""
    hub: Hub = access.plane.streams
    return hub


def _listener(request: Request, access: Access, tenant: str) -> MayListen:
    """Return what looks again at who listens and what he may; a request is let in once, a stream goes on for hours."""
    plane, scope = plane_of(request), request.scope

    async def may_listen() -> bool | None:
        try:
            principal = await authenticated(plane.authenticator, scope, now=clock.process_now())
        except Unauthenticated:
            return False
        except Unavailable:
            return None
        if principal.memberships is None:
            return principal.tenant_id == access.principal.tenant_id and Permission.READ in allowed(principal.roles)
        member = principal.memberships.get(tenant)
        return member is not None and member.tenant_id == access.tenant_id and Permission.READ in allowed(member.roles)

    return may_listen
