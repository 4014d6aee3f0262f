"""Runs that require something of their worker, on real rows: offered where they fit, and in nobody's way."""

import json
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from everwhen.core.capability import Capacity, Requirements, fits
from everwhen.dispatch.reaper import Reaper
from everwhen.dispatch.service import Dispatch
from everwhen.dispatch.sharing import MOST_LANES
from everwhen.tasks import service as tasks
from everwhen.verify.service import verify
from tests.dispatch.scene import LINE, fill, ids, make_line, report_on, wish
from tests.factories import make_task, make_tenant

GPU = Requirements(resources={"gpu": 1})
BIG = Requirements(resources={"memory": 8})
ZONE_A = Requirements(labels={"zone": "a"})


@pytest.fixture(autouse=True)
async def every_promise_holds(database):
    yield
    assert await verify(database) == {}


@pytest.fixture(params=["own", "shared"])
async def claim(request, database):
    """A line whose task `report` requires nothing, `train` a GPU, `big` memory, `near` a label; and a way to claim."""
    line = await make_line(database)
    for name, requires in (("train", GPU), ("big", BIG), ("near", ZONE_A)):
        await make_task(database, line.tenant, name=name, queue=LINE, requires=requires)
    tenant_id = line.tenant.id if request.param == "own" else None

    async def claimed(*, labels=None, free=None, **changes):
        given = {"labels": tuple((labels or {}).items()), "free": tuple((free or {}).items())}
        return (await line.dispatch.claim(wish(tenant_id=tenant_id, **given, **changes))).leases

    claimed.line = line
    return claimed


async def parked(line):
    return await line.rows("select task, count(*) from everwhen.waiting where priority < 0 group by 1 order by 1")


async def test_a_run_is_given_only_to_a_worker_that_it_fits(claim):
    (gpu,) = await claim.line.fill(task="train")
    (near,) = await claim.line.fill(task="near")
    (plain,) = await claim.line.fill()

    assert ids(await claim()) == [plain]
    assert ids(await claim(labels={"zone": "b"}, free={"gpu": 0.5})) == []
    assert ids(await claim(labels={"zone": "a"}, free={"gpu": 0})) == [near]
    (lease,) = await claim(free={"gpu": 1})
    assert (lease.run_id, json.loads(lease.resources)) == (gpu, {"gpu": 1})


async def test_what_a_claim_takes_fits_together_and_the_most_urgent_that_fits_goes_first(claim):
    low = await claim.line.fill(3, task="train", priority=1)
    big = await claim.line.fill(1, task="big", priority=9)
    plain = await claim.line.fill(1, priority=0)
    first = ids(await claim(free={"gpu": 2, "memory": 4}))

    assert first == [*sorted(low)[:2], *plain]
    assert ids(await claim(free={"gpu": 1, "memory": 8}, limit=1)) == big
    assert ids(await claim(free={"gpu": 5})) == sorted(low)[2:]


async def test_a_parked_run_is_waiting_to_the_world_and_ends_when_it_may_not_begin_any_more(claim):
    await tasks.update_task(
        claim.line.db, tenant_id=claim.line.tenant.id, name="train", changes={"start_deadline_seconds": 60.0}
    )
    await claim.line.fill(2, task="train")
    assert await claim() == []
    assert await parked(claim.line) == [("train", 2)]

    await Reaper(database=claim.line.db, jitter=lambda: 0.0).tick(await claim.line.now() + timedelta(seconds=61))
    ends = await claim.line.rows("select state, reason, count(*) from everwhen.run_ends group by 1, 2")
    assert ends == [("expired", "worker.no_capability_match", 2)]


async def test_runs_that_fit_nobody_are_passed_over_once(claim):
    await claim.line.fill(300, task="train", priority=9)
    plain = await claim.line.fill(1)

    assert ids(await claim(limit=1)) == plain
    assert await parked(claim.line) == [("train", 300)]


