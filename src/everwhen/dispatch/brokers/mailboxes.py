"""Where the notices of a worker's queues lie."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from everwhen.dispatch.brokers import store
from everwhen.dispatch.brokers.kinds import BrokerMaker
from everwhen.postgres.pool import Database
from everwhen.worker.protocol import Mailbox

MOST_MAILBOXES: Final = 1_000
"""How many one worker listens at, at most: a fleet of the platform has one for each tenant at each of its queues."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mailboxes:
    """Answers for the brokers that are set."""

    database: Database
    brokers: Mapping[str, BrokerMaker]

    async def find(self, tenant_id: UUID | None, queues: Sequence[str]) -> list[Mailbox]:
        """Return the mailboxes of these queues of a tenant, or of all tenants."""
        if not self.brokers:
            return []
        scope = self.database.system() if tenant_id is None else self.database.tenant(tenant_id)
        async with scope as conn:
            lines = await store.find_mailboxes(
                conn, tenant_id=tenant_id, queues=queues, brokers=list(self.brokers), limit=MOST_MAILBOXES
            )
        spelt = {kind: make() for kind, make in self.brokers.items()}  # naming is pure: nothing is connected
        return [spelt[line.broker].mailbox(line.tenant_id, line.queue) for line in lines]
