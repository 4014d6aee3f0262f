"""What the reasons of workflows mean: a part of the registry in `meanings`."""

from collections.abc import Mapping
from typing import Final

from everwhen.core.meaning import Meaning, of
from everwhen.core.reasons import Category, Reason, Severity

_INFO, _WARNING, _ERROR = Severity.INFO, Severity.WARNING, Severity.ERROR

WORKFLOW_MEANINGS: Final[Mapping[str, Meaning]] = {
    Reason.WORKFLOW_BRANCH: of(Category.POLICY, _INFO, "The workflow took another branch."),
    Reason.WORKFLOW_CONDITION: of(Category.POLICY, _INFO, "The node's condition was false."),
    Reason.WORKFLOW_DATA: of(
        Category.ENDED,
        _ERROR,
        "Data that the node's input, condition, list or branch needs was missing, or not of the right kind.",
        remedy="Mend the reference that the detail names, or what the upstream node returns; then rerun from there.",
    ),
    Reason.WORKFLOW_FAIL_FAST: of(
        Category.ENDED, _WARNING, "Another node of the workflow failed, and the workflow stops at the first failure."
    ),
    Reason.WORKFLOW_NESTED: of(
        Category.ENDED,
        _ERROR,
        "The workflow is inside of too many others, or of itself.",
        remedy="Take the sub-workflow out of the circle.",
    ),
    Reason.WORKFLOW_NO_CONDUCTOR: of(
        Category.SYSTEM,
        _ERROR,
        "No conductor takes up workflows' runs, so nothing of it begins.",
        remedy="Run a server with the role conductor.",
    ),
    Reason.WORKFLOW_NO_ITEMS: of(Category.POLICY, _INFO, "The list that the node fans out over was empty."),
    Reason.WORKFLOW_NODE_FAILED: of(
        Category.ENDED,
        _ERROR,
        "A node failed, or could not run because of a failure.",
        remedy="Mend what the failed node's error names, then run the workflow again from there.",
    ),
    Reason.WORKFLOW_RERUN_INSTEAD: of(
        Category.REFUSED,
        _INFO,
        "The dead run is a node of a workflow's run, which would not hear of a new one.",
        remedy="Run the workflow's run again from the node: everwhen workflow rerun RUN --from NODE.",
    ),
    Reason.WORKFLOW_RULE: of(
        Category.POLICY, _INFO, "The node's trigger rule was not met by the way in which its upstreams ended."
    ),
    Reason.WORKFLOW_SKIPPED: of(Category.POLICY, _INFO, "The node's own result says that it skipped itself."),
    Reason.WORKFLOW_UNREADABLE: of(
        Category.ENDED,
        _ERROR,
        "This version cannot read the workflow's definition.",
        remedy="Apply the definition again.",
    ),
    Reason.WORKFLOW_UPSTREAM_FAILED: of(
        Category.ENDED,
        _WARNING,
        "A node that this one depends on did not succeed.",
        remedy="Mend the node that failed, then run the workflow again from there.",
    ),
}
