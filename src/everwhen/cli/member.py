"""`everwhen member` and `everwhen whoami`: who may do what in a tenant, and who one is oneself."""

from __future__ import annotations

from typing import Any, Final

import click

from everwhen.cli.client import Api, force_option, with_api
from everwhen.cli.listing import filtered, list_pages, paged
from everwhen.cli.output import Columns, show_list, show_one

ROLES: Final = ("viewer", "operator", "editor", "admin", "payloads")
COLUMNS: Final[Columns] = {
    "SUBJECT": "subject",
    "ROLES": lambda row: ",".join(row["roles"]),
    "ADDED BY": "added_by",
    "ADDED": "added_at",
}
PLACES: Final[Columns] = {
    "TENANT": "name",
    "ROLES": lambda row: ",".join(row["roles"]),
    "MAY": lambda row: ",".join(row["permissions"]),
}


@click.group(short_help="Say who may do what in a tenant.")
def member() -> None:
    """Say who may do what in a tenant: people whose tokens come from a configured issuer."""


@member.command("set")
@click.argument("subject")
@click.option("--role", "roles", multiple=True, required=True, type=click.Choice(ROLES), help="Repeatable.")
@with_api
def set_command(*, api: Api, output: str, subject: str, roles: tuple[str, ...]) -> None:
    """Let somebody in, or say anew what a member may do. SUBJECT is `issuer's name:subject`."""
    made = api.put(api.tenant_path("members", subject), body={"roles": list(roles)})
    show_one(made, kind="MemberList", output=output, name="subject")


@member.command("list")
@filtered("role:admin")
@paged
@with_api
def list_command(*, api: Api, output: str, **paging: Any) -> None:
    """List members by their subjects."""
    path = api.tenant_path("members")
    list_pages(api, path, kind="MemberList", output=output, columns=COLUMNS, paging=paging, name="subject")


@member.command("get")
@click.argument("subject")
@with_api
def get(*, api: Api, output: str, subject: str) -> None:
    """Show one member."""
    show_one(api.call("GET", api.tenant_path("members", subject)), kind="MemberList", output=output, name="subject")


@member.command("remove")
@click.argument("subject")
@force_option
@with_api
def remove(*, api: Api, output: str, subject: str, force: bool) -> None:  # noqa: ARG001  # there is nothing to show
    """Let a member in no longer."""
    api.change("DELETE", api.tenant_path("members", subject), force=force)


@click.command(short_help="Who am I, and where may I do what?")
@with_api
def whoami(*, api: Api, output: str) -> None:
    """Show who the token stands for, and where it may do what."""
    me = api.call("GET", "/v1/me")
    if output != "table":
        show_list([me], kind="Me", output=output, columns={}, name="subject")
        return
    told = {name: me[name] for name in ("subject", "kind", "token_id", "expires_at", "roles", "is_platform")}
    show_one(told, kind="Me", output=output, name="subject")
    if me["tenants"]:
        click.echo()
        show_list(me["tenants"], kind="Me", output=output, columns=PLACES)
