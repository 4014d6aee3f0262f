"""What a run is of: a task that workers know, or a workflow, which the conductor performs.

A workflow stands among the tasks under a name that no caller can give a task, at a queue that no worker may claim from:
schedules and runs name one target, and everything that acts on runs acts on a workflow's runs as well.
"""

from typing import Final

RESERVED: Final = "everwhen:"
"""How names begin that only the server itself may use."""

WORKFLOW_QUEUE: Final = "everwhen:workflows"
"""Where workflows' runs wait for the conductor."""

SOURCE_NODE: Final = "workflow"
"""The source of a run that a workflow's node was released as."""

_WORKFLOW: Final = "workflow:"


def workflow_task(workflow: str) -> str:
    """Return the name under which a workflow stands among the tasks."""
    return _WORKFLOW + workflow


def workflow_of(task: str) -> str | None:
    """Return the workflow that stands under this name; None when it is a task."""
    return task.removeprefix(_WORKFLOW) if task.startswith(_WORKFLOW) else None
