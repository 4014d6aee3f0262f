"""`everwhen tenant`: tenants, for the platform's operators."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

import click

from everwhen.cli.client import Api, with_api
from everwhen.cli.listing import filtered, given, list_pages, paged
from everwhen.cli.output import Columns, show_one

COLUMNS: Final[Columns] = {"NAME": "name", "ID": "id", "CREATED": "created_at"}


@click.group(short_help="Create, list, pause and resume tenants.")
def tenant() -> None:
    """Create and list tenants, with a token of the role platform; pause and resume one's own."""


@tenant.command("create")
@click.argument("name")
@with_api
def create(*, api: Api, output: str, name: str) -> None:
    """Make a tenant."""
    show_one(api.call("POST", "/v1/tenants", body={"name": name}), kind="TenantList", output=output)


@tenant.command("list")
@filtered("since:7d")
@paged
@with_api
def list_command(*, api: Api, output: str, **paging: Any) -> None:
    """List tenants by name."""
    list_pages(api, "/v1/tenants", kind="TenantList", output=output, columns=COLUMNS, paging=paging)


@tenant.command("get")
@click.argument("name", required=False)
@with_api
def get(*, api: Api, output: str, name: str | None) -> None:
    """Show one tenant. [default: the token's own]"""
    path = api.tenant_path() if name is None else f"/v1/tenants/{quote(name, safe='')}"
    show_one(api.call("GET", path), kind="TenantList", output=output)


@tenant.command("pause")
@click.option("--reason", required=True, help="Why; shown to whoever wonders.")
@click.option("--until", help="When it ends by itself, with its offset. [default: when somebody ends it]")
@with_api
def pause(*, api: Api, output: str, reason: str, until: str | None) -> None:
    """Hand out nothing of the token's tenant; runs go on becoming due, and wait."""
    made = api.call("POST", api.tenant_path("pause"), body=given(reason=reason, until=until))
    show_one(made, kind="PauseList", output=output, name="reason")


@tenant.command("resume")
@click.option("--reason", help="Why.")
@with_api
def resume(*, api: Api, output: str, reason: str | None) -> None:  # noqa: ARG001  # there is nothing to show
    """Hand out the tenant's runs again."""
    api.call("POST", api.tenant_path("resume"), body=given(reason=reason))
