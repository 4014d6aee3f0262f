"""How an attempt's log comes in: by the lease of the attempt, one numbered piece after the other.

The tenant and the run are in the path, the lease's token in a header, the bytes in the body. The answer says which
piece is next, and whether the log has ended: then nothing more is kept, and need not be sent.
"""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from everwhen.dispatch.reports import parse_token
from everwhen.dispatch.tokens import LeaseTokens
from everwhen.errors import TooLarge
from everwhen.http.access import PermittedRoute
from everwhen.http.edge import principal_of
from everwhen.http.roles import Permission
from everwhen.logs.service import Logs, Writer, not_held
from everwhen.payloads.worker_api import TOKEN_HEADER
from everwhen.worker.protocol import LogAnswer

PATH: Final = "/v1/worker/logs/{tenant_id}/{run_id}/{piece:int}"
MOST_PIECE: Final = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLogs:
    """The route."""

    logs: Logs
    tokens: LeaseTokens

    def routes(self) -> list[PermittedRoute]:
        """Return the routes to add to the application."""
        return [PermittedRoute(PATH, self.append, permission=Permission.WORK, methods=["PUT"], name="worker.log")]

    async def append(self, request: Request) -> Response:
        """Take a piece of the log of the attempt that holds this run."""
        principal = principal_of(request)
        tenant_id, run_id, piece = _id(request, "tenant_id"), _id(request, "run_id"), request.path_params["piece"]
        if principal.tenant_id not in {None, tenant_id} or piece > MOST_PIECE:
            raise not_held()
        token = parse_token(self.tokens.open(run_id, request.headers.get(TOKEN_HEADER, "")))
        writer = Writer(tenant_id=tenant_id, run_id=run_id, token=token, queues=principal.queues)
        data = await self._read(request)
        log = await self.logs.append(writer, piece, data)
        answer = LogAnswer(pieces=log.pieces, size_bytes=log.size_bytes, is_capped=log.is_capped)
        return Response(msgspec.json.encode(answer), media_type="application/json")

    async def _read(self, request: Request) -> bytes:
        most, body = self.logs.limits.piece_bytes, bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > most:
                raise TooLarge(f"A piece of a log has at most {most} bytes.", code="log.piece_too_large")
        return bytes(body)


def _id(request: Request, name: str) -> UUID:
    try:
        return UUID(request.path_params[name])
    except ValueError:
        raise not_held() from None
