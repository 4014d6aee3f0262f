"""Payloads in tests: one is put in, and what lies in a depot is looked at."""

from collections.abc import AsyncIterator, Iterable
from pathlib import Path

from everwhen.payloads.model import Described, Payload
from everwhen.payloads.service import Payloads
from everwhen.tenants.model import Tenant

BY = Described(by="tester")


async def stream(*chunks: bytes) -> AsyncIterator[bytes]:
    """A body in these chunks."""
    for chunk in chunks:
        yield chunk


async def put(
    payloads: Payloads, tenant: Tenant, content: bytes | Iterable[bytes], *, described: Described = BY
) -> Payload:
    """A payload with this content."""
    chunks = [content] if isinstance(content, bytes) else content
    payload, _ = await payloads.upload(tenant.id, stream(*chunks), described=described)
    return payload


async def content_of(payloads: Payloads, tenant: Tenant, payload: Payload) -> bytes:
    """All of its bytes."""
    return b"".join([chunk async for chunk in await payloads.content(tenant.id, payload)])


def files(folder: Path) -> list[Path]:
    """Every file of a depot in a folder, those that were being written as well."""
    return sorted(path for path in folder.rglob("*") if path.is_file())
