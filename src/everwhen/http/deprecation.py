"""What is going away says so, in the answer of each request: declared at the route, in the document, by two RFCs.

    Deprecation: @1796083200                 since when it should not be used any more (RFC 9745)
    Sunset: Wed, 01 Dec 2027 00:00:00 GMT    from when on it may be gone (RFC 8594)
    Link: <…>; rel="deprecation"             where it is written what to use instead

Whatever a route answers carries them, errors too. `docs/concepts/deprecation.md` says how long it stays.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from email.utils import format_datetime
from typing import Any, Final, TypeVar

from starlette.datastructures import MutableHeaders
from starlette.types import Message, Send

_MARK: Final = "everwhen_deprecated"
_SINCE: Final = "everwhen_since"

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Deprecated:
    """Since when an operation is deprecated, when it goes, and the page that says what to use instead."""

    since: date
    sunset: date
    page: str

    @property
    def headers(self) -> dict[str, str]:
        """The fields that every answer carries."""
        return {
            "Deprecation": f"@{int(_midnight(self.since).timestamp())}",
            "Sunset": format_datetime(_midnight(self.sunset), usegmt=True),
            "Link": f'<{self.page}>; rel="deprecation", <{self.page}>; rel="sunset"',
        }


def deprecated(*, since: date, sunset: date, page: str) -> Callable[[Endpoint], Endpoint]:
    """Mark the endpoint of a route: it goes away. Raises ValueError when it would go before it is deprecated."""
    if sunset <= since:
        raise ValueError(f"what is deprecated on {since} cannot go on {sunset}")

    def mark(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, _MARK, Deprecated(since=since, sunset=sunset, page=page))
        return endpoint

    return mark


def since(release: str) -> Callable[[Endpoint], Endpoint]:
    """Mark the endpoint of a route: the release that it came with."""

    def mark(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, _SINCE, release)
        return endpoint

    return mark


def deprecation_of(endpoint: object) -> Deprecated | None:
    """Return what an endpoint says about its going away."""
    return getattr(endpoint, _MARK, None)


def document_age(endpoint: object, operation: dict[str, Any]) -> None:
    """Put into an operation of the document since when it is there, and when it goes."""
    if release := getattr(endpoint, _SINCE, None):
        operation["x-since"] = release
    if found := deprecation_of(endpoint):
        operation["deprecated"] = True
        operation["x-deprecated-since"] = found.since.isoformat()
        operation["x-sunset"] = found.sunset.isoformat()


def telling(send: Send, found: Deprecated) -> Send:
    """Return a `send` that adds the fields to the beginning of an answer."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in found.headers.items():
                headers.append(name, value)
        await send(message)

    return sent


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)
