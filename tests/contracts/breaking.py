"""What of an OpenAPI document breaks clients of an earlier one: pure; documents, and the day, are arguments.

What a client sends has to be taken as before, so a request may only widen; what it is answered has to be what it reads,
so an answer may only gain fields, and values of enumerations, as docs/concepts/deprecation.md says. Schemas are
compared by what they say and not by their names. What was deprecated and has had its sunset may change or go.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from enum import StrEnum
from typing import Any

LEAST_DAYS = 365
"""How long after its deprecation something goes at the earliest."""

UPPER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
LOWER = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
EXACT = ("pattern", "format", "contentMediaType")
_NAME = " name"
"""What a schema is called that was found by its name."""

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")

Json = Mapping[str, Any]


class Way(StrEnum):
    """Who writes what a schema is about."""

    REQUEST = "request"
    ANSWER = "answer"


@dataclass(frozen=True, slots=True)
class Break:
    """One change that breaks a client: of what kind, where, and what was there before."""

    kind: str
    where: str
    said: str

    def __str__(self) -> str:
        return f"{self.where}: {self.kind}: {self.said}"


@dataclass(frozen=True, slots=True)
class Documents:
    """The released document and the new one, and which pairs of named schemas are being compared already."""

    old: Json
    new: Json
    under_way: set[tuple[str, str, Way]] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class At:
    """Where in the documents a comparison is, and whose words it compares."""

    documents: Documents
    where: str
    way: Way

    def below(self, part: str) -> "At":
        return replace(self, where=self.where + part)

    def named(self, kind: str, said: str, part: str = "") -> Break:
        return Break(kind, self.where + part, said)


def breaking(old: Json, new: Json, *, today: date) -> list[Break]:
    """Name every change from the released document to the new one that a client may fail by."""
    documents, found = Documents(old, new), list[Break]()
    for path, method, was in _operations(old):
        where = f"{method.upper()} {path}"
        now = new["paths"].get(path, {}).get(method)
        if _is_over(was, today):
            continue
        if now is None:
            found.append(Break("operation gone", where, was.get("operationId", "")))
        else:
            found += _of_operation(documents, was, now, where)
    for path, method, now in _operations(new):
        found += _of_deprecation(now, f"{method.upper()} {path}")
    return list(dict.fromkeys(found))


def _operations(document: Json) -> Iterator[tuple[str, str, Json]]:
    for path, methods in document["paths"].items():
        for method in METHODS:
            if method in methods:
                yield path, method, methods[method]


def _is_over(operation: Json, today: date) -> bool:
    sunset = operation.get("x-sunset")
    return bool(operation.get("deprecated")) and sunset is not None and date.fromisoformat(sunset) <= today


def _of_deprecation(now: Json, where: str) -> Iterator[Break]:
    if not now.get("deprecated"):
        return
    since, sunset = now.get("x-deprecated-since"), now.get("x-sunset")
    if since is None or sunset is None:
        yield Break("deprecated without its days", where, f"since {since}, sunset {sunset}")
    elif (date.fromisoformat(sunset) - date.fromisoformat(since)).days < LEAST_DAYS:
        yield Break("sunset too early", where, f"{sunset} is within {LEAST_DAYS} days of {since}")


def _of_operation(documents: Documents, was: Json, now: Json, where: str) -> Iterator[Break]:
    if was.get("operationId") != now.get("operationId"):
        yield Break("operation renamed", where, f"{was.get('operationId')} is {now.get('operationId')}")
    if now.get("x-sunset", "") < was.get("x-sunset", "") and now.get("deprecated"):
        yield Break("sunset brought forward", where, f"{was['x-sunset']} is {now['x-sunset']}")
    yield from _of_parameters(documents, was, now, where)
    yield from _of_body(documents, was, now, where)
    yield from _of_answers(documents, was, now, where)


def _of_parameters(documents: Documents, was: Json, now: Json, where: str) -> Iterator[Break]:
    before = {(each["in"], each["name"]): each for each in was.get("parameters", ())}
    after = {(each["in"], each["name"]): each for each in now.get("parameters", ())}
    for key, old in before.items():
        here = f"{where} {key[0]}:{key[1]}"
        if key not in after:
            yield Break("parameter gone", here, key[1])
            continue
        if after[key].get("required") and not old.get("required"):
            yield Break("parameter required", here, key[1])
        yield from _schemas(old.get("schema", {}), after[key].get("schema", {}), At(documents, here, Way.REQUEST))
    for key, new in after.items():
        if key not in before and new.get("required"):
            yield Break("parameter required", f"{where} {key[0]}:{key[1]}", key[1])


def _of_body(documents: Documents, was: Json, now: Json, where: str) -> Iterator[Break]:
    before, after = was.get("requestBody"), now.get("requestBody")
    here = f"{where} body"
    if after and after.get("required") and not (before and before.get("required")):
        yield Break("body required", here, "it could be left out")
    if before and not after:
        yield Break("body gone", here, ", ".join(before["content"]))
    if before and after:
        yield from _contents(before["content"], after["content"], At(documents, here, Way.REQUEST))


def _of_answers(documents: Documents, was: Json, now: Json, where: str) -> Iterator[Break]:
    before, after = was["responses"], now["responses"]
    for status, old in before.items():
        if status not in after:
            yield Break("status gone", f"{where} {status}", status)
            continue
        here = f"{where} {status}"
        for name in sorted(set(old.get("headers", ())) - set(after[status].get("headers", ()))):
            yield Break("header gone", here, name)
        yield from _contents(old.get("content", {}), after[status].get("content", {}), At(documents, here, Way.ANSWER))
    for status in after:
        if status not in before and status < "400":
            yield Break("status new", f"{where} {status}", f"only {', '.join(s for s in before if s < '400')} before")


def _contents(before: Json, after: Json, at: At) -> Iterator[Break]:
    for kind, old in before.items():
        if kind not in after:
            yield at.named("type of content gone", kind)
        else:
            yield from _schemas(old.get("schema", {}), after[kind].get("schema", {}), at)


def _schemas(old: Any, new: Any, at: At) -> list[Break]:
    was, now = _resolved(at.documents.old, old), _resolved(at.documents.new, new)
    found = _of_default(was, now, at) if at.way is Way.REQUEST else []
    if "discriminator" in was and "discriminator" in now:
        return found + list(_of_kinds(was, now, at))
    return found + list(_of_alternatives(was, now, at))


def _resolved(document: Json, schema: Any) -> Json:
    if not isinstance(schema, Mapping):
        return {} if schema else {"not": {}}
    while "$ref" in schema:
        found = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        schema = {**found, _NAME: schema["$ref"], **{key: value for key, value in schema.items() if key != "$ref"}}
    return schema


def _of_default(was: Json, now: Json, at: At) -> list[Break]:
    if "default" in was and was["default"] != now.get("default", object()):
        return [at.named("default changed", f"{was['default']!r} is {now.get('default', 'none')!r}")]
    return []


def _of_kinds(was: Json, now: Json, at: At) -> Iterator[Break]:
    """Of a union whose members say what they are: new ones are as new values of an enumeration."""
    before, after = was["discriminator"].get("mapping", {}), now["discriminator"].get("mapping", {})
    for kind, reference in before.items():
        if kind not in after:
            yield at.named("value gone", kind)
        else:
            yield from _schemas({"$ref": reference}, {"$ref": after[kind]}, at.below(f"[{kind}]"))


def _alternatives(document: Json, schema: Json) -> list[Json]:
    """Take unions apart, and lists of types, as far as they go."""
    for word in ("anyOf", "oneOf"):
        if word in schema:
            rest = {key: value for key, value in schema.items() if key not in {word, "default", "discriminator"}}
            each = [{**rest, **_resolved(document, member)} for member in schema[word]]
            return [part for member in each for part in _alternatives(document, member)]
    if isinstance(schema.get("type"), list):
        return [{**schema, "type": kind} for kind in schema["type"]]
    return [schema]


def _type(schema: Json) -> str:
    """What a schema without unions allows; `any` for all there is."""
    if "type" in schema:
        return schema["type"]
    values = [schema["const"]] if "const" in schema else schema.get("enum", ())
    if values:
        return "string" if all(isinstance(value, str) for value in values) else "any"
    return "object" if "properties" in schema else "any"


def _of_alternatives(was: Json, now: Json, at: At) -> Iterator[Break]:
    """Each alternative of the side that must not grow has to be one of the other side's."""
    before, after = _alternatives(at.documents.old, was), _alternatives(at.documents.new, now)
    must, may = (before, after) if at.way is Way.REQUEST else (after, before)
    for one in must:
        fits = [other for other in may if _covers(_type(other), _type(one))]
        if not fits:
            kind = "type gone" if at.way is Way.REQUEST else "type new"
            others = " or ".join(sorted({_type(each) for each in may}))
            yield at.named(kind, f"{_type(one)}, of {others} on the other side")
            continue
        tries = [list(_same_type(*((one, other) if at.way is Way.REQUEST else (other, one)), at)) for other in fits]
        yield from min(tries, key=len)


