"""What Schemathesis is told of this API: names of things that exist, in most of the cases that it makes.

Loaded by the `schemathesis` command (SCHEMATHESIS_HOOKS); the names come from the environment as JSON.
"""

import json
import os

import schemathesis

from tests.api_fuzz import NAMES, TARGETS

THINGS = json.loads(os.environ[NAMES])
_turn = 0


def _in_turn(most: int) -> bool:
    """True for all but one of `most` calls: by turns and not by chance, so that a seed tells the whole run."""
    global _turn  # noqa: PLW0603  # hooks are module functions; one process, one thread
    _turn += 1
    return _turn % most != 0


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    """Put names of things that exist in their places."""
    operation = context.operation
    kept = 4 if operation.method.upper() == "DELETE" else 8
    if not path_parameters or not _in_turn(kept):
        return path_parameters
    known = {name: THINGS[name] for name in path_parameters if name in THINGS}
    target = next((thing for part, thing in TARGETS.items() if part in operation.path), "schedule")
    if "name" in path_parameters:
        known["name"] = THINGS[target]
    if "run" in path_parameters and "/workflow-runs" in operation.path:
        known["run"] = THINGS["workflow_run"]
    if "version" in path_parameters and _in_turn(2):
        known["version"] = 1
    if operation.method.upper() == "DELETE":
        known = {key: value for key, value in known.items() if key == "tenant"}
    return path_parameters | known


@schemathesis.hook
def map_query(context, query):
    """Have streams end."""
    return (query or {}) | {"follow": "false"} if context.operation.path.endswith("/events/stream") else query


@schemathesis.hook
def map_headers(_context, headers):
    """Most changes mean whatever revision is there."""
    if headers and "If-Match" in headers and _in_turn(4):
        headers["If-Match"] = "*"
    return headers
