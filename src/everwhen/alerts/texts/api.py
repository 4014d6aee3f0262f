"""Alert templates over HTTP."""

# ruff: noqa: FAST003  # the tenant in the path is read by the dependency that grants access

from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel, Field, JsonValue

from everwhen.alerts.texts import service
from everwhen.alerts.texts.language import MOST_SOURCE
from everwhen.alerts.texts.model import TemplateRow
from everwhen.alerts.texts.parts import KINDS, Part
from everwhen.http.access import Editor, Reader
from everwhen.http.bodies import ControlRoute
from everwhen.http.fields import Utc, Wire
from everwhen.http.manners import reads
from everwhen.http.preconditions import Change, Put, tag

router = APIRouter(route_class=ControlRoute, tags=["alert templates"])

Kind = Annotated[str, Path(max_length=60, description=f"One of {', '.join(f'`{kind}`' for kind in KINDS)}.")]
WhichPart = Annotated[Part, Path(description="What the template writes.")]
Source = Annotated[str, Field(min_length=1, max_length=MOST_SOURCE)]


class AlertTemplateIn(Wire):
    """A template to keep."""

    source: Source


class AlertTemplateItemOut(BaseModel):
    """A template that the tenant has, without its source."""

    kind: str
    part: Part
    bytes: int
    updated_by: str
    updated_at: Utc


class AlertTemplatesOut(BaseModel):
    """Every template that the tenant has."""

    items: list[AlertTemplateItemOut]


class AlertTemplateOut(BaseModel):
    """The template in use: the tenant's own, or the built-in one."""

    kind: str
    part: Part
    source: str
    is_built_in: bool
    revision: int = Field(description="0: the built-in one.")
    updated_by: str | None
    updated_at: Utc | None


class AlertPreviewIn(Wire):
    """What to look at: a sample of the kind, with these templates in place of those in use."""

    kind: Annotated[str, Field(max_length=60)]
    templates: dict[Part, Source] = Field(default_factory=dict[Part, str])


class AlertPreviewOut(BaseModel):
    """A message as each kind of channel would send it."""

    subject: str
    text: str
    html: str
    blocks: list[dict[str, JsonValue]]
    payload: dict[str, JsonValue]


_MADE: Final[dict[int | str, dict[str, Any]]] = {
    201: {"model": AlertTemplateOut, "description": "There was none of its own, and it was made"}
}


@router.get("/v1/tenants/{tenant}/alert-templates")
async def list_alert_templates(*, access: Reader) -> AlertTemplatesOut:
    """List the tenant's own templates by kind and part."""
    found = await service.list_templates(access.database, tenant_id=access.tenant_id)
    return AlertTemplatesOut(
        items=[
            AlertTemplateItemOut(
                kind=item.kind,
                part=Part(item.part),
                bytes=item.bytes,
                updated_by=item.updated_by,
                updated_at=item.updated_at,
            )
            for item in found
        ]
    )


@router.post("/v1/tenants/{tenant}/alert-templates/preview")
@reads
async def preview_alert_template(*, body: AlertPreviewIn, access: Reader) -> AlertPreviewOut:
    """Show what a message would look like; store and send nothing."""
    made = await service.preview_template(
        access.database, tenant_id=access.tenant_id, kind=body.kind, sources=body.templates
    )
    return AlertPreviewOut(
        subject=made.subject, text=made.text, html=made.html, blocks=made.blocks, payload=made.payload
    )


@router.get("/v1/tenants/{tenant}/alert-templates/{kind}/{part}")
async def get_alert_template(*, kind: Kind, part: WhichPart, access: Reader, response: Response) -> AlertTemplateOut:
    """Read the template in use: the tenant's own, or the built-in one to begin from."""
    found = await service.get_template(access.database, tenant_id=access.tenant_id, kind=kind, part=part)
    if isinstance(found, TemplateRow):
        return _out(response, found)
    tag(response, 0)
    return AlertTemplateOut(
        kind=kind, part=part, source=found, is_built_in=True, revision=0, updated_by=None, updated_at=None
    )


@router.put("/v1/tenants/{tenant}/alert-templates/{kind}/{part}", responses=_MADE)
async def put_alert_template(  # which, what, of which revision
    *, kind: Kind, part: WhichPart, body: AlertTemplateIn, access: Editor, expected: Put, response: Response
) -> AlertTemplateOut:
    """Keep a template of one's own; one that could not be used is refused with its line."""
    written = await service.put_template(
        access.database,
        tenant_id=access.tenant_id,
        kind=kind,
        part=part,
        source=body.source,
        updated_by=access.principal.subject,
        expected=expected,
    )
    if expected.absent:
        response.status_code = 201
    return _out(response, written)


@router.delete("/v1/tenants/{tenant}/alert-templates/{kind}/{part}", status_code=204)
async def delete_alert_template(*, kind: Kind, part: WhichPart, access: Editor, expected: Change) -> None:
    """Go back to the built-in text."""
    await service.delete_template(access.database, tenant_id=access.tenant_id, kind=kind, part=part, expected=expected)


def _out(response: Response, row: TemplateRow) -> AlertTemplateOut:
    tag(response, row.revision)
    return AlertTemplateOut(
        kind=row.kind,
        part=Part(row.part),
        source=row.source,
        is_built_in=False,
        revision=row.revision,
        updated_by=row.updated_by,
        updated_at=row.updated_at,
    )
