"""`everwhen tenant`: tenants, for the platform's operators."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

import click

from everwhen.cli.client import Api, with_api
from everwhen.cli.listing import list_pages, paged
from everwhen.cli.output import Columns, show_one

COLUMNS: Final[Columns] = {"NAME": "name", "ID": "id", "CREATED": "created_at"}


@click.group(short_help="Create and list tenants.")
def tenant() -> None:
    """Create and list tenants. Needs a token with the role platform."""


@tenant.command("create")
@click.argument("name")
@with_api
def create(*, api: Api, output: str, name: str) -> None:
    """Make a tenant."""
    show_one(api.call("POST", "/v1/tenants", body={"name": name}), kind="TenantList", output=output)


@tenant.command("list")
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
