"""Request bodies of control routes: counted while they are read, then decoded strictly, before anything else looks.

The framework would decode leniently and only then validate; by then a duplicate key has already been dropped. How the
request is carried out from there on is for `manners.py`.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from python_multipart.multipart import parse_options_header
from starlette.types import Receive, Scope, Send

from everwhen.errors import TooLarge, UnsupportedMediaType
from everwhen.http import strict_json
from everwhen.http.auditing import RememberingRoute
from everwhen.http.deprecation import deprecation_of, telling
from everwhen.http.manners import Manner, carry_out, manner_of
from everwhen.http.pages import unseal
from everwhen.http.plane import plane_of

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class ControlRoute(RememberingRoute):
    """A route whose body is read by the rules of this module: `APIRouter(route_class=ControlRoute)`."""

    manner: Manner

    def get_route_handler(self) -> Handler:
        """Wrap the framework's handler."""
        inner = super().get_route_handler()
        self.manner = manner = manner_of(self.endpoint, self.methods or (), _query_parameters(self.dependant))

        async def handle(request: Request) -> Response:
            checked = _CheckedRequest(request.scope, request.receive)
            plane = plane_of(request)
            unseal(checked, key=plane.cursor_key)
            await checked.read(most_bytes=plane.body_bytes_max)
            return await carry_out(checked, inner, manner)

        return handle

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer; what goes away says so in whatever it answers."""
        found = deprecation_of(self.endpoint)
        await super().handle(scope, receive, send if found is None else telling(send, found))


def _query_parameters(dependant: Dependant) -> list[str]:
    return [each.alias for each in dependant.query_params]


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
        self._refuse_otherwise()
        self._json = strict_json.loads(self._body)

    def _refuse_otherwise(self) -> None:
        """Refuse what would have to be unpacked, or read in another alphabet, before it is JSON."""
        kind, options = parse_options_header(self.headers.get("content-type", ""))
        if kind != b"application/json":
            raise UnsupportedMediaType("Send the body as application/json.")
        if options.get(b"charset", b"utf-8").lower() != b"utf-8":
            raise UnsupportedMediaType("JSON is UTF-8; leave the charset out.")
        if self.headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise UnsupportedMediaType("Send the body as it is, without a Content-Encoding.")
