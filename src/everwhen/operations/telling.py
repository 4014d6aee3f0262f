"""What the audit is told when an operation ends by itself. That somebody began or stopped it his request has told."""

from everwhen.audit import service as audit
from everwhen.audit.model import BY_ITSELF, Actor, Deed
from everwhen.operations.model import OperationRow
from everwhen.postgres.pool import Connection

ENDED = "end_operation"


async def tell_end(conn: Connection, row: OperationRow) -> None:
    """Tell how an operation has ended, and what has become of its items by then."""
    outcome = {
        "kind": row.kind,
        "state": row.state,
        "reason_code": row.state_reason,
        "total": row.total,
        "done": row.done,
        "skipped": row.skipped,
        "succeeded": row.succeeded,
        "dead": row.dead,
        "ended_otherwise": row.ended,
    }
    deed = Deed(operation=ENDED, resource=f"operations/{row.id}", reason=row.reason, after=outcome)
    await audit.record(conn, tenant_id=row.tenant_id, actor=Actor(subject=BY_ITSELF), deed=deed)
