"""The observer and the sightings on a real database: what blocks a line is written when it changes, and only then."""

from datetime import timedelta
from uuid import UUID

import pytest

from everwhen.dispatch.brokers.store import note_broker
from everwhen.dispatch.lines import Lines
from everwhen.explaining.observer import Observer
from everwhen.explaining.sightings import PLATFORM, Sightings, by_queue
from everwhen.postgres.wakeups import Wakeups
from tests.dispatch.brokers.scene import deliver_by
from tests.dispatch.scene import LINE, make_line, report_on, rows, wish
from tests.factories import make_task

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


@pytest.fixture
async def line(database):
    return await make_line(database)


class Seen:
    """Lines of a process that has been asked by these."""

    def __init__(self, *asked):
        self.asked = list(asked)

    def seen(self):
        return self.asked


async def see(line, *asked, now, server=1):
    role = Sightings(database=line.db, lines=Seen(*asked), server_id=UUID(int=server))
    return (await role.tick(now)).done


def observer(line, **changes):
    return Observer(database=line.db, observer_id=UUID(int=9), **changes)


async def states(line):
    """(task, reason, seconds from its beginning to its end or None, facts) in the order of their beginnings."""
    return await rows(
        line.db,
        "select task, reason, extract(epoch from until - since)::float, facts from everwhen.line_states"
        " order by opened_at, reason",
    )


async def test_nobody_ever_asked_then_somebody_did(line):
    now = await line.now()
    await line.fill()
    role = observer(line)
    await role.tick(now + 10 * SECOND)
    await role.tick(now + 12 * SECOND)
    await see(line, (line.tenant.id, (LINE,), None), now=now + 13 * SECOND)
    await role.tick(now + 14 * SECOND)

    ((task, reason, seconds, facts),) = await states(line)
    assert (task, reason, facts) == ("", "worker.none_registered", {"queue": LINE})
    assert 13 < seconds < 14.1


async def test_nobody_asks_any_more_since_the_last_one_did(line):
    now = await line.now()
    await see(line, (line.tenant.id, (LINE,), None), now=now)
    await line.fill()
    await observer(line).tick(now + MINUTE)

    assert await states(line) == [("", "worker.none_live", None, {"queue": LINE, "last_seen": now.isoformat()})]
    assert await rows(line.db, "select since from everwhen.line_states") == [(now,)]


async def test_workers_of_the_platform_count_for_every_tenant(line):
    now = await line.now()
    await see(line, (None, (LINE,), None), now=now + MINUTE)
    await line.fill()
    await observer(line).tick(now + MINUTE)

    assert await states(line) == []


async def test_a_full_line_began_with_the_claim_that_filled_it(line):
    await line.set_lane(max_in_flight=1)
    await line.fill(2)
    (lease,) = await line.claim()
    now = lease.claimed_at
    await see(line, (line.tenant.id, (LINE,), None), now=now + MINUTE)
    role = observer(line)
    await role.tick(now + MINUTE)
    await line.complete(report_on(lease))
    await line.claim(now=now + MINUTE)
    await role.tick(now + MINUTE)

    assert await states(line) == [("", "limit.queue", 60.0, {"limit": 1, "queue": LINE, "in_flight": 1})]


async def test_a_changed_limit_is_another_state(line):
    await line.set_lane(max_in_flight=0)
    await line.fill()
    now = await line.now() + 5 * SECOND
    await see(line, (line.tenant.id, (LINE,), None), now=now)
    role = observer(line)
    await role.tick(now)
    await line.fill(3)
    await line.set_lane(max_in_flight=3)
    await line.claim(limit=3)
    await role.tick(now + 5 * SECOND)

    assert [(reason, seconds is None, facts["limit"]) for _, reason, seconds, facts in await states(line)] == [
        ("limit.queue", False, 0),
        ("limit.queue", True, 3),
    ]


