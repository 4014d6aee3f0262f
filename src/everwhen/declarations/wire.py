"""What declarations look like on the wire, in both directions."""

from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, Field, JsonValue, Strict, model_validator

from everwhen.core.compare import Move
from everwhen.core.differences import Difference
from everwhen.declarations.model import Action, Declaration, Document, Fate, Fires, Kind, Planned, Wish
from everwhen.http.fields import Name, Owner, Utc, Wire
from everwhen.http.payloads import PayloadValue, WithPayloads
from everwhen.schedules.ahead_api import MoveOut, move_out

MOST_DOCUMENTS: Final = 1_000
MOST_CHANGES: Final = 50
MOST_ERRORS: Final = 20


class ThingIn(Wire):
    """What a thing is called."""

    kind: Kind
    name: Name


class DocumentIn(ThingIn):
    """What a thing is declared to be: the fields of its kind's `PUT`, but for the owner."""

    spec: dict[str, JsonValue]


class WishIn(Wire):
    """What a tenant is to have; what would have to change is the answer, and nothing is kept."""

    documents: Annotated[list[DocumentIn], Field(max_length=MOST_DOCUMENTS)]
    absent: Annotated[list[ThingIn], Field(max_length=MOST_DOCUMENTS)] = Field(
        default_factory=list[ThingIn], description="What it is not to have any more; needs an owner."
    )
    owner: Owner | None = Field(
        default=None, description="Whose all of it is to be; null: owners are neither compared nor changed."
    )
    adopt: Annotated[bool, Strict()] = Field(default=False, description="Take over what is another's, or nobody's.")
    days: Annotated[int, Strict(), Field(ge=1, le=366)] = Field(default=7, description="How far fires are compared.")

    @model_validator(mode="after")
    def _whose(self) -> Self:
        if self.owner is None and (self.absent or self.adopt):
            raise ValueError("absent and adopt need an owner")
        return self


class ChangeOut(BaseModel):
    """A field that differs, such as `trigger.expr` or `definition.nodes[load].task`."""

    field: str
    before: JsonValue
    after: JsonValue


class DeclarationErrorOut(BaseModel):
    """Why a document is refused; the pointer leads into it."""

    code: str
    pointer: str
    detail: str


class FiresOut(BaseModel):
    """What becomes of fires from now until `until`; of a calendar, those of all schedules that use it."""

    added: int
    removed: int
    moved: int
    unchanged: int
    until: Utc = Field(description="How far they were compared: earlier than asked for when there are too many.")
    moves: list[MoveOut] = Field(description="The first five differences.")
    next_before: str | None = Field(description="The next fire as it is, in local time; of a schedule.")
    next_after: str | None = Field(description="The next fire as it would be.")


class FateOut(BaseModel):
    """What becomes of one thing."""

    kind: Kind
    name: str
    action: Action
    step: int = Field(description="Things of a step need none of each other, and may need those of earlier steps.")
    revision: int | None = Field(description="Of what is there, for If-Match; null: there is nothing.")
    owner: str | None = Field(description="Whose it is now.")
    is_paused: bool = Field(description="Of a schedule: it is paused, so that none of its fires runs.")
    changes: list[ChangeOut] = Field(description="The fields that differ; at most 50.")
    errors: list[DeclarationErrorOut] = Field(description="Why it is refused; at most 20.")
    notes: list[str]
    fires: FiresOut | None
    users: int = Field(description="Of a calendar: how many schedules use it that do not change themselves.")


class DeclarationsPlanOut(BaseModel):
    """What everything comes to, in the order in which it can be carried out."""

    dry_run: Literal[True] = True
    items: list[FateOut]
    until: Utc


class DeclarationOut(WithPayloads):
    """A thing as a document has it: what is as by default is left out."""

    kind: Kind
    name: str
    revision: int
    owner: str | None
    spec: PayloadValue


def wish_of(body: WishIn) -> Wish:
    """Return the wish."""
    return Wish(
        documents=[Document(kind=each.kind, name=each.name, spec=each.spec) for each in body.documents],
        absent=[(each.kind, each.name) for each in body.absent],
        owner=body.owner,
        adopt=body.adopt,
        days=body.days,
    )


def plan_out(planned: Planned) -> DeclarationsPlanOut:
    """Return a plan as the wire has it."""
    return DeclarationsPlanOut(items=[_fate_out(fate) for fate in planned.fates], until=planned.until)


def declaration_out(found: Declaration) -> DeclarationOut:
    """Return a declaration as the wire has it."""
    return DeclarationOut(
        kind=found.kind, name=found.name, revision=found.revision, owner=found.owner, spec=dict(found.spec)
    )


def _fate_out(fate: Fate) -> FateOut:
    return FateOut(
        kind=fate.kind,
        name=fate.name,
        action=fate.action,
        step=fate.step,
        revision=fate.present and fate.present.revision,
        owner=fate.present and fate.present.owner,
        is_paused=fate.is_paused,
        changes=[_change_out(each) for each in fate.changes[:MOST_CHANGES]],
        errors=[
            DeclarationErrorOut(code=e.code, pointer=e.pointer, detail=e.detail) for e in fate.errors[:MOST_ERRORS]
        ],
        notes=list(fate.notes),
        fires=fate.fires and _fires_out(fate.fires),
        users=fate.users,
    )


def _change_out(change: Difference) -> ChangeOut:
    return ChangeOut(field=change.field, before=change.before, after=change.after)


def _fires_out(fires: Fires) -> FiresOut:
    moves: list[Move] = list(fires.moves)
    return FiresOut(
        added=fires.added,
        removed=fires.removed,
        moved=fires.moved,
        unchanged=fires.unchanged,
        until=fires.until,
        moves=[move_out(move) for move in moves],
        next_before=fires.next_before and fires.next_before.isoformat(),
        next_after=fires.next_after and fires.next_after.isoformat(),
    )
