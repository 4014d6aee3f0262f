"""The changes of the clocks in Berlin that are ahead, whenever the tests run."""

from datetime import UTC, datetime, timedelta

from everwhen import clock


def next_years_change(month: int) -> datetime:
    """Return when clocks go forward (in March) or back (in October) next year: on the last Sunday, at 01:00 UTC."""
    last = datetime(clock.process_now().year + 1, month, 31, 1, tzinfo=UTC)
    return last - timedelta(days=last.isoweekday() % 7)
