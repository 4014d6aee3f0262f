from uuid import UUID


async def test_a_tenants_transaction_is_bound_to_it(database):
    async with database.tenant(UUID(int=7)) as conn:
        cursor = await conn.execute("select current_user, current_setting('everwhen.tenant')")
        assert await cursor.fetchone() == ("everwhen_tenant", str(UUID(int=7)))
