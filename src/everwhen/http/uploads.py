"""Request bodies that are read while they arrive: raw bytes, or a form with files in it (multipart/form-data).

Nothing is kept of a file but the chunk that has just arrived; whoever takes the chunks bounds them. The fields of a
form are small, and bounded here. A form is read in its own order: a file's chunks are taken before what follows it.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from fastapi import Request, Response
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect

from everwhen.errors import EverwhenError, InvalidInput, UnsupportedMediaType
from everwhen.http.auditing import Recorder, RememberingRoute, give
from everwhen.http.problems import problem_response

FORM: Final = "multipart/form-data"
MOST_PARTS: Final = 32
MOST_FIELD_BYTES: Final = 65_536
MOST_NAME: Final = 200
MOST_DIGITS: Final = 18
MOST_DRAINED: Final = 1_048_576
DRAIN_SECONDS: Final = 2.0
IDLE_SECONDS: Final = 30.0
"""How long a client may send nothing."""


class UploadRoute(RememberingRoute):
    """A route that reads its body itself: `APIRouter(route_class=UploadRoute)`. No handler of it has a body model.

    A problem is answered when the client has sent the rest, if that is little; else the answer ends the connection.
    What it changes is told by its handler, in the transaction of the change.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap the framework's handler."""
        inner = super().get_route_handler()

        async def handle(request: Request) -> Response:
            recorder = Recorder(request=request, operation=self.name)
            give(request, recorder)
            try:
                answer = await inner(request)
                recorder.insist(answer)
                return answer  # noqa: TRY300  # what is answered is what was told
            except EverwhenError as error:
                response = problem_response(request, error)
                if not await _drained(request):
                    response.headers["Connection"] = "close"
                return response

        return handle


@dataclass(frozen=True, slots=True, kw_only=True)
class PartHead:
    """What stands at the head of a part: the field's name, and the file's name and type if it is one."""

    field: str
    filename: str | None
    media_type: str | None


class Form:
    """A form as it arrives: `async for part in form`, and for each part `text()` or `chunks()`."""

    def __init__(self, request: Request) -> None:
        """Prepare to read; raise UnsupportedMediaType when the body is no form."""
        kind, options = parse_options_header(request.headers.get("content-type", ""))
        boundary = options.get(b"boundary")
        if kind.decode("latin-1").lower() != FORM or not boundary:
            raise UnsupportedMediaType(f"Send the body as {FORM}, with its boundary.")
        self._stream = stream_of(request)
        self._events = _Events()
        self._parser = MultipartParser(boundary, self._events.callbacks())  # pyright: ignore[reportArgumentType]
        self._parts = 0
        self._is_over = False

    async def __aiter__(self) -> AsyncIterator["Part"]:
        """Yield the parts; raise InvalidInput when the body breaks off or is no form."""
        while (event := await self._next()) is not None:
            if isinstance(event, PartHead):
                self._parts += 1
                if self._parts > MOST_PARTS:
                    raise _malformed(f"A form has at most {MOST_PARTS} parts.")
                part = Part(event, self)
                yield part
                await part.skip()

    async def _next(self) -> "PartHead | bytes | None":
        """Return the next event: a head, a chunk, b"" for a part's end, None for the form's end."""
        while not self._events.found:
            if self._is_over:
                if not self._events.is_complete:
                    raise _malformed("The form breaks off.")
                return None
            await self._feed()
        return self._events.found.popleft()

    async def _feed(self) -> None:
        try:
            chunk = await anext(self._stream, None)
            if chunk is None:
                self._is_over = True
                self._parser.finalize()
            else:
                self._parser.write(chunk)
        except FormParserError as error:
            raise _malformed(f"The body is no form: {error}.") from error


