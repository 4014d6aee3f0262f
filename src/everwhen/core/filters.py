r"""The filter grammar: one small language for lists, bulk operations and the command line.

    filter    :=  term (space term)*
    term      :=  field ':' value            equal
              |   field ('>=' | '<') instant  from, and before
    value     :=  word | '"' text '"'         in quotes \" and \\ stand for themselves
    instant   :=  2026-11-01 | 2026-11-01T08:30+01:00 | 7d    an age in w, d, h, m or s

as in `state:dead task:billing schedule:"nightly" due>=2026-11-01 reason:retry.exhausted`. Terms are joined by *and*;
nothing is negated, nothing repeated, and there are no wildcards: each term has to be something that an index can serve
or a check of one row, so a filter costs the same however large the history is. Which fields there are is the caller's
to say (`Vocabulary`); what a combination of them costs, too.

A parsed filter has one spelling (`canonical`): fields in the vocabulary's order, ages turned into instants. It is what
an answer echoes, and what a plan is compared by. Parsing is linear in the text, which is bounded, and needs `now` only
to turn ages into instants.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

MOST_TEXT: Final = 1_000
MOST_TERMS: Final = 20
MOST_VALUE: Final = 300

_FIELD: Final = re.compile(r"[a-z][a-z_]*")
_OPERATOR: Final = re.compile(r">=|<=|!=|:|<|>|=")
_WORD: Final = re.compile(r'[^\s"]+')
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\["\\])*)"')
_AGE: Final = re.compile(r"([1-9][0-9]{0,8})([wdhms])")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_INSTANT: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?([Zz]|[+-][0-9]{2}:[0-9]{2})"
)
_UNITS: Final = {"w": "weeks", "d": "days", "h": "hours", "m": "minutes", "s": "seconds"}

EQUAL: Final = ":"
FROM: Final = ">="
BEFORE: Final = "<"


class FilterError(ValueError):
    """A filter that cannot be read. `position` counts characters from 0; `code` is stable."""

    def __init__(self, message: str, *, code: str, position: int) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.position = position


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A field that equals a text; one of `choices`, where there are any."""

    choices: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Identifier:
    """A field that equals a UUID."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A field that is an instant: `>=` and `<`."""


Kind = Word | Identifier | Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """The fields of a resource, in canonical order; `short` maps another spelling to (field, operator)."""

    fields: Mapping[str, Kind]
    short: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])


def within(name: str) -> dict[str, tuple[str, str]]:
    """Return `since` and `until` as short for the bounds of a moment."""
    return {"since": (name, FROM), "until": (name, BEFORE)}


@dataclass(frozen=True, slots=True)
class Term:
    """One condition. `value` is in its canonical spelling; `position` is where the term began."""

    name: str
    operator: str
    value: str
    position: int = field(default=0, compare=False)

    def __str__(self) -> str:
        """Spell it."""
        if _WORD.fullmatch(self.value):
            return f"{self.name}{self.operator}{self.value}"
        escaped = self.value.replace("\\", "\\\\").replace('"', '\\"')
        return f'{self.name}{self.operator}"{escaped}"'


@dataclass(frozen=True, slots=True)
class Filter:
    """What `parse` made: terms in canonical order, no (field, operator) twice."""

    terms: tuple[Term, ...] = ()

    @property
    def canonical(self) -> str:
        """The one spelling of this filter."""
        return " ".join(map(str, self.terms))

    def term(self, name: str, operator: str = EQUAL) -> Term | None:
        """Return the term of this field and operator."""
        return next((term for term in self.terms if (term.name, term.operator) == (name, operator)), None)

    def text(self, name: str) -> str | None:
        """Return what a field must equal; None when it may be anything."""
        found = self.term(name)
        return None if found is None else found.value

    def identifier(self, name: str) -> UUID | None:
        """Return the UUID that a field must equal."""
        found = self.text(name)
        return None if found is None else UUID(found)

    def instant(self, name: str, operator: str) -> datetime | None:
        """Return a bound of an instant, UTC."""
        found = self.term(name, operator)
        return None if found is None else datetime.fromisoformat(found.value)


Values = Mapping[str, str | datetime | Collection[str] | None]
"""What a row says, by field: an instant of a `Moment`, of any other field its text, or all the texts that it has."""


def fits(asked: Filter, values: Values) -> bool:
    """Say whether a row is one that a filter means. Nothing equals what is not there."""
    return all(_holds(term, values[term.name]) for term in asked.terms)


def _holds(term: Term, value: str | datetime | Collection[str] | None) -> bool:
    match value:
        case None:
            return False
        case datetime():
            bound = datetime.fromisoformat(term.value)
            return value >= bound if term.operator == FROM else value < bound
        case str():
            return value == term.value
        case _:
            return term.value in value


