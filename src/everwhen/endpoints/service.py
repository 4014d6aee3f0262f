"""What can be done with the endpoint of a queue: say where its runs are posted, take that back, have it tested.

A queue has one endpoint or none. While it has one, its runs are posted to it (`calling.py`); workers that ask for them
get some, too, so that a fleet can be moved to an endpoint and back without a gap.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from everwhen.egress.policy import EgressPolicy
from everwhen.egress.standard_webhooks import WrongHeader, check_headers, fits, read_key
from everwhen.egress.targets import TargetRefused, read_url
from everwhen.endpoints import store
from everwhen.endpoints.model import SECRETS, Endpoint, EndpointDraft
from everwhen.errors import Conflict, InvalidInput, NotFound
from everwhen.postgres.pool import Connection, Database
from everwhen.postgres.wakeups import notify, role_topic
from everwhen.revisions import ANY, Expected, refuse_stale, stale
from everwhen.sealing.service import Sealer

CODE: Final = "endpoint.configuration"
TESTS_EVERY: Final = timedelta(seconds=10)
CALLER_TOPIC: Final = role_topic("caller")


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointsDesk:
    """Where endpoints are managed: the database, what seals, and what may be reached."""

    database: Database
    sealer: Sealer
    policy: EgressPolicy


async def put_endpoint(
    desk: EndpointsDesk, *, tenant_id: UUID, queue: str, draft: EndpointDraft, by: str, expected: Expected = ANY
) -> tuple[Endpoint, bool]:
    """Say where a queue's runs are posted; return it, and whether it is new.

    Raises InvalidInput, and PreconditionFailed when it is not the revision that was expected.
    """
    check(draft, policy=desk.policy)
    async with desk.database.tenant(tenant_id) as conn:
        is_new = await _write(conn, tenant_id=tenant_id, queue=queue, draft=draft, by=by, expected=expected)
        await _put_secrets(conn, desk.sealer, tenant_id=tenant_id, queue=queue, secrets=draft.secrets)
        made = await _read(conn, tenant_id=tenant_id, queue=queue)
        if "secret" not in made.secret_names:
            raise _wrong("/secrets/secret", "This secret is needed: it signs what is posted.")
        await notify(conn, [CALLER_TOPIC])
        return made, is_new


async def get_endpoint(db: Database, *, tenant_id: UUID, queue: str) -> Endpoint:
    """Return the endpoint of a queue; raise NotFound."""
    async with db.tenant(tenant_id) as conn:
        return await _read(conn, tenant_id=tenant_id, queue=queue)


async def delete_endpoint(db: Database, *, tenant_id: UUID, queue: str, expected: Expected = ANY) -> None:
    """Post nothing more: runs wait for workers. What is under way is brought to its end."""
    async with db.tenant(tenant_id) as conn:
        locked = await store.lock_endpoint(conn, tenant_id=tenant_id, queue=queue)
        if locked is None:
            raise _no_endpoint(queue)
        refuse_stale(expected, locked.revision)
        await store.delete_endpoint(conn, tenant_id=tenant_id, queue=queue, among=expected.among)


async def ask_for_test(db: Database, *, tenant_id: UUID, queue: str) -> Endpoint:
    """Have a signed test posted; what it was answered can be read a moment later."""
    async with db.tenant(tenant_id) as conn:
        await _read(conn, tenant_id=tenant_id, queue=queue)
        before = conn.now - TESTS_EVERY
        if not await store.ask_for_test(conn, tenant_id=tenant_id, queue=queue, before=before, now=conn.now):
            raise Conflict("A test was asked for a moment ago; wait ten seconds.", code="endpoint.tested")
        await notify(conn, [CALLER_TOPIC])
        return await _read(conn, tenant_id=tenant_id, queue=queue)


def check(draft: EndpointDraft, *, policy: EgressPolicy) -> None:
    """Raise InvalidInput that points at what cannot be: a target that may not be reached, a header, a secret."""
    try:
        read_url(draft.url, policy=policy)
    except TargetRefused as refused:
        raise _wrong("/url", str(refused)) from None
    try:
        check_headers(draft.headers)
    except WrongHeader as wrong:
        name = "" if wrong.name is None else f"/{wrong.name.replace('~', '~0').replace('/', '~1')}"
        raise _wrong(f"/headers{name}", str(wrong)) from None
    for name, text in draft.secrets.items():
        _check_secret(name, text)


def _check_secret(name: str, text: str) -> None:
    if name not in SECRETS:
        raise _wrong(f"/secrets/{name}", f"The secrets of an endpoint are {', '.join(SECRETS)}.")
    if name == "authorization":
        if text and not fits(text):
            raise _wrong("/secrets/authorization", "This is one line of printable ASCII.")
    elif (text or name == "secret") and read_key(text) is None:
        raise _wrong(f"/secrets/{name}", "A signing secret is `whsec_` followed by 24 to 64 bytes in base64.")


async def _write(
    conn: Connection, *, tenant_id: UUID, queue: str, draft: EndpointDraft, by: str, expected: Expected
) -> bool:
    """Write the open part; return whether it is new."""
    values: dict[str, Any] = {
        "url": draft.url,
        "headers": json.dumps(dict(draft.headers)),
        "answer_seconds": draft.answer_seconds,
        "accept_seconds": draft.accept_seconds,
    }
    locked = await store.lock_endpoint(conn, tenant_id=tenant_id, queue=queue)
    if locked is None:
        if not expected.absent:
            raise _no_endpoint(queue)
        if not await store.insert_endpoint(conn, tenant_id=tenant_id, queue=queue, by=by, now=conn.now, **values):
            locked = await store.lock_endpoint(conn, tenant_id=tenant_id, queue=queue)
            raise stale(expected, locked.revision if locked else 1)
        await store.insert_state(conn, tenant_id=tenant_id, queue=queue)
        return True
    refuse_stale(expected, locked.revision)
    await store.update_endpoint(
        conn, tenant_id=tenant_id, queue=queue, by=by, among=expected.among, now=conn.now, **values
    )
    await store.forget_health(conn, tenant_id=tenant_id, queue=queue)
    return False


async def _put_secrets(
    conn: Connection, sealer: Sealer, *, tenant_id: UUID, queue: str, secrets: Mapping[str, str]
) -> None:
    given = {place(queue, name): text for name, text in secrets.items() if text}
    for where, sealed in (await sealer.seal(conn, tenant_id, given)).items():
        name = where.rpartition("/")[2]
        await store.put_secret(conn, tenant_id=tenant_id, queue=queue, name=name, sealed=sealed)
    for name, text in secrets.items():
        if not text:
            await store.delete_secret(conn, tenant_id=tenant_id, queue=queue, name=name)


async def _read(conn: Connection, *, tenant_id: UUID, queue: str) -> Endpoint:
    row = await store.get_endpoint(conn, tenant_id=tenant_id, queue=queue)
    if row is None:
        raise _no_endpoint(queue)
    secrets = await store.list_secrets(conn, tenant_id=tenant_id, queues=[queue])
    return Endpoint(row, tuple(each.name for each in secrets))


def place(queue: str, name: str) -> str:
    """Return the name under which a secret is sealed: what it is, and whose."""
    return f"endpoint:{queue}/{name}"


def _wrong(pointer: str, detail: str) -> InvalidInput:
    return InvalidInput.at(pointer, f"{detail[:1].upper()}{detail[1:].removesuffix('.')}.", code=CODE)


def _no_endpoint(queue: str) -> NotFound:
    return NotFound(f"The queue {queue!r} has no endpoint.", code="endpoint.unknown")
