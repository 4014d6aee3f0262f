"""What the installation lets its tenants reach, and how much of it at once."""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from everwhen.egress.addresses import Network
from everwhen.errors import ConfigurationError

HTTPS_PORTS: Final = frozenset({443, 8443})
MAIL_PORTS: Final = frozenset({25, 465, 587, 2525})


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressPolicy:
    """`allowed` are networks that are not public and yet may be reached: see docs/operate/egress.md for the danger."""

    allowed: tuple[Network, ...] = ()
    ports: frozenset[int] = HTTPS_PORTS
    mail_ports: frozenset[int] = MAIL_PORTS
    plain_http: bool = False
    per_tenant: int = 8
    """How many connections of one tenant may be open at once."""
    seconds: float = 10.0
    """How long an HTTP exchange may take in all, from waiting for its turn to the last byte that is read."""
    mail_seconds: float = 30.0
    """The same for handing in a mail; servers of mail think longer."""
    ca_file: Path | None = None
    """Certificate authorities to trust beside the system's."""

    def check(self) -> None:
        """Raise ConfigurationError when the authorities cannot be read."""
        if self.ca_file is not None:
            tls_context(self.ca_file)


def tls_context(ca_file: Path | None) -> ssl.SSLContext:
    """Trust the system's certificate authorities, and those of this file; raise ConfigurationError if it is no good."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca_file is not None:
        try:
            context.load_verify_locations(ca_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(f"egress_ca_file: {ca_file} holds no certificates that can be read") from error
    return context
