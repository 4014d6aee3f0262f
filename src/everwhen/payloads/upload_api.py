"""The upload of a payload over HTTP: the raw bytes, or a form with one file."""

from typing import Any, Final

from fastapi import APIRouter, Request, Response

from everwhen.core.payloads import is_digest
from everwhen.errors import InvalidInput
from everwhen.http.access import Access, Editor
from everwhen.http.uploads import FORM, Form, Part, PartHead, UploadRoute, announced_length, is_form, stream_of
from everwhen.payloads.api import OCTETS, payloads_of
from everwhen.payloads.model import Described, Payload
from everwhen.payloads.receiving import Announced
from everwhen.payloads.service import OnAdmitted
from everwhen.payloads.wire import (
    BINARY,
    Expected,
    FileName,
    PayloadOut,
    kept_media_type,
    kept_name,
    payload_out,
)
from everwhen.postgres.pool import Connection

router = APIRouter(route_class=UploadRoute, tags=["payloads"])

FILE: Final = "file"
_BODY: Final[dict[str, Any]] = {
    "required": True,
    "content": {
        OCTETS: {"schema": BINARY},
        FORM: {
            "schema": {
                "type": "object",
                "additionalProperties": False,
                "required": [FILE],
                "properties": {
                    FILE: BINARY | {"description": "The content; its name and type are kept for people."},
                    "digest": {"type": "string", "description": "What its digest has to be."},
                },
            }
        },
    },
}


@router.post(
    "/v1/tenants/{tenant}/payloads",
    status_code=201,
    responses={
        200: {"model": PayloadOut, "description": "The tenant has these bytes already"},
        409: {"description": "The quota is used up"},
    },
    openapi_extra={"requestBody": _BODY},
)
async def upload_payload(
    *,
    request: Request,
    tenant: str,
    access: Editor,
    response: Response,
    digest: Expected = None,
    name: FileName = None,
) -> PayloadOut:
    """Upload a payload, of any media type: it is read while it arrives, and named by the digest of its content."""
    if is_form(request):
        payload, is_new = await _from_form(request, access, digest=digest, name=name)
    else:
        described = Described(
            by=access.principal.subject, name=name, media_type=kept_media_type(request.headers.get("content-type"))
        )
        payload, is_new = await payloads_of(access).upload(
            access.tenant_id,
            stream_of(request),
            described=described,
            length=announced_length(request),
            digest=digest,
            on_admitted=_teller(access),
        )
    response.status_code = 201 if is_new else 200
    response.headers["Location"] = f"/v1/tenants/{tenant}/payloads/{payload.digest}"
    return payload_out(payload)


async def _from_form(request: Request, access: Access, *, digest: str | None, name: str | None) -> tuple[Payload, bool]:
    """Read the form; the digest may come before the file or after it."""
    payloads = payloads_of(access)
    staged, described, by = None, Described(by=access.principal.subject), access.principal.subject
    async with payloads.receiver.arrivals(access.tenant_id) as arrivals:
        async for part in Form(request):
            match part.head.field:
                case "digest":
                    digest = await _digest(part)
                case "file" if staged is None:
                    described = _described(part.head, by=by, name=name)
                    staged = await arrivals.receive(part.chunks(), Announced(by=by))
                case field:
                    detail = "A form has one file, and may have a digest."
                    raise InvalidInput.at(f"/{field}", detail, code="field.unknown")
        if staged is None:
            raise InvalidInput.at(f"/{FILE}", "The form has no file.", code="field.missing")
        if digest is not None and digest != staged.digest:
            raise InvalidInput.at("/digest", f"What arrived has the digest {staged.digest}.", code="payload.digest")
        return await payloads.admit_alone(access.tenant_id, staged, described, on_admitted=_teller(access))


def _teller(access: Access) -> OnAdmitted:
    """Tell of a new payload in the transaction that makes it."""

    async def tell(conn: Connection, payload: Payload, is_new: bool) -> None:  # noqa: FBT001  # as it is called
        recorder = access.recorder
        assert recorder is not None  # a route of uploads gives each request one
        recorder.about(f"payloads/{payload.digest}")
        if is_new:
            await recorder.write(conn, after=payload_out(payload))
        else:
            recorder.nothing_changed()

    return tell


def _described(head: PartHead, *, by: str, name: str | None) -> Described:
    return Described(by=by, name=name or kept_name(head.filename), media_type=kept_media_type(head.media_type))


async def _digest(part: Part) -> str:
    digest = await part.text()
    if not is_digest(digest):
        raise InvalidInput.at("/digest", "A digest is sha256: and 64 hexadecimal digits.", code="field.invalid")
    return digest
