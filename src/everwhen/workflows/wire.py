"""What workflows and their runs look like on the wire, in both directions."""

import json
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, Field, JsonValue

from everwhen.core.dag_predict import Outlook
from everwhen.core.dag_values import MOST_NODES, NodeState, TriggerRule
from everwhen.core.sentences import sentence_of
from everwhen.http.fields import Name, Owner, Sentence, Utc, Wire
from everwhen.http.payloads import PayloadValue, WithPayloads
from everwhen.http.reasons import ReasonCode, ReasonSentence
from everwhen.runs.wire import RunOut, run_out
from everwhen.workflows.foreseeing import Foresight
from everwhen.workflows.listing.model import WorkflowRunItem
from everwhen.workflows.model import NodeRow, VersionItem, WorkflowItem, WorkflowRow, WorkflowRunRow
from everwhen.workflows.service import MOST_NAMED, NodeView, WorkflowRunView
from everwhen.workflows.telling import NodeTelling

NodeId = Annotated[str, Field(min_length=1, max_length=100)]


class WorkflowFields(Wire):
    """What a workflow is, but for its name."""

    definition: dict[str, JsonValue] = Field(description="As docs/concepts/workflows.md says: `nodes`, and the rest.")


class WorkflowVersionIn(WorkflowFields):
    """A version of a workflow."""

    owner: Owner | None = Field(default=None, description="Who declares the workflow; left out, that stays.")
    reason: Sentence | None = Field(default=None, description="Why; kept with the version.")


class WorkflowIn(WorkflowVersionIn):
    """A workflow to make."""

    name: Name


class CheckIn(Wire):
    """A definition to check; nothing of it is kept."""

    definition: dict[str, JsonValue]
    name: Name | None = None


class CheckOut(BaseModel):
    """What a definition that holds is like."""

    nodes: int
    edges: int
    depth: int = Field(description="How many nodes the longest path has.")


class WorkflowItemOut(BaseModel):
    """A workflow; `version` is the latest one, which runs that start now will keep."""

    name: str
    version: int
    tags: list[str]
    owner: str | None = Field(description="Who declares it; null: nobody, it was made by hand.")
    created_at: Utc
    updated_at: Utc


class WorkflowOut(WorkflowItemOut):
    """A workflow with its latest definition."""

    definition: dict[str, JsonValue]
    changed_by: str
    reason: str | None


class WorkflowVersionOut(BaseModel):
    """A version in the list of them."""

    version: int
    changed_by: str
    reason: str | None
    changed_at: Utc


class WorkflowDefinitionOut(BaseModel):
    """What a version says."""

    version: int
    definition: dict[str, JsonValue]


class RerunIn(Wire):
    """From which nodes to begin again."""

    nodes: list[NodeId] = Field(
        default_factory=list[str],
        max_length=MOST_NODES,
        description="They and everything downstream begin again; left out: all that failed.",
    )
    reason: Sentence | None = None


class NodeOut(WithPayloads):
    """A node of a run. Its run, once it is released, is a run like any other."""

    id: str
    state: NodeState
    reason: ReasonCode | None
    reason_sentence: ReasonSentence
    detail: PayloadValue
    task: str | None
    workflow: str | None
    needs: list[str]
    rule: TriggerRule
    is_finally: bool
    run: UUID | None = Field(description="Null until it is released, and for a fan-out, whose instances have theirs.")
    kept_from: UUID | None = Field(description="The earlier generation's run whose end this node keeps.")
    blocked_by: list[str] = Field(description="What has not ended and has to, the slowest first; at most 20.")
    blocked_at: str | None = Field(description="The node under way that all of that comes down to.")
    ends_at: Utc | None = Field(description="When it has ended, or is expected to.")
    taken: list[str] | None = Field(description="The downstream nodes that its result chose; null: all.")
    worker: str | None
    attempt: int | None
    instances: dict[str, int] | None = Field(description="Of a fan-out: how many instances are in which state.")
    decided_at: Utc | None = Field(description="When it was released, or found not to run.")
    ended_at: Utc | None