async def test_busy_workers_are_not_missing_ones(line):
    await line.fill(2)
    (lease,) = await line.claim(limit=1, lease_seconds=3600.0)
    await see(line, (line.tenant.id, (LINE,), None), now=lease.claimed_at)
    await observer(line).tick(lease.claimed_at + MINUTE)

    assert [state[:2] for state in await states(line)] == [("", "worker.slots_full")]


async def test_a_task_that_nobody_knows_is_told_by_its_name(line):
    await make_task(line.db, line.tenant, name="export", queue=LINE)
    await line.fill(task="export")
    now = await line.now() + 5 * SECOND
    await see(line, (line.tenant.id, (LINE,), ("report",)), now=now)
    role = observer(line)
    await role.tick(now)
    assert await states(line) == [
        (
            "export",
            "worker.no_capability_match",
            None,
            {"task": "export", "queue": LINE, "why": "none of those that ask knows it"},
        )
    ]

    await see(line, (line.tenant.id, (LINE,), ("report",)), (None, (LINE,), ("export",)), now=now + SECOND)
    await role.tick(now + SECOND)

    assert [(reason, seconds) for _, reason, seconds, _ in await states(line)] == [("worker.no_capability_match", 1.0)]


async def test_a_backlog_is_told_with_its_size(line):
    await line.fill(5)
    now = await line.now() + 5 * SECOND
    await see(line, (line.tenant.id, (LINE,), None), now=now)
    await observer(line).tick(now)

    assert await states(line) == [("", "priority.behind", None, {"due": 5, "queue": LINE})]


async def test_two_observers_note_one_state_and_end_it_once(line):
    now = await line.now() + 5 * SECOND
    await line.fill()
    first, second = observer(line), Observer(database=line.db, observer_id=UUID(int=10))
    for role in (first, second):
        await role.tick(now)
    await line.claim()
    for role in (first, second):
        await role.tick(now + SECOND)

    assert [(reason, seconds is None) for _, reason, seconds, _ in await states(line)] == [
        ("worker.none_registered", False)
    ]


async def test_lines_are_looked_at_in_turn_and_the_first_one_again_after_the_last(line):
    for queue in ("a", "b", "c"):
        await make_task(line.db, line.tenant, name=queue, queue=queue)
        await line.fill(task=queue)
    now = await line.now() + 5 * SECOND
    role = observer(line, batch=2)
    assert (await role.tick(now)).done == 2
    assert {facts["queue"] for *_, facts in await states(line)} == {"a", "b"}

    await role.tick(now)
    await role.tick(now)
    assert {facts["queue"] for *_, facts in await states(line)} == {"a", "b", "c"}
    await line.claim(queues=("a",))
    await role.tick(now)

    assert [facts["queue"] for *_, seconds, facts in await states(line) if seconds is not None] == ["a"]


async def test_who_watched_is_known_and_a_break_begins_anew(line):
    now = await line.now()
    role = observer(line)
    for seconds in (0, 2, 4, 90, 92):
        await role.tick(now + seconds * SECOND)

    assert await rows(
        line.db, "select extract(epoch from until - since)::int from everwhen.observations order by since"
    ) == [(4,), (2,)]


async def test_sightings_are_forgotten_after_their_time(line):
    now = await line.now()
    await see(line, (line.tenant.id, (LINE,), None), now=now - timedelta(days=31))
    await see(line, (line.tenant.id, (LINE,), None), now=now, server=2)
    await observer(line).tick(now)

    assert await rows(line.db, "select server_id from everwhen.sightings") == [(UUID(int=2),)]


async def test_a_queue_that_nobody_has_leaves_no_trace(line):
    now = await line.now()

    assert await see(line, (line.tenant.id, ("made-up",), None), (None, ("made-up",), None), now=now) == 0
    assert await see(line, (UUID(int=77), (LINE,), None), now=now) == 0


def test_claims_are_joined_by_queue():
    tenant = UUID(int=5)
    asked = [
        (tenant, ("a", "b"), ("x",)),
        (tenant, ("a",), ("y",)),
        (tenant, ("c",), ("x",)),
        (tenant, ("c",), None),
        (None, ("a",), ("z",)),
    ]

    assert by_queue(asked) == {
        (tenant, "a"): {"x", "y"},
        (tenant, "b"): {"x"},
        (tenant, "c"): None,
        (PLATFORM, "a"): {"z"},
    }


