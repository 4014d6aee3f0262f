"""What a kind of thing has to be able to, so that files can declare it.

Whatever changes something takes part in the transaction of the `whole`: a plan does all of it and keeps none of it, so
that it is refused what the real change would be refused. A thing's *normal* form is JSON data that two equal things
have in common, whatever was left out of their documents.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from everwhen.declarations.model import Declaration, Present
from everwhen.postgres.pool import Connection, Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Whose a thing is to be, by whom; where `is_meant` is not set, it stays whose it is."""

    owner: str | None
    is_meant: bool
    by: str


class Things(Protocol):
    """One kind. What cannot be read or done raises InvalidInput or TriggerError, with pointers into the spec.

    A draft is the kind's own; who plans only hands it on.
    """

    def read(self, name: str, spec: Mapping[str, Any], claim: Claim) -> Any:
        """Return the draft of a spec as it was sent."""
        ...

    def normal(self, draft: Any, present: Present | None) -> Mapping[str, Any]:
        """Return the normal form of what a draft would make, of nothing or of what is there."""
        ...

    def needs(self, draft: Any) -> Sequence[str]:
        """Name the things of the same kind that this one is made of."""
        ...

    def parts(self, present: Present) -> Sequence[str]:
        """Name the things of the same kind that what is there is made of."""
        ...

    def notes(self, draft: Any, present: Present) -> Sequence[str]:
        """Say what of a document changes nothing about what is there."""
        ...

    async def named(self, conn: Connection, tenant_id: UUID, names: Sequence[str]) -> list[Present]:
        """Return those of these names that are there."""
        ...

    async def page(
        self, conn: Connection, tenant_id: UUID, *, owner: str | None, after: str, limit: int
    ) -> list[Present]:
        """Return up to `limit` things of an owner, or of everybody, whose names come after `after`, by name."""
        ...

    async def put(self, whole: Database, tenant_id: UUID, draft: Any, *, present: Present | None) -> None:
        """Make it, or make what is there this."""
        ...

    async def delete(self, whole: Database, tenant_id: UUID, present: Present) -> None:
        """Delete it."""
        ...

    def declared(self, present: Present) -> Declaration:
        """Return what is there in the form of a document."""
        ...
