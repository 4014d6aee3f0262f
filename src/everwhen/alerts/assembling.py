"""What alerts are made of in this installation: its kinds of channels, and its keys."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from everwhen.alerts.service import Kit
from everwhen.alerts.signing import Signer
from everwhen.errors import Unavailable
from everwhen.postgres.pool import Connection


@dataclass(frozen=True, slots=True)
class WithoutKey:
    """The sealer of an installation that has no sealing key: it keeps no secrets, and says so."""

    async def seal(self, conn: Connection, tenant_id: UUID, secrets: Mapping[str, str]) -> dict[str, bytes]:  # noqa: ARG002
        """Refuse."""
        if secrets:
            raise Unavailable("This installation has no key to seal secrets with.")
        return {}

    async def open(self, conn: Connection, tenant_id: UUID, sealed: Mapping[str, bytes]) -> dict[str, str]:  # noqa: ARG002
        """Refuse."""
        if sealed:
            raise Unavailable("This installation has no key to open secrets with.")
        return {}


def make_kit(secret: str) -> Kit:
    """Make what the API needs. `secret` is the installation's, from which the keys of codes and links are derived."""
    return Kit(kinds={}, sealer=WithoutKey(), signer=Signer.derived_from(secret))
