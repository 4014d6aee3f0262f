"""Declarations: what a tenant is to have, what it has, and what that comes to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from everwhen.core.compare import Move
from everwhen.core.differences import Difference
from everwhen.core.triggers import Timing
from everwhen.errors import FieldError


class Kind(StrEnum):
    """What can be declared, in the order in which one needs the other."""

    CALENDAR = "Calendar"
    QUEUE = "Queue"
    TASK = "Task"
    WORKFLOW = "Workflow"
    SCHEDULE = "Schedule"


class Action(StrEnum):
    """What becomes of a thing."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    UNCHANGED = "unchanged"
    REFUSED = "refused"


Key = tuple[Kind, str]
"""A kind and a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What one thing is declared to be. The spec is as it was sent: nobody has judged it yet."""

    kind: Kind
    name: str
    spec: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a tenant is to have, and no longer to have, and whose it is to be.

    Without an owner only what things are is compared, and nobody's claim to them. `adopt` takes over what is another's,
    or nobody's.
    """

    documents: Sequence[Document]
    absent: Sequence[Key] = ()
    owner: str | None = None
    adopt: bool = False
    days: int = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """A thing that is there. `normal` is what it is, as JSON data with every field that is not as by default."""

    kind: Kind
    name: str
    revision: int
    owner: str | None
    normal: Mapping[str, Any]
    row: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """A thing in the form that a document has: what is as by default is left out."""

    kind: Kind
    name: str
    revision: int
    owner: str | None
    spec: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fires:
    """What a change does to fires, from now on until `until`; the next one before and after it, as local times."""

    added: int
    removed: int
    moved: int
    unchanged: int
    until: datetime
    moves: Sequence[Move]
    next_before: datetime | None = None
    next_after: datetime | None = None


@dataclass(slots=True, kw_only=True)
class Fate:
    """What is to become of one thing; filled in while it is found out.

    Those of one `step` need none of each other. `changes`: the fields that differ. `users`: how many schedules a
    changed calendar concerns beside those that change themselves. `timings`: of all these, whose fires are compared.
    """

    kind: Kind
    name: str
    action: Action
    step: int = 0
    present: Present | None = None
    is_paused: bool = False
    changes: Sequence[Difference] = ()
    errors: Sequence[FieldError] = ()
    notes: Sequence[str] = ()
    fires: Fires | None = None
    users: int = 0
    timings: Sequence["Timings"] = ()

    @property
    def key(self) -> Key:
        """What it is about."""
        return self.kind, self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """When a schedule fires before and after, with its calendars; None: never."""

    before: Timing | None
    after: Timing | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What everything comes to: the fates in the order in which they can be carried out."""

    fates: Sequence[Fate]
    now: datetime
    until: datetime
