"""What an HTTP receiver's answer means to whoever retries; the same rules for every kind that speaks HTTP.

    2xx          delivered
    408 425 429  later, after what Retry-After says       503 alike
    other 4xx    refused, 410 for good                    3xx refused: a redirect is not followed
    5xx, away    later

What a receiver says in a body is not passed on: a tenant could make this server ask, and read the answer.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final

from everwhen.alerts.channels.protocol import Delivered, Outcome, Refused, TryLater
from everwhen.egress.client import Answer, Answered, Away, RefusedByPolicy

LINE_CHARACTERS: Final = 300
LONGEST_WAIT: Final = timedelta(hours=1)
_LATER: Final = frozenset({408, 425, 429})


def outcome_of(answer: Answer, *, now: datetime, says: str = "") -> Outcome:
    """Return what it came to. `says` is a word of the receiver's that the kind knows and may tell."""
    match answer:
        case Away():
            return TryLater(response=line(answer.why))
        case RefusedByPolicy():
            return Refused(response=line(answer.why))
        case Answered():
            return _of_status(answer, _told(answer.status, says), now)


def line(text: str, *, without: Mapping[str, str] | None = None) -> str:
    """Return the text as one short line of what can be printed, without any of these secrets."""
    shown = text
    for secret in (without or {}).values():
        shown = shown.replace(secret, "…") if secret else shown
    return " ".join("".join(c if c.isprintable() else " " for c in shown[: 4 * LINE_CHARACTERS]).split())[
        :LINE_CHARACTERS
    ]


def retry_after(text: str | None, *, now: datetime) -> timedelta | None:
    """Read Retry-After: seconds, or a date; nothing beyond an hour, and nothing for what is neither."""
    if text is None:
        return None
    text = text.strip()
    if text.isascii() and text.isdigit():
        return min(timedelta(seconds=int(text[:6])), LONGEST_WAIT)
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, IndexError, OverflowError):
        return None
    wait = (at if at.tzinfo else at.replace(tzinfo=UTC)) - now
    return min(max(wait, timedelta()), LONGEST_WAIT)


def _of_status(answer: Answered, said: str, now: datetime) -> Outcome:
    status = answer.status
    if 200 <= status < 300:
        return Delivered(response=said)
    if status in _LATER or status >= 500:
        return TryLater(response=said, after=retry_after(answer.retry_after, now=now))
    if 300 <= status < 400:
        return Refused(response=f"{said}: a redirect is not followed")
    return Refused(response=said)


def _told(status: int, says: str) -> str:
    try:
        name = f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        name = str(status)
    return f"{name} ({says})" if says else name
