"""What a kind of thing has to be able to, so that an operation can change it by a filter.

Each change is the use-case that a person's request goes through, in the operator's transaction: the same revision, the
same refusals, the same limits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from pydantic import BaseModel

from everwhen.core.bulk import Verb
from everwhen.core.filters import Filter, Values, Vocabulary
from everwhen.lists import Listed
from everwhen.postgres.pool import Connection
from everwhen.runs.ends import OnEnded


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A thing that a filter finds. What is known by its name alone has no uid."""

    name: str
    uid: UUID | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A thing as it is now, locked; `says` is what a filter compares, `row` is the kind's own."""

    name: str
    uid: UUID | None
    created_at: datetime
    says: Values
    tags: Sequence[str]
    row: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """How a thing is to be changed, by whom and why. `tags` are all that it is to have then."""

    verb: Verb
    by: str
    reason: str
    tags: Sequence[str]
    until: datetime | None
    on_ended: OnEnded


class Things(Protocol):
    """One kind."""

    vocabulary: Vocabulary
    folder: str
    """Where the API has them."""

    told_as: Mapping[Verb, str]
    """Which operation of the API each change is, for the audit."""

    async def find(self, conn: Connection, tenant_id: UUID, asked: Filter, *, after: str, limit: int) -> Listed[Found]:
        """Return up to `limit` things after `after` that a filter finds, by name."""
        ...

    async def lock(self, conn: Connection, tenant_id: UUID, items: Sequence[tuple[str, UUID | None]]) -> None:
        """Keep other changes of these away until the transaction ends, in the order of their keys."""
        ...

    async def stand(self, conn: Connection, tenant_id: UUID, name: str, uid: UUID | None) -> Standing | None:
        """Return how one stands, locked; None when it is gone."""
        ...

    def already(self, verb: Verb, now: Standing) -> bool:
        """Tell whether it is so already; of tags the caller knows."""
        ...

    async def look(self, conn: Connection, tenant_id: UUID, now: Standing) -> BaseModel:
        """Return what reading it answers."""
        ...

    async def change(self, conn: Connection, tenant_id: UUID, now: Standing, wish: Wish) -> None:
        """Change it, as a request for it alone would."""
        ...
