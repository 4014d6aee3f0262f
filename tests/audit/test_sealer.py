# pyright: reportOptionalSubscript=false
"""The sealer: each event gets one link, in one chain for each tenant, whoever and however many chain it."""

import asyncio

import psycopg
import pytest

from everwhen import clock
from everwhen.audit import sealer as sealing
from everwhen.audit import service as audit
from everwhen.audit.model import Actor, Deed, Server
from everwhen.audit.sealer import ChainSealer
from everwhen.core.audit_chain import genesis, link
from tests.factories import make_tenant


async def tell(database, tenant, count):
    for number in range(count):
        async with database.tenant(tenant.id) as conn:
            deed = Deed(operation="create_task", resource=f"tasks/{number}", after={"name": str(number)})
            await audit.record(conn, tenant_id=tenant.id, actor=Actor(subject="ada"), deed=deed)


async def seal_all(database, **bounds):
    while (await ChainSealer(database=database, **bounds).tick(clock.process_now())).done:
        pass


@pytest.fixture
def rows(server, work_database):
    """Ask for the chain of a tenant, with what the events say."""
    with psycopg.connect(server.superuser(work_database), autocommit=True) as conn:
        yield lambda tenant: conn.execute(
            "select l.seq, l.epoch, l.hash, e.record from everwhen.audit_links l join everwhen.audit_events e"
            " using (tenant_id, event_id) where l.tenant_id = %s order by l.seq",
            (tenant.id,),
        ).fetchall()


def assert_chained(tenant, found, count):
    assert [seq for seq, *_ in found] == list(range(1, count + 1))
    previous = genesis(tenant.id)
    for seq, epoch, digest, record in found:
        previous = link(previous, seq=seq, epoch=epoch, record=record)
        assert digest == previous


async def test_each_tenant_has_a_chain_that_goes_on_from_tick_to_tick(database, rows):
    one, other = await make_tenant(database), await make_tenant(database)
    for _ in range(2):
        await tell(database, one, 5)
        await tell(database, other, 2)
        await seal_all(database, batch=2)

    assert_chained(one, rows(one), 10)
    assert_chained(other, rows(other), 4)
    async with database.system() as conn:
        assert (await audit.store.read_backlog(conn)).unsealed == 0


async def test_any_number_of_sealers_make_one_link_for_an_event(database, rows):
    tenants = [await make_tenant(database) for _ in range(3)]
    for tenant in tenants:
        await tell(database, tenant, 12)

    await asyncio.gather(*(seal_all(database, batch=3) for _ in range(4)))
    await seal_all(database)

    for tenant in tenants:
        assert_chained(tenant, rows(tenant), 12)


async def test_a_promoted_server_begins_another_epoch_and_goes_on_in_the_chain(database, rows, monkeypatch):
    tenant = await make_tenant(database)
    await tell(database, tenant, 2)
    await seal_all(database)

    async def promoted(_):
        return Server(server="7", timeline="00000002")

    monkeypatch.setattr(sealing.store, "find_server", promoted)
    await tell(database, tenant, 2)
    await seal_all(database)

    found = rows(tenant)
    assert_chained(tenant, found, 4)
    assert found[0][1] == found[1][1] != found[2][1] == found[3][1]
