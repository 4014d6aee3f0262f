"""Pauses of queues and tenants stop the next claim; pauses end by themselves; schedules that fail pause themselves."""

from datetime import timedelta

import pytest

from everwhen.core.retry import RetryPolicy
from everwhen.dispatch.service import Claim
from everwhen.errors import Conflict, InvalidInput, NotFound
from everwhen.pauses import service as pauses
from everwhen.pauses.model import WHOLE_TENANT
from everwhen.pauses.service import Wish
from everwhen.schedules import service as schedules
from tests.factories import TESTER
from tests.overlap.scene import MINUTE, QUEUE, Scene, make_scene

WISH = Wish(by="ann", reason="database move")


@pytest.fixture
async def scene(database) -> Scene:
    return await make_scene(database, retry=RetryPolicy(max_attempts=1))


async def shared_claim(scene: Scene) -> int:
    """How many runs a worker of the platform gets."""
    claim = Claim(tenant_id=None, queues=(QUEUE,), tasks=None, worker="w", limit=10, lease_seconds=60.0)
    return len((await scene.dispatch.claim(claim, now=scene.now)).leases)


@pytest.mark.parametrize("queue", [QUEUE, WHOLE_TENANT], ids=["queue", "tenant"])
async def test_nothing_is_handed_out_of_what_is_paused_until_it_goes_on(scene: Scene, queue: str) -> None:
    await scene.create()
    await scene.minute(0)
    await pauses.pause(scene.db, tenant_id=scene.tenant.id, queue=queue, wish=WISH)
    assert await scene.claim() == []
    assert await shared_claim(scene) == 0
    await scene.minute(1)  # planning goes on

    await pauses.resume(scene.db, tenant_id=scene.tenant.id, queue=queue, wish=Wish(by="bob"))

    assert len(await scene.claim()) == 2
    changes = (await pauses.list_changes(scene.db, tenant_id=scene.tenant.id, limit=10)).rows
    assert [(change.queue, change.action, change.changed_by) for change in changes] == [
        (queue, "paused", "ann"),
        (queue, "resumed", "bob"),
    ]


async def test_the_pause_of_another_queue_or_tenant_stops_nobody(scene: Scene, database) -> None:
    other = await make_scene(database)
    await scene.create()
    await scene.minute(0)

    await pauses.pause(database, tenant_id=other.tenant.id, queue=WHOLE_TENANT, wish=WISH)
    await pauses.pause(database, tenant_id=other.tenant.id, queue=QUEUE, wish=WISH)

    assert len(await scene.claim()) == 1


async def test_a_queue_stays_paused_when_its_tenant_goes_on(scene: Scene) -> None:
    await scene.create()
    await scene.minute(0)
    for queue in (QUEUE, WHOLE_TENANT):
        await pauses.pause(scene.db, tenant_id=scene.tenant.id, queue=queue, wish=WISH)
    found = (await pauses.list_pauses(scene.db, tenant_id=scene.tenant.id, after=None, limit=10)).rows
    assert [pause.queue for pause in found] == [WHOLE_TENANT, QUEUE]

    await pauses.resume(scene.db, tenant_id=scene.tenant.id, queue=WHOLE_TENANT, wish=WISH)

    assert await scene.claim() == []


async def test_a_pause_with_an_end_ends_at_it_and_the_attendant_records_that(scene: Scene) -> None:
    await scene.create()
    until = scene.start + MINUTE
    wish = Wish(by="ann", reason="why", until=until)
    await pauses.pause(scene.db, tenant_id=scene.tenant.id, queue=QUEUE, wish=wish)
    await scene.minute(0)
    tick = await scene.attend()
    assert (await scene.claim(), tick.done, tick.next_at) == ([], 0, until)

    await scene.minute(1)
    claimed = await scene.claim()
    tick = await scene.attend()

    assert (len(claimed), tick.done) == (2, 1)
    *_, last = (await pauses.list_changes(scene.db, tenant_id=scene.tenant.id, limit=10)).rows
    assert (last.action, last.changed_by, last.changed_at) == ("resumed", "everwhen", until)
    assert await scene.rows("select 1 from everwhen.pauses") == []


async def test_what_cannot_be_paused_or_resumed_is_refused(scene: Scene) -> None:
    mine = {"tenant_id": scene.tenant.id}
    with pytest.raises(NotFound):
        await pauses.pause(scene.db, **mine, queue="nowhere", wish=WISH)
    with pytest.raises(Conflict, match="not paused"):
        await pauses.resume(scene.db, **mine, queue=QUEUE, wish=WISH)
    await pauses.pause(scene.db, **mine, queue=QUEUE, wish=WISH)
    with pytest.raises(Conflict, match="paused already"):
        await pauses.pause(scene.db, **mine, queue=QUEUE, wish=WISH)
    for until in (scene.start - timedelta(days=1), scene.start + timedelta(days=4_000)):
        with pytest.raises(InvalidInput):
            await pauses.pause(scene.db, **mine, queue=WHOLE_TENANT, wish=Wish(by="ann", reason="x", until=until))


