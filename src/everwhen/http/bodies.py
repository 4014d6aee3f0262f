"""Request bodies of control routes: counted while they are read, then decoded strictly, before anything else looks.

The framework would decode leniently and only then validate; by then a duplicate key has already been dropped.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from everwhen.errors import TooLarge, UnsupportedMediaType
from everwhen.http import strict_json
from everwhen.http.plane import plane_of

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class ControlRoute(APIRoute):
    """A route whose body is read by the rules of this module: `APIRouter(route_class=ControlRoute)`."""

    def get_route_handler(self) -> Handler:
        """Wrap the framework's handler."""
        inner = super().get_route_handler()

        async def handle(request: Request) -> Response:
            checked = _CheckedRequest(request.scope, request.receive)
            await checked.read(most_bytes=plane_of(request).body_bytes_max)
            return await inner(checked)

        return handle


class _CheckedRequest(Request):
    """A request whose body was read and decoded already."""

    async def read(self, *, most_bytes: int) -> None:
        """Raise TooLarge as soon as the body is over its limit, whatever its headers claim."""
        body = bytearray()
        async for chunk in self.stream():
            body += chunk
            if len(body) > most_bytes:
                raise TooLarge(f"The body is larger than {most_bytes} bytes.")
        self._body = bytes(body)
        if not body:
            return
        if self.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise UnsupportedMediaType("Send the body as application/json.")
        self._json = strict_json.loads(self._body)
