"""`everwhen token`: mint a token where the key is; make, list, renew and revoke those that the server keeps."""

from __future__ import annotations

import base64
import json
import os
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import click

from everwhen.cli.client import (
    CLIENT_FILE,
    Api,
    Target,
    find_target,
    one_line_failures,
    read_client_file,
    with_api,
)
from everwhen.cli.listing import filtered, given, list_pages, paged
from everwhen.cli.output import Columns, show_one

if TYPE_CHECKING:
    from everwhen.http.roles import Role

SECRET_FILE: Final = CLIENT_FILE.parent / "jwt.secret"
GIVEN_ROLES: Final = ("viewer", "operator", "editor", "admin", "payloads", "auditor", "worker")
COLUMNS: Final[Columns] = {
    "NAME": "name",
    "ID": "id",
    "STATE": "state",
    "ROLES": lambda row: ",".join(row["roles"]),
    "EXPIRES": "expires_at",
    "LAST USED": "last_used_at",
}
ROLES: Final = ("viewer", "operator", "editor", "admin", "payloads", "auditor", "worker", "platform")


@click.group(invoke_without_command=True, short_help="Mint a token where the key is; make and revoke tokens.")
@click.option("-t", "--tenant", help="The tenant's name or id. [env: EVERWHEN_TENANT; default: that of `everwhen up`]")
@click.option("--platform", is_flag=True, help="Bind the token to no tenant; for the installation's operators.")
@click.option("--role", "roles", multiple=True, type=click.Choice(ROLES), help="Repeatable. [default: admin]")
@click.option("--queue", "queues", multiple=True, help="Queues a worker may claim from. Repeatable. [default: all]")
@click.option("--subject", default="cli", show_default=True, help="Whom the history names.")
@click.option("--ttl", default=24.0, show_default=True, type=click.FloatRange(0, 24, min_open=True), help="Hours.")
@click.option("--url", help="The server that knows the tenant's id. [env: EVERWHEN_URL]")
@click.pass_context
def token(  # noqa: PLR0913  # options
    context: click.Context,
    tenant: str | None,
    *,
    platform: bool,
    roles: tuple[str, ...],
    queues: tuple[str, ...],
    subject: str,
    ttl: float,
    url: str | None,
) -> None:
    """Print a token signed with EVERWHEN_JWT_SECRET, or with the key that `everwhen up` keeps in this folder.

    The commands below are about tokens that the server keeps: a tenant's service tokens, and what was revoked.
    """
    if context.invoked_subcommand is not None:
        return
    from everwhen import clock
    from everwhen.http.auth import mint_token
    from everwhen.http.roles import Role

    secret = find_secret()
    target = find_target(url=url, tenant=tenant)
    with one_line_failures("table"):
        tenant_id = None if platform else _tenant_id(target, secret)
    named = [Role(role) for role in roles or (("platform", "admin") if platform else ("admin",))]
    _refuse_mismatch(named, platform=platform)
    lifetime, now = timedelta(hours=ttl), clock.process_now()
    minted = mint_token(
        secret,
        subject=subject,
        roles=named,
        tenant_id=tenant_id,
        queues=queues or None,
        now=now,
        lifetime=lifetime,
    )
    click.echo(minted)


@token.command("create")
@click.argument("name")
@click.option("--role", "roles", multiple=True, required=True, type=click.Choice(GIVEN_ROLES), help="Repeatable.")
@click.option("--queue", "queues", multiple=True, help="Queues a worker may claim from. Repeatable. [default: all]")
@click.option("--task", "tasks", multiple=True, help="Tasks a worker may claim. Repeatable. [default: all]")
@click.option("--days", type=click.FloatRange(0, 365, min_open=True), help="How long it holds. [default: the longest]")
@with_api
def create(*, api: Api, output: str, name: str, days: float | None, **wanted: tuple[str, ...]) -> None:
    """Make a service token, and print its secret: no later answer tells it again."""
    lists = {field: list(values) or None for field, values in wanted.items()}
    body = given(name=name, lifetime_seconds=days and days * 86_400, **lists)
    show_one(api.call("POST", api.tenant_path("tokens"), body=body), kind="TokenList", output=output, name="secret")


@token.command("list")
@filtered("state:live role:worker")
@paged
@with_api
def list_command(*, api: Api, output: str, **paging: Any) -> None:
    """List service tokens, the newest first."""
    list_pages(api, api.tenant_path("tokens"), kind="TokenList", output=output, columns=COLUMNS, paging=paging)


