"""How much is to be sent, for whoever collects metrics."""

from everwhen import metrics
from everwhen.alerts.delivering import store
from everwhen.postgres.pool import Connection


async def show_backlog(conn: Connection) -> None:
    """Take over what waits to be sent, as of the transaction's now."""
    found = await store.read_backlog(conn, now=conn.now)
    metrics.ALERTS_PENDING.set(found.pending)
    late = 0.0 if found.oldest_due_at is None else (conn.now - found.oldest_due_at).total_seconds()
    metrics.ALERTS_OLDEST.set(max(0.0, late))