def test_a_fleet_that_knows_too_many_tasks_counts_as_one_that_knows_all():
    asked = [(None, ("a",), tuple(f"{part}-{n}" for n in range(1_000))) for part in range(3)]

    assert by_queue(asked) == {(PLATFORM, "a"): None}


async def test_a_claim_is_remembered_until_it_was_read_whether_it_waits_or_not(line):
    lines = Lines(line.dispatch, Wakeups("host=unused"))
    waits, hurries = wish(tenant_id=line.tenant.id, tasks=("report",)), wish(tenant_id=line.tenant.id)

    async def still_there():
        return True

    await lines.take(waits, wait_seconds=0.01, still_there=still_there)
    await lines.take(hurries, wait_seconds=0, still_there=still_there)

    assert set(lines.seen()) == {(line.tenant.id, (LINE,), ("report",)), (line.tenant.id, (LINE,), None)}
    assert lines.seen() == []


async def test_the_past_of_lines_is_forgotten_after_a_while_and_who_watched_before_it(line):
    now = await line.now()
    old = now - timedelta(days=10)
    async with line.db.system() as conn:
        await conn.execute(
            "insert into everwhen.line_states (tenant_id, queue, task, reason, opened_at, since, until, facts)"
            " select %s, %s, 'task' || n, 'worker.none_live', at, at, case when n < 3 then at end, '{}'"
            " from unnest(%s::timestamptz[]) with ordinality as u (at, n)",
            (line.tenant.id, LINE, [old - timedelta(days=9), old, old]),
        )
        await conn.execute(
            "insert into everwhen.observations (observer_id, since, until)"
            " select %s, at, at from unnest(%s::timestamptz[]) at",
            (UUID(int=1), [old, now - MINUTE]),
        )
    await observer(line, kept=timedelta(days=7)).tick(now)

    # What goes on is kept, however long it does, until it is over; what ended, for a stretch of watching longer.
    kept = await rows(line.db, "select since from everwhen.line_states order by until")
    watched = await rows(line.db, "select since from everwhen.observations order by since")
    assert kept == [(old,), (old,)]
    assert watched == [(now - MINUTE,), (now,)]


async def test_a_stretch_of_watching_ends_in_time_and_the_next_one_begins_where_it_ends(line):
    now = await line.now()
    role = observer(line)
    await role.tick(now)
    async with line.db.system() as conn:
        await conn.execute("update everwhen.observations set since = since - interval '8 days'")
    role.place.since = now - timedelta(days=8)
    await role.tick(now + 2 * SECOND)
    await role.tick(now + 4 * SECOND)

    watched = await rows(line.db, "select since, until from everwhen.observations order by since")
    assert watched == [
        (now - timedelta(days=8), now + 2 * SECOND),
        (now + 2 * SECOND, now + 4 * SECOND),
    ]


async def test_a_queue_whose_broker_is_away_or_looked_after_by_nobody_says_so_until_it_is_told_again(line):
    now = await line.now()
    await deliver_by(line)
    await line.fill()
    role = observer(line)

    async def look(seconds, *, is_away=None):
        at = now + seconds * SECOND
        await see(line, (line.tenant.id, (LINE,), None), now=at)
        if is_away is not None:
            async with line.db.system() as conn:
                await note_broker(conn, broker="nats", is_away=is_away, detail="canary: nats-1 refused", now=at)
        await role.tick(at)

    await look(10)
    await look(12, is_away=False)
    await look(14, is_away=True)
    await look(20, is_away=True)
    await look(24, is_away=False)

    found = await states(line)
    assert [(reason, facts) for _, reason, _, facts in found] == [
        ("broker.unreachable", {"queue": LINE, "broker": "nats"}),
        ("broker.unreachable", {"queue": LINE, "broker": "nats"}),
    ]
    assert [round(seconds) for _, _, seconds, _ in found] == [12, 10]
