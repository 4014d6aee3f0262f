"""What is told of refused attempts, however many there are: enough to see who tries what, too little to fill a disk.

Attempts of one kind (who, from where, which operation, why not) are counted together. The first of a kind is told at
once; then no sooner than FIRST_GAP later, with how many there were, and each time after twice as long, up to MOST_GAP.
A kind that stays away that long is forgotten, and begins anew.

    a tenant     MOST_AT_ONCE told in a burst, and one in EVERY after that; a kind that has to wait is counted on
    a process    the same for all tenants together, with AMPLE times as much
    in memory    MOST_KINDS; of what is beyond only the number is kept, and told with the tenant's next one

Pure: instants are seconds of the caller's clock, and come in as arguments.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar
from uuid import UUID

FIRST_GAP: Final = 60.0
MOST_GAP: Final = 3600.0
MOST_AT_ONCE: Final = 20
EVERY: Final = 300.0
AMPLE: Final = 100
MOST_KINDS: Final = 1_000

Attempt = TypeVar("Attempt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Told(Generic[Attempt]):
    """What is to be told: the first of a kind since it was told last, how many, and how many that were not kept."""

    tenant_id: UUID
    attempt: Attempt
    times: int
    others: int


@dataclass(slots=True)
class _Kind(Generic[Attempt]):
    tenant_id: UUID
    attempt: Attempt
    due: float
    times: int = 1
    gap: float = FIRST_GAP


@dataclass(slots=True)
class _Budget:
    """What may be told: so many at once, and one in so many seconds."""

    most: float
    every: float
    left: float
    at: float

    def spend(self, now: float) -> bool:
        """Take one, if there is one."""
        self.left = min(self.most, self.left + max(0.0, now - self.at) / self.every)
        self.at = now
        if self.left < 1.0:
            return False
        self.left -= 1.0
        return True

    def is_full(self, now: float) -> bool:
        return self.left + (now - self.at) / self.every >= self.most


@dataclass(slots=True)
class Ledger(Generic[Attempt]):
    """The attempts that one process has refused and not told yet."""

    _kinds: dict[tuple[UUID, Hashable], _Kind[Attempt]] = field(default_factory=dict[tuple[UUID, Hashable], Any])
    _others: dict[UUID, int] = field(default_factory=dict[UUID, int])
    _budgets: dict[UUID, _Budget] = field(default_factory=dict[UUID, _Budget])
    _whole: _Budget = field(
        default_factory=lambda: _Budget(MOST_AT_ONCE * AMPLE, EVERY / AMPLE, MOST_AT_ONCE * AMPLE, 0.0)
    )

    def note(self, tenant_id: UUID, kind: Hashable, attempt: Attempt, *, now: float) -> None:
        """Count an attempt."""
        found = self._kinds.get((tenant_id, kind))
        if found is not None:
            found.times += 1
            if found.times == 1:
                found.attempt = attempt
        elif len(self._kinds) < MOST_KINDS:
            self._kinds[tenant_id, kind] = _Kind(tenant_id, attempt, now)
        elif tenant_id in self._others or len(self._others) < MOST_KINDS:
            self._others[tenant_id] = self._others.get(tenant_id, 0) + 1

    def take(self, *, now: float) -> list[Told[Attempt]]:
        """Return what is to be told now; it is not told again unless `note` comes again."""
        told: list[Told[Attempt]] = []
        for key, kind in list(self._kinds.items()):
            if kind.due > now:
                continue
            if not kind.times:
                del self._kinds[key]
            elif self._may_tell(kind.tenant_id, now):
                others = self._others.pop(kind.tenant_id, 0)
                told.append(Told(tenant_id=kind.tenant_id, attempt=kind.attempt, times=kind.times, others=others))
                kind.times, kind.due, kind.gap = 0, now + kind.gap, min(2 * kind.gap, MOST_GAP)
        self._budgets = {key: budget for key, budget in self._budgets.items() if not budget.is_full(now)}
        return told

    def __bool__(self) -> bool:
        """Whether anything is kept, so that somebody should ask again."""
        return bool(self._kinds)

    def _may_tell(self, tenant_id: UUID, now: float) -> bool:
        budget = self._budgets.setdefault(tenant_id, _Budget(MOST_AT_ONCE, EVERY, MOST_AT_ONCE, now))
        return budget.spend(now) and self._whole.spend(now)
