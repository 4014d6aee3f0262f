"""How one attempt is executed: the one thing in which executors differ."""

from collections.abc import Callable
from typing import Protocol

from everwhen.executor.model import Ending, Order, Usage


class Console(Protocol):
    """Where a program's output goes, and where its executor says how it is."""

    async def write(self, data: bytes) -> None:
        """Take output; wait a little when there is too much of it, so that the program waits, too."""
        ...

    def used(self, usage: Usage, *, is_zombie: bool) -> None:
        """Take what the attempt uses now: whoever looks at the run sees it."""
        ...


class Method(Protocol):
    """Executes attempts. What is started by `execute` has ended when it returns or raises, all of it."""

    def describe(self) -> list[str]:
        """Say in lines for the operator what is contained, and what is not."""
        ...

    async def execute(self, order: Order, console: Console) -> Ending:
        """Execute one attempt to its end, and say how it ended.

        When it is cancelled (the run is, or its lease is lost, or the executor drains), it ends what it has started,
        kindly unless `order` says that there is no time, and lets the cancellation pass.
        """
        ...

    async def close(self) -> None:
        """Let go of everything; attempts have ended."""
        ...


MakeMethod = Callable[[], Method]
