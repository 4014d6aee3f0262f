"""`everwhen explain`: what a field of a definition means, from the schemas that the API checks bodies by.

A path goes from a thing through its fields, as `schedule.trigger.cron.expr`: a field that is one of several kinds is
gone into by the kind's name, a list by the name of a field of its items. It needs no server.
"""

from __future__ import annotations

import difflib
import importlib
import json
from dataclasses import dataclass
from typing import Any, Final

import click

ROOTS: Final = {
    "calendar": "everwhen.calendars.wire:CalendarIn",
    "channel": "everwhen.alerts.wire:ChannelIn",
    "limits": "everwhen.limits.api:LimitsIn",
    "member": "everwhen.identity.members_api:MemberIn",
    "operation": "everwhen.operations.wire:OperationIn",
    "queue": "everwhen.queues.wire:QueueFields",
    "run": "everwhen.runs.wire:RunIn",
    "schedule": "everwhen.schedules.wire:ScheduleIn",
    "subscription": "everwhen.alerts.wire:SubscriptionIn",
    "task": "everwhen.tasks.wire:TaskIn",
    "token": "everwhen.identity.tokens_api:TokenIn",
    "workflow": "everwhen.workflows.wire:WorkflowIn",
}
_LIMITS: Final = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "pattern": "like {}",
    "format": "a {}",
}

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A place in a schema: what it is called, what it is, and whether it has to be said."""

    path: str
    schema: Schema
    required: bool = False


class Book:
    """The schema of one thing, with its definitions."""

    def __init__(self, root: str) -> None:
        module, _, name = ROOTS[root].partition(":")
        self._root = root
        self._whole: Schema = getattr(importlib.import_module(module), name).model_json_schema()

    def find(self, steps: list[str]) -> Field:
        """Return the field at a path; raise UsageError that names the nearest one."""
        field = Field(path=self._root, schema=self._whole)
        for step in steps:
            children = self.children(field)
            if step not in children:
                raise click.UsageError(_unknown(f"{field.path}.{step}", step, children))
            field = children[step]
        return field

    def children(self, field: Field) -> dict[str, Field]:
        """Return what a field is made of: its fields, those of its items, or its kinds."""
        forms = self.forms(field.schema)
        kinds = {name: form for form in forms if (name := _kind_of(form)) is not None}
        if len(kinds) > 1:
            return {name: Field(path=f"{field.path}.{name}", schema=form) for name, form in kinds.items()}
        found: dict[str, Field] = {}
        for form in forms:
            inner = form
            while inner.get("type") == "array":
                [inner, *_] = self.forms(inner.get("items", {})) or [{}]
            required = set(inner.get("required", ()))
            found |= {
                name: Field(path=f"{field.path}.{name}", schema=each, required=name in required)
                for name, each in inner.get("properties", {}).items()
            }
        return found

    def forms(self, schema: Schema) -> list[Schema]:
        """Return the forms that a value may have, but for null."""
        seen = self.resolved(schema)
        several: list[Schema] = seen.get("anyOf") or seen.get("oneOf") or seen.get("allOf") or []
        if not several:
            return [] if seen.get("type") == "null" else [seen]
        return [form for each in several for form in self.forms(each)]

    def resolved(self, schema: Schema) -> Schema:
        """Follow a reference."""
        while "$ref" in schema:
            schema = self._whole["$defs"][schema["$ref"].rpartition("/")[2]]
        return schema

    def type_of(self, schema: Schema) -> str:
        """Say what a value is, in a few words."""
        seen = self.resolved(schema)
        words = [_form_in_words(form, self) for form in self.forms(seen)]
        is_null = any(self.resolved(each).get("type") == "null" for each in seen.get("anyOf", ()))
        return " or ".join(dict.fromkeys([*words, *(["null"] if is_null else [])])) or "anything"

    def limits_of(self, schema: Schema) -> list[str]:
        """Say what a value has to keep to."""
        found: list[str] = []
        for form in [schema, *self.forms(schema)]:
            found += [text.format(_number(form[name])) for name, text in _LIMITS.items() if name in form]
            found += [f"one of {', '.join(map(str, form['enum']))}"] if "enum" in form else []
        return list(dict.fromkeys(found))

    def meaning_of(self, schema: Schema) -> str:
        """Return what is said of a value."""
        forms = self.forms(schema)
        said = [schema.get("description"), *(form.get("description") for form in forms if len(forms) == 1)]
        return next((" ".join(str(text).split()) for text in said if text), "")


@click.command("explain")
@click.argument("path", metavar="SCHEMA.PATH", required=False)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="How to print.")
def explain(path: str | None, output: str) -> None:
    """Say what a field of a definition means, such as schedule.trigger.cron: its type, limits, default, and children.

    Without a path it lists the things that there are. A trigger itself is put into words by `explain-trigger`, a reason
    by `why`.
    """
    if path is None:
        click.echo("\n".join(ROOTS))
        return
    root, *steps = path.split(".")
    if root not in ROOTS:
        raise click.UsageError(_unknown(path, root, ROOTS))
    book = Book(root)
    field = book.find(steps)
    told = _told(book, field)
    if output == "json":
        click.echo(json.dumps(told, ensure_ascii=False, indent=2))
        return
    click.echo(f"{told['path']}  <{told['type']}>{'  required' if told['required'] else ''}")
    lines = [told["meaning"], f"default: {json.dumps(told['default'])}" if "default" in told else "", *told["limits"]]
    for line in filter(None, lines):
        click.echo(f"  {line}")
    for child in told["children"]:
        click.echo(f"    {child['name']}  <{child['type']}>{'  required' if child['required'] else ''}")
        if child["meaning"]:
            click.echo(f"        {child['meaning']}")


def _told(book: Book, field: Field) -> dict[str, Any]:
    schema = field.schema
    children = [
        {
            "name": name,
            "type": book.type_of(child.schema),
            "required": child.required,
            "meaning": book.meaning_of(child.schema),
        }
        for name, child in book.children(field).items()
    ]
    told = {
        "path": field.path,
        "type": book.type_of(schema),
        "required": field.required,
        "meaning": book.meaning_of(schema),
        "limits": book.limits_of(schema),
        "children": children,
    }
    return told | ({"default": schema["default"]} if "default" in schema else {})


def _kind_of(form: Schema) -> str | None:
    """Return the name of a form that is one kind of several: what its `kind` or `policy` is."""
    named: Schema = form.get("properties", {}).get("kind", {})
    value = named.get("const")
    return value if isinstance(value, str) else None


def _form_in_words(form: Schema, book: Book) -> str:
    kind = form.get("type")
    if kind == "array":
        return f"list of {book.type_of(form.get('items', {}))}"
    if "enum" in form or kind is None:
        return "text" if "enum" in form else "anything"
    return {"string": "text", "object": "object", "boolean": "true or false"}.get(str(kind), str(kind))


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _unknown(path: str, step: str, known: Any) -> str:
    near = difflib.get_close_matches(step, list(known), n=1)
    there = ", ".join(known) or "nothing below it"
    return f"there is no {path}; " + (f"did you mean {near[0]}? " if near else "") + f"There is {there}"
