"""Rate limits that several copies of the API share, as arithmetic: a bucket, and the stock that a copy draws from it.

A bucket holds at most `quota` and fills in `seconds`. There is one row for it, in PostgreSQL, and what is kept of it is
a single instant: when it will be full again. To ask that row for every request would cost more than most requests do.
So a copy *draws* some ahead of use and spends them from memory; while it spends, the next draw is under way.

    the bucket's row  ──draw(wanted, owed)──>  a copy's stock  ──spend──>  a request
                      <──── given back ──────

A request is let in by the first of these that can:

    the copy's own share    a two-hundredth of the bucket, on no row: whoever asks seldom costs no draw at all
    the stock               what was drawn, and is not older than `hold`
    a debt                  another two-hundredth, which the next draw pays: so nobody waits for the draw to come back
    a draw                  only now does a request wait, once; for how long is the shell's business

Invariants, for n copies and any stretch of T seconds

1. No more is let in than (quota + rate x T) x (1 + n / 200) + quota x n / 200 + rate x hold. What was drawn has left
   the bucket. Each draw brings back what the one before left, so nothing is kept for longer than `hold` without being
   spent; only as much as the bucket has filled meanwhile can be had twice, which is the last term, a twentieth of the
   quota. With three copies all of it is 8 percent.
2. What is drawn and not spent is given back, so nobody loses what another copy did not use.
3. What was let in without being drawn is owed, and the next draw takes it first: a bucket may be in debt, and whoever
   overdrew it waits for that, too.
4. A bucket that was empty is not asked again before there can be something in it (`dry_until`): whoever is over the
   limit costs the database next to nothing.

While nobody answers, a copy counts alone, by the same arithmetic (`draw_alone`): limits hold for each copy then, and
nobody is refused because the database is away.

Instants of the bucket are seconds from now, by whoever has the clock; those of a stock are of the process's own clock.
"""

import math
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

SHARE: Final = 200
"""Each copy's own part of a bucket, and the most that it may owe: one of so many."""

HOLDS: Final = 20
"""A stock is kept for one of so many parts of the time in which the bucket fills."""

LEAST_PART: Final = 50
MOST_PART: Final = 8
"""A draw is at least, and at most, such a part of the bucket."""