@token.command("renew")
@click.argument("token_id")
@click.option("--days", type=click.FloatRange(0, 365, min_open=True), help="How long it holds. [default: the longest]")
@click.option("--grace", default=10.0, show_default=True, help="Minutes for which the old secret holds, too.")
@with_api
def renew(*, api: Api, output: str, token_id: str, days: float | None, grace: float) -> None:
    """Give a service token a new secret and a new life, and print the secret."""
    body = given(lifetime_seconds=days and days * 86_400, grace_seconds=grace * 60)
    made = api.call("POST", api.tenant_path("tokens", token_id, "renew"), body=body)
    show_one(made, kind="TokenList", output=output, name="secret")


@token.command("revoke")
@click.argument("token_id", required=False)
@click.option("--jti", help="A signed token, by its id.")
@click.option("--subject", help="Everything that was issued to a subject so far.")
@click.option("--everywhere", is_flag=True, help="In all tenants; needs a token of the platform.")
@click.option("--reason", help="Why; kept with the revocation.")
@with_api
def revoke(  # noqa: PLR0913  # options
    *,
    api: Api,
    output: str,
    token_id: str | None,
    jti: str | None,
    subject: str | None,
    everywhere: bool,
    reason: str | None,
) -> None:
    """Revoke a service token by its id, or signed tokens by theirs or by their subject; within seconds."""
    if sum(each is not None for each in (token_id, jti, subject)) != 1:
        raise click.UsageError("name a service token's id, or --jti, or --subject, and one of them only")
    if token_id is not None:
        api.call("DELETE", api.tenant_path("tokens", token_id))
        return
    if reason is None:
        raise click.UsageError("say why with --reason")
    path = "/v1/revocations" if everywhere else api.tenant_path("revocations")
    made = api.call("POST", path, body=given(token_id=jti, subject=subject, reason=reason))
    show_one(made, kind="RevocationList", output=output, name="value")


@token.command("revocations")
@click.option("--everywhere", is_flag=True, help="Of all tenants; needs a token of the platform.")
@filtered("kind:subject")
@paged
@with_api
def revocations(*, api: Api, output: str, everywhere: bool, **paging: Any) -> None:
    """List what is revoked: signed tokens by their ids, and subjects."""
    path = "/v1/revocations" if everywhere else api.tenant_path("revocations")
    columns: Columns = {"KIND": "kind", "VALUE": "value", "ISSUED UNTIL": "issued_until", "BY": "revoked_by"}
    list_pages(api, path, kind="RevocationList", output=output, columns=columns, paging=paging, name="value")


def find_secret() -> str:
    """Return the key of tokens, from the environment or from this folder; end with what to do when there is none."""
    if secret := os.environ.get("EVERWHEN_JWT_SECRET"):
        return secret
    try:
        return Path(SECRET_FILE).read_text().strip()
    except OSError as error:
        raise click.UsageError("set EVERWHEN_JWT_SECRET, or run this in the folder of `everwhen up`") from error


def _refuse_mismatch(roles: list[Role], *, platform: bool) -> None:
    if ("platform" in roles) != platform:
        raise click.UsageError("the role platform and the option --platform go together")


def _tenant_id(target: Target, secret: str) -> UUID:
    """Take an id as it is; for a name look into what `everwhen up` left here, then ask the server."""
    if target.tenant is None:
        raise click.UsageError("name a tenant with --tenant or EVERWHEN_TENANT, or say --platform")
    try:
        return UUID(target.tenant)
    except ValueError:
        local = read_client_file()
        known = _claimed_tenant(local.get("token", "")) if local.get("tenant") == target.tenant else None
        return known or _asked_tenant(target, secret)


def _claimed_tenant(local_token: str) -> UUID | None:
    """Read the tenant's id from a token of our own; nothing is trusted here, the server checks what is minted."""
    try:
        payload = local_token.split(".")[1]
        return UUID(json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["tid"])
    except (IndexError, ValueError, KeyError, TypeError):
        return None


def _asked_tenant(target: Target, secret: str) -> UUID:
    from everwhen import clock
    from everwhen.http.auth import mint_token
    from everwhen.http.roles import Role

    asking = mint_token(
        secret,
        subject="cli",
        roles=[Role.PLATFORM, Role.VIEWER],
        now=clock.process_now(),
        lifetime=timedelta(minutes=1),
    )
    api = Api(Target(url=target.url, token=asking, tenant=target.tenant))
    try:
        return UUID(api.call("GET", api.tenant_path())["id"])
    finally:
        api.close()
