"""Random lives of runs, on the real store and on a model at once; after every step both have to agree.

The steps are the use-cases of the hot path: plan, claim, renew, report (also stale, twice, in one batch), cancel, reap;
and a change of how many runs may be in flight. A task may have that limit, a rate, and one run at a time of each key.
The clock steps forward and, in one kind of machine, back. Any step may crash: right before its commit, when nothing has
happened, or right after it, when everything has and nobody was told.

What has to agree after each step: where every run is, with each number that its row holds; every attempt with its
outcome and token; every event in its order; and the fold of the events with the state. Tokens have to grow.

A machine works in a tenant of its own, in a database that the whole test keeps; all examples share one event loop and
one connection of each pool.
"""

import asyncio
import copy
import itertools
import json
from collections import defaultdict
from collections.abc import Coroutine
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar
from uuid import UUID

import psycopg
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from psycopg.rows import dict_row

from everwhen import clock, failpoints
from everwhen.core import lifecycle
from everwhen.core.claim_limits import KeyLimit, Rate
from everwhen.core.history import fold
from everwhen.core.lifecycle import Event
from everwhen.core.retry import Jitter, RetryPolicy
from everwhen.dispatch.model import ToRenew
from everwhen.dispatch.reaper import Reaper
from everwhen.dispatch.service import Claim, Dispatch
from everwhen.errors import Conflict
from everwhen.failpoints import FailpointError
from everwhen.postgres.pool import Connection, Database
from everwhen.runs import service as runs
from everwhen.runs import store as runs_store
from everwhen.tasks import service as tasks
from everwhen.worker.protocol import Report, RunError
from tests.dispatch.life_model import UNWELL, Model, ModelRun, ModelTask, places, state_of
from tests.factories import WORKER, make_task, make_tenant

LINE: Final = "line"
LEASE_SECONDS: Final = 30.0
MOST_LIVE: Final = 6
MOST_ENDED: Final = 2
"""Of the runs that have ended, how many steps still turn to: what is terminal has to stay so."""
MICROSECOND: Final = timedelta(microseconds=1)
Answer = TypeVar("Answer")


WAITING: Final = (
    "select run_id, available_at, attempts, failures, expires_at from everwhen.waiting where tenant_id = %s"
)
OFFERED: Final = "select from everwhen.waiting where tenant_id = %s and run_id = %s and limit_group like 'offered %%'"
IDLE_OFFERS: Final = (
    "select from everwhen.waiting where tenant_id = %s and limit_group like 'offered %%'"
    " and (available_at > %s or expires_at <= %s)"
)
"""Runs that were let go, keep a place, and cannot be taken: they have ended, or the clock has stepped back."""
LEASES: Final = """
select run_id, lease_token, lease_until, claimed_at, deadline_at, attempt, failures, expires_at,
       cancel_requested_at is not null as cancel_requested, started_at is not null as started
from everwhen.leases where tenant_id = %s"""
ENDS: Final = """
select run_id, state, reason, attempts, fingerprint is not null as has_fingerprint
from everwhen.run_ends where tenant_id = %s"""
ATTEMPTS: Final = """
select run_id, attempt, lease_token, outcome, fingerprint is not null as has_fingerprint
from everwhen.attempts where tenant_id = %s and not lease_token = any(%s)"""
EVENTS: Final = """
select event_id, run_id, at, kind, attempt, reason, detail
from everwhen.events where tenant_id = %s and event_id > %s order by event_id"""


class SteppedDatabase(Database):
    """A database whose clock a test steps: what `conn.now` says."""

    now: datetime

    async def _begun(self, *args: Any) -> Connection:
        conn = await super()._begun(*args)
        conn.now = self.now
        return conn


