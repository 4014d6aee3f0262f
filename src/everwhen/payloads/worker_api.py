"""A worker's way to a payload: by the lease that it holds on a run whose input refers to it, and by nothing else.

Whatever is wrong (the run, the token, the lease, the reference, the payload), the answer is one and the same, so that
nobody learns from it what there is.
"""

import json
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from everwhen.core.payloads import BadReferenceError, references_in
from everwhen.dispatch.reports import parse_token
from everwhen.dispatch.service import Dispatch
from everwhen.dispatch.tokens import LeaseTokens
from everwhen.errors import NotFound
from everwhen.http.access import PermittedRoute
from everwhen.http.edge import principal_of
from everwhen.http.roles import Permission
from everwhen.payloads.api import OCTETS
from everwhen.payloads.service import Payloads
from everwhen.payloads.wire import download_headers

PATH: Final = "/v1/worker/payloads/{tenant_id}/{run_id}/{digest}"
TOKEN_HEADER: Final = "Lease-Token"  # noqa: S105  # the header's name


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPayloads:
    """The route."""

    payloads: Payloads
    dispatch: Dispatch
    tokens: LeaseTokens

    def routes(self) -> list[PermittedRoute]:
        """Return the routes to add to the application."""
        route = PermittedRoute(PATH, self.download, permission=Permission.WORK, methods=["GET"], name="worker.payload")
        return [route]

    async def download(self, request: Request) -> Response:
        """Send a payload to the worker that holds a run whose input refers to it."""
        principal = principal_of(request)
        tenant_id, run_id = _id(request, "tenant_id"), _id(request, "run_id")
        if principal.tenant_id not in {None, tenant_id}:
            raise _nothing()
        token = parse_token(self.tokens.open(run_id, request.headers.get(TOKEN_HEADER, "")))
        given = await self.dispatch.held_input(tenant_id, run_id, token, queues=principal.queues)
        digest = request.path_params["digest"]
        if given is None or not _refers_to(given, digest):
            raise _nothing()
        try:
            payload = await self.payloads.get(tenant_id, digest)
        except NotFound:
            raise _nothing() from None
        content = await self.payloads.content(tenant_id, payload)
        return StreamingResponse(content, headers=download_headers(payload), media_type=OCTETS)


def _id(request: Request, name: str) -> UUID:
    try:
        return UUID(request.path_params[name])
    except ValueError:
        raise _nothing() from None


def _refers_to(given: str, digest: str) -> bool:
    try:
        return any(reference.digest == digest for reference in references_in(json.loads(given)))
    except BadReferenceError:  # an input of before there were payloads
        return False


def _nothing() -> NotFound:
    detail = "There is no such payload, or the lease does not hold, or the run's input does not refer to it."
    return NotFound(detail, code="payload.unknown")
