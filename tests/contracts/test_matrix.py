"""Every operation × {one's own, another tenant's, nobody's} × every role, generated from the document and the table.

What a role may do is asked of the table of roles, and the server has to do as it says: 403 without the permission, and
something else with it. Another tenant's path, and its names and ids on one's own path, are answered byte for byte like
those that nobody has, whatever the role.
"""

import pytest

from everwhen.http.edge import OPEN_PATHS
from everwhen.http.roles import ALLOWED, Permission, Role
from tests.contracts.roles_page import operations
from tests.contracts.test_isolation import (
    BODIES,
    CANARY,
    NAMELESS,
    NOBODY,
    PLATFORM,
    app_with_payloads,
    call,
    furnish,
    rows_of,
)
from tests.people import client_of, token_of

pytestmark = pytest.mark.timeout(300)

WRITERS = [role for role in Role if Permission.OPERATE in ALLOWED[role]]
SECRET_KEY = '"secret":'  # a key of every input that the tenants have


def test_every_operation_has_a_place_in_the_matrix(database):
    app = app_with_payloads(database)
    documented = {
        (path, operation["operationId"])
        for path, methods in app.openapi()["paths"].items()
        for operation in methods.values()
    }

    assert {name for path, name in documented if path not in OPEN_PATHS} == set(in_document(app))
    assert set(in_document(app)) == set(BODIES) | PLATFORM - {"live", "ready"}


async def test_roles_do_what_their_table_says_and_hear_nothing_of_others(database, server, work_database):
    app = app_with_payloads(database)
    _, canary = await furnish(database, name=CANARY)
    theirs = {role: await furnish(database, name=f"by-{role}") for role in WRITERS}
    shared = await furnish(database, name="readers")
    before, wrong, calls = rows_of(server, work_database), [], 0
    for role in Role:
        tenant, own = theirs.get(role, shared)
        async with client_of(app, token_of(role, tenant_id=tenant.id)) as client:
            for name, (method, path, permission) in in_document(app).items():
                may = permission in ALLOWED[role] and permission is not Permission.PLATFORM
                asked = Asked(client, name, method, path)
                found = await asked.platform_is_closed() if name in PLATFORM else await asked.of(own, canary, may=may)
                wrong += [f"{role}: {name}: {text}" for text in found]
                calls += asked.calls

    assert wrong == []
    assert rows_of(server, work_database) == before
    assert calls > len(BODIES) * len(Role) * 3


class Asked:
    """One operation, asked by one person."""

    def __init__(self, client, name, method, path):
        self.calls = 0
        self._client, self._name, self._method, self._path = client, name, method, path
        self._sees = None

    async def of(self, own, canary, *, may):
        """What is wrong with the answers about one's own things, another tenant's, and nobody's."""
        wrong = []
        theirs, nobodys = await self._ask(canary.tenant, canary), await self._ask(NOBODY.tenant, NOBODY)
        if theirs != nobodys or theirs[0] != 404:
            wrong.append(f"on another's path: {theirs} but {nobodys}")
        if self._name not in NAMELESS:
            theirs, nobodys = await self._ask(own.tenant, canary), await self._ask(own.tenant, NOBODY)
            if theirs != nobodys or theirs[0] not in ({404, 422} if may else {403}):
                wrong.append(f"by another's name: {theirs} but {nobodys}")
        status, text = await self._ask(own.tenant, own)
        if (status < 400) != may or (status != 403) != may:
            wrong.append(f"on one's own: {status} {text[:200]}")
        if CANARY in text:
            wrong.append("tells of another")
        return wrong

    async def platform_is_closed(self):
        """What is wrong with the answer to a tenant's token, for what is the platform's."""
        if self._name in ANYBODYS | OF_THE_TOKENS_TENANT:
            return []
        self.calls += 1
        answer = await self._client.request(self._method, self._path, json=PLATFORM_BODIES.get(self._name))
        return [] if answer.status_code == 403 else [f"for a tenant: {answer.status_code}"]

    async def _ask(self, tenant, things):
        self.calls += 1
        return await call(self._client, self._name, self._method, self._path, tenant=tenant, things=things)


ANYBODYS = {"list_reasons", "get_me", "begin_session", "get_session", "end_session"}
OF_THE_TOKENS_TENANT = {"post_service_task", "change_service_task", "get_service_task", "delete_service_task",
                        "set_service_task_status", "list_service_tasks"}  # fmt: skip
PLATFORM_BODIES = {
    "update_limits": {"schedules": 1},
    "create_tenant": {"name": "made"},
    "create_platform_revocation": {"subject": "x", "reason": "y"},
}


def in_document(app):
    """The operations, in the order in which they succeed one after the other on one's own things."""
    found = {name: each for name, each in operations(app).items() if not name.startswith("worker.")}
    return {name: found[name] for name in (*BODIES, *PLATFORM) if name in found}


async def test_payloads_are_shown_to_who_may_see_them_and_to_nobody_else(database):
    app = app_with_payloads(database)
    tenant, own = await furnish(database, name="payloads")
    reading = {name: each for name, each in in_document(app).items() if name in BODIES and each[2] is Permission.READ}
    for roles in ({"viewer"}, {"operator"}, {"editor"}, {"admin"}, {"viewer", "payloads"}, {"operator", "payloads"}):
        shown = set()
        async with client_of(app, token_of(*roles, tenant_id=tenant.id)) as client:
            for name, (method, path, _) in reading.items():
                _, text = await call(client, name, method, path, tenant=own.tenant, things=own)
                shown |= {name} if SECRET_KEY in text else set()
                assert SECRET_KEY not in text or '"withheld":true' not in text, name

        assert (shown >= MUST_SHOW) == bool(roles & {"editor", "admin", "payloads"}), roles
        assert shown >= MUST_SHOW or not shown, roles


MUST_SHOW = {"get_run", "get_schedule", "list_runs", "list_revisions", "get_workflow_run"}