class GenerationOut(BaseModel):
    """A run of the same family: the first, or one that began a part of it again."""

    run: UUID
    generation: int
    begun_from: list[str] | None
    started_at: Utc | None
    ended_at: Utc | None


class EstimateOut(BaseModel):
    """When a run will end, by how long its nodes took in the latest runs of the workflow."""

    ends_at: Utc = Field(description="If every open node takes as long as half of its earlier runs did.")
    late_at: Utc = Field(description="If every open node takes as long as nine in ten of them did.")
    critical_path: list[str] = Field(description="The nodes that put off the end.")
    outlook: Outlook | None = Field(description="Whether the deadline will hold; null: there is none, or it has ended.")
    unknown: list[str] = Field(description="Open nodes without earlier runs, taken to need no time; the first 20.")


class WorkflowRunOut(BaseModel):
    """A workflow's run, with its nodes in the order of the definition."""

    run: RunOut
    workflow: str
    version: int | None = Field(description="The version that it keeps; null until it has started.")
    generation: int
    generations: list[GenerationOut]
    started_at: Utc | None
    deadline_at: Utc | None
    halted: str | None = Field(description="Why no ordinary node is released any more: fail_fast, cancel or deadline.")
    estimate: EstimateOut | None
    states: dict[str, int] = Field(description="How many nodes are in which state.")
    nodes: list[NodeOut]


class WorkflowRunItemOut(RunOut):
    """A workflow's run in a list; reading it shows its nodes."""

    version: int | None = Field(description="The version that it keeps; null until it has started.")
    generation: int
    rerun_of: UUID | None = Field(description="The run that this one runs a part of again.")
    started_at: Utc | None
    deadline_at: Utc | None


class UpstreamOut(BaseModel):
    """A node that another one needs, and how it stands."""

    id: str
    state: NodeState
    reason: ReasonCode | None
    run: UUID | None


class NodeExplanationOut(BaseModel):
    """Why a node stands where it stands. Of one that is released, its run's own explanation says more."""

    node: str
    state: NodeState
    headline: str
    reason: ReasonCode | None
    reason_sentence: ReasonSentence
    rule: TriggerRule
    detail: JsonValue
    upstreams: list[UpstreamOut] = Field(description="What it needs, of a finally-node all; at most 1,000.")
    waits_for: list[str] = Field(description="Those of them that have not ended, while it is blocked.")
    run: UUID | None
    kept_from: UUID | None


class InstanceOut(WithPayloads):
    """One instance of a fan-out."""

    index: int
    state: NodeState
    reason: ReasonCode | None
    reason_sentence: ReasonSentence
    detail: PayloadValue
    item: PayloadValue
    run: UUID | None
    kept_from: UUID | None
    decided_at: Utc | None
    ended_at: Utc | None


def item_out(item: WorkflowItem) -> WorkflowItemOut:
    """Return a workflow of a list as the wire has it."""
    return WorkflowItemOut(
        name=item.name,
        version=item.version,
        tags=item.tags,
        owner=item.owner,
        created_at=item.created_at,
        updated_at=item.updated_at,
    )


