"""Zombies: attempts that hold their lease and do nothing, neither compute nor read or write, for a long time."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from everwhen.executor.model import Usage

IDLE_SHARE: Final = 0.001
"""Of the time that passes, so much CPU is nothing: that of a process which looks every second for something to do."""

IDLE_BYTES: Final = 16_384
"""So few bytes read and written, over all of the time, are nothing."""


class ZombiePolicy(StrEnum):
    """What is done about a zombie."""

    IGNORE = "ignore"
    REPORT = "report"
    KILL = "kill"


@dataclass(slots=True, kw_only=True)
class Idleness:
    """Whether an attempt has done nothing for `after` seconds, by what it was seen to use."""

    after: float
    _since: float | None = field(default=None, init=False)
    _base: Usage | None = field(default=None, init=False)

    def see(self, usage: Usage, *, at: float) -> bool:
        """Take what it uses at a moment; say whether it is a zombie by then."""
        if self._base is None or self._since is None or self._has_worked(usage, seconds=at - self._since):
            self._base, self._since = usage, at
        return at - self._since >= self.after

    def _has_worked(self, usage: Usage, *, seconds: float) -> bool:
        assert self._base is not None
        cpu = usage.cpu_seconds - self._base.cpu_seconds
        io = usage.io_bytes - self._base.io_bytes
        # A process that ends takes what it used along: less than before is work, too.
        return cpu < 0 or io < 0 or cpu > max(0.05, IDLE_SHARE * seconds) or io > IDLE_BYTES
