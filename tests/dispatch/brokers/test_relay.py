"""The relay: what is due is announced, once and no more, and again when nobody came; whatever the broker does."""

import asyncio
from datetime import timedelta

import pytest

from everwhen.dispatch.brokers import relay as relays
from everwhen.dispatch.brokers import store
from everwhen.pauses.service import Wish, pause
from everwhen.postgres.wakeups import queue_topic
from tests.dispatch.brokers.scene import MemoryBroker, deliver_by, make_relay, outbox
from tests.dispatch.scene import LINE, report_on
from tests.factories import make_task, make_tenant

MINUTE = timedelta(minutes=1)


@pytest.fixture
async def broker(line):
    await deliver_by(line)
    return MemoryBroker()


@pytest.fixture
def relay(line, broker):
    return make_relay(line.db, broker)


async def ticks(relay, now, *, most=50):
    """Tick until there is no more; return how much was done."""
    done = 0
    for _ in range(most):
        tick = await relay.tick(now)
        done += tick.done
        if not tick.more:
            return done, tick.next_at
    raise AssertionError("there is always more")


async def test_what_is_due_is_announced_once_with_its_attempt(line, broker, relay):
    (run_id,) = await line.fill()
    now = await line.now()

    assert (await ticks(relay, now))[0] == 1
    assert (await ticks(relay, now + MINUTE / 2))[0] == 0
    (notice,) = broker.messages
    assert (notice.tenant_id, notice.queue, notice.run_id, notice.attempt) == (line.tenant.id, LINE, run_id, 1)
    assert await outbox(line.db) == {run_id: (1, 1, True)}


async def test_nothing_is_announced_before_it_is_due_and_the_next_tick_is_then(line, broker, relay):
    await line.fill(due_in=MINUTE)
    now = await line.now()

    done, next_at = await ticks(relay, now)

    assert (done, broker.messages) == (0, [])
    assert next_at is not None
    assert now < next_at <= now + MINUTE
    assert (await ticks(relay, next_at))[0] == 1


async def test_only_lines_that_this_broker_delivers_are_announced(line, broker, relay):
    other = await make_tenant(line.db, name="other")
    await make_task(line.db, other, queue=LINE)
    await make_task(line.db, line.tenant, name="print", queue="print")
    (run_id,) = await line.fill()
    await line.fill(task="print")

    await ticks(relay, await line.now())

    assert broker.told() == [run_id]


async def test_urgent_runs_go_first_then_those_due_first(line, broker, relay):
    (late,) = await line.fill(due_in=timedelta(seconds=-1), priority=3)
    (early,) = await line.fill(due_in=timedelta(seconds=-5), priority=3)
    (urgent,) = await line.fill(priority=9)

    for expected in (urgent, early, late):
        await make_relay(line.db, broker, batch=1).tick(await line.now())
        assert broker.told()[-1] == expected


async def test_a_paused_line_is_told_of_nothing_and_expired_runs_neither(line, broker, relay):
    (stale, _) = await line.fill(2)
    expire = "update everwhen.waiting set expires_at = now() - interval '1 s' where run_id = %s returning 1"
    await line.rows(expire, stale)
    await pause(line.db, tenant_id=line.tenant.id, queue=LINE, wish=Wish(by="alice"))

    done, next_at = await ticks(relay, await line.now())

    assert (done, next_at) == (0, None)
    await line.rows("delete from everwhen.pauses returning 1")
    assert (await ticks(relay, await line.now()))[0] == 1
    await line.rows("update everwhen.waiting set expires_at = null returning 1")


async def test_a_run_that_was_taken_is_forgotten_and_its_next_attempt_is_announced(line, broker, relay):
    (run_id,) = await line.fill()
    now = await line.now()
    await ticks(relay, now)
    (lease,) = await line.claim()
    await line.complete(report_on(lease, "released"))

    await ticks(relay, await line.now())

    assert [each.attempt for each in broker.messages] == [1, 2]
    assert await outbox(line.db) == {run_id: (2, 1, True)}
    (lease,) = await line.claim()
    await line.complete(report_on(lease))
    await ticks(relay, await line.now() + 2 * MINUTE)
    assert await outbox(line.db) == {}
    assert len(broker.messages) == 2


async def test_what_nobody_came_for_is_told_again_ever_more_rarely_under_another_id(line, broker, relay):
    (run_id,) = await line.fill()
    now = await line.now()
    told_at = []
    for second in range(0, 1200, 10):
        before = len(broker.messages)
        await ticks(relay, now + timedelta(seconds=second))
        told_at += [second] * (len(broker.messages) - before)

    assert told_at == [0, 70, 190, 430, 910]
    assert len({each.message_id for each in broker.messages}) == len(told_at)
    assert set(broker.told()) == {run_id}


async def test_what_the_broker_did_not_take_is_told_again_under_the_same_id(line, broker, relay):
    run_ids = await line.fill(3)
    broker.takes = 1
    now = await line.now()
    await ticks(relay, now)
    assert len(broker.messages) == 1
    broker.takes = None

    await ticks(relay, await line.now() + relays.RETRY)

    assert sorted(broker.told()) == sorted(run_ids)
    assert len({each.told_at for each in broker.messages}) == 1


