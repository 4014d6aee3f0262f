"""Roles and permissions: the one table of who may do what.

Each operation of the API names one permission, and each role has some; whoever has several roles may do what any of
them may. Nothing is allowed that this table does not allow, and an operation without a permission keeps the server from
starting. docs/reference/roles.md and the matrix of tests/contracts/test_matrix.py are made from it.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final


class Role(StrEnum):
    """What somebody is, within one tenant or for the platform."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    EDITOR = "editor"
    ADMIN = "admin"
    PAYLOADS = "payloads"
    AUDITOR = "auditor"
    WORKER = "worker"
    PLATFORM = "platform"


class Permission(StrEnum):
    """What an operation needs."""

    ANY = "any"
    READ = "read"
    PAYLOADS = "payloads"
    OPERATE = "operate"
    EDIT = "edit"
    ADMINISTER = "administer"
    AUDIT = "audit"
    WORK = "work"
    PLATFORM = "platform"


ALLOWED: Final[dict[Role, frozenset[Permission]]] = {
    Role.VIEWER: frozenset({Permission.ANY, Permission.READ}),
    Role.OPERATOR: frozenset({Permission.ANY, Permission.READ, Permission.OPERATE}),
    # Who may define a schedule for every second can make things run, and a task that returns its input shows it.
    Role.EDITOR: frozenset({
        Permission.ANY, Permission.READ, Permission.PAYLOADS, Permission.OPERATE, Permission.EDIT,
    }),
    Role.ADMIN: frozenset({
        Permission.ANY, Permission.READ, Permission.PAYLOADS, Permission.OPERATE, Permission.EDIT,
        Permission.ADMINISTER, Permission.AUDIT,
    }),
    Role.PAYLOADS: frozenset({Permission.ANY, Permission.PAYLOADS}),
    Role.AUDITOR: frozenset({Permission.ANY, Permission.AUDIT}),
    Role.WORKER: frozenset({Permission.ANY, Permission.WORK}),
    Role.PLATFORM: frozenset({Permission.ANY, Permission.WORK, Permission.PLATFORM}),
}  # fmt: skip
"""Who may do what. Roles within a tenant do not reach further; the platform's reaches into none by itself."""

IN_TENANT: Final = frozenset(Role) - {Role.PLATFORM}
"""The roles that a tenant's admin can give."""

MEANINGS: Final[dict[Role, str]] = {
    Role.VIEWER: "read, but no payloads",
    Role.OPERATOR: "what a viewer may; pause, resume, request, cancel and redrive, carry out operations",
    Role.EDITOR: "what an operator may; see payloads; define tasks, schedules, calendars and workflows",
    Role.ADMIN: "everything within a tenant: also its tokens, members, revocations and audit",
    Role.PAYLOADS: "see payloads: what runs were given, what they returned, what their errors say; beside another role",
    Role.AUDITOR: "read and export the audit: who changed what, from where; beside another role, or alone",
    Role.WORKER: "claim runs and report on them",
    Role.PLATFORM: "tenants themselves, and what concerns all of them; in a tenant only what another role allows",
}

NEEDS: Final[dict[Permission, str]] = {
    Permission.ANY: "any valid token",
    Permission.READ: "look at what there is and what has happened",
    Permission.PAYLOADS: "see inputs, results and the texts of errors; to others they are `null`, and marked",
    Permission.OPERATE: "make things run, stop or wait",
    Permission.EDIT: "define what runs, and when",
    Permission.ADMINISTER: "say who may do what",
    Permission.AUDIT: "read who changed what, from where, before and after",
    Permission.WORK: "carry out runs",
    Permission.PLATFORM: "act for the whole installation",
}


def allowed(roles: Iterable[Role]) -> frozenset[Permission]:
    """Return what somebody with these roles may do."""
    return frozenset(permission for role in roles for permission in ALLOWED[role])


def roles_with(permission: Permission) -> list[Role]:
    """Return the roles that allow it, in the order of the table."""
    return [role for role, permissions in ALLOWED.items() if permission in permissions]
