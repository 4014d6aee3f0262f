"""Payloads over HTTP, but for their upload."""

# ruff: noqa: FAST003  # the tenant in the path is read by the dependency that grants access

from dataclasses import replace
from typing import Annotated, Final

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from everwhen.http.access import Access, Editor, PayloadReader, Reader
from everwhen.http.bodies import ControlRoute
from everwhen.http.pages import DEFAULT_ITEMS, Cursor, Limit, Page, filter_query, page_of, read_cursor
from everwhen.payloads.service import PAYLOADS, Payloads
from everwhen.payloads.wire import BINARY, Digest, PayloadOut, download_headers, payload_out

router = APIRouter(route_class=ControlRoute, tags=["payloads"])

OCTETS: Final = "application/octet-stream"
Where = Annotated[str, filter_query(PAYLOADS)]

_LIST: Final = "payloads"


@router.get("/v1/tenants/{tenant}/payloads")
async def list_payloads(
    *, request: Request, access: Reader, where: Where = "", limit: Limit = DEFAULT_ITEMS, cursor: Cursor = None
) -> Page[PayloadOut]:
    """List payloads by digest."""
    after = read_cursor(cursor, of=_LIST) or ""
    found = await payloads_of(access).list(access.tenant_id, after=after, limit=limit, where=where)
    return page_of(request, found, of=_LIST, out=payload_out)


@router.get("/v1/tenants/{tenant}/payloads/{digest}")
async def get_payload(*, digest: Digest, access: Reader) -> PayloadOut:
    """Read what is known of a payload."""
    return payload_out(await payloads_of(access).get(access.tenant_id, digest))


@router.get(
    "/v1/tenants/{tenant}/payloads/{digest}/content",
    response_class=StreamingResponse,
    responses={200: {"content": {OCTETS: {"schema": BINARY}}, "description": "The payload's bytes"}},
)
async def get_payload_content(*, digest: Digest, access: PayloadReader) -> StreamingResponse:
    """Download a payload; its digest tells whether all of it has arrived."""
    payloads = payloads_of(access)
    payload = await payloads.get(access.tenant_id, digest)
    content = await payloads.content(access.tenant_id, payload)
    return StreamingResponse(content, headers=download_headers(payload), media_type=OCTETS)


@router.delete(
    "/v1/tenants/{tenant}/payloads/{digest}",
    status_code=204,
    responses={409: {"description": "A schedule, or a run that has not ended, refers to it"}},
)
async def delete_payload(*, digest: Digest, access: Editor) -> None:
    """Delete a payload that nothing refers to."""
    await payloads_of(access).delete(access.tenant_id, digest)


def payloads_of(access: Access) -> Payloads:
    """Return the payload store of this server, taking part in what the request does."""
    return replace(access.plane.payloads, database=access.database)
