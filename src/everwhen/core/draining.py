"""How long a line takes to drain, from what is seen of it now."""


def drain_seconds(*, waiting: int, in_flight: int, mean_seconds: float | None) -> float | None:
    """Return in how many seconds what waits is under way, if all goes on as it does now; None: nothing is known.

    By Little's law the fleet begins `in_flight / mean_seconds` runs a second: as many as end.
    """
    if waiting == 0:
        return 0.0
    if in_flight == 0 or mean_seconds is None:
        return None
    return waiting * mean_seconds / in_flight
