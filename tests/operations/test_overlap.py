"""Runs that an operation makes wait for room where their schedule limits overlap, unless the request says otherwise."""

from dataclasses import replace
from datetime import timedelta

import pytest

from everwhen.core.bulk import OperationKind, OperationState
from everwhen.core.overlap import OverlapWish
from everwhen.core.overlap_json import parse_overlap
from everwhen.core.triggers import Timing, parse_trigger
from everwhen.dead_letters import service as dead_letters
from everwhen.dead_letters.model import RedriveRequest
from everwhen.operations.operator import Operator
from everwhen.operations.service import Ask, BackfillAsk
from everwhen.schedules import service as schedules
from everwhen.schedules.model import ScheduleDraft, Spec
from everwhen.services import followers
from tests.factories import TESTER
from tests.operations.scene import begin, drain, let_be_due, read
from tests.overlap.scene import make_scene

HOURS = 4


@pytest.fixture
async def scene(database):
    """A schedule of every hour that skips a run while the one before goes on."""
    made = await make_scene(database)
    timing = Timing(parse_trigger({"kind": "cron", "expr": "0 * * * *"}))
    draft = ScheduleDraft(
        name="hourly", task="report", spec=Spec(timing=timing, overlap=parse_overlap({"policy": "skip"}))
    )
    await schedules.create_schedule(database, tenant_id=made.tenant.id, draft=draft, change=TESTER)
    return made


@pytest.fixture
def operator(database):
    return Operator(database=database, on_ended=followers())


def fill(scene, **changes):
    end = scene.start.replace(minute=0) - timedelta(hours=24)
    ask = BackfillAsk(schedule="hourly", start=end - timedelta(hours=HOURS), end=end)
    return replace(Ask(kind=OperationKind.BACKFILL, backfill=ask), **changes)


async def work_off(scene):
    """Let the gate decide and a worker succeed until there is nothing more; return how many ran at once, each time."""
    await scene.decide()
    at_once = []
    while leases := await scene.claim():
        at_once.append(len(leases))
        for lease in leases:
            await scene.end(lease)
        await scene.decide()
    return at_once


@pytest.mark.parametrize(
    ("wish", "at_once", "succeeded", "otherwise"),
    [
        (OverlapWish.WAIT, [1] * HOURS, HOURS, 0),
        (OverlapWish.RESPECT, [1], 1, HOURS - 1),
        (OverlapWish.IGNORE, [HOURS], HOURS, 0),
    ],
)
async def test_a_backfill_waits_for_room_or_does_as_it_is_told(  # noqa: PLR0917  # the table's columns
    scene, database, operator, wish, at_once, succeeded, otherwise
):
    row = await begin(database, scene.tenant, fill(scene, overlap=wish))
    await drain(operator)

    found = await work_off(scene)
    await let_be_due(database)
    await drain(operator)

    after = await read(database, scene.tenant, row.id)
    assert found == at_once
    assert (after.state, after.succeeded, after.ended) == (OperationState.SUCCEEDED, succeeded, otherwise)
    assert await scene.is_sound()


async def test_a_redrive_by_hand_waits_for_room(scene, database, operator):
    await begin(database, scene.tenant, fill(scene))
    await drain(operator)
    await scene.decide()
    [lease] = await scene.claim()
    await scene.end(lease, "failed")
    await scene.decide()

    made = await dead_letters.redrive_run(
        database, tenant_id=scene.tenant.id, ref=str(lease.run_id), request=RedriveRequest(by="tester")
    )
    found = await work_off(scene)

    assert made.row.is_held
    assert found == [1] * HOURS
    assert (await scene.get(made.row.run_id)).state == "succeeded"
    assert await scene.is_sound()
