"""The machine of `life_machine` on a real database: five thousand steps, and that it catches what is broken.

EVERWHEN_MACHINE_STEPS sets how many steps each of the two kinds takes at least; `make chaos` takes more.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.errors import Flaky
from hypothesis.stateful import run_state_machine_as_test

from everwhen.claim_limits import store as limits_store
from everwhen.dispatch import store
from everwhen.postgres.pool import PoolLimits
from everwhen.runs import store as runs_store
from everwhen.runs.planning import ensure_partitions
from everwhen.verify.service import verify
from tests.database import TestServer
from tests.dispatch.life_machine import LifeMachine, SteppedDatabase, World, open_eye

STEPS = int(os.environ.get("EVERWHEN_MACHINE_STEPS", "2500"))
STEPS_AN_EXAMPLE = 100
FEW = 5
ENOUGH = 100  # a machine that has found something stops: only one that finds nothing goes so far

CALM = settings(
    stateful_step_count=STEPS_AN_EXAMPLE,
    deadline=None,
    database=None,
    suppress_health_check=cast("list[HealthCheck]", list(HealthCheck)),
    print_blob=False,
    report_multiple_bugs=False,
)


@pytest.fixture(scope="module")
def machine_database(server: TestServer) -> Iterator[str]:
    """A database for the machines alone: their clocks step, and what they leave is no other test's business."""
    server.create("life_machine")
    yield "life_machine"
    server.drop("life_machine")


@contextmanager
def world_in(server: TestServer, name: str) -> Iterator[World]:
    loop = asyncio.new_event_loop()
    try:
        limits = PoolLimits(min_size=1, max_size=1)
        db = loop.run_until_complete(SteppedDatabase.open(server.app(name), limits=limits))
        with open_eye(server.superuser(name)) as eye:
            (row,) = eye.execute("select date_trunc('second', now()) as now").fetchall()
            db.now = row["now"]
            loop.run_until_complete(_make_room(db))
            yield World(db=db, eye=eye, loop=loop, began_at=row["now"])
        loop.run_until_complete(db.close())
    finally:
        loop.close()


async def _make_room(db: SteppedDatabase) -> None:
    async with db.system() as conn:
        await ensure_partitions(conn, [conn.now + timedelta(days=days) for days in range(-7, 60, 7)])


def run_machine(world: World, *, steps_back: bool, examples: int, phases: tuple[Phase, ...] = tuple(Phase)) -> None:
    machine = type("Life", (LifeMachine,), {"world": world, "steps_back": steps_back})
    run_state_machine_as_test(machine, settings=settings(CALM, max_examples=examples, phases=phases))


@pytest.mark.timeout(600 if STEPS < 10_000 else 3_600)  # a failure is shrunk, which takes its time
@pytest.mark.parametrize("steps_back", [False, True], ids=["time goes on", "the clock steps back, too"])
def test_the_store_lives_as_the_model_does(server, machine_database, steps_back):
    with world_in(server, machine_database) as world:
        while (missing := STEPS - sum(world.steps.values())) > 0:
            # Each round begins with the plainest example, of which little comes: few rounds, and none too short.
            run_machine(world, steps_back=steps_back, examples=FEW + missing // STEPS_AN_EXAMPLE)
        assert world.steps.keys() >= {
            f"{step}{crash}"
            for step in ("claim", "renew", "report", "cancel", "reap", "change_limit")
            for crash in ("", ", crash before the commit", ", crash after the commit")
        }
        if not steps_back:
            assert world.loop.run_until_complete(verify(world.db)) == {}


# That it catches what is broken ---------------------------------------------------------------------------------------


def _without_failures(real: Callable[..., Any]) -> Callable[..., Any]:
    async def broken(conn, **params):
        return await real(conn, **{**params, "failures": [0 for _ in params["run_ids"]]})

    return broken


def _early(real: Callable[..., Any]) -> Callable[..., Any]:
    async def broken(conn, *, now, **params):
        return await real(conn, now=now + timedelta(seconds=6), **params)

    return broken


def _for_a_moment(real: Callable[..., Any]) -> Callable[..., Any]:
    async def broken(conn, *, lease_seconds, **params):
        return await real(conn, lease_seconds=lease_seconds / 10, **params)

    return broken


def _whatever_the_token(real: Callable[..., Any]) -> Callable[..., Any]:
    """A renewal whose guard is lost: it takes the token that the run has, instead of the one that was sent."""

    async def broken(conn, **params):
        for n, run_id in enumerate(params["run_ids"]):
            cursor = await conn.execute("select lease_token from everwhen.leases where run_id = %s", (run_id,))
            if row := await cursor.fetchone():
                params["tokens"][n] = row[0]
        return await real(conn, **params)

    return broken


def _not_at_all(_real: Callable[..., Any]) -> Callable[..., Any]:
    async def broken(_conn, **_params):
        return []

    return broken


def _as_nothing(real: Callable[..., Any]) -> Callable[..., Any]:
    async def broken(conn, **params):
        return [replace(load, in_flight=0) for load in await real(conn, **params)]

    return broken


def _without_a_trace(real: Callable[..., Any]) -> Callable[..., Any]:
    async def broken(conn, **params):
        asked = await real(conn, **params)
        await conn.execute("delete from everwhen.waiting where run_id = %s", (params["run_id"],))
        await conn.execute(
            "update everwhen.leases set cancel_requested_at = null where run_id = %s", (params["run_id"],)
        )
        return asked

    return broken


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("place", "function", "broken"),
    [
        (store, "close_attempts", _without_failures),
        (store, "lock_expired_leases", _early),
        (store, "lock_overdue", _early),
        (store, "claim_runs", _early),
        (store, "claim_runs", _for_a_moment),
        (store, "renew_leases", _whatever_the_token),
        (store, "record_refusals", _not_at_all),
        (limits_store, "count_in_flight", _as_nothing),
        (limits_store, "offer_runs", _not_at_all),
        (runs_store, "request_cancel", _without_a_trace),
    ],
    ids=lambda value: getattr(value, "__name__", value).removeprefix("everwhen.").strip("_"),
)
def test_a_broken_statement_is_found(server, machine_database, monkeypatch, *, place, function, broken):
    monkeypatch.setattr(place, function, broken(getattr(place, function)))

    # What was found need not be found again: earlier examples leave runs to the reaper, and ids differ each time.
    with world_in(server, machine_database) as world, pytest.raises((AssertionError, Flaky)) as found:
        run_machine(world, steps_back=False, examples=ENOUGH, phases=(Phase.generate,))
    assert world.failures or isinstance(found.value, AssertionError)
