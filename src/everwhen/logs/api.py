"""Logs of attempts over HTTP.

What an attempt prints is a payload to whoever may see those, and to nobody else. It goes out as it came in, whatever it
is: as plain text that no browser takes for anything else, and as bytes, so that an offset means the same to all.
"""

# ruff: noqa: FAST003  # the tenant in the path is read by the dependency that grants access

from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from everwhen.http.access import Access, PayloadReader
from everwhen.http.bodies import ControlRoute
from everwhen.logs.following import Followers
from everwhen.logs.service import Logs, all_of
from everwhen.runs.api import RunRef

router = APIRouter(route_class=ControlRoute, tags=["runs"])

TEXT: Final = "text/plain; charset=utf-8"
MOST_OFFSET: Final = 2**53

AttemptRef = Annotated[
    str, Path(pattern=r"^(latest|[1-9][0-9]{0,4})$", description="The attempt's number, from 1, or `latest`.")
]


class LogQuery(BaseModel):
    """Which part of a log."""

    offset: Annotated[int, Query(ge=0, le=MOST_OFFSET, description="From this byte on.")] = 0
    limit: Annotated[int | None, Query(ge=0, le=MOST_OFFSET, description="So many bytes at most.")] = None
    tail: Annotated[int | None, Query(ge=0, le=MOST_OFFSET, description="Only the last so many bytes.")] = None
    follow: Annotated[bool, Query(description="Send what comes as well, until the attempt has ended.")] = False


def _header(kind: str, description: str) -> dict[str, Any]:
    return {"schema": {"type": kind}, "description": description}


_HEADERS: Final = {
    "Log-Attempt": _header("integer", "Which attempt it is."),
    "Log-Offset": _header("integer", "At which byte of the log the answer begins."),
    "Log-Size": _header("integer", "How many bytes the log had when the answer began."),
    "Log-Open": _header("boolean", "Whether the attempt ran then: more may come, so ask again."),
    "Log-Capped": _header("boolean", "Whether the log is cut off at the most that is kept; its last line says so."),
}


@router.get(
    "/v1/tenants/{tenant}/runs/{run}/attempts/{attempt}/logs",
    response_class=StreamingResponse,
    responses={
        200: {
            "content": {"text/plain": {"schema": {"type": "string"}}},
            "headers": _HEADERS,
            "description": "What the attempt printed, as it printed it",
        }
    },
)
async def get_attempt_logs(
    *, request: Request, run: RunRef, attempt: AttemptRef, access: PayloadReader, query: Annotated[LogQuery, Query()]
) -> StreamingResponse:
    """Read what an attempt printed, and follow what it prints."""
    logs, followers = logs_of(access), followers_of(request)
    head = await logs.head(access.tenant_id, run, None if attempt == "latest" else int(attempt))
    start = min(query.offset if query.tail is None else max(0, head.size_bytes - query.tail), head.size_bytes)
    if query.follow:
        followers.refuse_too_many()
        content = followers.follow(logs, access.tenant_id, run, head, start=start)
    else:
        end = head.size_bytes if query.limit is None else min(head.size_bytes, start + query.limit)
        content = await all_of(logs.read(access.tenant_id, head, start=start, end=end))
    headers = {
        "Log-Attempt": str(head.attempt),
        "Log-Offset": str(start),
        "Log-Size": str(head.size_bytes),
        "Log-Open": str(head.is_open).lower(),
        "Log-Capped": str(head.is_capped).lower(),
        "X-Accel-Buffering": "no",
    }
    return StreamingResponse(content, media_type=TEXT, headers=headers)


def logs_of(access: Access) -> Logs:
    """Return the logs of this server."""
    return Logs(database=access.database, depot=access.plane.payloads.depot)


def followers_of(request: Request) -> Followers:
    """Return who follows logs on this server."""
    state = request.app.state
    if not hasattr(state, "followers"):
        state.followers = Followers()
    return state.followers
