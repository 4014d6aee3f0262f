"""How much of the audit is not chained yet, for whoever collects metrics."""

from everwhen import metrics
from everwhen.audit import store
from everwhen.postgres.pool import Connection


async def show_unsealed(conn: Connection) -> None:
    """Take over what waits for the sealer, as of the transaction's now."""
    found = await store.read_backlog(conn)
    metrics.AUDIT_UNSEALED.set(found.unsealed)
    lag = 0.0 if found.oldest_at is None else (conn.now - found.oldest_at).total_seconds()
    metrics.AUDIT_LAG.set(max(0.0, lag))