async def test_a_schedule_is_resumed_when_its_pause_was_to_end(scene: Scene) -> None:
    await scene.create()
    until = scene.start + MINUTE
    paused = await schedules.pause_schedule(
        scene.db, tenant_id=scene.tenant.id, name="minutely", change=TESTER, until=until
    )
    scene.now = scene.start
    before = await scene.attend()
    scene.now = until

    after = await scene.attend()
    again = await scene.attend()

    assert paused.paused_until == until
    assert (before.done, before.next_at, after.done, again.done) == (0, until, 1, 0)
    schedule = await schedules.get_schedule(scene.db, tenant_id=scene.tenant.id, name="minutely")
    assert (schedule.state, schedule.paused_until) == ("active", None)
    revisions = await schedules.list_revisions(scene.db, tenant_id=scene.tenant.id, name="minutely", limit=10)
    changes = await scene.rows("select action, changed_by from everwhen.schedule_revisions order by revision")
    assert tuple(changes[-1]) == ("resumed", "everwhen")
    assert len(revisions) == 3


async def test_a_pause_that_somebody_has_ended_is_not_ended_again(scene: Scene) -> None:
    await scene.create()
    until = scene.start + MINUTE
    mine = {"tenant_id": scene.tenant.id, "name": "minutely", "change": TESTER}
    await schedules.pause_schedule(scene.db, **mine, until=until)
    await schedules.resume_schedule(scene.db, **mine)
    await schedules.pause_schedule(scene.db, **mine)
    scene.now = until

    assert (await scene.attend()).done == 0
    schedule = await schedules.get_schedule(scene.db, tenant_id=scene.tenant.id, name="minutely")
    assert schedule.state == "paused"


async def fail(scene: Scene, *outcomes: str, first: int = 0) -> None:
    for number, outcome in enumerate(outcomes, start=first):
        await scene.minute(number)
        for lease in await scene.claim():
            await scene.end(lease, outcome)


async def test_a_schedule_pauses_itself_after_failures_in_a_row_and_names_them(scene: Scene) -> None:
    await scene.create(pause_after_failures=2)
    await fail(scene, "failed", "succeeded", "failed")
    assert (await scene.attend()).done == 0

    await fail(scene, "failed", first=3)
    tick = await scene.attend()

    schedule = await schedules.get_schedule(scene.db, tenant_id=scene.tenant.id, name="minutely")
    assert (tick.done, schedule.state, schedule.revision) == (1, "paused", 2)
    failed = [
        str(run_id) for (run_id,) in await scene.rows("select run_id from everwhen.run_ends where state = 'dead'")
    ]
    assert schedule.state_reason is not None
    assert schedule.state_reason.startswith("schedule.failing: 2 runs in a row have failed")
    assert sum(run_id in schedule.state_reason for run_id in failed) == 2
    assert (await scene.attend()).done == 0


async def test_to_resume_begins_the_count_anew(scene: Scene) -> None:
    await scene.create(policy="skip", pause_after_failures=2)
    await fail(scene, "failed", "failed")
    await scene.attend()
    await schedules.resume_schedule(scene.db, tenant_id=scene.tenant.id, name="minutely", change=TESTER)

    assert await scene.rows("select failures, run_ids, pause_at from everwhen.streaks") == [(0, [], None)]
    assert (await scene.attend()).done == 0


async def test_a_schedule_that_was_resumed_before_the_attendant_came_is_left_alone(scene: Scene) -> None:
    await scene.create(pause_after_failures=1)
    await fail(scene, "failed")
    mine = {"tenant_id": scene.tenant.id, "name": "minutely", "change": TESTER}
    await schedules.pause_schedule(scene.db, **mine)
    await schedules.resume_schedule(scene.db, **mine)

    assert (await scene.attend()).done == 0


async def test_an_expired_run_is_a_failure_and_one_asked_for_by_hand_does_not_count(database) -> None:
    scene = await make_scene(database, start_deadline_seconds=30.0)
    await scene.create(pause_after_failures=2)
    await scene.request()
    for lease in await scene.claim():
        await scene.end(lease, "failed")
    await scene.minute(0)
    await scene.minute(0, seconds=31)

    await scene.reap()

    assert await scene.rows("select failures from everwhen.streaks") == [(1,)]
