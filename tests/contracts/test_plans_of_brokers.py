"""What a tick of the relay costs does not depend on how much waits, nor on when its plans were made."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from everwhen.dispatch.brokers import store
from tests.contracts.test_plans import DEFINE, FILL, MOST_PAGES_A_ROW, NOW, TENANT, Watched, watched
from tests.database import TestServer

WINDOW = 100
BACKLOG = 3_000
LOOK_AT = NOW + timedelta(seconds=30)
DELIVER = """
    insert into everwhen.queues (tenant_id, name, delivery, created_at, updated_at)
    values ('{tenant}', 'line', 'nats', now(), now());
"""


@pytest.fixture
async def system(server: TestServer, fresh_database: str) -> AsyncIterator[Watched]:
    """A connection of the system's role."""
    made = await watched(server, fresh_database, "everwhen_system")
    yield made
    await made.conn.close()


def read_lines(conn: Any) -> Any:
    return store.read_lines(
        conn, brokers=["nats"], after_tenant_id=TENANT, after_queue="", window=WINDOW, limit=500, now=NOW
    )


def tell_new(conn: Any, room: int = WINDOW) -> Any:
    return store.tell_new(
        conn,
        tenant_ids=[TENANT],
        queues=["line"],
        brokers=["nats"],
        rooms=[room],
        look_at=LOOK_AT,
        limit=room,
        now=NOW,
    )


def tell_again(conn: Any) -> Any:
    return store.tell_again(conn, broker="nats", look_at=LOOK_AT, limit=WINDOW, now=LOOK_AT)


async def test_a_tick_touches_as_many_pages_as_it_tells_of_whatever_waits(system, server, fresh_database):
    def run(sql: str) -> None:
        with psycopg.connect(server.superuser(fresh_database), autocommit=True) as conn:
            conn.execute(sql.format(tenant=TENANT, now=NOW.isoformat(), first=1, last=BACKLOG))

    run(DEFINE + DELIVER)
    for call in (read_lines, tell_new, tell_again):
        await call(system.conn)
    run(FILL)

    pages, told = await system.pages(lambda: tell_new(system.conn))
    assert len(told) == WINDOW
    assert pages <= MOST_PAGES_A_ROW * WINDOW
    pages, (line,) = await system.pages(lambda: read_lines(system.conn))
    assert line.told == WINDOW
    assert pages <= MOST_PAGES_A_ROW
    pages, again = await system.pages(lambda: tell_again(system.conn))
    assert len(again) == WINDOW
    assert pages <= MOST_PAGES_A_ROW * WINDOW
    await system.conn.execute("delete from everwhen.waiting where run_id = any(%s)", ([told[0].run_id],))
    pages, forgotten = await system.pages(
        lambda: store.forget_taken(system.conn, tenant_id=TENANT, queue="line", limit=WINDOW)
    )
    assert forgotten == 1
    assert pages <= MOST_PAGES_A_ROW * WINDOW
    pages, one = await system.pages(lambda: tell_new(system.conn, room=1))
    assert len(one) == 1
    assert pages <= 10 * WINDOW, "it walks past what was told, and no further"
