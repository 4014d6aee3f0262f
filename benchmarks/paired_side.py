"""One side of a paired run: a cluster of one checkout, which measures what it is told to, one line of JSON each.

Started by `paired.py` with the checkout's own Python and in its folder, so `benchmarks` and `everwhen` are the
checkout's. Only what has always been there is used of them; a measurement that a checkout does not have yet is taken
from here, and loaded only when it is asked for, since it may need more than that checkout has. Each line of input names
a measure and its arguments.
"""

import json
import sys
from importlib import import_module
from pathlib import Path

sys.path[0] = str(Path.cwd())
sys.path.append(str(Path(__file__).parent.parent))

from benchmarks.cluster import exit_on_sigterm, running_cluster  # noqa: E402  # of the checkout that we were started in

MEASURES = {
    "sdk": ("cycle", "measure_sdk"),
    "batches": ("cycle", "measure_batches"),
    "lag": ("lag", "measure"),
    "control": ("control", "measure"),
    "plan": ("plan", "measure"),
}
"""Each measure's module among the benchmarks, and its function."""


def main() -> None:
    """Measure until the input ends."""
    exit_on_sigterm()
    answers, sys.stdout = sys.stdout, sys.stderr
    with running_cluster() as cluster:
        for line in sys.stdin:
            what, arguments = json.loads(line)
            module, function = MEASURES[what]
            measure = getattr(import_module(f"benchmarks.{module}"), function)
            answers.write(json.dumps(measure(cluster, **arguments), default=str) + "\n")
            answers.flush()


if __name__ == "__main__":
    main()
