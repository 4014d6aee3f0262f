"""Messages of workers: bodies that are read whole, up to a size, into a struct."""

from typing import Final, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from everwhen.errors import InvalidInput, TooLarge

MOST_NAME: Final = 200

Message = TypeVar("Message", bound=msgspec.Struct)


async def read_message(request: Request, message: type[Message], *, most_bytes: int) -> Message:
    """Return the request's body; raise TooLarge, and InvalidInput when it does not have the form of the message."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most_bytes:
            raise TooLarge(f"the body is larger than {most_bytes} bytes; send smaller batches")
    try:
        return msgspec.json.decode(body, type=message)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"the body is not a valid request: {error}", code="body.invalid") from error


def message_response(message: msgspec.Struct) -> Response:
    """Return an answer."""
    return Response(msgspec.json.encode(message), media_type="application/json")


def check_name(name: str, pointer: str) -> None:
    """Raise InvalidInput for a name that cannot be shown."""
    if not 1 <= len(name) <= MOST_NAME or not name.isprintable():
        raise InvalidInput.at(pointer, f"a name has between 1 and {MOST_NAME} printable characters")
