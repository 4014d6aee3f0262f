"""What can be done with a tenant's templates, and how a message of a tenant is written with them."""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final
from uuid import UUID

from everwhen.alerts.message import Message, Rendered
from everwhen.alerts.texts import store
from everwhen.alerts.texts.checking import check_override, preview, source_of
from everwhen.alerts.texts.facts import is_digest
from everwhen.alerts.texts.model import TemplateItem, TemplateRow
from everwhen.alerts.texts.parts import ANY, DIGEST, Overrides, Part, parse_kind
from everwhen.alerts.texts.rendering import render
from everwhen.egress.turns import Turns
from everwhen.errors import NotFound
from everwhen.postgres.pool import Connection, Database
from everwhen.revisions import ANY as ANY_REVISION
from everwhen.revisions import Expected, refuse_stale, stale

THREADS: Final = 2
"""Writing is work for the processor alone: more threads would only take it from each other."""


async def put_template(  # noqa: PLR0913  # which, what, by whom
    db: Database,
    *,
    tenant_id: UUID,
    kind: str,
    part: Part,
    source: str,
    updated_by: str,
    expected: Expected = ANY_REVISION,
) -> TemplateRow:
    """Write a template; raise InvalidInput, with the line, for one that could not be used.

    The built-in one counts as revision 0. Raises PreconditionFailed when it is not the revision that was expected.
    """
    await asyncio.to_thread(check_override, kind, part, source)
    async with db.tenant(tenant_id) as conn:
        key: dict[str, Any] = {"tenant_id": tenant_id, "kind": kind, "part": part}
        known = await store.get_template(conn, **key)
        revision = 0 if known is None else known.revision
        if known is not None or not expected.absent:
            refuse_stale(expected, revision)
        written = await store.put_template(
            conn, **key, source=source, updated_by=updated_by, among=expected.among, now=conn.now
        )
        if written is None:  # somebody else was quicker
            raise stale(expected, revision + 1)
        return written


async def get_template(db: Database, *, tenant_id: UUID, kind: str, part: Part) -> TemplateRow | str:
    """Read a tenant's template, or the source of the built-in one where it has none."""
    parse_kind(kind)
    async with db.tenant(tenant_id) as conn:
        row = await store.get_template(conn, tenant_id=tenant_id, kind=kind, part=part)
    return row or source_of(kind, part)


async def list_templates(db: Database, *, tenant_id: UUID) -> list[TemplateItem]:
    """Return every template of the tenant, by kind and part."""
    async with db.tenant(tenant_id) as conn:
        return await store.list_templates(conn, tenant_id=tenant_id)


async def delete_template(
    db: Database, *, tenant_id: UUID, kind: str, part: Part, expected: Expected = ANY_REVISION
) -> None:
    """Go back to the built-in text; raise NotFound without a template, PreconditionFailed at another revision."""
    parse_kind(kind)
    async with db.tenant(tenant_id) as conn:
        key: dict[str, Any] = {"tenant_id": tenant_id, "kind": kind, "part": part}
        if not await store.delete_template(conn, **key, among=expected.among):
            known = await store.get_template(conn, **key)
            raise _no_template() if known is None else stale(expected, known.revision)


def _no_template() -> NotFound:
    return NotFound("The tenant has no template of its own for this.", code="alert_template.unknown")


async def preview_template(db: Database, *, tenant_id: UUID, kind: str, sources: Mapping[Part, str]) -> Rendered:
    """Write the sample of a kind with these templates, and the tenant's own for the other parts; store nothing."""
    parse_kind(kind)
    for part, source in sources.items():
        await asyncio.to_thread(check_override, kind, part, source, pointer=f"/templates/{part}")
    async with db.tenant(tenant_id) as conn:
        stored = await overrides_for(conn, tenant_id=tenant_id, kind=kind)
    tried = {(kind, part): source for part, source in sources.items()}
    return await asyncio.to_thread(preview, kind, Overrides({**stored.sources, **tried}))


class Scribe:
    """Writes messages, in threads of its own.

    A tenant's template may take most of a second to be read and filled in, and nobody else is to wait for it: not the
    loop, and no other tenant either, since each has one message written at a time.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="scribe")
        self._turns = Turns(1)

    async def write(self, tenant_id: UUID, message: Message) -> Rendered:
        """Write a message with the templates of its tenant."""
        kind = DIGEST if is_digest(message) else message.shown[0].kind.value
        async with self._turns.of(tenant_id):
            async with self._database.tenant(tenant_id) as conn:
                overrides = await overrides_for(conn, tenant_id=tenant_id, kind=kind)
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, lambda: render(message, overrides=overrides))


async def overrides_for(conn: Connection, *, tenant_id: UUID, kind: str) -> Overrides:
    """Read what a message of this kind is written with."""
    rows = await store.find_templates(conn, tenant_id=tenant_id, kinds=[kind, ANY])
    return Overrides({(row.kind, Part(row.part)): row.source for row in rows})
