"""Carries a plan out: step by step, a few things at once, each with the revision that the plan has seen.

A thing that somebody has changed since then is a conflict, and is told. When something fails, its step ends and none
after it is begun; what was done stays done, and the next plan goes on from there.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from everwhen.cli.client import UNAVAILABLE, Api, CallFailed

AT_ONCE: Final = 8
MOST_TRIES: Final = 5
PATHS: Final = {
    "Calendar": "calendars",
    "Queue": "queues",
    "Task": "tasks",
    "Workflow": "workflows",
    "Schedule": "schedules",
}
CHANGING: Final = frozenset({"create", "update", "delete"})

Key = tuple[str, str]
"""A kind and a name."""

_REFUSED_WHOLE: Final = frozenset({429, 503})
"""What did nothing, and may be asked again."""


def carry_out(
    api: Api,
    items: Sequence[Any],
    specs: Mapping[tuple[str, str], Mapping[str, Any]],
    *,
    owner: str,
    reason: str | None,
) -> list[CallFailed]:
    """Carry a plan out; note in each item its `result`, and return what failed."""

    def change(item: Any) -> CallFailed | None:
        try:
            _patiently(lambda: _change(api, item, specs.get((item["kind"], item["name"])), owner=owner, reason=reason))
        except CallFailed as error:
            item["result"], item["problem"] = "failed", error.problem
            return error
        item["result"] = "done"
        return None

    changing = [item for item in items if item["action"] in CHANGING]
    for item in items:
        item["result"] = "not begun" if item["action"] in CHANGING else "unchanged"
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for step in sorted({item["step"] for item in changing}):
            answers = list(pool.map(change, [item for item in changing if item["step"] == step]))
            if failed := [error for error in answers if error is not None]:
                return failed
    return []


def _change(api: Api, item: Any, spec: Mapping[str, Any] | None, *, owner: str, reason: str | None) -> None:
    path = api.tenant_path(PATHS[item["kind"]], item["name"])
    match = None if item["revision"] is None else f'"rev-{item["revision"]}"'
    if item["action"] == "delete":
        api.call("DELETE", path, match=match, **_why(item, reason, {"Schedule", "Task", "Workflow"}))
        return
    why = _why(item, reason, {"Calendar", "Workflow", "Schedule"})
    api.call("PUT", path, body={**(spec or {}), **why, "owner": owner}, match=match, absent=match is None)


def _why(item: Any, reason: str | None, kinds: set[str]) -> dict[str, Any]:
    return {"reason": reason} if reason is not None and item["kind"] in kinds else {}


def _patiently(call: Callable[[], None]) -> None:
    for wait in (*range(1, MOST_TRIES), None):
        try:
            return call()
        except CallFailed as error:
            is_idle = error.exit_code == UNAVAILABLE and error.problem.get("status") in _REFUSED_WHOLE
            if wait is None or not is_idle:
                raise
            time.sleep(wait)
    raise AssertionError("the last round returns or raises")