def _covers(wider: str, narrower: str) -> bool:
    return wider in {"any", narrower} or (wider, narrower) == ("number", "integer")


def _same_type(was: Json, now: Json, at: At) -> Iterator[Break]:
    """Compare two schemas without unions; a pair that refers to itself is compared once."""
    pair = (was.get(_NAME, ""), now.get(_NAME, ""), at.way)
    if all(pair) and pair in at.documents.under_way:
        return
    at.documents.under_way.add(pair)
    try:
        yield from _same_type_once(was, now, at)
    finally:
        at.documents.under_way.discard(pair)


def _same_type_once(was: Json, now: Json, at: At) -> Iterator[Break]:
    yield from _of_values(was, now, at)
    if at.way is Way.REQUEST:
        yield from _of_bounds(was, now, at)
    yield from _of_fields(was, now, at)
    if "items" in was and "items" in now:
        yield from _schemas(was["items"], now["items"], at.below("[]"))
    elif "items" in now and at.way is Way.REQUEST:
        yield at.named("type narrowed", "any item", "[]")
    elif "items" in was and at.way is Way.ANSWER:
        yield at.named("type widened", "to any item", "[]")
    yield from _of_other_fields(was, now, at)


def _of_values(was: Json, now: Json, at: At) -> Iterator[Break]:
    before, after = _values(was), _values(now)
    if before is not None and after is not None:
        for value in before:
            if value not in after:
                yield at.named("value gone", repr(value))
    elif after is not None and at.way is Way.REQUEST:
        yield at.named("type narrowed", f"to {', '.join(map(repr, after))}")
    elif before is not None and at.way is Way.ANSWER:
        yield at.named("type widened", f"of {', '.join(map(repr, before))}")