_LOW_PART: Final = 4
_AMPLE: Final = 1.5
_BRIEFLY: Final = 1e-3
_ROUNDING: Final = 1e-6
_LONG_AGO: Final = float("-inf")


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a bucket holds, and in how many seconds it fills."""

    quota: int
    seconds: float

    @property
    def interval(self) -> float:
        """In how many seconds one comes back."""
        return self.seconds / self.quota

    @property
    def hold(self) -> float:
        """How long what was drawn may be kept."""
        return self.seconds / HOLDS

    @property
    def least(self) -> int:
        """The fewest that are worth a draw."""
        return max(1, self.quota // LEAST_PART)

    @property
    def most(self) -> int:
        """The most of one draw."""
        return max(1, self.quota // MOST_PART)


class Drawn(NamedTuple):
    """What a draw came to: how many, and in how many seconds the bucket is full again."""

    granted: int
    full_in: float


def draw(full_in: float, allowance: Allowance, *, owed: int, wanted: int) -> Drawn:
    """Take what is owed from a bucket that is full in so many seconds, then up to `wanted` of what is left.

    The statement `draw_allowances` does the same; a test compares them.
    """
    full_in = max(0.0, min(full_in, 2 * allowance.seconds) + owed * allowance.interval)
    left = math.floor((allowance.seconds - full_in) / allowance.interval + _ROUNDING)
    granted = max(0, min(wanted, left))
    return Drawn(granted, full_in + granted * allowance.interval)


class Answer(Enum):
    """Whether a request may come in."""

    YES = "yes"
    NO = "no"
    ASK = "ask"  # it takes a draw to know


@dataclass(slots=True)
class Stock:
    """What one copy has of one bucket. `used_at` and all other instants are of the process's clock."""

    allowance: Allowance
    left: int = 0
    owed: int = 0
    spent: int = 0
    lot: int = 0
    drawn_at: float = _LONG_AGO
    dry_until: float = _LONG_AGO
    share_full_at: float = _LONG_AGO
    bucket_full_at: float = _LONG_AGO

    def spend(self, now: float) -> Answer:
        """Take one, if it is known that there is one."""
        quota, seconds = self.allowance.quota, self.allowance.seconds
        share_full_at = max(now, self.share_full_at) + SHARE * seconds / quota
        if share_full_at - now <= seconds + _ROUNDING:
            self.share_full_at = share_full_at
            return Answer.YES
        if self.left:
            if not self.is_stale(now):
                self.left -= 1
                self.spent += 1
                return Answer.YES
            self.give_back()
        if now < self.dry_until:
            return Answer.NO
        if self.owed >= quota // SHARE:
            return Answer.ASK
        self.owe()
        return Answer.YES

    def owe(self) -> None:
        """Let one in that was not drawn."""
        self.owed += 1
        self.spent += 1

    def refund(self, now: float) -> None:
        """Undo one that was spent."""
        if self.allowance.quota >= SHARE:
            self.share_full_at -= SHARE * self.allowance.interval
        elif self.left and not self.is_stale(now):
            self.left += 1
        else:
            self.owed -= 1

    def give_back(self) -> None:
        """Give up what is left, so that others may have it; the next draw says so to the bucket."""
        self.owed -= self.left
        self.left = 0

    def is_stale(self, now: float) -> bool:
        """Say whether what is left was kept for too long."""
        return now >= self.drawn_at + self.allowance.seconds / HOLDS

    def runs_low(self, now: float) -> bool:
        """Say whether the next draw should be under way, so that nobody has to wait for it."""
        if now < self.dry_until:
            return False
        if self.left:
            return self.left * _LOW_PART < self.lot
        return self.owed != 0 or self.share_full_at - now > self.allowance.seconds / 2

    def wanted(self, now: float) -> int:
        """Return how many to draw: what lasts for as long as it may be kept, at the present pace, and a half more."""
        pace = self.spent / max(now - self.drawn_at, _BRIEFLY)
        return max(self.allowance.least, min(self.allowance.most, math.ceil(_AMPLE * pace * self.allowance.hold)))

    def take(self, drawn: Drawn, *, wanted: int, owed: int, kept: int, now: float) -> None:
        """Put what a draw came to in the place of what was left; it was asked for with these numbers."""
        allowance = self.allowance
        self.owed -= owed
        self.left = drawn.granted - (kept - self.left)
        if self.left < 0:  # more was spent meanwhile
            self.owed, self.left = self.owed - self.left, 0
        self.lot = wanted
        self.spent = 0
        self.drawn_at = now
        self.bucket_full_at = now + drawn.full_in
        if drawn.granted < wanted:
            next_one = drawn.full_in - allowance.seconds + allowance.interval
            self.dry_until = now + max(next_one, allowance.hold / 2)

    def draw_alone(self, now: float, *, wanted: int) -> None:
        """Draw from what this copy knows of the bucket, since nobody answers."""
        owed, kept = self.owed, self.left
        drawn = draw(max(0.0, self.bucket_full_at - now), self.allowance, owed=owed - kept, wanted=wanted)
        self.take(drawn, wanted=wanted, owed=owed, kept=kept, now=now)

    def remaining(self, now: float) -> int:
        """Return how many more there are, as far as this copy knows."""
        quota, interval = self.allowance.quota, self.allowance.interval
        empty = max(0.0, self.bucket_full_at - now) / interval
        used = max(0.0, self.share_full_at - now) / interval / SHARE
        return max(0, min(quota, int(quota - empty - used - self.owed + self.left)))

    def wait(self, now: float) -> float:
        """Return in how many seconds whoever was refused should come back."""
        return max(0.0, self.dry_until - now)
