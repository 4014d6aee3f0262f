"""Asks the server what documents come to, and leads what it refuses back to file and line.

A plan takes so many documents. Of more, calendars, tasks and workflows go with each of several plans, so that whatever
a schedule needs is there; the schedules are spread over them.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from everwhen.cli.client import Api, CallFailed
from everwhen.cli.declared.faults import Fault
from everwhen.cli.declared.reading import Document

MOST_AT_ONCE: Final = 500
MOST_BYTES: Final = 800_000

_SCHEDULE: Final = "Schedule"
_ACTIONS: Final = ("create", "update", "delete", "refused", "unchanged")


def ask(api: Api, documents: Sequence[Document], *, absent: Sequence[Mapping[str, str]], **wish: Any) -> list[Any]:
    """Return what becomes of each thing, in the order in which it can be carried out; raises CallFailed."""
    found: dict[tuple[str, str], Any] = {}
    parts = list(_parts(documents))
    for number, part in enumerate(parts, start=1):
        gone = absent if number == len(parts) else ()
        body = {"documents": [sent(each) for each in part], "absent": list(gone), **wish}
        try:
            answer = api.call("POST", api.tenant_path("declarations", "plan"), body=body)
        except CallFailed as error:
            raise _led_back(error, part) from error
        for item in answer["items"]:
            found.setdefault((item["kind"], item["name"]), item)
    return sorted(found.values(), key=lambda item: item["step"])


def owned(api: Api, owner: str) -> list[dict[str, str]]:
    """Return all that an owner declares."""
    return [{"kind": each["kind"], "name": each["name"]} for each in declared(api, owner=owner)]


def declared(api: Api, *, kind: str | None = None, owner: str | None = None) -> Iterator[Any]:
    """Yield all that there is, as documents."""
    terms = [f"{name}:{value}" for name, value in (("kind", kind), ("owner", owner)) if value is not None]
    page = api.call("GET", api.tenant_path("declarations"), limit=200, filter=" ".join(terms) or None)
    yield from page["items"]
    while page["next"]:
        page = api.call("GET", page["next"])
        yield from page["items"]


def faults_of(items: Sequence[Any], documents: Sequence[Document]) -> list[Fault]:
    """Return why things are refused, each at its place in its file where it has one."""
    known = {document.key: document for document in documents}
    found: list[Fault] = []
    for item in items:
        document = known.get((item["kind"], item["name"]))
        for error in item["errors"]:
            message = f"{item['kind']} {item['name']}: {error['detail']} ({error['code']})"
            if document is None:
                found.append(Fault(file=None, message=message, code=error["code"]))
            else:
                found.append(document.fault(message, pointer=error["pointer"], code=error["code"]))
    return found


def sent(document: Document) -> dict[str, Any]:
    """Return a document as the API takes it."""
    return {"kind": document.kind, "name": document.name, "spec": document.spec}


def _parts(documents: Sequence[Document]) -> Iterator[Sequence[Document]]:
    needed = [each for each in documents if each.kind != _SCHEDULE]
    part, size = list(needed), _size(needed)
    for each in documents:
        if each.kind != _SCHEDULE:
            continue
        own = _size([each])
        if len(part) > len(needed) and (len(part) >= MOST_AT_ONCE or size + own > MOST_BYTES):
            yield part
            part, size = list(needed), _size(needed)
        part.append(each)
        size += own
    yield part


def _size(documents: Sequence[Document]) -> int:
    return sum(len(json.dumps(sent(each))) for each in documents)


def _led_back(error: CallFailed, part: Sequence[Document]) -> CallFailed:
    """Return a refusal of the whole, with the place of the first document that it points at."""
    for found in error.problem.get("errors", ()):
        _, kind, index, *rest = [*str(found.get("pointer", "")).split("/"), "", "", ""]
        if kind == "documents" and index.isdigit():
            pointer = "/" + "/".join(step for step in rest if step)
            fault = part[int(index)].fault(str(found.get("detail")), pointer=pointer)
            return CallFailed({**error.problem, "detail": str(fault)}, exit_code=error.exit_code)
    return error
