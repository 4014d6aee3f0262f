"""What is to become of each thing, by comparing what is declared with what is there; and in which order. No I/O."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from everwhen.core.differences import Difference, differences
from everwhen.core.errors import TriggerError
from everwhen.declarations.kinds.calendars import Calendars
from everwhen.declarations.kinds.protocol import Claim, Things
from everwhen.declarations.kinds.queues import Queues
from everwhen.declarations.kinds.schedules import Schedules
from everwhen.declarations.kinds.tasks import Tasks
from everwhen.declarations.kinds.workflows import Workflows
from everwhen.declarations.model import Action, Fate, Key, Kind, Present, Wish
from everwhen.errors import EverwhenError, FieldError, InvalidInput
from everwhen.http.problems import trigger_problem

KINDS: Final[Mapping[Kind, Things]] = {
    Kind.CALENDAR: Calendars(),
    Kind.QUEUE: Queues(),
    Kind.TASK: Tasks(),
    Kind.WORKFLOW: Workflows(),
    Kind.SCHEDULE: Schedules(),
}

_ORDER: Final = {kind: place for place, kind in enumerate(Kind)}
_OWNED: Final = "declaration.owned"
_SPEC: Final = "/spec"


class Drafted(NamedTuple):
    """A document that could be read: what is to become of it, and the draft of its kind."""

    fate: Fate
    draft: Any


def read(wish: Wish, *, by: str) -> tuple[list[Drafted], list[Fate]]:
    """Read the documents; return those that can be read, and the fates of those that cannot."""
    claim = Claim(owner=wish.owner, is_meant=wish.owner is not None, by=by)
    found: list[Drafted] = []
    refused: list[Fate] = []
    known: set[Key] = set(wish.absent)
    for document in wish.documents:
        fate = Fate(kind=document.kind, name=document.name, action=Action.UNCHANGED)
        try:
            if fate.key in known:
                raise InvalidInput("It is declared twice, or declared and absent.", code="declaration.twice")
            found.append(Drafted(fate, KINDS[fate.kind].read(fate.name, document.spec, claim)))
        except (EverwhenError, TriggerError) as error:
            refuse(fate, error)
            refused.append(fate)
        known.add(fate.key)
    return found, refused


def decide(drafted: Drafted, present: Present | None, wish: Wish) -> None:
    """Say in a document's fate what it comes to beside what is there."""
    fate, things = drafted.fate, KINDS[drafted.fate.kind]
    fate.present = present
    normal = things.normal(drafted.draft, present)
    if present is None:
        fate.action = Action.CREATE
        return
    fate.notes = things.notes(drafted.draft, present)
    fate.changes = [*differences(present.normal, normal), *_owner_change(present, wish)]
    if _is_anothers(present, wish) and not wish.adopt:
        refuse(fate, _claimed(present))
    elif fate.changes:
        fate.action = Action.UPDATE


def leave(key: Key, present: Present | None, wish: Wish) -> Fate:
    """Return the fate of what nobody is to have any more."""
    kind, name = key
    fate = Fate(kind=kind, name=name, action=Action.UNCHANGED, present=present)
    if present is None:
        return fate
    if _is_anothers(present, wish):
        refuse(fate, _claimed(present))
    else:
        fate.action = Action.DELETE
    return fate


def in_order(drafts: Iterable[Drafted]) -> list[Drafted]:
    """Return what is to be put in the order in which one needs the other, each with its step.

    Within a step they come in the order of their names, schedules in that of their keys, as batches lock them.
    """
    found = list(drafts)
    levels = _levels({each.fate.name: _parts(each) for each in found if each.fate.kind is Kind.WORKFLOW})
    deepest = max(levels.values(), default=0)
    for each in found:
        fate = each.fate
        level = levels[fate.name] if fate.kind is Kind.WORKFLOW else deepest * (fate.kind is Kind.SCHEDULE)
        fate.step = _ORDER[fate.kind] + level
    return sorted(found, key=lambda each: (each.fate.step, _place(each.fate)))


def backwards(fates: Iterable[Fate], *, after: int) -> list[Fate]:
    """Return what is to be deleted in the order in which nobody needs it any more, each with its step."""
    found = list(fates)
    levels = _levels({fate.name: _parts_there(fate) for fate in found if fate.kind is Kind.WORKFLOW})
    deepest = max(levels.values(), default=0)
    for fate in found:
        level = levels[fate.name] if fate.kind is Kind.WORKFLOW else deepest * (fate.kind is Kind.SCHEDULE)
        fate.step = after + len(Kind) + deepest - _ORDER[fate.kind] - level
    return sorted(found, key=lambda fate: (fate.step, _place(fate)))


def refuse(fate: Fate, error: EverwhenError | TriggerError) -> None:
    """Say in a fate that it cannot be, and why, with pointers into the document."""
    problem = trigger_problem(error) if isinstance(error, TriggerError) else error
    errors = problem.errors or (FieldError(code=problem.code, pointer="", detail=problem.detail),)
    fate.action = Action.REFUSED
    fate.errors = [
        FieldError(code=each.code, pointer=f"{_SPEC}{each.pointer}" if each.pointer else "", detail=each.detail)
        for each in errors
    ]


def _parts(drafted: Drafted) -> Sequence[str]:
    return KINDS[drafted.fate.kind].needs(drafted.draft)


def _parts_there(fate: Fate) -> Sequence[str]:
    return () if fate.present is None else KINDS[fate.kind].parts(fate.present)


def _levels(needs: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Return how far each is above those it needs; what needs itself is refused when it is tried."""
    levels: dict[str, int] = dict.fromkeys(needs, 0)
    for _ in needs:
        raised = {
            name: max((levels[part] + 1 for part in parts if part in levels), default=0)
            for name, parts in needs.items()
        }
        if raised == levels:
            break
        levels = {name: min(level, len(needs)) for name, level in raised.items()}
    return levels


def _place(fate: Fate) -> tuple[bool, str, str]:
    is_new = fate.present is None
    uid = "" if is_new or fate.kind is not Kind.SCHEDULE else str(fate.present.row.uid)  # pyright: ignore[reportOptionalMemberAccess]
    return is_new, uid, fate.name


def _owner_change(present: Present, wish: Wish) -> list[Difference]:
    is_same = wish.owner is None or wish.owner == present.owner
    return [] if is_same else [Difference(field="owner", before=present.owner, after=wish.owner)]


def _is_anothers(present: Present, wish: Wish) -> bool:
    return wish.owner is not None and present.owner != wish.owner


def _claimed(present: Present) -> InvalidInput:
    whose = "It was made by hand" if present.owner is None else f"It belongs to {present.owner}"
    return InvalidInput(f"{whose}: adopt it to take it over.", code=_OWNED)
