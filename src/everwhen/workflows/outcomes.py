"""What a workflow's run leaves as its own result: the results of its leaves, as far as they are small together."""

import json
from typing import Any, Final

from everwhen.core.dag_values import MOST_INPUT_BYTES, NodeState
from everwhen.workflows import store
from everwhen.workflows.ledger import Ledger
from everwhen.workflows.model import NO_INSTANCE

MOST_LEAVES: Final = 100


async def result_of(ledger: Ledger) -> str | None:
    """Return the result as JSON text; None when there are too many leaves, or too much in them.

    A fan-out's result is left out: whoever wants it in the result has a node after it that says what of it counts.
    """
    leaves = sorted(ledger.workflow.graph.leaves)
    if len(leaves) > MOST_LEAVES:
        return None
    await ledger.load((leaf, NO_INSTANCE) for leaf in leaves)
    rows = [ledger.node(leaf) for leaf in leaves]
    nodes = {row.node_run_id or row.kept_run_id: row.node for row in rows if row.state == NodeState.SUCCEEDED}
    run_ids = [run_id for run_id in nodes if run_id is not None]
    found = await store.read_results(ledger.conn, tenant_id=ledger.run.tenant_id, run_ids=run_ids) if run_ids else []
    results: dict[str, Any] = {nodes[each.run_id]: json.loads(each.result or "null") for each in found}
    text = json.dumps(results)
    return text if len(text) <= MOST_INPUT_BYTES else None