def workflow_out(row: WorkflowRow) -> WorkflowOut:
    """Return a workflow as the wire has it."""
    definition = json.loads(row.definition)
    return WorkflowOut(
        name=row.name,
        version=row.version,
        tags=definition.get("tags", []),
        owner=row.owner,
        definition=definition,
        changed_by=row.changed_by,
        reason=row.reason,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def version_out(item: VersionItem) -> WorkflowVersionOut:
    """Return a version as the wire has it."""
    return WorkflowVersionOut(
        version=item.version, changed_by=item.changed_by, reason=item.reason, changed_at=item.changed_at
    )


def workflow_run_out(view: WorkflowRunView, *, workflow: str) -> WorkflowRunOut:
    """Return a workflow's run as the wire has it."""
    row = view.row
    nodes = [_node_out(each, view.foresight) for each in view.nodes]
    states: dict[str, int] = {}
    for node in nodes:
        states[node.state] = states.get(node.state, 0) + 1
    return WorkflowRunOut(
        run=run_out(view.run),
        workflow=workflow,
        version=row and row.version,
        generation=1 if row is None else row.generation,
        generations=[_generation_out(each) for each in view.generations],
        started_at=row and row.started_at,
        deadline_at=row and row.deadline_at,
        halted=row and row.halt,
        estimate=None if view.foresight is None else _estimate_out(view.foresight),
        states=states,
        nodes=nodes,
    )


def workflow_run_item_out(item: WorkflowRunItem) -> WorkflowRunItemOut:
    """Return a workflow's run as a list has it."""
    begun = item.begun
    return WorkflowRunItemOut(
        **run_out(item.run).model_dump(),
        version=begun and begun.version,
        generation=1 if begun is None else begun.generation,
        rerun_of=begun and begun.rerun_of,
        started_at=begun and begun.started_at,
        deadline_at=begun and begun.deadline_at,
    )


def node_explanation_out(told: NodeTelling) -> NodeExplanationOut:
    """Return a node's explanation as the wire has it."""
    view = told.view
    return NodeExplanationOut(
        node=view.node.id,
        state=view.state,
        headline=told.headline,
        reason=view.reason,
        reason_sentence=sentence_of(view.reason),
        rule=view.node.rule,
        detail=_value(view.row.detail),
        upstreams=[
            UpstreamOut(id=each.node.id, state=each.state, reason=each.reason, run=each.row.node_run_id)
            for each in told.upstreams
        ],
        waits_for=[each.node.id for each in told.waits_for],
        run=view.row.node_run_id,
        kept_from=view.row.kept_run_id,
    )


def instance_out(row: NodeRow) -> InstanceOut:
    """Return an instance as the wire has it."""
    return InstanceOut(
        index=row.instance,
        state=NodeState(row.state),
        reason=row.reason,
        reason_sentence=sentence_of(row.reason),
        detail=_value(row.detail),
        item=_value(row.item),
        run=row.node_run_id,
        kept_from=row.kept_run_id,
        decided_at=row.decided_at,
        ended_at=row.ended_at,
    )


def _estimate_out(found: Foresight) -> EstimateOut:
    prediction = found.prediction
    return EstimateOut(
        ends_at=prediction.ends_at,
        late_at=prediction.late_at,
        critical_path=list(prediction.critical),
        outlook=found.outlook,
        unknown=list(prediction.unknown[:MOST_NAMED]),
    )


def _node_out(view: NodeView, found: Foresight | None) -> NodeOut:
    node, row, live = view.node, view.row, view.live
    blocked = None if found is None else found.blocked.get(node.id)
    return NodeOut(
        id=node.id,
        state=view.state,
        reason=view.reason,
        reason_sentence=sentence_of(view.reason),
        detail=_value(row.detail),
        task=node.task,
        workflow=node.workflow,
        needs=list(node.needs),
        rule=node.rule,
        is_finally=node.is_finally,
        run=row.node_run_id,
        kept_from=row.kept_run_id,
        blocked_by=[] if blocked is None else list(blocked.needs),
        blocked_at=blocked and blocked.root,
        ends_at=None if found is None else found.prediction.nodes[node.id].ends_at,
        taken=row.taken,
        worker=live and live.worker,
        attempt=live and live.attempt,
        instances=dict(view.instances) if row.instances is not None else None,
        decided_at=row.decided_at,
        ended_at=row.ended_at,
    )


def _generation_out(row: WorkflowRunRow) -> GenerationOut:
    return GenerationOut(
        run=row.run_id,
        generation=row.generation,
        begun_from=row.rerun_nodes,
        started_at=row.started_at,
        ended_at=row.ended_at,
    )


def _value(text: str | None) -> Any:
    return None if text is None else json.loads(text)
