"""A run that waits says of its workers what it waits for, with numbers, wherever people look; and expires for it."""

import json
from datetime import timedelta
from uuid import UUID

import pytest

from everwhen import clock
from everwhen.core.capability import Requirements
from everwhen.core.fleets import PLATFORM
from everwhen.dispatch.reaper import Reaper
from everwhen.explaining.observer import Observer
from everwhen.explaining.service import explain
from everwhen.fleets import service as fleets
from everwhen.fleets.model import Announced, Beat
from everwhen.pauses import service as pauses
from everwhen.queues import service as queues
from everwhen.runs import service as runs
from tests.dispatch.scene import LINE, make_line
from tests.factories import make_task

SECOND = timedelta(seconds=1)
GPU = Requirements(labels={"zone": "a"}, resources={"gpu": 4.0})


@pytest.fixture
async def line(database):
    made = await make_line(database)
    await make_task(database, made.tenant, name="strict", queue=LINE, start_deadline_seconds=30.0)
    await make_task(database, made.tenant, name="train", queue=LINE, requires=GPU, start_deadline_seconds=600.0)
    return made


async def announce(line, number, *, labels=None, gpu=0.0, in_use=0.0, slots=1, held=0, tenant="own", wish=None):
    owner = line.tenant.id if tenant == "own" else None
    said = Announced(
        instance=UUID(int=number),
        name=f"w{number}",
        sdk=None,
        version=None,
        host=None,
        pid=None,
        slots=slots,
        tasks=None,
        queues=[LINE],
        labels=labels or {},
        resources={"gpu": gpu},
    )
    standing = await fleets.announce(line.db, tenant_id=owner, said=said)
    beat = Beat(instance=said.instance, held=held, in_use={"gpu": in_use}, heard=fleets.Wish.ACTIVE, is_stopping=False)
    await fleets.beat(line.db, tenant_id=owner, said=beat)
    if wish is not None:
        order = fleets.Order(wish=wish, by="tester")
        await fleets.order(line.db, tenant_id=owner, worker_id=standing.worker_id, order=order)


async def told(line, run_id):
    """(the reason in `why`, its sentence, the reason of the run itself, its numbers)."""
    said = await explain(line.db, tenant_id=line.tenant.id, tenant="acme", ref=str(run_id))
    view = await runs.get_run(line.db, tenant_id=line.tenant.id, ref=str(run_id))
    last = said.segments[-1]
    return last.segment.reason, last.sentence, view.row.reason, last.segment.facts


async def observe(line, *, after=20 * SECOND):
    await Observer(database=line.db, observer_id=clock.new_id(await line.now())).tick(await line.now() + after)


async def test_a_run_that_fits_nobody_says_what_it_asks_for_and_who_could_hold_it(line):
    (run_id,) = await line.fill(task="train")
    assert await line.claim() == []
    await announce(line, 1, labels={"zone": "a"}, gpu=8.0, in_use=6.0)
    await announce(line, 2, labels={"zone": "a"}, gpu=2.0, tenant=PLATFORM)
    await announce(line, 3, labels={"zone": "b"}, gpu=16.0)

    reason, sentence, of_run, numbers = await told(line, run_id)

    assert reason == of_run == "worker.no_capability_match"
    assert sentence == (
        "No worker of queue line fits the run of task train: it asks for gpu=4, the most that is free is gpu=2;"
        " 1 of 2 live workers could hold it."
    )
    assert (numbers["able"], numbers["fitting"], numbers["largest_free"]) == (1, 0, {"gpu": 2.0})


@pytest.mark.parametrize(
    ("wishes", "reason", "sentence"),
    [
        (("cordoned", "cordoned"), "worker.cordoned", "Every live worker of queue line was cordoned: 2 in all."),
        (
            ("cordoned", "draining"),
            "worker.draining",
            "Every live worker of queue line was drained, cordoned or about to stop: 2 in all.",
        ),
        (
            ("cordoned", None),
            "worker.slots_full",
            "Every slot of the workers at queue line was taken, with 1 runs in flight: all 3 slots of 1 live workers.",
        ),
    ],
)
async def test_a_fleet_that_takes_nothing_is_told_everywhere_and_runs_expire_for_it(line, wishes, reason, sentence):
    await line.fill()
    await line.claim()
    (run_id,) = await line.fill(task="strict")
    for number, wish in enumerate(wishes, start=1):
        await announce(line, number, slots=3, held=1, wish=wish and fleets.Wish(wish))
    await observe(line)

    said = await told(line, run_id)
    assert said[:3] == (reason, sentence, reason)
    queue = await queues.get_queue(line.db, tenant_id=line.tenant.id, name=LINE)
    assert reason in queue.line.reasons
    await Reaper(database=line.db, jitter=lambda: 0.0).tick(await line.now() + 31 * SECOND)
    assert await line.rows("select state, reason from everwhen.run_ends") == [("expired", reason)]


async def test_a_pause_is_why_a_run_waits_and_why_it_ends(line, database):
    (run_id,) = await line.fill(task="strict")
    wish = pauses.Wish(by="tester", reason="maintenance")
    await pauses.pause(database, tenant_id=line.tenant.id, queue=LINE, wish=wish)

    _, _, of_run, _ = await told(line, run_id)
    assert of_run == "queue.paused"
    view = await runs.get_run(database, tenant_id=line.tenant.id, ref=str(run_id))
    assert json.loads(view.row.reason_facts) == {"queue": LINE, "why": "maintenance"}
    await Reaper(database=database, jitter=lambda: 0.0).tick(await line.now() + 31 * SECOND)
    assert await line.rows("select state, reason from everwhen.run_ends") == [("expired", "queue.paused")]


async def test_where_nothing_is_known_to_be_wanting_the_deadline_is_the_reason(line, database):
    await line.fill(task="strict")
    await Reaper(database=database, jitter=lambda: 0.0).tick(await line.now() + 31 * SECOND)

    assert await line.rows("select state, reason from everwhen.run_ends") == [("expired", "start.deadline")]
