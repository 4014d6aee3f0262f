"""What an HTTP receiver's answer means to whoever retries; the same rules for every kind that speaks HTTP.

    2xx          delivered
    408 425 429  later, after what Retry-After says       503 alike
    other 4xx    refused, 410 for good                    3xx refused: a redirect is not followed
    5xx, away    later

What a receiver says in a body is not passed on: a tenant could make this server ask, and read the answer.
"""

from datetime import datetime
from typing import Final

from everwhen.alerts.channels.protocol import Delivered, Outcome, Refused, TryLater
from everwhen.egress.answers import line, retry_after, status_name
from everwhen.egress.client import Answer, Answered, Away, RefusedByPolicy

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
    name = status_name(status)
    return f"{name} ({says})" if says else name
