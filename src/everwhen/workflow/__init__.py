"""Write a workflow in Python, with the type checker looking on, and get the JSON that the API takes.

    from everwhen.workflow import Workflow, each, run

    flow = Workflow("nightly-load")
    extracted = flow.call("extract", extract)(day=run.nominal_at)
    loaded = flow.call("load", load, max_parallel=8)(path=each(extracted.result.files))
    flow.task("clean", finally_=True)
    definition = flow.to_json()

`call` takes the very function that the worker runs, so its arguments and its result are checked: `extracted.result` is,
to the type checker, what `extract` returns. When the definition is built it is a reference. A node needs whatever it
refers to, and whatever stands in `after`. `task` is the form without a function. Nothing of the server is imported but
the pure definition of a workflow, and no function is called.
"""

from everwhen.core.dag_values import WorkflowError
from everwhen.workflow.builder import Node, Options, Retry, Rule, Workflow
from everwhen.workflow.written import (
    Condition,
    all_of,
    any_of,
    default,
    each,
    equals,
    exists,
    is_in,
    length,
    literal,
    not_,
    run,
    text,
)

__all__ = [
    "Condition",
    "Node",
    "Options",
    "Retry",
    "Rule",
    "Workflow",
    "WorkflowError",
    "all_of",
    "any_of",
    "default",
    "each",
    "equals",
    "exists",
    "is_in",
    "length",
    "literal",
    "not_",
    "run",
    "text",
]
