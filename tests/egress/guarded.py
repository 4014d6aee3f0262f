"""An egress whose names are answered by a table, so that a test needs no resolver and no network."""

from typing import Any

from everwhen.egress.addresses import Network, ip_network
from everwhen.egress.client import Egress
from everwhen.egress.policy import EgressPolicy
from tests.alerts.certificates import authority

LOOPBACK: tuple[Network, ...] = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
ANY_PORT = frozenset(range(1, 65536))


class Names:
    """Answers each name with the addresses of its turn; what is not in the table leads to 127.0.0.1."""

    def __init__(self, table=None):
        self.table = table or {}
        self.asked = []

    async def __call__(self, tenant_id, host, port) -> Any:
        self.asked.append(host)
        found = self.table.get(host, ["127.0.0.1"])
        return found() if callable(found) else found


def egress(*, names: Any = None, **changes) -> Egress:
    """A client that may reach loopback, at any port, and trusts the tests' authority."""
    rules: dict[str, Any] = {
        "seconds": 30,
        "mail_seconds": 60,
        "allowed": LOOPBACK,
        "ports": ANY_PORT,
        "mail_ports": ANY_PORT,
        "ca_file": authority().file,
    }
    return Egress(EgressPolicy(**(rules | changes)), resolve=names or Names())
