"""Revocations over HTTP: which tokens hold no longer."""

# ruff: noqa: FAST003  # the tenant in the path is read by the dependency that grants access

from typing import Annotated, Any, Final, Self

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field, model_validator

from everwhen.http.access import Admin, Platform
from everwhen.http.auditing import audited
from everwhen.http.bodies import ControlRoute
from everwhen.http.fields import Instant, Sentence, Utc, Wire
from everwhen.http.pages import DEFAULT_ITEMS, Cursor, Limit, Page, filter_query, page_of, read_cursor
from everwhen.identity import service
from everwhen.identity.model import Revocation, RevocationWish

router = APIRouter(route_class=ControlRoute, tags=["revocations"])

_LIST: Final = "revocations"
_TOO_MANY: Final[dict[int | str, dict[str, Any]]] = {409: {"description": "There are too many in force"}}

Where = Annotated[str, filter_query(service.REVOCATIONS)]
Visible = Annotated[str, Field(pattern=r"^[\x21-\x7e]{1,250}$")]


class RevocationIn(Wire):
    """What to revoke: one token, or what was issued to a subject."""

    token_id: Visible | None = Field(
        default=None, description="A token's `jti`; led by its issuer's name and `:` where that is not Everwhen."
    )
    subject: Visible | None = Field(default=None, description="As the history names it, such as `company:ada`.")
    issued_until: Instant | None = Field(default=None, description="Only what was issued by then; null: up to now.")
    reason: Sentence

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.token_id is None) == (self.subject is None):
            raise ValueError("name a token or a subject, and one of them only")
        return self

    def wish(self, by: str) -> RevocationWish:
        """Return what is asked for."""
        return RevocationWish(
            kind="subject" if self.token_id is None else "token",
            value=self.token_id or self.subject or "",
            reason=self.reason,
            by=by,
            issued_until=self.issued_until,
        )


class RevocationOut(BaseModel):
    """Something that was revoked; it leaves the list when no token that it is about can be alive."""

    kind: Annotated[str, Field(description="`token` or `subject`.")]
    value: str
    issued_until: Utc
    reason: str
    revoked_by: str
    revoked_at: Utc
    expires_at: Utc


@router.post("/v1/tenants/{tenant}/revocations", status_code=201, responses=_TOO_MANY)
@audited(resource="revocations")
async def create_revocation(*, body: RevocationIn, access: Admin) -> RevocationOut:
    """Revoke tokens that are bound to the tenant, on every copy of the server within seconds."""
    made = await service.revoke(
        access.database,
        tenant_id=access.tenant_id,
        wish=body.wish(access.principal.subject),
        keep=access.plane.identity.revocation_keep,
    )
    return _out(made)


@router.get("/v1/tenants/{tenant}/revocations")
async def list_revocations(
    *, request: Request, access: Admin, where: Where = "", limit: Limit = DEFAULT_ITEMS, cursor: Cursor = None
) -> Page[RevocationOut]:
    """List what is revoked in the tenant."""
    after = read_cursor(cursor, of=_LIST) or ""
    found = await service.list_revocations(
        access.database, tenant_id=access.tenant_id, after=after, limit=limit, where=where
    )
    return page_of(request, found, of=_LIST, out=_out)


@router.post("/v1/revocations", status_code=201, responses=_TOO_MANY)
async def create_platform_revocation(*, body: RevocationIn, access: Platform) -> RevocationOut:
    """Revoke tokens of any kind, everywhere. Needs the role platform."""
    made = await service.revoke(
        access.plane.database,
        tenant_id=None,
        wish=body.wish(access.principal.subject),
        keep=access.plane.identity.revocation_keep,
    )
    return _out(made)


@router.get("/v1/revocations")
async def list_platform_revocations(
    *, request: Request, access: Platform, where: Where = "", limit: Limit = DEFAULT_ITEMS, cursor: Cursor = None
) -> Page[RevocationOut]:
    """List what is revoked everywhere. Needs the role platform."""
    after = read_cursor(cursor, of=_LIST) or ""
    found = await service.list_revocations(access.plane.database, tenant_id=None, after=after, limit=limit, where=where)
    return page_of(request, found, of=_LIST, out=_out)


def _out(found: Revocation) -> RevocationOut:
    return RevocationOut(
        kind=found.kind,
        value=found.value,
        issued_until=found.issued_until,
        reason=found.reason,
        revoked_by=found.revoked_by,
        revoked_at=found.revoked_at,
        expires_at=found.expires_at,
    )
