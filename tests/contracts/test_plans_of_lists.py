# pyright: reportArgumentType=false, reportCallIssue=false
"""No list costs more on its last page than on its first, whatever it passes over: every list of the API, by its pages.

Each list is read over HTTP, with plans that were made while the tables were nearly empty. Then thousands of rows are
there, beside as many that no list shows: deleted, closed, of another kind, somebody else's. Every list is followed from
its first page to its last, and with a filter that finds nothing, too. What counts is how many pages of the database a
page of the list touches.
"""

import asyncio
import json
import re
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from everwhen import lists
from everwhen.core.bulk import Limits, OperationKind
from everwhen.core.overlap import OverlapWish
from everwhen.core.retry import RetryPolicy
from everwhen.core.triggers import Timing, parse_trigger
from everwhen.operations.model import ItemOrder, Request, request_to_json
from everwhen.postgres.pool import Connection, Database
from everwhen.runs.listing import service as runs
from everwhen.schedules.model import Spec, spec_to_json
from everwhen.tasks.model import retry_to_json
from tests.contracts.test_openapi import OPERATIONS
from tests.contracts.test_plans import DEFINE, NOW, TENANT, Watched, watched
from tests.database import TestServer
from tests.people import app_on, client_of, token_of

ROWS = 2_000
LIMIT = 200
LOOKED_AT = 500
SLACK = 60
"""How many pages of the database a page may cost more than the first one: other ways through the same trees."""

MOST_A_ROW = 10
"""How many a row may cost that is looked at and passed over."""

MOST_OF = {"list_dead_letters": LIMIT * 40}
"""How many a page may cost of a list that looks at as many things as it was asked for, and counts in each."""

HERE = Path(__file__).parent
SCHEDULE = uuid.UUID(int=70)
REQUEST = Request(
    kind=OperationKind.REDRIVE,
    filter="state:dead",
    backfill=None,
    order=ItemOrder.OLDEST,
    priority=None,
    overlap=OverlapWish.WAIT,
    limits=Limits(),
    plan_token="pln_",
)
WORKFLOW_RUN = "019ad000-0000-8000-8000-000000000001"
SPEC = Spec(timing=Timing(parse_trigger({"kind": "every", "every": "PT1H"}), "UTC"))
TOKENS = {
    "tenant": TENANT,
    "now": NOW.isoformat(),
    "schedule": SCHEDULE,
    "workflow_run": WORKFLOW_RUN,
    "spec": spec_to_json(SPEC),
    "retry": json.dumps(retry_to_json(RetryPolicy())),
    "request": request_to_json(REQUEST),
}
PARTS = {
    "tenant": "acme",
    "fingerprint": "big",
    "run": WORKFLOW_RUN,
    "node": "a",
    "operation": SCHEDULE,
}
NAMES = {"schedules": "nightly", "calendars": "c1", "workflows": "flow"}

ELSEWHERE = {"list_audit", "list_platform_audit"}
"""Lists of the audit: their filter is a vocabulary of the common grammar, but they go back by the id of an event alone,
and look back 90 days where a term has to be checked row by row, so that rows made for a page would not be looked at.
"""

LISTS = {
    operation["operationId"]: (path, operation["parameters"])
    for method, path, operation in OPERATIONS
    if method == "GET"
    and operation["operationId"] not in ELSEWHERE
    and {"cursor", "limit"} <= {each["name"] for each in operation.get("parameters", ())}
}
ALSO = {
    "list_runs": ["state=dead", "state=succeeded", "state=waiting", "schedule=nightly"],
    "list_findings": ["state=all"],
    "list_all_findings": ["state=all"],
    "list_dead_letters": ["letter=dismissed", "letter=redriven"],
    "list_dead_runs": ["letter=dismissed"],
    "list_schedules": ["filter=tag:all"],
    "list_tasks": ["filter=tag:all"],
    "list_workflows": ["filter=tag:all"],
    "list_service_tasks": ["all=true"],
    "list_operation_items": ["filter=state:left"],
}
"""Lists that are walked along another index."""

MORE = {"list_declarations": 4.0, "get_service_task": 1.5}
"""How much more a page may cost than the first one.

Of one that lists kind after kind, each by a statement that is planned for its parameters the first five times, by
statistics of when there was nothing; of one that tells by the latest runs how the task is, on each page.
"""

OF_THE_PLATFORM = {"list_tenants", "list_all_findings", "list_platform_revocations", "list_shared_workers"}
HISTORY = "history"
ASKED_NOW_AND_THEN = "select tenant_id, kind, value, issued_until, expires_at"

SEARCHED = {
    "list_runs": ["task:nobody", "state:dead reason:no", "state:waiting task:no", "state:succeeded source:no",
                  "schedule:nightly task:no", "workflow:no"],
    "list_schedules": ["state:paused", "tag:all task:no"],
    "list_tasks": ["queue:no", "tag:all queue:no"],
    "list_dead_runs": ["reason:no"],
    "list_workflow_runs": ["workflow:no", "state:missed", "source:no", "due<2020-01-01"],
    "list_declarations": ["owner:nobody", "kind:Schedule owner:nobody"],
    "list_operation_items": ["reason:no", "state:left reason:no", "state:ended"],
}  # fmt: skip
"""Filters that find nothing, of lists that are walked along more than one index; of the others any term will do."""


