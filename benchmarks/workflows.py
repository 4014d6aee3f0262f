"""What workflows cost, with real workers: a chain, a fan-out and back, and one released node in graphs of three sizes.

    python -m benchmarks.workflows [--quick]

A chain is as slow as so many claims and reports one after the other; a fan-out is as fast as what comes together can be
written together. A ladder has layers of ten nodes, each needing two of the layer before, so a node of it costs the same
in a graph of any size: what it takes a node at 100, 1,000 and 10,000 nodes is what has to stay flat. Results go to
benchmarks/results/workflows.json, but for a quick run.
"""

import argparse
import hashlib
import json
import time
import urllib.request
from typing import Any

from benchmarks.cluster import TENANT, Cluster, exit_on_sigterm, running_cluster
from benchmarks.report import RESULTS
from everwhen.http.roles import Role

PATIENCE = 600.0
WORKERS, CONCURRENCY = 2, 100


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the sizes")
    is_quick = parser.parse_args().quick
    exit_on_sigterm()
    with running_cluster() as cluster:
        _, url = cluster.serve_api()
        cluster.serve("conductor")
        for _ in range(WORKERS):
            cluster.work(url, concurrency=CONCURRENCY)
        measured = [_measure(cluster, url, name, nodes) for name, nodes in _graphs(10 if is_quick else 1)]
    if not is_quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "workflows.json").write_text(json.dumps(measured, indent=2) + "\n")


def _graphs(scale: int) -> list[tuple[str, list[dict[str, Any]]]]:
    items = list(range(1_000 // scale))
    return [
        ("warm-up", _ladder(10)),
        ("chain", _chain(1_000 // scale)),
        ("fan-out", [_node("list"), {**_node("each", "list"), "each": {"items": items}}, _node("back", "each")]),
        (
            "wide",
            [_node("a"), *(_node(f"n{item}", "a") for item in items), _node("b", *(f"n{item}" for item in items))],
        ),
        ("ladder-100", _ladder(100 // scale)),
        ("ladder-1000", _ladder(1_000 // scale)),
        ("ladder-10000", _ladder(9_999 // scale)),
    ]


def _node(name: str, *needs: str) -> dict[str, Any]:
    return {"id": name, "task": "noop", "needs": list(needs)}


def _chain(count: int) -> list[dict[str, Any]]:
    return [_node(f"n{number}", *([f"n{number - 1}"] if number else [])) for number in range(count)]


def _ladder(count: int) -> list[dict[str, Any]]:
    """Layers of ten, each node needing two of the layer before: so a node costs the same in a graph of any size."""
    nodes: list[dict[str, Any]] = []
    for number in range(count):
        layer, place = divmod(number, 10)
        needs = {f"n{(layer - 1) * 10 + place}", f"n{(layer - 1) * 10 + (place + 1) % 10}"} if layer else set()
        nodes.append(_node(f"n{number}", *sorted(needs)))
    return nodes


def _measure(cluster: Cluster, url: str, name: str, nodes: list[dict[str, Any]]) -> dict[str, Any]:
    token = cluster.token(Role.ADMIN)
    _call(f"{url}/v1/tenants/bench/workflows", token, {"name": name, "definition": {"nodes": nodes}})
    before = time.perf_counter()
    made = _call(f"{url}/v1/tenants/bench/runs", token, {"workflow": name})
    query = "select started_at, ended_at from everwhen.workflow_runs where tenant_id = %s and run_id = %s"

    def has_ended() -> bool:
        found = cluster.fetch(query, TENANT, made["id"])
        return bool(found) and found[0][1] is not None

    cluster.wait(has_ended, seconds=PATIENCE, what=f"{name} has ended", poll=0.01)
    seconds = time.perf_counter() - before
    states = cluster.fetch(
        "select state, count(*) from everwhen.workflow_nodes where run_id = %s group by 1", made["id"]
    )
    count = sum(number for _, number in states)
    assert states == [("succeeded", count)], states
    starting = cluster.value(
        "select extract(epoch from r.started_at - p.planned_at)::float8 from everwhen.workflow_runs r"
        " join everwhen.runs p using (tenant_id, run_id) where r.run_id = %s",
        made["id"],
    )
    found = {
        "workflow": name,
        "nodes": count,
        "seconds": round(seconds, 3),
        "milliseconds_a_node": round(1000 * seconds / count, 3),
        "started_after_milliseconds": round(1000 * starting, 1),
    }
    print(json.dumps(found), flush=True)
    return found


def _call(url: str, token: str, body: dict[str, Any]) -> Any:
    headers = {
        "Authorization": f"Bearer {token}",
        "Content-Type": "application/json",
        "Idempotency-Key": hashlib.sha256(json.dumps(body).encode()).hexdigest(),
    }
    request = urllib.request.Request(url, data=json.dumps(body).encode(), headers=headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


if __name__ == "__main__":
    main()