async def test_what_a_relay_died_with_is_told_again_by_another_under_the_same_id(line, broker, relay):
    await ticks(relay, await line.now())  # there is a mailbox
    (run_id,) = await line.fill()
    now = await line.now()
    async with line.db.system() as conn:
        (left,) = await store.tell_new(
            conn,
            tenant_ids=[line.tenant.id],
            queues=[LINE],
            brokers=["nats"],
            rooms=[10],
            look_at=now + relays.LEASE,
            limit=10,
            now=now,
        )
    assert (await ticks(relay, now))[0] == 0

    await ticks(relay, now + relays.LEASE)

    assert [each.message_id for each in broker.messages] == [left.notice.message_id]
    assert await outbox(line.db) == {run_id: (1, 2, True)}


async def test_no_more_than_a_window_is_told_of_and_what_was_taken_makes_room(line, broker):
    await line.fill(30)
    relay = make_relay(line.db, broker, window=10, batch=4)
    now = await line.now()

    assert (await ticks(relay, now))[0] == 10
    assert (await ticks(relay, now))[0] == 0
    taken = await line.claim(limit=3)
    assert len(taken) == 3
    assert (await ticks(relay, now))[0] == 3
    for lease in taken:
        await line.complete(report_on(lease))


async def test_a_tenants_backlog_leaves_room_for_another_in_each_batch(line, broker):
    other = await make_tenant(line.db, name="other")
    await make_task(line.db, other, queue="print")
    await line.fill(50)
    await line.rows(
        """insert into everwhen.queues (tenant_id, name, delivery, created_at, updated_at)
           values (%s, 'print', 'nats', now(), now()) returning 1""",
        other.id,
    )
    from tests.dispatch.scene import fill

    (theirs,) = await fill(line.db, other)
    relay = make_relay(line.db, broker, batch=10)

    await relay.tick(await line.now())

    assert theirs in broker.told()


async def test_a_broker_that_is_away_opens_its_own_circuit_and_is_written_down(line, broker):
    await make_task(line.db, line.tenant, name="print", queue="print")
    await deliver_by(line, "rabbitmq", queue="print")
    other = MemoryBroker(kind="rabbitmq")
    relay = make_relay(line.db, broker, other)
    (mail,) = await line.fill()
    (page,) = await line.fill(task="print")
    broker.is_away = True
    now = await line.now()

    await ticks(relay, now)

    assert (broker.told(), other.told()) == ([], [page])
    found = dict(await line.rows("select broker, is_away from everwhen.brokers"))
    assert found == {"nats": True, "rabbitmq": False}
    (lease,) = await line.claim(queues=(LINE,))  # who asks by HTTP is not concerned
    assert lease.run_id == mail
    await line.complete(report_on(lease))
    relay = make_relay(line.db, broker)
    relay.links["nats"].first_back_off = 60.0
    await ticks(relay, now)
    calls = broker.calls
    await ticks(relay, now)
    assert broker.calls == calls, "an open circuit asks nothing"


async def test_a_broker_that_is_back_gets_what_was_left(line, broker, relay):
    run_ids = await line.fill(3)
    now = await line.now()
    await ticks(relay, now)
    broker.messages.clear()
    broker.is_away = True
    later = now + relays.RETRY
    await line.fill(1)
    for _ in range(3):
        await relay.tick(later)
    assert (await line.rows("select is_away from everwhen.brokers")) == [(True,)]
    broker.is_away = False

    await ticks(relay, await line.now() + 2 * MINUTE)

    assert set(run_ids) < set(broker.told())
    assert (await line.rows("select is_away, detail from everwhen.brokers")) == [(False, "")]
    assert broker.connections == 2


async def test_a_mailbox_that_was_lost_is_made_again_and_everything_told_at_once(line, broker, relay):
    run_ids = await line.fill(3)
    now = await line.now()
    await ticks(relay, now)
    broker.lose_everything()
    (new,) = await line.fill(1)

    await ticks(relay, await line.now())  # finds that there is no mailbox
    await ticks(relay, await line.now() + relays.RETRY)

    assert set(broker.told()) == {*run_ids, new}


async def test_relays_beside_each_other_tell_each_run_once(line, broker):
    run_ids = await line.fill(60)
    now = await line.now()
    relay_copies = [make_relay(line.db, broker, batch=7) for _ in range(4)]

    await asyncio.gather(*(ticks(each, now) for each in relay_copies))

    assert sorted(broker.told()) == sorted(run_ids)


async def test_a_queue_that_is_asked_again_is_forgotten(line, broker, relay):
    await line.fill(2)
    now = await line.now()
    await ticks(relay, now)
    await deliver_by(line, "pull")

    await ticks(relay, now + 2 * MINUTE)

    assert await outbox(line.db) == {}
    assert len(broker.messages) == 2


async def test_it_is_woken_by_what_waits_at_its_lines(line, relay):
    assert relay.topics == frozenset()
    await relay.tick(await line.now())
    assert relay.topics == {queue_topic(line.tenant.id, LINE)}


async def test_more_lines_than_one_tick_looks_at_are_looked_at_by_the_next(line, broker, monkeypatch):
    monkeypatch.setattr(relays, "MOST_LINES", 2)
    for number in range(5):
        await make_task(line.db, line.tenant, name=f"t{number}", queue=f"q{number}")
        await deliver_by(line, queue=f"q{number}")
        await line.fill(task=f"t{number}")
    relay = make_relay(line.db, broker)

    assert (await ticks(relay, await line.now()))[0] == 5
    assert len(relay.topics) == 6


async def test_without_brokers_it_asks_for_nothing(line):
    assert (await make_relay(line.db).tick(await line.now())).done == 0
