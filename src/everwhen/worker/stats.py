"""What a worker has done, in numbers."""

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class Stats:
    """Counters since the worker started. Written by the event loop only."""

    claimed: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    released: int = 0
    timed_out: int = 0
    """Attempts that ran into a time-out, which `failed` counts too."""
    lost: int = 0
    """Attempts whose lease was lost before their report was sent; the report was dropped."""
    refused: int = 0
    """Reports that the server did not accept."""
    late: int = 0
    """Functions that returned after their attempt had been reported; they kept a slot until then."""
