"""A plan in lines: what is made, changed and deleted, and what that does to fires."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

SIGNS: Final = {"create": "+", "update": "~", "delete": "-"}
MOST_CHANGES: Final = 4
LONGEST: Final = 60
GAP: Final = "  "


def lines_of(items: Sequence[Any]) -> Iterator[str]:
    """Yield a line for each thing that changes, and one for each note."""
    changing = [item for item in items if item["action"] in SIGNS]
    width = max((len(_name(item)) for item in changing), default=0)
    for item in changing:
        yield GAP.join(filter(None, (f"{SIGNS[item['action']]} {_name(item).ljust(width)}", *_told(item)))).rstrip()
    for item in items:
        yield from (f"! {_name(item)}{GAP}{note}" for note in item["notes"])


def summary(items: Sequence[Any], *, prune: bool) -> str:
    """Return one line that counts everything."""
    counts = Counter(item["action"] for item in items)
    fires = Counter[str]()
    for item in items:
        if item["fires"] and not item["is_paused"]:
            fires.update({kind: item["fires"][kind] for kind in ("added", "removed", "moved")})
    deleted = f"{counts['delete']} to delete" + ("" if prune else " (prune off)")
    told = f"{counts['create']} to add, {counts['update']} to change, {deleted}; {counts['unchanged']} the same"
    moved = ", ".join(f"{fires[kind]} {kind}" for kind in ("added", "removed", "moved"))
    return f"{told}; fires: {moved}" if fires.total() else told


def _name(item: Any) -> str:
    return f"{item['kind'].lower()}/{item['name']}"


def _told(item: Any) -> Iterator[str]:
    changes = item["changes"]
    yield GAP.join(f"{c['field']}: {_value(c['before'])} -> {_value(c['after'])}" for c in changes[:MOST_CHANGES])
    if len(changes) > MOST_CHANGES:
        yield f"and {len(changes) - MOST_CHANGES} more"
    if item["is_paused"]:
        yield "(paused)"
    if item["fires"]:
        yield _fires(item["fires"], action=item["action"])
    if item["users"]:
        yield f"used by {item['users']} schedules"


def _fires(fires: Mapping[str, Any], *, action: str) -> str:
    before, after = (_local(fires[side]) for side in ("next_before", "next_after"))
    if action == "create":
        return f"first fire {after}" if after else "never fires"
    counts = ", ".join(f"{fires[kind]} {kind}" for kind in ("added", "removed", "moved") if fires[kind])
    if before and after and before != after:
        return f"next fire {before} -> {after}" + (f" ({counts})" if counts else "")
    return f"fires: {counts}" if counts else ""


def _local(text: str | None) -> str:
    return "" if text is None else datetime.fromisoformat(text).strftime("%a %d %b %H:%M %z")


def _value(value: Any) -> str:
    text = "-" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
