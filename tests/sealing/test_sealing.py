"""Sealing in the database: a key for each tenant, rotation without writing a secret anew, and nothing in a dump."""

import asyncio
from secrets import token_hex

import psycopg
import pytest

from everwhen.errors import Unavailable
from everwhen.sealing.ring import KeyRing, SealBroken, UnknownSealingKey, new_entry, read_ring
from everwhen.sealing.service import Sealer, count_keys, rotate
from tests.factories import make_tenant
from tests.hunting import dump_of, found

OLD = read_ring(new_entry("old"))
NEW = read_ring(new_entry("new"))
BOTH = KeyRing({**NEW.keys, **OLD.keys})


async def seal(database, tenant, secrets, *, ring: KeyRing | None = OLD, version=1):
    async with database.tenant(tenant.id) as conn:
        return await Sealer(ring).seal(conn, tenant.id, secrets, version=version)


async def opened(database, tenant, sealed, *, ring=OLD, version=1):
    async with database.tenant(tenant.id) as conn:
        return await Sealer(ring).open(conn, tenant.id, sealed, version=version)


async def rows(database):
    async with database.system() as conn:
        found = await conn.execute("select tenant_id, wrapped, wrapped_by from everwhen.tenant_keys order by tenant_id")
        return await found.fetchall()


async def test_a_tenant_gets_one_key_with_its_first_secret(database):
    tenant, other = await make_tenant(database), await make_tenant(database)
    secrets = {"password": "p", "url": "https://u"}
    sealed = await seal(database, tenant, secrets)
    await seal(database, tenant, {"x": "y"})
    await seal(database, other, {})

    assert await opened(database, tenant, sealed) == secrets
    assert len(await rows(database)) == 1


async def test_the_system_opens_what_a_tenant_sealed(database):
    tenant = await make_tenant(database)
    sealed = await seal(database, tenant, {"a": "b"})
    async with database.system() as conn:
        assert await Sealer(OLD).open(conn, tenant.id, sealed) == {"a": "b"}


async def test_twenty_first_secrets_at_once_make_one_key(database):
    tenant = await make_tenant(database)
    made = await asyncio.gather(*(seal(database, tenant, {"n": str(number)}) for number in range(20)))

    assert len(await rows(database)) == 1
    for number, sealed in enumerate(made):
        assert await opened(database, tenant, sealed) == {"n": str(number)}


async def test_what_is_moved_does_not_open(database):
    tenant, other = await make_tenant(database), await make_tenant(database)
    sealed = await seal(database, tenant, {"a": "b"}, version=2)
    await seal(database, other, {"a": "c"})
    for where, moved, version in ((other, sealed, 2), (tenant, {"z": sealed["a"]}, 2), (tenant, sealed, 1)):
        with pytest.raises(SealBroken):
            await opened(database, where, moved, version=version)


async def test_a_tenants_key_that_is_put_into_anothers_row_does_not_open(database, server, work_database):
    tenant, other = await make_tenant(database), await make_tenant(database)
    await seal(database, tenant, {"a": "b"})
    sealed = await seal(database, other, {"a": "c"})
    with psycopg.connect(server.superuser(work_database), autocommit=True) as conn:
        conn.execute(
            "update everwhen.tenant_keys k set wrapped = f.wrapped from everwhen.tenant_keys f"
            " where k.tenant_id = %s and f.tenant_id = %s",
            (other.id, tenant.id),
        )

    with pytest.raises(SealBroken, match="altered"):
        await opened(database, other, sealed)


async def test_without_keys_nothing_is_kept_and_the_reason_is_told(database):
    tenant = await make_tenant(database)
    with pytest.raises(Unavailable) as refused:
        await seal(database, tenant, {"a": "b"}, ring=None)

    assert refused.value.code == "sealing.no_key"
    assert "EVERWHEN_SEALING_KEYS" in refused.value.detail
    assert await rows(database) == []


async def test_a_key_that_is_gone_is_named(database):
    tenant = await make_tenant(database)
    sealed = await seal(database, tenant, {"a": "b"})

    with pytest.raises(UnknownSealingKey, match="old is not in EVERWHEN_SEALING_KEYS"):
        await opened(database, tenant, sealed, ring=NEW)
    with pytest.raises(UnknownSealingKey, match="gone"):
        await opened(database, await make_tenant(database), sealed)


async def test_rotation_wraps_keys_anew_in_batches_and_no_secret_changes(database):
    tenants = [await make_tenant(database) for _ in range(7)]
    sealed = [await seal(database, tenant, {"a": tenant.name}) for tenant in tenants]
    before = await rows(database)

    first, second = await asyncio.gather(rotate(database, BOTH, batch=2), rotate(database, BOTH, batch=3))
    assert first.rewrapped + second.rewrapped == 7
    assert (await rotate(database, BOTH)).rewrapped == 0

    after = await rows(database)
    assert {by for _, _, by in after} == {"new"}
    assert not {wrapped for _, wrapped, _ in before} & {wrapped for _, wrapped, _ in after}
    for tenant, held in zip(tenants, sealed, strict=True):  # the old key is not needed any more
        assert await opened(database, tenant, held, ring=NEW) == {"a": tenant.name}
    assert [(count.wrapped_by, count.tenant_keys) for count in await count_keys(database)] == [("new", 7)]


async def test_rotation_leaves_what_it_cannot_open_and_counts_it(database):
    lost = read_ring(new_entry("lost"))
    await seal(database, await make_tenant(database), {"a": "b"}, ring=lost)
    await seal(database, await make_tenant(database), {"a": "b"})
    done = await rotate(database, BOTH, batch=1)

    assert (done.rewrapped, dict(done.stuck)) == (1, {"lost": 1})


async def test_a_dump_of_the_database_holds_no_secret(database, server, work_database):
    """A thousand canaries, sealed and kept in a table; none of them in a dump, however it might be written."""
    tenant = await make_tenant(database)
    canaries = {f"canary:{number}": f"canary+{token_hex(8)}/{number}" for number in range(1000)}
    sealed = await seal(database, tenant, canaries)
    url = server.superuser(work_database)
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("create table everwhen.kept_for_a_test (name text, sealed bytea)")
        with conn.cursor() as cursor:
            cursor.executemany("insert into everwhen.kept_for_a_test values (%s, %s)", list(sealed.items()))
        try:
            dump = await asyncio.to_thread(dump_of, url)
            assert dump.count("canary:") == 1000  # the check looks at the right thing
            assert found(dump, canaries.values()) == []
            conn.execute("insert into everwhen.kept_for_a_test values (%s, '')", (canaries["canary:7"],))
            assert found(await asyncio.to_thread(dump_of, url), canaries.values()) == [canaries["canary:7"]]
        finally:
            conn.execute("drop table everwhen.kept_for_a_test")
