"""People at work while everything falls over: they pause, resume, edit schedules, calendars and workflows, and cancel.

What they ask for is drawn by the seed and asked of an API that may be dead: no answer is counted and forgotten. What is
not forgiven is an answer that no request deserves: an internal error.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random  # noqa: TID251  # a run of chaos is drawn by its printed seed
from typing import Any

import httpx2

from everwhen import clock
from tests.chaos.flows import DRAWN, draw

EVERY = (0.7, 2.0)
PAUSE_SECONDS = (2.0, 8.0)
PERIODS = (2, 3, 4, 5, 7)
OVERLAPS: tuple[dict[str, Any] | None, ...] = (
    None,
    {"policy": "skip"},
    {"policy": "buffer_one"},
    {"policy": "buffer_latest"},
    {"policy": "buffer_all", "max_buffered": 100},
    {"policy": "cancel_other"},
    {"policy": "terminate_other"},
    {"policy": "strict_sequential"},
    {"policy": "buffer_all", "max_running": 2, "max_buffered": 50},
)
CATCH_UPS = (
    {"policy": "replay", "grace_seconds": 3600, "window_seconds": None},
    {"policy": "replay", "grace_seconds": 2, "window_seconds": 60},
    {"policy": "coalesce", "grace_seconds": 2},
    {"policy": "skip", "grace_seconds": 2},
)


@dataclass
class People:
    """Who changes things by the API; `edited` are the schedules that may be changed."""

    ports: list[int]
    token: str
    random: Random
    edited: list[str]
    calendar: str
    next_move: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)
    resumed: set[str] = field(default_factory=set)

    def step(self, now: float) -> None:
        """Make a move when it is time."""
        if now < self.next_move:
            return
        self.next_move = now + self.random.uniform(*EVERY)
        moves: tuple[tuple[int, Callable[[], None]], ...] = (
            (5, self._edit),
            (3, self._pause_schedule),
            (3, self._resume_schedule),
            (1, self._pause_queue),
            (1, self._pause_tenant),
            (2, self._edit_calendar),
            (2, self._new_version),
            (2, self._cancel_ahead),
            (2, self._cancel_workflow),
            (2, self._rerun),
        )
        self.random.choices([move for _, move in moves], weights=[weight for weight, _ in moves])[0]()

    def resume_everything(self) -> bool:
        """Make sure that nothing is paused any more; return whether it was answered."""
        paths = ["resume", "queues/line/resume", *(f"schedules/{name}/resume" for name in self.edited)]
        for path in paths:
            if path not in self.resumed:
                answer = self._ask("POST", path, {}, seconds=30.0)
                self.resumed |= {path} if answer is not None and answer.status_code < 500 else set()
        return self.resumed == set(paths)

    def _edit(self) -> None:
        name = self.random.choice(self.edited)
        changes: dict[str, Any] = {}
        if self.random.random() < 0.6:
            changes["trigger"] = {"kind": "every", "every": f"PT{self.random.choice(PERIODS)}S"}
        if self.random.random() < 0.5:
            changes["overlap"] = self.random.choice(OVERLAPS)
        if self.random.random() < 0.4 or not changes:
            changes["catch_up"] = self.random.choice(CATCH_UPS)
        if self.random.random() < 0.3:
            changes["calendars"] = self.random.choice((None, {"open": [self.calendar]}))
        self._ask("PATCH", f"schedules/{name}", changes | {"reason": "chaos"}, what="edits of schedules")

    def _pause_schedule(self) -> None:
        body: dict[str, Any] = {"reason": "chaos"}
        if self.random.random() < 0.7:
            body["until"] = self._soon()
        self._ask("POST", f"schedules/{self.random.choice(self.edited)}/pause", body, what="pauses of schedules")

    def _resume_schedule(self) -> None:
        self._ask("POST", f"schedules/{self.random.choice(self.edited)}/resume", {}, what="resumes of schedules")

    def _pause_queue(self) -> None:
        self._ask("POST", "queues/line/pause", {"reason": "chaos", "until": self._soon()}, what="pauses of the queue")

    def _pause_tenant(self) -> None:
        self._ask("POST", "pause", {"reason": "chaos", "until": self._soon()}, what="pauses of the tenant")

    def _edit_calendar(self) -> None:
        days = calendar_of(clock.process_now(), every=self.random.choice((2, 3, 4)))
        self._ask("PUT", f"calendars/{self.calendar}", {"definition": days}, what="versions of a calendar")

    def _new_version(self) -> None:
        name = self.random.choice(DRAWN)
        self._ask("PUT", f"workflows/{name}", {"definition": draw(self.random)}, what="versions of workflows")

    def _cancel_ahead(self) -> None:
        """Cancel a run that is not due yet; whoever changes its schedule at this moment takes it away."""
        answer = self._ask("GET", f"runs?state=planned&schedule={self.random.choice(self.edited)}&limit=200")
        if answer is not None and answer.status_code == 200 and (items := answer.json()["items"]):
            run = self.random.choice(items)["id"]
            self._ask("POST", f"runs/{run}/cancel", {"reason": "chaos"}, what="runs cancelled ahead", may_be_gone=True)

    def _cancel_workflow(self) -> None:
        if run := self._some_run("running"):
            kind = self.random.choice(("runs", "workflow-runs"))
            self._ask("POST", f"{kind}/{run}/cancel", {"reason": "chaos"}, what="cancelled workflow runs")

    def _rerun(self) -> None:
        if run := self._some_run("dead"):
            self._ask("POST", f"workflow-runs/{run}/rerun", {}, what="reruns")

    def _some_run(self, state: str) -> str | None:
        """Return the id of a workflow's run in this state, as somebody knows it who looks at the list of runs."""
        answer = self._ask("GET", f"runs?state={state}&limit=200")
        items = answer.json()["items"] if answer is not None and answer.status_code == 200 else []
        found = [item["id"] for item in items if item.get("workflow")]
        return self.random.choice(found) if found else None

    def _soon(self) -> str:
        seconds = self.random.uniform(*PAUSE_SECONDS)
        return (clock.process_now() + timedelta(seconds=seconds)).isoformat()

    def _ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        what: str = "",
        seconds: float = 5.0,
        may_be_gone: bool = False,
    ) -> httpx2.Response | None:
        port = self.random.choice(self.ports)
        try:
            answer = httpx2.request(
                method,
                f"http://127.0.0.1:{port}/v1/tenants/acme/{path}",
                json=body,
                headers={"Authorization": f"Bearer {self.token}", "If-Match": "*"},
                timeout=seconds,
                trust_env=False,
            )
        except httpx2.HTTPError:
            self.counts["unanswered"] += 1
            return None
        if what:
            self.counts[what if answer.is_success else f"{what}: refused"] += 1
        if answer.status_code >= 500 and answer.status_code != 503:
            self.broken.append(f"{method} {path}: {answer.status_code} {answer.text[:300]}")
        elif answer.status_code in {400, 404, 405, 412, 422, 428} - ({404} if may_be_gone else set()):
            self.broken.append(f"{method} {path} is no request: {answer.status_code} {answer.text[:300]}")
        return answer


def calendar_of(now: datetime, *, every: int = 3) -> dict[str, Any]:
    """Return a calendar that is closed for the last of every few minutes around now, in UTC; all open near midnight."""
    minute = now.astimezone(UTC).hour * 60 + now.astimezone(UTC).minute
    windows = [(first, first + every - 1) for first in range(minute - minute % every, minute + 12 * every, every)][:11]
    if windows[-1][1] >= 24 * 60:
        return {}
    windows[0] = (0, windows[0][1])
    hours = [[_clock(first), _clock(last)] for first, last in windows]
    return {"week": dict.fromkeys(("mon", "tue", "wed", "thu", "fri", "sat", "sun"), hours)}


def is_open(definition: dict[str, Any], at: datetime) -> bool:
    """Say whether such a calendar is open at an instant, in a line of its own."""
    if not definition:
        return True
    local = at.astimezone(UTC).strftime("%H:%M")
    return any(first <= local < last for first, last in definition["week"]["mon"])


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"
