"""A clock that stands still until it is moved, and the instants that people write."""

from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(slots=True)
class MovableClock:
    """Stands in for the database's clock; `now` is UTC."""

    now: datetime

    def __call__(self, real: datetime) -> datetime:  # noqa: ARG002  # what the database said
        """Return what the database's clock shall have said."""
        return self.now


def instant(value: str | datetime) -> datetime:
    """Read an instant: a datetime with a zone, or RFC 3339 text with an offset; raise ValueError without one."""
    at = datetime.fromisoformat(value) if isinstance(value, str) else value
    if at.tzinfo is None:
        raise ValueError(f"{value} has no offset: write it as 2027-03-28T02:30:00+01:00, or with Z")
    return at.astimezone(UTC)
