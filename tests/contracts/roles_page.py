"""Writes docs/reference/roles.md from the table of roles; `python -m tests.contracts.openapi_snapshot` calls it."""

from pathlib import Path

from fastapi import FastAPI

from everwhen.dispatch.api import WorkerApi, WorkerLimits
from everwhen.http.access import permission_of
from everwhen.http.roles import ALLOWED, MEANINGS, NEEDS, Permission, Role, roles_with

FILE = Path(__file__).parents[2] / "docs" / "reference" / "roles.md"

INTRODUCTION = """\
# Roles

Whoever calls has one or more roles: in a token's claim `roles`, in a service token, or as a member of a tenant
([authentication](../operate/authentication.md)). Each operation needs one permission, and each role has some. What
this table does not allow is not allowed; an operation that names no permission keeps the server from starting.

Roles within a tenant never reach further, and the role `platform` reaches into a tenant only as far as another role of
the same token lets it: `platform` with `viewer` may look into any. What a role does not allow answers 403; what lies in
another tenant answers 404, whatever the role, in the words of what nobody has.

Who lacks the permission `payloads` gets `null` in the place of inputs, results and the texts of errors, and
`"withheld": true` beside them. Give `payloads` beside `viewer` or `operator` to people who may see them.

This page is made from the table in `src/everwhen/http/roles.py`: `python -m tests.contracts.openapi_snapshot`.
"""


def rendered(app: FastAPI) -> str:
    """The page as it is kept."""
    return "\n".join([INTRODUCTION, _roles(), _permissions(), _operations(app)])


def operations(app: FastAPI) -> dict[str, tuple[str, str, Permission]]:
    """Each operation that needs a permission: its method, path and permission, those of workers included."""
    found = {
        operation["operationId"]: (method.upper(), path, Permission(operation["x-permission"]))
        for path, methods in app.openapi()["paths"].items()
        for method, operation in methods.items()
        if "x-permission" in operation
    }
    limits = WorkerLimits(lease_seconds=1.0, wait_seconds=1.0, body_bytes=1)
    for route in WorkerApi(dispatch=None, lines=None, tokens=None, limits=limits).routes():
        found[route.name] = ("POST", route.path, permission_of(route))
    return found


def _roles() -> str:
    rows = [f"| `{role}` | {MEANINGS[role]} |" for role in Role]
    return "## What each role is for\n\n| role | may |\n|---|---|\n" + "\n".join(rows) + "\n"


def _permissions() -> str:
    rows = [
        f"| `{permission}` | {NEEDS[permission]} | {', '.join(f'`{role}`' for role in roles_with(permission))} |"
        for permission in Permission
    ]
    head = "## What each permission is for\n\n| permission | allows to | roles |\n|---|---|---|\n"
    return head + "\n".join(rows) + "\n"


def _operations(app: FastAPI) -> str:
    head = "| operation | permission | " + " | ".join(role.value for role in Role) + " |"
    rows = [
        f"| `{name}` | {permission} | "
        + " | ".join("yes" if permission in ALLOWED[role] else "" for role in Role)
        + " |"
        for name, (_, _, permission) in sorted(operations(app).items())
    ]
    return "## Who may do what\n\n" + "\n".join([head, "|---" * (2 + len(Role)) + "|", *rows]) + "\n"


def write(app: FastAPI) -> None:
    """Bring the page up to date."""
    FILE.write_text(rendered(app), encoding="utf-8")
