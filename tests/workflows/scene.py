"""A workflow, its conductor and its worker in one process: what the tests of workflows share.

The worker is scripted: for each node it is told how the attempts go. It claims and reports as any worker does.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from everwhen.core.targets import workflow_task
from everwhen.dispatch.model import Lease
from everwhen.dispatch.reaper import Reaper
from everwhen.dispatch.service import Claim, Dispatch
from everwhen.postgres.pool import Connection, Database
from everwhen.runs import service as runs
from everwhen.runs.ends import follow_with
from everwhen.runs.model import RunRequest
from everwhen.tenants.model import Tenant
from everwhen.workflows import definitions, service
from everwhen.workflows.conductor import Conductor
from everwhen.workflows.life import NodeFollower
from everwhen.workflows.model import Change, WorkflowRow
from everwhen.workflows.service import WorkflowRunView
from tests.dispatch.scene import report_on, rows
from tests.factories import NEVER_AGAIN, WORKER, make_task, make_tenant

QUEUE = "line"
TESTER = Change(by="tester")
MOST_ROUNDS = 500

Answer = str | dict[str, Any] | Callable[[Lease], dict[str, Any]]


@dataclass
class Scene:
    """A tenant with a task `work` at one queue; whoever was woken is in `woken`."""

    db: Database
    tenant: Tenant
    woken: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.on_ended = follow_with(NodeFollower(on_ready=self._wake))
        self.dispatch = Dispatch(self.db, jitter=lambda: 0.0, on_ended=self.on_ended)
        self.conductor = Conductor(database=self.db, on_ready=self._wake, on_ended=self.on_ended)
        self.reaper = Reaper(database=self.db, jitter=lambda: 0.0, on_ended=self.on_ended)

    async def _wake(self, conn: Connection, tenant_id: UUID, queue: str) -> None:
        self.woken.append(queue)

    async def define(self, *nodes: Mapping[str, Any], name: str = "etl", **settings: Any) -> WorkflowRow:
        """Make a workflow, or its next version; a node without a task has the task `work`."""
        definition = definition_of(*nodes, **settings)
        arguments: Any = {"tenant_id": self.tenant.id, "name": name, "definition": definition, "change": TESTER}
        known = {
            item.name for item in (await definitions.list_workflows(self.db, tenant_id=self.tenant.id, limit=100)).rows
        }
        if name in known:
            return await definitions.replace_workflow(self.db, **arguments)
        return await definitions.create_workflow(self.db, **arguments)

    async def run(self, name: str = "etl", *, input: Any = None, **request: Any) -> str:  # noqa: A002
        """Ask for a run; return its id."""
        wanted = RunRequest(task=workflow_task(name), input=input or {}, has_input=True, **request)
        view = await runs.request_run(self.db, tenant_id=self.tenant.id, request=wanted)
        return str(view.row.run_id)

    async def now(self) -> datetime:
        async with self.db.system() as conn:
            return conn.now

    async def conduct(self, *, later: timedelta = timedelta(0)) -> None:
        """Let the conductor do everything that it has to do by now."""
        for _ in range(MOST_ROUNDS):
            tick = await self.conductor.tick(await self.now() + later)
            if not tick.done:
                return
        raise AssertionError("the conductor finds no end")

    async def claim(self, *, limit: int = 100, queues: Sequence[str] = (QUEUE,)) -> dict[str, Lease]:
        """Claim as a worker; return the leases by their nodes' names."""
        claim = Claim(
            tenant_id=self.tenant.id, queues=tuple(queues), tasks=None, worker=WORKER, limit=limit, lease_seconds=60.0
        )
        leases = (await self.dispatch.claim(claim)).leases
        names = dict(await self._names([lease.run_id for lease in leases]))
        return {names[lease.run_id]: lease for lease in leases}

    async def _names(self, run_ids: Sequence[UUID]) -> list[tuple[UUID, str]]:
        query = """select node_run_id, node || case when instance < 0 then '' else '[' || instance || ']' end
                   from everwhen.workflow_nodes where node_run_id = any(%s)"""
        return [(run_id, name) for run_id, name in await rows(self.db, query, list(run_ids))]

    async def report(self, lease: Lease, outcome: str = "succeeded", *, result: Any = None, **changes: Any) -> bool:
        """Report as a worker; return whether it counted."""
        encoded = None if result is None else json.dumps(result).encode()
        report = report_on(lease, outcome, result=encoded, **changes)
        (answer,) = await self.dispatch.complete(self.tenant.id, WORKER, [report])
        return answer.accepted

    async def work(self, answers: Mapping[str, Answer] | None = None, *, queues: Sequence[str] = (QUEUE,)) -> list[str]:
        """Work, and conduct, until nothing is left to do; return the nodes in the order in which they were claimed."""
        done: list[str] = []
        for _ in range(MOST_ROUNDS):
            await self.conduct()
            leases = await self.claim(queues=queues)
            for name, lease in leases.items():
                await self._answer(lease, (answers or {}).get(name, "succeeded"))
            done += leases
            if not leases:
                return done
        raise AssertionError("the work finds no end")

    async def _answer(self, lease: Lease, answer: Answer) -> None:
        said = answer(lease) if callable(answer) else {"outcome": answer} if isinstance(answer, str) else answer
        await self.report(lease, **({"outcome": "succeeded"} | said))

    async def look(self, run: str) -> WorkflowRunView:
        return await service.get_workflow_run(self.db, tenant_id=self.tenant.id, ref=run)

    async def states(self, run: str) -> dict[str, str]:
        """Return the state of each node, and under `run` the run's own."""
        view = await self.look(run)
        return {each.node.id: each.state.value for each in view.nodes} | {"run": view.run.state.value}

    async def cancel(self, run: str) -> WorkflowRunView:
        return await service.cancel_workflow_run(
            self.db, tenant_id=self.tenant.id, ref=run, change=TESTER, on_ended=self.on_ended
        )

    async def rerun(self, run: str, *nodes: str) -> str:
        """Run a part of it again; return the next generation's id."""
        view = await service.rerun_workflow_run(
            self.db, tenant_id=self.tenant.id, ref=run, nodes=nodes, change=TESTER, on_ready=self._wake
        )
        return str(view.run.row.run_id)

    async def rows(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return await rows(self.db, query, *parameters)


def definition_of(*nodes: Mapping[str, Any], **settings: Any) -> dict[str, Any]:
    """A definition of these nodes; one that names no task has the task `work`."""
    return {"nodes": [{**({} if "workflow" in node else {"task": "work"}), **node} for node in nodes], **settings}


async def make_scene(db: Database) -> Scene:
    tenant = await make_tenant(db)
    await make_task(db, tenant, name="work", queue=QUEUE, retry=NEVER_AGAIN)
    return Scene(db=db, tenant=tenant)