class OnOne(Database):
    """A database of two connections, whose statements are watched; a transaction at a time."""

    def __init__(self, tenant: Watched, system: Watched) -> None:
        self.both = tenant, system
        self.turns = asyncio.Lock()

    @asynccontextmanager
    async def tenant(self, tenant_id: uuid.UUID) -> AsyncIterator[Connection]:
        assert tenant_id == TENANT
        async with self._block(self.both[0]) as conn:
            yield conn

    @asynccontextmanager
    async def system(self) -> AsyncIterator[Connection]:
        async with self._block(self.both[1]) as conn:
            yield conn

    @asynccontextmanager
    async def _block(self, watched: Watched) -> AsyncIterator[Any]:
        watched.conn.now = NOW  # pyright: ignore[reportAttributeAccessIssue]  # what makes a connection one of ours
        async with self.turns, watched.conn.transaction():
            yield watched.conn


class Reader:
    """Reads lists, and counts what that costs."""

    def __init__(self, database: OnOne) -> None:
        app = app_on(database)
        self.both = database.both
        self.own = client_of(app, token_of("admin", tenant_id=TENANT))
        self.platform = client_of(app, token_of("platform"))

    async def pages(self, operation: str, path: str) -> tuple[int, dict[str, Any]]:
        """Ask for a page; return how many pages of the database that touched, and the answer."""
        for each in self.both:
            each.plans.clear()
        client = self.platform if operation in OF_THE_PLATFORM else self.own
        answer = await client.get(path)
        assert answer.status_code == 200, (path, answer.text)
        plans = [
            plan["Plan"] for each in self.both for plan in each.plans if ASKED_NOW_AND_THEN not in plan["Query Text"]
        ]
        return sum(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] for plan in plans), answer.json()

    async def follow(self, operation: str, query: str) -> tuple[list[int], int]:
        """Follow a list to its end; return what each page cost, and how many items it has."""
        costs, items, path = list[int](), 0, path_of(operation) + query
        while path:
            cost, page = await self.pages(operation, path)
            costs.append(cost)
            items += len(page[HISTORY] if operation == "get_service_task" else page["items"])
            path = page["next"]
        return costs, items

    async def close(self) -> None:
        await self.own.aclose()
        await self.platform.aclose()


def path_of(operation: str) -> str:
    """The path of a list, of a thing that has many of them."""
    path, _ = LISTS[operation]
    things = path.removeprefix("/v1/tenants/{tenant}/").split("/")[0]
    query = f"id={SCHEDULE}&" if operation == "get_service_task" else ""
    return f"{path.format(**PARTS, name=NAMES.get(things))}?{query}limit={LIMIT}&"


def queries_of(operation: str) -> list[str]:
    """Each way through a list that is another statement."""
    filters = [f"filter={quote(each)}" for each in searches(operation)]
    return ["", *ALSO.get(operation, ()), *filters]


def searches(operation: str) -> list[str]:
    """Filters of a list that find nothing: what was before there was anything, or what nobody has."""
    described = next((each["description"] for each in LISTS[operation][1] if each["name"] == "filter"), None)
    if described is None:
        return []
    moments, words = re.findall(r"`(\w+)<`", described), re.findall(r"`(by|target):`", described)
    return SEARCHED.get(operation) or [f"{name}<2020-01-01" for name in moments] or [f"{words[0]}:nobody"]


@pytest.fixture
async def reader(server: TestServer, fresh_database: str) -> AsyncIterator["Reader"]:
    """Every list, read once while there was next to nothing, and then thousands of rows."""
    both = [await watched(server, fresh_database, f"everwhen_{role}") for role in ("tenant", "system")]
    database = OnOne(*both)
    with psycopg.connect(server.superuser(fresh_database), autocommit=True) as conn:
        conn.execute(DEFINE.format(tenant=TENANT, now=NOW.isoformat()))
        conn.execute("select everwhen.ensure_week('2025-11-25')")
        conn.execute(sql("rows_of_lists_begin.sql"))
        conn.execute(sql("rows_of_lists.sql", first=1, last=1))
        reader = Reader(database)
        for operation in LISTS:
            for query in queries_of(operation):
                await reader.pages(operation, path_of(operation) + query)
        conn.execute(sql("rows_of_lists.sql", first=2, last=ROWS))
        yield reader
        await reader.close()
    for each in both:
        await each.conn.close()


def sql(name: str, **numbers: int) -> str:
    return Template((HERE / name).read_text()).substitute(TOKENS, **numbers)


async def test_no_page_costs_more_than_the_first_one(reader: Reader) -> None:
    dearer, short = {}, {}
    for operation in LISTS:
        for query in ("", *ALSO.get(operation, ())):
            costs, items = await reader.follow(operation, query)
            if max(costs) > MORE.get(operation, 1.25) * costs[0] + SLACK:
                dearer[operation, query] = costs
            if len(costs) < 2:
                short[operation, query] = items

    assert dearer == {}
    assert short == {}


async def test_a_page_of_what_is_not_there_costs_no_more_than_it_may_look_at(reader: Reader, monkeypatch) -> None:
    monkeypatch.setattr(lists, "MOST_LOOKED_AT", LOOKED_AT)
    monkeypatch.setattr(runs, "MOST_LOOKED_AT", LOOKED_AT)
    dearer, found = {}, {}
    for operation in LISTS:
        for text in searches(operation):
            costs, items = await reader.follow(operation, f"filter={quote(text)}")
            if max(costs) > MOST_OF.get(operation, LOOKED_AT * MOST_A_ROW):
                dearer[operation, text] = costs
            if items:
                found[operation, text] = items

    assert dearer == {}
    assert found == {}