@dataclass(kw_only=True)
class World:
    """What every example of a test shares. `steps` counts what was done, by rule."""

    db: SteppedDatabase
    eye: psycopg.Connection[dict[str, Any]]
    loop: asyncio.AbstractEventLoop
    began_at: datetime
    steps: dict[str, int] = field(default_factory=dict)
    failures: list[AssertionError] = field(default_factory=list)
    """What did not hold, in any example."""

    def wait(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        return self.loop.run_until_complete(work)


@dataclass(frozen=True, kw_only=True)
class Happening:
    """An event as the fold reads it."""

    kind: str
    at: datetime
    attempt: int | None
    reason: str | None


class LifeMachine(RuleBasedStateMachine):
    """The rules. A subclass gives the `world`."""

    world: World
    steps_back = True

    def __init__(self) -> None:
        super().__init__()
        self.now = self.world.began_at
        self.world.db.now = self.now
        self.jitter = 0.0
        self.went_back = False
        self.dispatch = Dispatch(self.world.db, jitter=lambda: self.jitter)
        self.reaper = Reaper(database=self.world.db, jitter=lambda: self.jitter)
        self.order: list[UUID] = []
        self.attempts: dict[UUID, list[dict[str, Any]]] = defaultdict(list)
        self.attempts_seen: list[int] = []
        self.events: dict[UUID, list[dict[str, Any]]] = defaultdict(list)
        self.events_seen = 0

    def teardown(self) -> None:
        """Leave the time to the next example: what is left here goes on, for its reapers."""
        self.world.began_at = max(self.world.began_at, self.now)

    # What happens -------------------------------------------------------------------------------------------------

    @initialize(
        attempts=st.integers(1, 4),
        base=st.sampled_from([0, 5, 40]),
        max_age=st.sampled_from([None, 30, 120]),
        non_retryable=st.booleans(),
        limits=st.tuples(
            st.sampled_from([None, 10.0, 60.0]),
            st.sampled_from([None, 20.0, 90.0]),
            st.sampled_from([None, 15.0, 100.0]),
            st.sampled_from([None, 7.0]),
        ),
        shared=st.tuples(
            st.sampled_from([None, None, 1, 2]),
            st.sampled_from([None, None, Rate(tokens=1, seconds=20, burst=1), Rate(tokens=2, seconds=30, burst=2)]),
            st.sampled_from([False, False, False, True]),
        ),
    )
    def begin(self, *, attempts, base, max_age, non_retryable, limits, shared) -> None:
        retry = RetryPolicy(
            max_attempts=attempts,
            base=timedelta(seconds=base),
            cap=timedelta(seconds=60),
            jitter=Jitter.FULL,
            max_age=None if max_age is None else timedelta(seconds=max_age),
            non_retryable=("LookupError",) if non_retryable else (),
        )
        timeout, start, total, heartbeat = limits
        most, rate, one_a_key = shared
        task = ModelTask(
            retry=retry,
            timeout=timeout,
            start_deadline=start,
            total_deadline=total,
            heartbeat=heartbeat,
            max_in_flight=most,
            rate=rate,
            one_a_key=one_a_key,
        )
        self.model = Model(task)
        self.tenant_id = self.world.wait(self._make_tenant(task))

    @rule(deed=st.deferred(lambda: deeds))
    def happen(self, deed: tuple[str, dict[str, Any]]) -> None:
        """One rule for all: with a rule each, an example leaves whole rules out, and little comes of the others."""
        name, how = deed
        if name in {"plan", "claim", "reap", "change_limit", "time_passes", "time_comes_to_an_edge"} or self.order:
            try:
                getattr(self, name)(**how)
            except AssertionError as failure:
                self.world.failures.append(failure)
                raise

    def plan(self, priority, due_in, key, count) -> None:
        for _ in range(min(count, MOST_LIVE - len(self.live()))):
            self._plan_one(priority, due_in, key)

    def _plan_one(self, priority: int, due_in: float, key: str) -> None:
        run_id, due_at = clock.new_id(self.now), self.now + timedelta(seconds=due_in)
        self.order.append(run_id)
        self.model.plan(run_id, due_at=due_at, priority=priority, key=key)
        self.world.wait(self._plan(run_id, due_at, priority, key))
        self.agree("plan")

    def claim(self, limit, crash) -> None:
        before, able = self.kept(crash), self.model.takeable(limit, self.now)
        idle = self.ask(IDLE_OFFERS, self.now, self.now).fetchall()
        wish = Claim(
            tenant_id=self.tenant_id,
            queues=(LINE,),
            tasks=None,
            worker=WORKER,
            limit=limit,
            lease_seconds=LEASE_SECONDS,
        )
        grant = self.do(self.dispatch.claim(wish, now=self.now), crash=crash)
        held = {row["run_id"]: row for row in self.ask(LEASES)}
        taken = [held[run_id] for run_id, run in self.model.runs.items() if run_id in held and run.lease is None]
        if crash == "before":
            assert taken == []
        elif not (self.model.lags or self.model.task.one_a_key or self.is_limited or idle):
            assert places([self.model.runs[row["run_id"]] for row in taken]) == places(able)
        else:  # What was parked comes back with room or tokens, at times behind what has joined the line meanwhile.
            assert len(taken) <= len(able)
            self._keys_are_apart({*held})
        for row in taken:
            assert row["lease_token"] > max(self.model.runs[row["run_id"]].tokens, default=0)
            self.model.claim(row["run_id"], token=row["lease_token"], now=self.now, lease_seconds=LEASE_SECONDS)
        if grant is not None:
            assert {lease.lease_token for lease in grant.leases} == {row["lease_token"] for row in taken}
        self.settle(before, crash, "claim")

    @property
    def is_limited(self) -> bool:
        return self.model.task.rate is not None or self.model.max_in_flight is not None

    def change_limit(self, limit, crash) -> None:
        before = self.kept(crash)
        change = tasks.update_task(
            self.world.db, tenant_id=self.tenant_id, name="report", changes={"max_in_flight": limit}
        )
        self.do(change, crash=crash)
        self.model.max_in_flight = limit
        self.settle(before, crash, "change_limit")

    def renew(self, which, age, began, crash) -> None:
        before, (run, token) = self.kept(crash), self.lease_of(which, age)
        named = ToRenew(
            tenant_id=self.tenant_id, run_id=run.run_id, lease_token=token, started_at=self.now if began else None
        )
        work = self.dispatch.renew(self.tenant_id, [named], lease_seconds=LEASE_SECONDS, now=self.now)
        answer = self.do(work, crash=crash)
        lease = self.model.renew(run.run_id, token=token, now=self.now, lease_seconds=LEASE_SECONDS, began=began)
        if answer is not None:
            assert [(each.lease_token, each.lease_until, each.cancel_requested) for each in answer.values()] == (
                [] if lease is None else [(token, lease.until, lease.cancel_requested)]
            )
        self.settle(before, crash, "renew")

    def report(self, said, twice, jitter, crash) -> None:
        before, self.jitter = self.kept(crash), jitter
        batch = [self._report(each) for each in (*said, *(said if twice else ()))]
        answers = self.do(
            self.dispatch.complete(self.tenant_id, WORKER, [report for report, _, _ in batch], now=self.now),
            crash=crash,
        )
        expected = [
            self.model.report(report.run_id, event, token=token, now=self.now, jitter=jitter)
            for report, event, token in batch
        ]
        if answers is not None:
            assert [answer.state if answer.accepted else answer.code for answer in answers] == expected
        self.settle(before, crash, "report")

    def cancel(self, which, crash) -> None:
        before, run = self.kept(crash), self.run(which)
        was_offered = self.ask(OFFERED, run.run_id).fetchall()
        answer = self.do(self._cancel(run.run_id), crash=crash)
        expected = self.model.cancel(run.run_id, now=self.now)
        # Its place stands empty until the reaper has looked.
        self.model.lags = self.model.lags or bool(was_offered)
        if answer is not None:
            assert answer == expected
        # A refusal writes nothing, so it passes no commit that could be crashed after.
        self.settle(before, crash, "cancel")

    def reap(self, jitter, crash) -> None:
        before, self.jitter = self.kept(crash), jitter
        self.do(self.reaper.tick(self.now), crash=crash)
        self.model.reap(self.now, jitter=jitter)
        if crash is None:  # a crash in the first of its two transactions is one before the second
            self.model.expire(self.now)
            self.model.lags = self.went_back
        self.settle(before, crash, "reap")

    def time_passes(self, seconds) -> None:
        self.step_clock(seconds)
        self.count("time_passes")

    def time_comes_to_an_edge(self, which, after) -> None:
        """To where something is about to change, a moment before it, or a little after it."""
        found = [edge for run in self.live() for edge in _edges(run)]
        if self.model.task.rate is not None:
            found.append(self.model.task.rate.next_at(self.model.full_at, self.now))
        edges = sorted(edge for edge in found if edge + after > self.now)
        if edges:
            self.step_clock((edges[min(which, len(edges) - 1)] + after - self.now).total_seconds())
        self.count("time_comes_to_an_edge")

    def the_clock_steps_back(self, seconds) -> None:
        if not self.steps_back:
            return
        self.step_clock(-seconds)
        # The next look at tokens is noted by the clock that there was.
        self.went_back = self.model.lags = self.model.task.rate is not None
        self.count("the_clock_steps_back")

    # What has to hold ---------------------------------------------------------------------------------------------

    def agree(self, step: str) -> None:
        """Hold what is stored against the model, row by row. Time alone writes nothing: it is held at the next step."""
        self.count(step)
        with self.world.eye.pipeline():
            asked = [self.ask(text) for text in (WAITING, LEASES, ENDS)]
            asked += [self.ask(ATTEMPTS, self.attempts_seen), self.ask(EVENTS, self.events_seen)]
            waiting, leases, ends, attempts, events = (cursor.fetchall() for cursor in asked)
        model = self.model.runs.values()
        assert {row["run_id"]: row for row in waiting} == {
            run.run_id: _in_line(run) for run in model if run.available_at is not None
        }
        assert {row["run_id"]: row for row in leases} == {run.run_id: _leased(run) for run in model if run.lease}
        assert {row["run_id"]: _without_resource(row) for row in ends} == {
            run.run_id: _end(run) for run in model if run.ended
        }
        for row in attempts:
            self.attempts[row["run_id"]].append(row)
            self.attempts_seen.append(row["lease_token"])  # attempts are closed in any order of their tokens
        for row in events:
            self.events[row["run_id"]].append(row)
            self.events_seen = max(self.events_seen, row["event_id"])
        changed = {row["run_id"] for row in (*attempts, *events)}
        for run in model:
            if run.ended is not None and run.run_id not in changed:
                assert len(run.kinds) + len(run.refused) == len(self.events[run.run_id])
                continue
            self._attempts_agree(run, sorted(self.attempts[run.run_id], key=lambda row: row["attempt"]))
            self._history_agrees(run, self.events[run.run_id])

    def _keys_are_apart(self, held: set[UUID]) -> None:
        keys = [self.model.runs[run_id].key for run_id in held]
        assert not self.model.task.one_a_key or len(keys) == len(set(keys))

    @staticmethod
    def _attempts_agree(run: ModelRun, rows: list[dict[str, Any]]) -> None:
        assert [row["outcome"] for row in rows] == run.outcomes
        assert [row["has_fingerprint"] for row in rows] == [outcome in UNWELL for outcome in run.outcomes]
        assert [row["lease_token"] for row in rows] == run.tokens[: len(rows)]
        assert [row["attempt"] for row in rows] == list(range(1, len(rows) + 1))
        assert len(rows) + (run.lease is not None) == run.attempts == len(run.tokens)
        assert run.tokens == sorted(set(run.tokens))

    def _history_agrees(self, run: ModelRun, rows: list[dict[str, Any]]) -> None:
        assert [row["kind"] for row in rows if row["kind"] != "refused"] == run.kinds
        refusals = [row["detail"]["lease_token"] for row in rows if row["kind"] == "refused"]
        assert sorted(refusals) == sorted(run.refused)
        told = fold(
            Happening(kind=row["kind"], at=row["at"], attempt=row["attempt"], reason=row["reason"]) for row in rows
        )
        assert told.is_at(state_of(run, self.now))
        assert told.attempts == run.attempts
        breaches = [breach for breach in told.breaches if not (self.steps_back and " lies before " in breach.sentence)]
        assert breaches == []

    # How it is done -----------------------------------------------------------------------------------------------

    def do(self, work: Coroutine[Any, Any, Answer], *, crash: str | None) -> Answer | None:
        """Carry out a use-case; None when it crashed, as it was told to."""
        trap: AbstractContextManager[Any] = nullcontext()
        if crash is not None:
            trap = failpoints.armed(f"transaction.{crash}_commit:error:1")
        try:
            with trap:
                return self.world.wait(work)
        except FailpointError:
            return None

    def settle(self, before: Model, crash: str | None, step: str) -> None:
        """A crash before the commit: nothing has happened."""
        if crash == "before":
            self.model = before
        self.agree(step if crash is None else f"{step}, crash {crash} the commit")

    def step_clock(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        self.world.db.now = self.now

    def ask(self, text: str, *parameters: Any) -> psycopg.Cursor[dict[str, Any]]:
        return self.world.eye.execute(text, (self.tenant_id, *parameters), prepare=True)

    def kept(self, crash: str | None) -> Model:
        """The model as it is, for a step that will turn out not to have happened."""
        return copy.deepcopy(self.model) if crash == "before" else self.model

    def live(self) -> list[ModelRun]:
        return [run for run in map(self.model.runs.__getitem__, self.order) if run.ended is None]

    def run(self, which: int) -> ModelRun:
        ended = [run for run in map(self.model.runs.__getitem__, self.order) if run.ended is not None]
        choice = self.live() + ended[-MOST_ENDED:]
        return choice[which % len(choice)]

    def lease_of(self, which: int, age: int) -> tuple[ModelRun, int]:
        """A run, and its newest token or an older one; one that no lease ever had where there is none."""
        run = self.run(which)
        return run, run.tokens[-1 - age] if age < len(run.tokens) else 7 + age

    def count(self, step: str) -> None:
        self.world.steps[step] = self.world.steps.get(step, 0) + 1

    def _report(self, said: tuple[Any, ...]) -> tuple[Report, Event, int]:
        which, age, outcome, kind, retryable, after = said
        run, token = self.lease_of(which, age)
        error = None if kind is None else RunError(type=kind, message="x", bases=_BASES[kind])
        report = Report(
            tenant_id=self.tenant_id,
            run_id=run.run_id,
            lease_token=str(token),
            outcome=outcome,
            error=error if outcome == "failed" else None,
            retryable=retryable,
            retry_after_seconds=after,
        )
        events: dict[str, Event] = {
            "succeeded": lifecycle.Succeeded(token),
            "released": lifecycle.Released(token),
            "cancelled": lifecycle.CancelConfirmed(token),
            "failed": lifecycle.Failed(
                token,
                retryable=retryable,
                retry_after=None if after is None else timedelta(seconds=after),
                classes=() if kind is None else (kind, *_BASES[kind]),
            ),
        }
        return report, events[outcome], token

    async def _make_tenant(self, task: ModelTask) -> UUID:
        tenant = await make_tenant(self.world.db, name=f"life-{next(_NUMBERS)}")
        await make_task(
            self.world.db,
            tenant,
            queue=LINE,
            retry=task.retry,
            timeout_seconds=task.timeout,
            start_deadline_seconds=task.start_deadline,
            total_deadline_seconds=task.total_deadline,
            heartbeat_timeout_seconds=task.heartbeat,
            max_in_flight=task.max_in_flight,
            rate=task.rate,
            concurrency=KeyLimit(pointers=("/key",), max_in_flight=1) if task.one_a_key else None,
        )
        return tenant.id

    async def _plan(self, run_id: UUID, due_at: datetime, priority: int, key: str) -> None:
        async with self.world.db.tenant(self.tenant_id) as conn:
            await runs_store.insert_requested(
                conn,
                tenant_id=self.tenant_id,
                run_id=run_id,
                task="report",
                schedule_uid=None,
                schedule_revision=None,
                priority=priority,
                due_at=due_at,
                input=json.dumps({"key": key}),
                now=conn.now,
            )

    async def _cancel(self, run_id: UUID) -> str:
        try:
            view = await runs.cancel_run(
                self.world.db, tenant_id=self.tenant_id, ref=str(run_id), by="machine", reason=None
            )
        except Conflict:
            return "conflict"
        return view.state.value


_NUMBERS = itertools.count(1)
_BASES: Final = {"OSError": ("builtins.OSError", "Exception"), "KeyError": ("builtins.KeyError", "LookupError")}


def _edges(run: ModelRun) -> list[datetime]:
    lease = run.lease
    found = [run.available_at, run.expires_at] if lease is None else [lease.until, lease.deadline_at]
    return [edge for edge in found if edge is not None]


# What may happen, the more often the more often it stands here.
_crashes = st.sampled_from([None] * 8 + ["before", "after"])
_keys = st.sampled_from(["a", "a", "b", "c"])
_jitters = st.sampled_from([0.0, 0.5, 0.999])
_places = st.integers(0, MOST_LIVE + MOST_ENDED - 1)
_ages = st.sampled_from([0, 0, 0, 0, 1, 2])
_said = st.tuples(
    _places,
    _ages,
    st.sampled_from(["failed", "failed", "failed", "released", "succeeded", "cancelled"]),
    st.sampled_from([None, "OSError", "KeyError"]),
    st.sampled_from([True, True, True, False]),
    st.sampled_from([None, None, 0.0, 45.0, 500.0]),
)
_claim = {"limit": st.integers(1, 4), "crash": _crashes}
_report = {
    "said": st.lists(_said, min_size=1, max_size=3),
    "twice": st.sampled_from([False, False, True]),
    "jitter": _jitters,
    "crash": _crashes,
}
_edge = {"which": st.integers(0, 2), "after": st.sampled_from([-MICROSECOND, timedelta(0), timedelta(seconds=4)])}
_HAPPENINGS: Final[list[tuple[str, dict[str, st.SearchStrategy[Any]]]]] = [
    (
        "plan",
        {"priority": st.integers(4, 6), "due_in": st.sampled_from([0, 0, 5, 30]), "key": _keys, "count": st.just(1)},
    ),
    ("plan", {"priority": st.integers(4, 6), "due_in": st.just(0), "key": _keys, "count": st.sampled_from([1, 2, 4])}),
    ("claim", _claim),
    ("claim", _claim),
    ("claim", _claim),
    ("report", _report),
    ("report", _report),
    ("reap", {"jitter": _jitters, "crash": _crashes}),
    ("reap", {"jitter": _jitters, "crash": _crashes}),
    ("renew", {"which": _places, "age": _ages, "began": st.booleans(), "crash": _crashes}),
    ("cancel", {"which": _places, "crash": _crashes}),
    ("change_limit", {"limit": st.sampled_from([None, 1, 2, 3]), "crash": _crashes}),
    ("time_passes", {"seconds": st.sampled_from([1, 5, 12, 31])}),
    ("time_comes_to_an_edge", _edge),
    ("time_comes_to_an_edge", _edge),
    ("the_clock_steps_back", {"seconds": st.sampled_from([1, 8, 45])}),
]
deeds = st.one_of([st.tuples(st.just(name), st.fixed_dictionaries(how)) for name, how in _HAPPENINGS])


def _in_line(run: ModelRun) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "available_at": run.available_at,
        "attempts": run.attempts,
        "failures": run.failures,
        "expires_at": run.expires_at,
    }


def _leased(run: ModelRun) -> dict[str, Any]:
    lease = run.lease
    assert lease is not None
    return {
        "run_id": run.run_id,
        "lease_token": lease.token,
        "lease_until": lease.until,
        "claimed_at": lease.claimed_at,
        "deadline_at": lease.deadline_at,
        "attempt": run.attempts,
        "failures": run.failures,
        "expires_at": run.expires_at,
        "cancel_requested": lease.cancel_requested,
        "started": lease.started,
    }


def _end(run: ModelRun) -> dict[str, Any]:
    assert run.ended is not None
    return {
        "run_id": run.run_id,
        "state": run.ended.value,
        "reason": run.reason,
        "attempts": run.attempts,
        "has_fingerprint": run.ended is lifecycle.RunState.DEAD and bool(UNWELL.intersection(run.outcomes)),
    }


def _without_resource(row: dict[str, Any]) -> dict[str, Any]:
    """An end for want of a place, or of a token, as one for want of time: the model does not know what is parked."""
    is_resource = row["state"] == "expired" and (row["reason"] or "").startswith("limit.")
    return row | {"reason": "start.deadline"} if is_resource else row


def open_eye(conninfo: str) -> psycopg.Connection[dict[str, Any]]:
    """A connection that sees everything, and is no part of what is tested."""
    return psycopg.connect(conninfo, autocommit=True, row_factory=dict_row)