async def test_a_task_that_requires_nothing_any_more_lets_its_runs_go(claim):
    runs = await claim.line.fill(2, task="train")
    assert await claim() == []
    await tasks.update_task(claim.line.db, tenant_id=claim.line.tenant.id, name="train", changes={"requires": None})
    await Reaper(database=claim.line.db, jitter=lambda: 0.0).tick(await claim.line.now())

    assert sorted(ids(await claim())) == sorted(runs)


async def test_requirements_that_change_hold_at_the_next_claim(claim):
    (run,) = await claim.line.fill(task="train")
    assert await claim(free={"gpu": 1}, tasks=("report",)) == []
    more = {"requires": {"labels": {}, "resources": {"gpu": 2.0}}}
    await tasks.update_task(claim.line.db, tenant_id=claim.line.tenant.id, name="train", changes=more)

    assert await claim(free={"gpu": 1}) == []
    assert ids(await claim(free={"gpu": 2})) == [run]


async def test_a_limit_of_the_task_holds_besides(claim):
    await tasks.update_task(claim.line.db, tenant_id=claim.line.tenant.id, name="train", changes={"max_in_flight": 1})
    runs = await claim.line.fill(3, task="train")
    assert await claim() == []
    first = await claim(free={"gpu": 4})
    assert len(first) == 1
    assert await claim(free={"gpu": 4}) == []
    await claim.line.complete(*(report_on(lease) for lease in first))
    second = await claim(free={"gpu": 4})

    assert len(second) == 1
    assert {lease.run_id for lease in (*first, *second)} < set(runs)


async def test_lines_in_which_nothing_fits_keep_no_other_line_from_being_served(database):
    """More tenants than one claim locks lines of, each with runs that nobody's worker can take, and one other."""
    dispatch = Dispatch(database, jitter=lambda: 0.0)
    for _ in range(MOST_LANES + 3):
        tenant = await make_tenant(database)
        await make_task(database, tenant, name="train", queue=LINE, requires=GPU)
        await fill(database, tenant, task="train", count=2)
    plain = await make_line(database)
    (run,) = await plain.fill()
    async with database.system() as conn:
        await conn.execute("update everwhen.lanes set virtual_time = 100 where tenant_id = %s", (plain.tenant.id,))
    found = [ids((await dispatch.claim(wish(tenant_id=None))).leases) for _ in range(3)]

    assert [run] in found
    assert (await dispatch.claim(wish(tenant_id=None))).leases == []
    assert len((await dispatch.claim(wish(tenant_id=None, free=(("gpu", 3.0),)))).leases) == 3


AMOUNTS = st.dictionaries(st.sampled_from("abc"), st.floats(0, 4, allow_subnormal=False), max_size=3)
LABELS = st.dictionaries(st.sampled_from("xyz"), st.sampled_from(["1", "2", "ä\\"]), max_size=3)


async def test_the_database_and_the_core_say_the_same(database):
    async with database.system() as conn:

        async def says(required, capacity):
            row = await (
                await conn.execute(
                    "select everwhen.fits(%s::jsonb, %s::jsonb, %s::jsonb)",
                    (
                        json.dumps({"labels": dict(required.labels), "resources": dict(required.resources)}),
                        json.dumps(dict(capacity.labels)),
                        json.dumps(dict(capacity.free)),
                    ),
                )
            ).fetchone()
            return row[0]

        cases = []

        @settings(max_examples=60, database=None, suppress_health_check=list(HealthCheck))
        @given(LABELS, AMOUNTS, LABELS, AMOUNTS)
        def collect(labels, resources, has, free):
            cases.append((Requirements(labels=labels, resources=resources), Capacity(labels=has, free=free)))

        collect()
        same = Requirements(labels={"x": "1"}, resources={"a": 0.1})
        cases.append((same, Capacity(labels=same.labels, free=same.resources)))
        found = [(await says(*case), fits(*case)) for case in cases]

    assert all(sql == core for sql, core in found)
    assert {core for _, core in found} == {True, False}
