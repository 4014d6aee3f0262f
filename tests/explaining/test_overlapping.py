"""Why, where runs of one schedule overlap, and where a queue or the tenant is paused: word for word."""

from datetime import timedelta

import pytest

from everwhen.explaining import service
from tests.explaining.scene import NIGHT, sentences, told
from tests.overlap.scene import make_scene as make_gated

REF = "nightly@2025-11-17T02:30+01:00"
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


@pytest.fixture
async def gated(database):
    return await make_gated(database)


async def why(gated, minute):
    ref = f"minutely@{gated.start + minute * MINUTE:%Y-%m-%dT%H:%M}"
    return await service.explain(gated.db, tenant_id=gated.tenant.id, tenant=gated.tenant.name, ref=ref)


def name(gated, minute):
    return f"minutely@{gated.start + minute * MINUTE:%Y-%m-%dT%H:%M}+00:00"


async def test_skipped_since_the_previous_run_had_not_ended(gated):
    await gated.create(policy="skip")
    await gated.minute(0)
    await gated.claim()
    await gated.minute(1)
    said = await why(gated, 1)

    assert (said.state, said.reason) == ("skipped", "overlap.previous_running")
    assert said.headline == (
        f"Skipped. {name(gated, 0)} had not ended, and the schedule's overlap policy skips what becomes due meanwhile."
    )
    assert said.segments == ()
    assert said.policy["schedule"]["overlap"]["policy"] == "skip"
    assert said.remedies[0].action == "everwhen schedule update minutely"


async def test_late_since_the_previous_run_had_not_ended(gated):
    await gated.create(policy="buffer_one")
    await gated.minute(0)
    (lease,) = await gated.claim()
    await gated.minute(1)
    await gated.minute(1, seconds=30)
    await gated.end(lease)
    await gated.minute(1, seconds=32)
    await gated.claim()
    said = await why(gated, 1)

    assert said.headline == "Started 32s late: 30s for the previous run to end, 2s in the line."
    assert [(each.segment.reason, each.segment.duration) for each in said.segments] == [
        ("overlap.buffered", 30 * SECOND),
        ("queue.waiting", 2 * SECOND),
    ]
    assert said.segments[0].sentence == (
        f"{name(gated, 0)} had not ended, and the schedule's overlap policy makes the next one wait."
    )


async def change(scene, queue, action, at, *, reason=None):
    async with scene.db.system() as conn:
        await conn.execute(
            "insert into everwhen.pause_changes (tenant_id, queue, action, changed_by, reason, changed_at)"
            " values (%s, %s, %s, 'mk', %s, %s)",
            (scene.tenant.id, queue, action, reason, at),
        )


async def test_a_paused_queue_and_then_a_paused_tenant(scene):
    await scene.schedule(decided=NIGHT - MINUTE)
    await scene.plan(NIGHT - 10 * SECOND)
    await change(scene, "line", "paused", NIGHT - 60 * MINUTE, reason="disk swap")
    await change(scene, "other", "paused", NIGHT - 60 * MINUTE, reason="not this one")
    await change(scene, "", "paused", NIGHT + MINUTE, reason="bill unpaid")
    await change(scene, "line", "resumed", NIGHT + 2 * MINUTE)
    await change(scene, "", "resumed", NIGHT + 3 * MINUTE)
    await scene.claim(NIGHT + 3 * MINUTE + SECOND)
    said = await scene.why(REF)

    assert told(said) == [("queue.paused", 60.0), ("tenant.paused", 120.0), ("queue.waiting", 1.0)]
    assert sentences(said)[:2] == ["Queue line was paused: disk swap.", "The tenant was paused: bill unpaid."]
    assert said["headline"] == (
        "Started 3m 1s late: 1m with its queue paused, 2m with the tenant paused, 1s in the line."
    )
    assert [each["reason"] for each in said["also_blocking"]] == ["queue.paused"]


async def test_a_pause_that_goes_on_and_one_that_was_over_before(scene):
    await scene.schedule(decided=NIGHT - MINUTE)
    await scene.plan(NIGHT - 10 * SECOND)
    await change(scene, "line", "paused", NIGHT - 60 * MINUTE, reason="over")
    await change(scene, "line", "resumed", NIGHT - 50 * MINUTE)
    await change(scene, "line", "paused", NIGHT - MINUTE, reason="again")
    await change(scene, "line", "paused", NIGHT + MINUTE, reason="again, longer")
    said = await scene.why(REF)

    assert [reason for reason, _ in told(said)] == ["queue.paused"]
    assert sentences(said) == ["Queue line was paused: again."]
