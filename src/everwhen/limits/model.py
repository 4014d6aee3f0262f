"""What limits are made of, as it is stored."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnRow:
    """What a draw came to: how many, in how many seconds the bucket is full, and by which allowance."""

    key: bytes
    granted: int
    full_in: float
    quota: int
    seconds: float
