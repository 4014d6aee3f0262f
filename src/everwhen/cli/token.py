"""`everwhen token`: mint a token where the key is."""

from __future__ import annotations

import base64
import json
import os
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import UUID

import click

from everwhen.cli.client import CLIENT_FILE, Api, Target, find_target, one_line_failures, read_client_file

if TYPE_CHECKING:
    from everwhen.http.roles import Role

SECRET_FILE: Final = CLIENT_FILE.parent / "jwt.secret"
ROLES: Final = ("viewer", "operator", "editor", "admin", "payloads", "worker", "platform")


@click.command(short_help="Mint a token where the key is.")
@click.option("-t", "--tenant", help="The tenant's name or id. [env: EVERWHEN_TENANT; default: that of `everwhen up`]")
@click.option("--platform", is_flag=True, help="Bind the token to no tenant; for the installation's operators.")
@click.option("--role", "roles", multiple=True, type=click.Choice(ROLES), help="Repeatable. [default: admin]")
@click.option("--queue", "queues", multiple=True, help="Queues a worker may claim from. Repeatable. [default: all]")
@click.option("--subject", default="cli", show_default=True, help="Whom the history names.")
@click.option("--ttl", default=24.0, show_default=True, type=click.FloatRange(0, 24, min_open=True), help="Hours.")
@click.option("--url", help="The server that knows the tenant's id. [env: EVERWHEN_URL]")
def token(  # noqa: PLR0913  # options
    tenant: str | None,
    *,
    platform: bool,
    roles: tuple[str, ...],
    queues: tuple[str, ...],
    subject: str,
    ttl: float,
    url: str | None,
) -> None:
    """Print a token signed with EVERWHEN_JWT_SECRET, or with the key that `everwhen up` keeps in this folder."""
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
