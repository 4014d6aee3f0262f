"""A schedule whose stored spec cannot be read is in nobody's way: it can be deleted, and made anew."""

import pytest

from everwhen.errors import Conflict
from everwhen.postgres.pool import Database
from everwhen.schedules import service
from everwhen.tenants.model import Tenant
from tests.factories import TESTER, make_schedule, make_task, make_tenant


@pytest.fixture
async def tenant(database: Database) -> Tenant:
    """A tenant with a schedule, nightly, whose spec was written by a later version."""
    made = await make_tenant(database)
    await make_task(database, made)
    await make_schedule(database, made)
    async with database.system() as conn:
        await conn.execute("""update everwhen.schedules set spec = '{"trigger": {"kind": "lunar"}}'""")
    return made


async def test_an_unreadable_schedule_can_be_deleted_and_made_anew(database: Database, tenant: Tenant) -> None:
    await service.delete_schedule(database, tenant_id=tenant.id, name="nightly", change=TESTER)

    anew = await make_schedule(database, tenant)
    assert anew.next_at is not None


async def test_an_unreadable_schedule_says_so_when_it_is_changed(database: Database, tenant: Tenant) -> None:
    with pytest.raises(Conflict, match="make it anew"):
        await service.update_schedule(
            database, tenant_id=tenant.id, name="nightly", changes=lambda _: {"priority": 1}, change=TESTER
        )
