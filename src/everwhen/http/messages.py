"""Messages of workers: bodies that are read whole, up to a size, into a struct."""

import math
import re
from typing import Final, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from everwhen.core.capability import KEY_PATTERN, MOST_AMOUNT, MOST_LABELS, MOST_RESOURCES
from everwhen.errors import InvalidInput, TooLarge

MOST_NAME: Final = 200
MOST_WORD: Final = 100

_KEY: Final = re.compile(KEY_PATTERN)

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


def check_labels(labels: dict[str, str], pointer: str) -> None:
    """Raise InvalidInput for labels that cannot be."""
    if len(labels) > MOST_LABELS:
        raise InvalidInput.at(pointer, f"{len(labels)} labels; at most {MOST_LABELS}")
    for name, value in labels.items():
        check_key(name, pointer)
        check_word(value, pointer)


def check_amounts(amounts: dict[str, float], pointer: str) -> None:
    """Raise InvalidInput for amounts of resources that cannot be."""
    if len(amounts) > MOST_RESOURCES:
        raise InvalidInput.at(pointer, f"{len(amounts)} resources; at most {MOST_RESOURCES}")
    for name, amount in amounts.items():
        check_key(name, pointer)
        if not (math.isfinite(amount) and 0 <= amount <= MOST_AMOUNT):
            raise InvalidInput.at(pointer, f"an amount lies between 0 and {MOST_AMOUNT:g}")


def check_key(name: str, pointer: str) -> None:
    """Raise InvalidInput for what cannot be the name of a label or resource."""
    if not _KEY.fullmatch(name):
        raise InvalidInput.at(pointer, "a label or resource is named by up to 63 letters, digits and `. _ / -`")


def check_word(word: str, pointer: str) -> None:
    """Raise InvalidInput for a value that cannot be shown."""
    if not 1 <= len(word) <= MOST_WORD or not word.isprintable():
        raise InvalidInput.at(pointer, f"it has between 1 and {MOST_WORD} printable characters")
