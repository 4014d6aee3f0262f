"""Who uses a task or a workflow."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Users:
    """The names of schedules and workflows, and how many runs wait or run; a few of each, where there are more."""

    schedules: Sequence[str]
    workflows: Sequence[str]
    runs: int

    @property
    def any(self) -> bool:
        """Whether somebody uses it."""
        return bool(self.schedules or self.workflows or self.runs)
