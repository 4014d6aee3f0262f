"""What an HTTP receiver says, in words that can be told: a status by name, Retry-After as time, one printable line."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final

LINE_CHARACTERS: Final = 300
LONGEST_WAIT: Final = timedelta(hours=1)


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


def status_name(status: int) -> str:
    """Return a status with what it is called."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)
