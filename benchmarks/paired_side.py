"""One side of a paired run: a cluster of one checkout, which measures what it is told to, one line of JSON each.

Started by `paired.py` with the checkout's own Python and in its folder, so `benchmarks` and `everwhen` are the
checkout's. Only what has always been there is used of them; a measurement that a checkout does not have yet is taken
from here. Each line of input names a function of `benchmarks.cycle`, `lag`, `control` or `plan`, and its arguments.
"""

import json
import sys
from pathlib import Path

sys.path[0] = str(Path.cwd())
sys.path.append(str(Path(__file__).parent.parent))

from benchmarks import control, cycle, lag, plan  # noqa: E402  # of the checkout in whose folder we were started
from benchmarks.cluster import exit_on_sigterm, running_cluster  # noqa: E402  # as above

MEASURES = {
    "sdk": cycle.measure_sdk,
    "batches": cycle.measure_batches,
    "lag": lag.measure,
    "control": control.measure,
    "plan": plan.measure,
}


def main() -> None:
    """Measure until the input ends."""
    exit_on_sigterm()
    answers, sys.stdout = sys.stdout, sys.stderr
    with running_cluster() as cluster:
        for line in sys.stdin:
            what, arguments = json.loads(line)
            answers.write(json.dumps(MEASURES[what](cluster, **arguments), default=str) + "\n")
            answers.flush()


if __name__ == "__main__":
    main()
