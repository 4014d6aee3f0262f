"""The SDK's only door to a clock and to chance; everything else takes both as arguments.

No wall clock is read at all: instants come from the server, and what the worker measures for itself (leases, time-outs,
back-off) is a duration on a clock that nobody can set.
"""

import secrets
import time
import uuid
from collections.abc import Callable

Clock = Callable[[], float]
Jitter = Callable[[], float]

_BOOT_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", None)
_JITTER_STEPS = 1 << 30


def monotonic() -> float:
    """Return seconds that only grow, counting the time in which the machine was suspended where the system can.

    A lease keeps running out while a laptop sleeps or a virtual machine is paused; `time.monotonic` on Linux would
    stand still meanwhile, and the worker would believe in a lease that is long gone.
    """
    if _BOOT_CLOCK is None:
        return time.monotonic()
    return time.clock_gettime(_BOOT_CLOCK)


def jitter() -> float:
    """Return a number in [0, 1), so that a fleet does not come back in step."""
    return secrets.randbelow(_JITTER_STEPS) / _JITTER_STEPS


def name_suffix() -> str:
    """Return eight characters that tell two workers with the same host and process id apart."""
    return secrets.token_hex(4)


def new_instance() -> uuid.UUID:
    """Return the random id of one running of a worker."""
    return uuid.UUID(bytes=secrets.token_bytes(16), version=4)
