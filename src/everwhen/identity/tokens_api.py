"""Service tokens over HTTP: secrets that a tenant gives to its workers and programs."""

# ruff: noqa: FAST003  # the tenant in the path is read by the dependency that grants access

from datetime import datetime, timedelta
from typing import Annotated, Final, Literal, Self
from uuid import UUID

from fastapi import APIRouter, Path, Request, Response
from pydantic import BaseModel, Field, Strict, model_validator

from everwhen.errors import InvalidInput
from everwhen.http.access import Access, Admin
from everwhen.http.bodies import ControlRoute
from everwhen.http.fields import Name, Utc, Wire
from everwhen.http.manners import tells_secret
from everwhen.http.pages import DEFAULT_ITEMS, Cursor, Limit, Page, filter_query, page_of, read_id
from everwhen.http.roles import Role
from everwhen.http.secrets import PATTERN
from everwhen.identity import service
from everwhen.identity.model import ServiceToken, TokenWish
from everwhen.lists import LAST_ID

router = APIRouter(route_class=ControlRoute, tags=["tokens"])

LEAST_SECONDS: Final = 60
MOST_QUEUES: Final = 64
MOST_TASKS: Final = 1_000
MOST_GRACE_SECONDS: Final = 86_400
_LIST: Final = "tokens"

GivenRole = Literal["viewer", "operator", "editor", "admin", "payloads", "auditor", "worker"]
Where = Annotated[str, filter_query(service.TOKENS)]
TokenId = Annotated[UUID, Path(description="The token's id.")]
Lifetime = Annotated[float, Strict(), Field(ge=LEAST_SECONDS, le=31_536_000, allow_inf_nan=False)]


class TokenIn(Wire):
    """A service token to make. Queues and tasks are for workers: what it may claim."""

    name: Name
    roles: Annotated[list[GivenRole], Field(min_length=1, max_length=7)]
    queues: Annotated[list[Name], Field(min_length=1, max_length=MOST_QUEUES)] | None = Field(
        default=None, description="Null: every queue of the tenant."
    )
    tasks: Annotated[list[Name], Field(min_length=1, max_length=MOST_TASKS)] | None = Field(
        default=None, description="Null: every task."
    )
    lifetime_seconds: Lifetime | None = Field(default=None, description="Null: as long as the installation allows.")

    @model_validator(mode="after")
    def _fit(self) -> Self:
        if (self.queues or self.tasks) and "worker" not in self.roles:
            raise ValueError("queues and tasks go with the role worker")
        return self


class RenewIn(Wire):
    """How long the new secret holds, and the old one beside it."""

    lifetime_seconds: Lifetime | None = Field(default=None, description="Null: as long as the installation allows.")
    grace_seconds: Annotated[float, Strict(), Field(ge=0, le=MOST_GRACE_SECONDS, allow_inf_nan=False)] = 600.0


class TokenOut(BaseModel):
    """A service token. Its secret was told once."""

    id: UUID
    name: str
    roles: list[Role | str]
    queues: list[str] | None
    tasks: list[str] | None
    state: Literal["live", "expired", "revoked"]
    created_by: str
    created_at: Utc
    issued_at: Utc = Field(description="When it was made, or renewed.")
    expires_at: Utc
    revoked_at: Utc | None
    revoked_by: str | None
    last_used_at: Utc | None = Field(description="To the minute; null: never.")


class TokenMadeOut(TokenOut):
    """A service token with its secret, which no later answer tells again."""

    secret: Annotated[str, Field(pattern=f"^{PATTERN}$")]


@router.post(
    "/v1/tenants/{tenant}/tokens",
    status_code=201,
    responses={409: {"description": "The name is taken, or there are too many"}},
)
@tells_secret
async def create_token(*, tenant: str, body: TokenIn, access: Admin, response: Response) -> TokenMadeOut:
    """Make a service token; the answer tells its secret, once."""
    wish = TokenWish(
        name=body.name,
        roles=sorted(set(body.roles)),
        queues=None if body.queues is None else sorted(set(body.queues)),
        tasks=None if body.tasks is None else sorted(set(body.tasks)),
        by=access.principal.subject,
    )
    lifetime = _lifetime(body.lifetime_seconds, access)
    made, secret = await service.create_token(access.database, tenant_id=access.tenant_id, wish=wish, lifetime=lifetime)
    response.headers["Location"] = f"/v1/tenants/{tenant}/tokens/{made.token_id}"
    return TokenMadeOut(**_out(made, now=made.issued_at).model_dump(), secret=secret)


@router.get("/v1/tenants/{tenant}/tokens")
async def list_tokens(
    *, request: Request, access: Admin, where: Where = "", limit: Limit = DEFAULT_ITEMS, cursor: Cursor = None
) -> Page[TokenOut]:
    """List service tokens, the newest first; those that ended stay for 90 days."""
    before = read_id(cursor, of=_LIST, default=LAST_ID)
    found, now = await service.list_tokens(
        access.database, tenant_id=access.tenant_id, before=before, limit=limit, where=where
    )
    return page_of(request, found, of=_LIST, out=lambda each: _out(each, now=now))


@router.get("/v1/tenants/{tenant}/tokens/{token}")
async def get_token(*, token: TokenId, access: Admin) -> TokenOut:
    """Read one service token, without its secret."""
    found, now = await service.get_token(access.database, tenant_id=access.tenant_id, token_id=token)
    return _out(found, now=now)


@router.post("/v1/tenants/{tenant}/tokens/{token}/renew")
@tells_secret
async def renew_token(*, token: TokenId, access: Admin, body: RenewIn | None = None) -> TokenMadeOut:
    """Give a service token a new secret and a new life; the old secret holds for a grace, then no more."""
    asked = body or RenewIn()
    renewed, secret = await service.renew_token(
        access.database,
        tenant_id=access.tenant_id,
        token_id=token,
        lifetime=_lifetime(asked.lifetime_seconds, access),
        grace=timedelta(seconds=asked.grace_seconds),
    )
    return TokenMadeOut(**_out(renewed, now=renewed.issued_at).model_dump(), secret=secret)


@router.delete("/v1/tenants/{tenant}/tokens/{token}", status_code=204)
async def revoke_token(*, token: TokenId, access: Admin) -> None:
    """Revoke a service token, on every copy of the server within seconds."""
    await service.revoke_token(
        access.database,
        tenant_id=access.tenant_id,
        token_id=token,
        by=access.principal.subject,
        keep=access.plane.identity.revocation_keep,
    )


def _lifetime(seconds: float | None, access: Access) -> timedelta:
    most = access.plane.identity.service_token_most
    wanted = most if seconds is None else timedelta(seconds=seconds)
    if wanted > most:
        detail = f"A service token lives for at most {most.total_seconds():g} s here."
        raise InvalidInput.at("/lifetime_seconds", detail, code="token.lifetime")
    return wanted


def _out(token: ServiceToken, *, now: datetime) -> TokenOut:
    return TokenOut(
        id=token.token_id,
        name=token.name,
        roles=[*token.roles],
        queues=token.queues,
        tasks=token.tasks,
        state=token.state(now).value,
        created_by=token.created_by,
        created_at=token.created_at,
        issued_at=token.issued_at,
        expires_at=token.expires_at,
        revoked_at=token.revoked_at,
        revoked_by=token.revoked_by,
        last_used_at=token.last_used_at,
    )
