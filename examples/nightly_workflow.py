"""A workflow in Python: the worker's functions and the graph of them, checked together by the type checker.

python nightly_workflow.py > nightly-load.json      the definition, for the API
everwhen workflow graph nightly-load.json           a picture of it
everwhen worker nightly_workflow:worker             the fleet that runs its nodes
"""

import json
from dataclasses import dataclass
from datetime import timedelta

from everwhen.worker import Context, Worker
from everwhen.workflow import Retry, Workflow, default, each, run, text

worker = Worker()


@dataclass(frozen=True)
class Extracted:
    """What came in."""

    directory: str
    files: list[str]


@worker.task("nightly.extract")
def extract(ctx: Context, day: str) -> Extracted:
    """Fetch a day's files."""
    ctx.check()
    return Extracted(directory=f"/tmp/{day}", files=["a.csv", "b.csv"])  # noqa: S108  # an example


@worker.task("nightly.transform")
async def transform(path: str) -> int:
    """Clean one file; return its rows."""
    return len(path)


@worker.task("nightly.load")
def load(rows: list[int], label: str) -> int:
    """Load all of it; return the number of rows."""
    return sum(rows) if label else 0


@worker.task("nightly.clean")
def clean(directory: str) -> None:
    """Remove what was fetched."""
    print(f"removing {directory}")


flow = Workflow("nightly-load", deadline=timedelta(hours=4), defaults={"queue": "etl"})

extracted = flow.call("extract", extract, task="nightly.extract")(day=run.nominal_at)
transformed = flow.call("transform", transform, task="nightly.transform", max_parallel=8)(
    path=each(extracted.result.files)
)
loaded = flow.call("load", load, task="nightly.load", retry=Retry(max_attempts=5))(
    rows=transformed.results, label=text("load of ", run.nominal_at)
)
flow.task("report", task="nightly.report", input={"rows": loaded.result}, when=loaded.result > 0)
flow.call("clean", clean, task="nightly.clean", finally_=True)(directory=default(extracted.result.directory, ""))

if __name__ == "__main__":
    print(json.dumps(flow.to_json(), indent=2))
