"""The control API under some clients at once: requests for runs under a key, and reads.

As many requests as the smallest bucket of the rate limits holds, so that none is refused.
"""

from pathlib import Path
from typing import Any

from benchmarks import backlog
from benchmarks.cluster import Cluster
from benchmarks.cpu import Meter
from everwhen.http.roles import Role

CLIENTS = 4


def measure(cluster: Cluster, *, what: str, requests: int = 2_000) -> dict[str, Any]:
    """Send so many requests of a kind (see control_client); return their rate and what each cost."""
    cluster.reset()
    cluster.sql.execute("truncate everwhen.replies")
    server, url = cluster.serve_api()
    meter = Meter(roots={})
    found = backlog.run_child(
        cluster,
        "control_client",
        what,
        requests,
        CLIENTS,
        url,
        roots={"api": [server.pid]},
        environment={"EVERWHEN_TOKEN": cluster.token(Role.ADMIN), "PYTHONPATH": str(Path(__file__).parent.parent)},
    )
    others = meter.other_cores()
    cluster.stop(server)
    return found | {"other_cores": others}
