"""The stocks of this process, and the draws that fill them: how a copy of the API comes by what its requests spend.

What a bucket is, and how much of it a copy may spend by itself, is `core/buckets.py`; which buckets a request is
counted in, `http/counting.py`. A draw is one statement for all stocks that run low, in the background. It begins
GATHER_SECONDS after the first of them did, or at once when a request waits for it. A request waits WAIT_SECONDS at
most; then it is let in, and owed. When a draw fails, this copy counts alone for AWAY_SECONDS, and nobody notices.

Memory is bounded whoever asks: each bucket has MOST_HELD stocks, those that were used last. What is forgotten is
settled with its row, or lies within the copy's own share. No task lives longer than a draw: a stock that nobody uses
any more is given back by a timer, which ends when none is left.
"""

import asyncio
import contextlib
import itertools
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol
from uuid import UUID

import psycopg
import structlog

from everwhen import metrics
from everwhen.core.buckets import Allowance, Answer, Drawn, Stock

GATHER_SECONDS: Final = 0.02
WAIT_SECONDS: Final = 0.25
DRAW_SECONDS: Final = 1.0
AWAY_SECONDS: Final = 1.0
TIDY_SECONDS: Final = 0.1
LOOK_SECONDS: Final = 5.0
"""How often it is asked whether a tenant has a limit of its own."""

MOST_HELD: Final = 10_000
MOST_DRAWN: Final = 200

log = structlog.get_logger("everwhen.limits")


Whose = str | UUID | tuple[UUID | None, str]
"""What names a bucket among those of its kind: an address, a tenant, a subject and its tenant."""


class Bucket(StrEnum):
    """What requests are counted by."""

    ADDRESS = "address"
    FAILED = "failed"
    TENANT = "tenant"
    TOKEN = "token"  # noqa: S105  # a bucket's name
    WORKER = "worker"


@dataclass(slots=True, eq=False)
class Held:
    """The stock of one bucket: whose it is, and whether it waits to be drawn for. `tenant_id`: whose limits hold.

    `policy` and `next_in` are what answers say of its allowance: its parameters, and when there is one more.
    """

    bucket: Bucket
    whose: Whose
    tenant_id: UUID | None
    stock: Stock
    policy: str = field(init=False)
    next_in: int = field(init=False)
    is_kept: bool = True
    is_asked: bool = False
    is_to_fill: bool = False
    waiting: int = 0
    done: "asyncio.Future[None] | None" = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.allow(self.stock.allowance)

    def allow(self, allowance: Allowance) -> None:
        """Go by this allowance from now on."""
        self.stock.allowance = allowance
        self.policy = f";q={allowance.quota};w={math.ceil(allowance.seconds)}"
        self.next_in = max(1, math.ceil(allowance.interval))


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """What a copy asks of one bucket. It brings back what it has `kept`, and pays what it has `owed`."""

    bucket: Bucket
    whose: Whose
    tenant_id: UUID | None
    allowance: Allowance
    owed: int
    kept: int
    wanted: int


class Draw(Protocol):
    """Draws from several buckets in one transaction."""

    def __call__(self, wants: Sequence[Want], /) -> Awaitable[Sequence[tuple[Drawn, Allowance]]]:
        """Return what each draw came to, in the same order, and the allowance that is in force."""
        ...


