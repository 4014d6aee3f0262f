"""The console's sessions over HTTP."""

from typing import Any, Final

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from everwhen.errors import Forbidden, NotFound
from everwhen.http.access import Anybody
from everwhen.http.bodies import ControlRoute
from everwhen.http.fields import Utc
from everwhen.http.manners import tells_secret
from everwhen.http.plane import acting_plane, plane_of
from everwhen.http.sessions import COOKIE, CSRF_HEADER, csrf_token, session_secret, set_cookie
from everwhen.identity import sessions

router = APIRouter(route_class=ControlRoute, tags=["sessions"])

_COOKIE_HEADER: Final[dict[str, Any]] = {
    "Set-Cookie": {"schema": {"type": "string"}, "description": f"`{COOKIE}`: HttpOnly, Secure, SameSite=Strict."}
}


class SessionOut(BaseModel):
    """A session."""

    csrf_token: str = Field(description=f"To be sent in `{CSRF_HEADER}` with whatever changes something.")
    expires_at: Utc = Field(description="When it ends, used or not.")
    idle_seconds: float = Field(description="It also ends after so long without a request.")


@router.post("/v1/session", status_code=201, responses={201: {"headers": _COOKIE_HEADER}})
@tells_secret
async def begin_session(*, request: Request, response: Response, principal: Anybody) -> SessionOut:
    """Begin a session of the console, in exchange for a bearer token; its secret is in the cookie alone."""
    if principal.kind != "token":
        raise Forbidden("A session begins with the token of a person, not with a service token or a session.")
    limits = plane_of(request).identity
    secret, expires_at = await sessions.begin_session(
        acting_plane(request).database, principal=principal, lifetime=limits.session_most
    )
    response.headers["Set-Cookie"] = set_cookie(secret, seconds=int(limits.session_most.total_seconds()))
    idle_seconds = limits.session_idle.total_seconds()
    return SessionOut(csrf_token=csrf_token(secret), expires_at=expires_at, idle_seconds=idle_seconds)


@router.get("/v1/session")
async def get_session(*, request: Request, principal: Anybody) -> SessionOut:
    """Read the session that the request's cookie is of: a page that was opened anew needs its CSRF token."""
    secret = session_secret(request.scope)
    if secret is None or principal.expires_at is None:
        raise _no_session()
    idle_seconds = plane_of(request).identity.session_idle.total_seconds()
    return SessionOut(csrf_token=csrf_token(secret), expires_at=principal.expires_at, idle_seconds=idle_seconds)


@router.delete("/v1/session", status_code=204)
async def end_session(*, request: Request, response: Response, principal: Anybody) -> None:
    """End the session that the request's cookie is of, here at once, and on every copy of the server within seconds."""
    secret = session_secret(request.scope)
    if secret is None or principal.session_id is None:
        raise _no_session()
    await sessions.end_session(acting_plane(request).database, session_id=principal.session_id)
    plane_of(request).authenticator.forget_session(secret)
    response.headers["Set-Cookie"] = set_cookie("", seconds=0)


def _no_session() -> NotFound:
    return NotFound("The request has no session.", code="session.unknown")
