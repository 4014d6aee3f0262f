"""Tenants through the services: an own one is found, another's is like one that is not there."""

import pytest

from everwhen.errors import Conflict, NotFound
from everwhen.tenants import service as tenants
from tests.factories import make_tenant


async def test_a_name_is_taken_once(database):
    await make_tenant(database, name="acme")

    with pytest.raises(Conflict) as refused:
        await make_tenant(database, name="acme")

    assert refused.value.code == "tenant.exists"


async def test_a_list_goes_on_after_the_last_name(database):
    for name in ("b", "a", "c"):
        await make_tenant(database, name=name)
    first = (await tenants.list_tenants(database, limit=2)).rows
    rest = (await tenants.list_tenants(database, after=first[-1].name, limit=2)).rows

    assert [tenant.name for tenant in [*first, *rest]] == ["a", "b", "c"]


async def test_a_bound_caller_finds_its_own_tenant_only(database):
    own, other = await make_tenant(database), await make_tenant(database)

    assert await tenants.find_tenant(database, name=own.name, bound_to=own.id) == own
    assert await tenants.find_tenant(database, name=other.name, bound_to=None) == other
    texts = set()
    for name in (other.name, "nobody"):
        with pytest.raises(NotFound) as refused:
            await tenants.find_tenant(database, name=name, bound_to=own.id)
        texts.add((refused.value.code, refused.value.detail))
    assert len(texts) == 1