class Part:
    """One part of a form."""

    def __init__(self, head: PartHead, form: Form) -> None:
        self.head = head
        self._form = form
        self._is_over = False

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the bytes as they arrive."""
        while not self._is_over:
            event = await self._form._next()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - the two belong together
            if not event or isinstance(event, PartHead):
                self._is_over = True
            else:
                yield event

    async def text(self) -> str:
        """Return a small field's text; raise InvalidInput."""
        pointer, found = f"/{self.head.field}", bytearray()
        async for chunk in self.chunks():
            found += chunk
            if len(found) > MOST_FIELD_BYTES:
                raise InvalidInput.at(pointer, f"A field has at most {MOST_FIELD_BYTES} bytes.", code="field.invalid")
        try:
            return found.decode()
        except UnicodeDecodeError as error:
            raise InvalidInput.at(pointer, "A field is UTF-8 text.", code="field.invalid") from error

    async def skip(self) -> None:
        """Read what is left of it, so that the next part can be read."""
        async for _ in self.chunks():
            pass


class _Events:
    """What the parser's callbacks say, in order."""

    def __init__(self) -> None:
        self.found: deque[PartHead | bytes] = deque()
        self.is_complete = False
        self._name = bytearray()
        self._value = bytearray()
        self._headers: dict[bytes, bytes] = {}

    def callbacks(self) -> dict[str, Any]:
        return {
            "on_part_begin": self._headers.clear,
            "on_header_field": self._on_header_field,
            "on_header_value": self._on_header_value,
            "on_header_end": self._on_header_end,
            "on_headers_finished": self._on_headers_finished,
            "on_part_data": self._on_part_data,
            "on_part_end": self._on_part_end,
            "on_end": self._on_end,
        }

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        self.found.append(bytes(data[start:end]))

    def _on_part_end(self) -> None:
        self.found.append(b"")

    def _on_header_end(self) -> None:
        self._headers[bytes(self._name).lower()] = bytes(self._value)
        self._name.clear()
        self._value.clear()

    def _on_headers_finished(self) -> None:
        disposition, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        field = options.get(b"name")
        if disposition != b"form-data" or field is None:
            raise _malformed("A part of a form has a Content-Disposition: form-data with a name.")
        filename, kind = options.get(b"filename"), self._headers.get(b"content-type")
        self.found.append(
            PartHead(
                field=field.decode("utf-8", "replace")[:MOST_NAME],
                filename=None if filename is None else filename.decode("utf-8", "replace"),
                media_type=None if kind is None else kind.decode("latin-1"),
            )
        )

    def _on_end(self) -> None:
        self.is_complete = True


async def stream_of(request: Request) -> AsyncIterator[bytes]:
    """Yield the body as it arrives; raise InvalidInput when nothing arrives for too long."""
    stream = request.stream()
    while True:
        try:
            async with asyncio.timeout(IDLE_SECONDS):
                chunk = await anext(stream, None)
        except TimeoutError as error:
            raise InvalidInput(f"Nothing arrived for {IDLE_SECONDS:.0f} seconds.", code="body.too_slow") from error
        if chunk is None:
            return
        yield chunk


async def _drained(request: Request) -> bool:
    """Read what is left of a body, so that its client reads our answer; False when that would take too much.

    To close a connection on which something was sent and not read is to reset it, and the answer may be lost.
    """
    if "expect" in request.headers or (announced_length(request) or 0) > MOST_DRAINED:
        return False
    left = MOST_DRAINED
    with contextlib.suppress(RuntimeError):  # it was read to its end
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                async for chunk in request.stream():
                    left -= len(chunk)
                    if left < 0:
                        return False
        except (TimeoutError, ClientDisconnect):
            return False
    return True


def is_form(request: Request) -> bool:
    """Say whether the body claims to be a form."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == FORM


def announced_length(request: Request) -> int | None:
    """Return the body's length as its header claims it; None without one. It is a claim, and no more."""
    text = request.headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS else None


def _malformed(detail: str) -> InvalidInput:
    return InvalidInput(detail, code="body.form")