def describe(vocabulary: Vocabulary) -> str:
    """Say which terms there are, as they are written: what a list's document says of its filter."""
    shorts = {meant: f"{name}:" for name, meant in vocabulary.short.items()}
    terms = [
        f"`{spelled}`"
        for name, kind in vocabulary.fields.items()
        for spelled in (
            [f"{name}>=", f"{name}<", *(shorts[name, each] for each in (FROM, BEFORE) if (name, each) in shorts)]
            if isinstance(kind, Moment)
            else [f"{name}:"]
        )
    ]
    return f"Terms that all have to hold, of {', '.join(terms)}."


def parse(text: str, vocabulary: Vocabulary, *, now: datetime) -> Filter:
    """Read a filter; `now` is what an age counts back from. Raises FilterError."""
    if len(text) > MOST_TEXT:
        raise FilterError(
            f"the filter has {len(text)} characters; at most {MOST_TEXT} are read", code="filter.size", position=0
        )
    found: dict[tuple[str, str], Term] = {}
    for name, operator, value, position in _scan(text):
        term = _term(name, operator, value, vocabulary, position=position, now=now)
        if (term.name, term.operator) in found:
            raise FilterError(f"{term.name}{term.operator} is given twice", code="filter.twice", position=position)
        found[term.name, term.operator] = term
        if len(found) > MOST_TERMS:
            raise FilterError(f"more than {MOST_TERMS} terms", code="filter.size", position=position)
    return ordered(found.values(), vocabulary)


def ordered(terms: Iterable[Term], vocabulary: Vocabulary) -> Filter:
    """Return the filter of these terms, in the vocabulary's order."""
    rank = {name: index for index, name in enumerate(vocabulary.fields)}
    return Filter(tuple(sorted(terms, key=lambda term: (rank[term.name], term.operator != FROM))))


def moment(instant: datetime) -> str:
    """Return the canonical spelling of an instant."""
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _scan(text: str) -> Iterator[tuple[str, str, str, int]]:
    """Take the text apart: (field, operator, value, where the term begins)."""
    at = 0
    while True:
        at += len(text) - at - len(text[at:].lstrip())
        if at == len(text):
            return
        name = _FIELD.match(text, at)
        operator = _OPERATOR.match(text, name.end()) if name else None
        if name is None or operator is None:
            detail = "a term is a field, a colon and a value, such as state:dead"
            raise FilterError(detail, code="filter.syntax", position=name.end() if name else at)
        value, end = _value(text, operator.end())
        yield name[0], operator[0], value, at
        at = end


def _value(text: str, at: int) -> tuple[str, int]:
    quoted = text.startswith('"', at)
    found = (_QUOTED if quoted else _WORD).match(text, at)
    if found is None:
        detail = "the quotation marks are not closed" if quoted else "the value is missing"
        raise FilterError(detail, code="filter.syntax", position=at)
    if found.end() < len(text) and not text[found.end()].isspace():
        raise FilterError("a space belongs between two terms", code="filter.syntax", position=found.end())
    value = re.sub(r"\\(.)", r"\1", found[1]) if quoted else found[0]
    if not value or len(value) > MOST_VALUE or not value.isprintable():
        detail = f"a value has 1 to {MOST_VALUE} printable characters"
        raise FilterError(detail, code="filter.value", position=at)
    return value, found.end()


def _term(  # what a term is made of
    name: str, operator: str, value: str, vocabulary: Vocabulary, *, position: int, now: datetime
) -> Term:
    if name in vocabulary.short:
        if operator != EQUAL:
            raise FilterError(f"{name} takes a colon", code="filter.operator", position=position)
        name, operator = vocabulary.short[name]
    kind = vocabulary.fields.get(name)
    if kind is None:
        known = ", ".join([*vocabulary.fields, *vocabulary.short])
        raise FilterError(f"there is no field {name}; there are {known}", code="filter.field", position=position)
    allowed = (FROM, BEFORE) if isinstance(kind, Moment) else (EQUAL,)
    if operator not in allowed:
        detail = f"{name} takes {' and '.join(allowed)}, not {operator}"
        raise FilterError(detail, code="filter.operator", position=position)
    return Term(name, operator, _canonical(name, value, kind, position=position, now=now), position)


def _canonical(name: str, value: str, kind: Kind, *, position: int, now: datetime) -> str:
    match kind:
        case Word():
            if kind.choices and value not in kind.choices:
                detail = f"{name} is one of {', '.join(sorted(kind.choices))}"
                raise FilterError(detail, code="filter.value", position=position)
            return value
        case Identifier():
            try:
                return str(UUID(value))
            except ValueError:
                raise FilterError(f"{name} is an id (a UUID)", code="filter.value", position=position) from None
        case Moment():
            return moment(_instant(name, value, position=position, now=now))


def _instant(name: str, value: str, *, position: int, now: datetime) -> datetime:
    try:
        if age := _AGE.fullmatch(value):
            return now - timedelta(**{_UNITS[age[2]]: int(age[1])})
        if _DATE.fullmatch(value):
            return datetime.fromisoformat(value).replace(tzinfo=UTC)
        if _INSTANT.fullmatch(value):
            return datetime.fromisoformat(value.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    detail = f"{name} is a date, an instant with its offset, or an age such as 7d"
    raise FilterError(detail, code="filter.value", position=position)