class RateLimits:
    """The stocks. A bucket without an allowance limits nothing."""

    def __init__(
        self,
        allowances: Mapping[Bucket, Allowance],
        draw: Draw,
        *,
        clock: Callable[[], float] = time.monotonic,
        most_held: int = MOST_HELD,
    ) -> None:
        self.clock = clock
        self._allowances = allowances
        self._draw = draw
        self._most = most_held
        self._held: dict[Bucket, OrderedDict[Whose, Held]] = {bucket: OrderedDict() for bucket in allowances}
        self._asked: dict[Held, None] = {}
        self._filled: dict[Held, None] = {}
        self._hurry = asyncio.Event()
        self._drawing: asyncio.Task[None] | None = None
        self._tidying: asyncio.TimerHandle | None = None
        self._away_until = float("-inf")

    def sizes(self) -> dict[Bucket, int]:
        """Return how many stocks there are of each bucket."""
        return {bucket: len(held) for bucket, held in self._held.items()}

    def find(self, bucket: Bucket, whose: Whose, tenant_id: UUID | None = None) -> Held | None:
        """Return a stock, a new one where there is none; None when this bucket limits nothing."""
        kept = self._held.get(bucket)
        if kept is None:
            return None
        held = kept.get(whose)
        if held is None:
            held = kept[whose] = Held(bucket, whose, tenant_id, Stock(self._allowances[bucket]))
            if len(kept) > self._most:
                self._forget(kept.popitem(last=False)[1])
            if tenant_id is not None:  # it may have a limit of its own
                self._ask(held, fill=False)
        else:
            kept.move_to_end(whose)
        return held

    async def spend(self, held: Held) -> bool:
        """Count one request; say whether there was room for it."""
        stock, now = held.stock, self.clock()
        answer = stock.spend(now)
        if answer is Answer.YES:
            if not held.is_asked:
                if stock.runs_low(now):
                    self._ask(held)
                elif held.tenant_id is not None and now > stock.drawn_at + LOOK_SECONDS:
                    self._ask(held, fill=False)
            return True
        return answer is Answer.ASK and await self._wait(held)

    def owe(self, held: Held) -> None:
        """Count what has happened already."""
        held.stock.owe()
        self._ask(held, fill=False)

    def refund(self, held: Held) -> None:
        """Undo one that was counted."""
        held.stock.refund(self.clock())
        if held.stock.owed:
            self._ask(held, fill=False)

    async def _wait(self, held: Held) -> bool:
        """Wait for draws until it is known whether there is room; when nobody answers let it in, and owe it."""
        began, answer = self.clock(), Answer.ASK
        held.waiting += 1
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                while answer is Answer.ASK:
                    held.done = held.done or asyncio.get_running_loop().create_future()
                    self._ask(held)
                    self._hurry.set()
                    await asyncio.shield(held.done)
                    answer = held.stock.spend(self.clock())
        except TimeoutError:
            answer = held.stock.spend(self.clock())
            if answer is Answer.ASK and held.stock.drawn_at < began:  # else there were answers, and others were faster
                held.stock.owe()
                answer = Answer.YES
        finally:
            held.waiting -= 1
        return answer is Answer.YES

    def _ask(self, held: Held, *, fill: bool = True) -> None:
        """Have a draw made for a stock: to fill it, or only to settle it."""
        held.is_asked = True
        held.is_to_fill |= fill
        self._asked[held] = None
        if self._drawing is None:
            self._drawing = asyncio.get_running_loop().create_task(self._draw_all())

    async def _draw_all(self) -> None:
        try:
            while self._asked:
                await self._gather()
                await self._fill(self._batch())
        finally:
            self._drawing = None

    def _batch(self) -> list[Held]:
        """Take who asked; and whoever has spent anything, which spares him a draw of his own a moment later."""
        for held in self._filled:
            if held.stock.spent and held not in self._asked:
                self._asked[held] = None
                held.is_to_fill = True
        batch = list(itertools.islice(self._asked, MOST_DRAWN))
        for held in batch:
            del self._asked[held]
            held.is_asked = False
        return batch

    async def _gather(self) -> None:
        """Let others join, unless somebody waits."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GATHER_SECONDS):
                await self._hurry.wait()
        self._hurry.clear()

    async def _fill(self, batch: Sequence[Held]) -> None:
        now = self.clock()
        done = [held.done for held in batch if held.done is not None]
        wants = [_want(held, now) for held in batch]
        for held in batch:
            held.done, held.is_to_fill = None, False
        found = await self._drawn(wants) if now >= self._away_until else None
        now = self.clock()
        for index, (held, want) in enumerate(zip(batch, wants, strict=True)):
            if found is None:
                held.stock.draw_alone(now, wanted=want.wanted)
            else:
                drawn, allowance = found[index]
                if allowance != held.stock.allowance:
                    held.allow(allowance)
                held.stock.take(drawn, wanted=want.wanted, owed=want.owed, kept=want.kept, now=now)
            self._note(held)
        for each in done:
            if not each.done():
                each.set_result(None)

    async def _drawn(self, wants: Sequence[Want]) -> Sequence[tuple[Drawn, Allowance]] | None:
        """Draw; None: nobody answers."""
        try:
            async with asyncio.timeout(DRAW_SECONDS):
                found = await self._draw(wants)
        except (psycopg.Error, TimeoutError, OSError) as error:
            log.warning("limits.alone", error=type(error).__name__)
        except Exception:
            log.exception("limits.alone")  # a defect of ours is no reason to refuse anybody
        else:
            metrics.RATE_DRAWS.labels("done").inc()
            return found
        metrics.RATE_DRAWS.labels("failed").inc()
        self._away_until = self.clock() + AWAY_SECONDS
        return None

    def _note(self, held: Held) -> None:
        """Remember what has to be given back some time; give it back now when nobody can spend it any more."""
        if not held.stock.left:
            return
        if not held.is_kept:
            self._settle(held)
            return
        self._filled[held] = None
        self._tidy_later()

    def _tidy_later(self) -> None:
        if self._tidying is None:
            self._tidying = asyncio.get_running_loop().call_later(TIDY_SECONDS, self._tidy)

    def _tidy(self) -> None:
        """Give back what was kept for too long."""
        now, self._tidying = self.clock(), None
        for held in list(self._filled):
            if not held.stock.left:
                del self._filled[held]
            elif held.stock.is_stale(now):
                del self._filled[held]
                self._settle(held)
        if self._filled:
            self._tidy_later()

    def _forget(self, held: Held) -> None:
        held.is_kept = False
        self._filled.pop(held, None)
        if (held.stock.left or held.stock.owed) and len(self._asked) < self._most:
            self._settle(held)

    def _settle(self, held: Held) -> None:
        held.stock.give_back()
        self._ask(held, fill=False)


def _want(held: Held, now: float) -> Want:
    """Return what to ask of a bucket: to fill a stock in use that may get something, and to settle it in any case."""
    stock = held.stock
    is_to_fill = held.is_to_fill and held.is_kept and now >= stock.dry_until
    return Want(
        bucket=held.bucket,
        whose=held.whose,
        tenant_id=held.tenant_id,
        allowance=stock.allowance,
        owed=stock.owed,
        kept=stock.left,
        wanted=max(stock.wanted(now), held.waiting) if is_to_fill else 0,
    )
