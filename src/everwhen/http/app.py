"""The application: routers in, one ASGI app out. What it is made of comes in as arguments; nothing is looked up."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Literal

from fastapi import APIRouter, FastAPI, Request
from fastapi.routing import APIRoute, iter_route_contexts
from pydantic import BaseModel
from starlette.routing import BaseRoute, Route

from everwhen import __version__
from everwhen.errors import Unavailable
from everwhen.http import openapi, problems
from everwhen.http.access import permission_of
from everwhen.http.auditing import sights_of
from everwhen.http.edge import OPEN_PATHS, OPEN_PREFIX, Edge
from everwhen.http.fields import Utc
from everwhen.http.plane import ControlPlane, plane_of
from everwhen.http.roles import Permission
from everwhen.postgres.errors import MigrationError
from everwhen.postgres.migrate import assert_compatible

READY_SECONDS: Final = 3.0
DESCRIPTION: Final = "A durable, multi-tenant scheduler: every intended instant has one row, a verdict and a reason."

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]] | Callable[[FastAPI], AsyncIterator[None]]


class Health(BaseModel):
    """The process works."""

    status: Literal["ok"] = "ok"


class Readiness(BaseModel):
    """The database answers and has the schema; `now` is its clock, the one that decides."""

    status: Literal["ready"] = "ready"
    now: Utc


def create_app(
    plane: ControlPlane,
    *,
    routers: Sequence[APIRouter],
    first_routes: Sequence[BaseRoute] = (),
    lifespan: Any = None,
) -> FastAPI:
    """Make the application. Every path but OPEN_PATHS needs a token, plain `first_routes` too.

    These are asked before the routers: a path is compared with one route after the other, which costs a request that
    comes after eighty of them half a millisecond.

    Raises ValueError for a route that does not say who may use it.
    """
    app = FastAPI(
        title="Everwhen",
        version=__version__,
        description=DESCRIPTION,
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        generate_unique_id_function=_operation_id,
    )
    app.state.plane = plane
    app.router.routes[:0] = first_routes
    app.include_router(_health())
    for router in routers:
        app.include_router(router)
    app.state.sights = sights_of([each.original_route for each in iter_route_contexts(app.routes)])
    permissions = _permissions([*first_routes, *(route for router in routers for route in router.routes)])
    app.openapi = _documented(app, permissions)
    on_refused = None if plane.refusals is None else plane.refusals.note
    app.add_middleware(Edge, authenticator=plane.authenticator, counter=plane.counter, on_refused=on_refused)
    problems.install(app)
    return app


def resolve_routes(app: FastAPI) -> None:
    """Let FastAPI read the signatures of all handlers now; by itself it does so during the first request.

    That takes a quarter of a second, for which the process would answer nobody.
    """
    for _ in iter_route_contexts(app.routes):
        pass


def _permissions(routes: Sequence[BaseRoute]) -> dict[str, Permission]:
    """Return what each operation needs; deny by default: one that does not say so must not be served.

    What lies below OPEN_PREFIX needs no token, and so no permission.
    """
    found: dict[str, Permission] = {}
    for route in routes:
        if getattr(route, "path", "").startswith(OPEN_PREFIX):
            continue
        permission = permission_of(route)
        if permission is None or not isinstance(route, Route):
            raise ValueError(f"the route {getattr(route, 'path', route)} names no permission, or more than one")
        found[route.name] = permission
    return found


def _operation_id(route: APIRoute) -> str:
    return route.name


def _documented(app: FastAPI, permissions: Mapping[str, Permission]) -> Callable[[], dict[str, Any]]:
    made: list[dict[str, Any]] = []

    def document() -> dict[str, Any]:
        if not made:
            made.append(openapi.document(app, open_paths=OPEN_PATHS, permissions=permissions))
        return made[0]

    return document


def _health() -> APIRouter:
    router = APIRouter(tags=["health"])

    @router.get("/healthz")
    async def live() -> Health:  # pyright: ignore[reportUnusedFunction]  # a route
        """Say that the process runs."""
        return Health()

    @router.get("/healthz/ready", responses={503: {"description": "The database is away or not migrated"}})
    async def ready(request: Request) -> Readiness:  # pyright: ignore[reportUnusedFunction]  # a route
        """Say whether requests can be served: the database answers and has the schema."""
        try:
            async with asyncio.timeout(READY_SECONDS), plane_of(request).database.system() as conn:
                await assert_compatible(conn)
                now = conn.now
        except (TimeoutError, MigrationError) as error:
            raise Unavailable("The database does not answer, or its schema does not fit.") from error
        return Readiness(now=now)

    return router