def _values(schema: Json) -> list[Any] | None:
    return [schema["const"]] if "const" in schema else schema.get("enum")


def _of_bounds(was: Json, now: Json, at: At) -> Iterator[Break]:
    for word in (*UPPER, *LOWER):
        if word in now and (word not in was or (now[word] < was[word] if word in UPPER else now[word] > was[word])):
            yield at.named("type narrowed", f"{word} {was.get(word, 'none')} is {now[word]}")
    for word in EXACT:
        if word in now and now[word] != was.get(word):
            yield at.named("type narrowed", f"{word} {was.get(word, 'none')} is {now[word]}")


def _of_fields(was: Json, now: Json, at: At) -> Iterator[Break]:
    before, after = was.get("properties", {}), now.get("properties", {})
    for name, old in before.items():
        if name not in after:
            yield at.named("field gone", name)
        else:
            yield from _schemas(old, after[name], at.below(f"/{name}"))
    required, by_now = set(was.get("required", ())), set(now.get("required", ()))
    if at.way is Way.REQUEST:
        yield from (at.named("field required", name) for name in sorted(by_now - required))
    else:
        yield from (at.named("field not always there", name) for name in sorted((required - by_now) & set(after)))


def _of_other_fields(was: Json, now: Json, at: At) -> Iterator[Break]:
    """Of fields that have no names in the schema: an object's values."""
    if at.way is Way.REQUEST and now.get("additionalProperties", True) is False:
        if _type(was) == "object" and was.get("additionalProperties", True) is not False:
            yield at.named("type narrowed", "fields of any name")
        return
    old, new = was.get("additionalProperties", True), now.get("additionalProperties", True)
    if not (old is new is True) and old is not False and new is not False:
        yield from _schemas(old, new, at.below("/*"))
    for pattern, schema in was.get("patternProperties", {}).items():
        other = now.get("patternProperties", {}).get(pattern)
        if other is None:
            yield at.named("field gone", pattern)
        else:
            yield from _schemas(schema, other, at.below(f"/{pattern}"))
