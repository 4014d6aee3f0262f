"""How much of the audit is not chained yet or not noted outside, for whoever collects metrics or asks how it stands."""

from everwhen import metrics
from everwhen.audit import store
from everwhen.audit.model import Backlog, Standing
from everwhen.postgres.pool import Connection


async def show_unsealed(conn: Connection) -> None:
    """Take over what waits for the sealer and for the notary, as of the transaction's now."""
    found = await store.read_backlog(conn)
    standing = await store.read_standing(conn)
    metrics.AUDIT_UNSEALED.set(found.unsealed)
    metrics.AUDIT_LAG.set(_lag(conn, found))
    metrics.AUDIT_UNANCHORED.set(standing.unanchored)
    metrics.AUDIT_BROKEN.set(standing.broken)


async def read_standing(conn: Connection) -> tuple[Standing, float]:
    """Return how chains stand, and for how many seconds an event has waited for its link."""
    return await store.read_standing(conn), _lag(conn, await store.read_backlog(conn))


def _lag(conn: Connection, found: Backlog) -> float:
    return 0.0 if found.oldest_at is None else max(0.0, (conn.now - found.oldest_at).total_seconds())
