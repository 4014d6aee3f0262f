"""One run of a workflow in one transaction: its row, which is locked, and those of its nodes that are touched.

Rows are read when somebody asks for them and written once, together. So what a node's end costs depends on the edges
that it has, and not on how many nodes the workflow has.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from everwhen.core.dag import Progress, Standing, outcome
from everwhen.core.dag_values import Workflow
from everwhen.core.ids import node_run_id
from everwhen.core.lifecycle import RunState
from everwhen.postgres.pool import Connection
from everwhen.workflows import store
from everwhen.workflows.model import NO_INSTANCE, NodeRow, WorkflowRunRow, counts_of
from everwhen.workflows.versions import Version

Key = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A run to line up for a node. `input`, `policy` and `detail` are JSON text; what is None is the task's."""

    run_id: UUID
    task: str
    input: str
    queue: str | None
    priority: int | None
    start_deadline: float | None
    policy: str | None
    detail: str


@dataclass(slots=True)
class Ledger:
    """What is known of a run, and what is to be written of it."""

    conn: Connection
    run: WorkflowRunRow
    version: Version
    now: datetime
    standing: Standing
    live: int
    look_at: datetime | None
    releases: list[Release] = field(default_factory=list[Release])
    wakes_conductor: bool = False
    rows: dict[Key, NodeRow] = field(default_factory=dict[Key, NodeRow])
    changed: set[Key] = field(default_factory=set[Key])
    added: set[Key] = field(default_factory=set[Key])

    @classmethod
    def open(cls, conn: Connection, run: WorkflowRunRow, version: Version, *, now: datetime) -> "Ledger":
        """Begin with a row that the caller has locked."""
        return cls(conn, run, version, now, run.standing(), run.live, run.look_at)

    @property
    def workflow(self) -> Workflow:
        """The version that the run keeps."""
        return self.version.workflow

    @property
    def key(self) -> dict[str, UUID]:
        """The run's key, as the store's functions take it."""
        return {"tenant_id": self.run.tenant_id, "run_id": self.run.run_id}

    def room(self) -> int | None:
        """How many more node runs may be live at once; None: any number."""
        most = self.workflow.max_parallel
        return None if most is None else max(0, most - self.live)

    def run_id_of(self, row: NodeRow) -> UUID:
        """Return the id of the run that a node is released as."""
        return node_run_id(self.run.tenant_id, self.run.run_id, node=row.node, instance=row.instance)

    async def load(self, keys: Iterable[Key]) -> None:
        """Read these rows, as far as they are not here yet."""
        wanted = sorted(set(keys) - self.rows.keys())
        if wanted:
            names, instances = [node for node, _ in wanted], [instance for _, instance in wanted]
            self._keep(await store.read_nodes(self.conn, **self.key, nodes=names, instances=instances))

    async def load_all(self) -> None:
        """Read every node's own row."""
        self._keep(await store.read_all_nodes(self.conn, **self.key))

    async def load_held(self) -> list[NodeRow]:
        """Read, and return, everything that waits for room or for its key."""
        found = await store.read_all_held(self.conn, **self.key)
        self._keep(found)
        return [row for row in self.rows.values() if row.is_held]

    def adopt(self, found: Iterable[NodeRow]) -> list[NodeRow]:
        """Take rows that were read otherwise; return them as they are here, which may be further on."""
        rows = list(found)
        self._keep(rows)
        return [self.rows[row.node, row.instance] for row in rows]

    def node(self, node: str) -> NodeRow:
        """Return a node's own row, which has been loaded."""
        return self.rows[node, NO_INSTANCE]

    def states(self, nodes: Iterable[str]) -> Mapping[str, Progress]:
        """Return what the core reads of these nodes, which have been loaded."""
        return {node: self.node(node).progress() for node in nodes}

    def add(self, row: NodeRow) -> None:
        """Have a new row written."""
        key = (row.node, row.instance)
        self.rows[key] = row
        self.added.add(key)

    def change(self, row: NodeRow) -> None:
        """Have a row written again."""
        self.changed.add((row.node, row.instance))

    @property
    def outcome(self) -> RunState | None:
        """How the run ends; None while a node is open."""
        return outcome(self.workflow, self.standing)

    async def write_nodes(self) -> None:
        """Write every node's row that is new or has changed."""
        if added := sorted(self.added):
            rows = [self.rows[key] for key in added]
            kept: dict[str, Any] = {
                "kept_run_ids": [row.kept_run_id for row in rows],
                "items": [row.item for row in rows],
            }
            await store.insert_nodes(self.conn, **self.key, **store.columns(rows), **kept)
        if changed := sorted(self.changed - self.added):
            rows = [self.rows[key] for key in changed]
            await store.update_nodes(self.conn, **self.key, **store.columns(rows))
        self.added.clear()
        self.changed.clear()

    async def write(self, *, ended_at: datetime | None = None) -> None:
        """Write the nodes and the run's own row."""
        await self.write_nodes()
        standing = self.standing
        await store.save_run(
            self.conn,
            **self.key,
            halt=standing.halt,
            ordinary=counts_of(standing.ordinary),
            leaves=counts_of(standing.leaves),
            finals=counts_of(standing.finals),
            live=self.live,
            look_at=self.look_at,
            ended_at=ended_at,
        )

    def _keep(self, found: Iterable[NodeRow]) -> None:
        for row in found:
            self.rows.setdefault((row.node, row.instance), row)
