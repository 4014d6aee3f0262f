"""The worked example, with its own endpoint and a real table: a file that is busy, one that is gone, and a rerun."""

import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import psycopg
import pytest

from everwhen.core.retry import Jitter, RetryPolicy
from everwhen.dispatch.model import Lease
from everwhen.postgres.pool import Database
from everwhen.verify.service import verify
from everwhen.worker import Context
from everwhen.worker.testing import run_task_async
from everwhen.workflows import definitions
from tests.factories import make_task, make_tenant
from tests.workflows.scene import TESTER, Scene

FOLDER = Path(__file__).parents[2] / "examples/etl_workflow"
DAY = "2026-11-29"
AT_ONCE = RetryPolicy(max_attempts=3, base=RetryPolicy().base * 0, jitter=Jitter.NONE)


@pytest.fixture
def modules(monkeypatch) -> Iterator[tuple[ModuleType, ModuleType]]:
    monkeypatch.syspath_prepend(FOLDER)
    import etl  # pyright: ignore[reportMissingImports]
    import shop  # pyright: ignore[reportMissingImports]

    yield etl, shop
    del sys.modules["etl"], sys.modules["shop"]


@pytest.fixture
def shop(modules) -> Iterator[tuple[Any, str]]:
    """The shop, and the address at which it answers."""
    made = modules[1].Shop()
    server = modules[1].server_of(made)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield made, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join(10)
    server.server_close()


@pytest.fixture
def orders(server, empty_database, monkeypatch) -> Iterator[psycopg.Connection]:
    """A connection to the database that the example loads into."""
    monkeypatch.setenv("ETL_DATABASE", server.superuser(empty_database))
    with psycopg.connect(server.superuser(empty_database), autocommit=True) as conn:
        yield conn


@pytest.fixture
async def scene(database: Database, modules):
    tenant = await make_tenant(database)
    for name in ("shop.extract", "shop.transform", "shop.load", "shop.clean"):
        await make_task(database, tenant, name=name, queue="etl", retry=AT_ONCE)
    definition = {**modules[0].flow.to_json()}
    for node in definition["nodes"]:
        node.pop("retry", None)  # the tasks' own, which waits for nothing
    await definitions.create_workflow(
        database, tenant_id=tenant.id, name="shop-etl", definition=definition, change=TESTER
    )
    yield Scene(db=database, tenant=tenant)
    assert await verify(database) == {}


async def work(scene: Scene, worker: Any) -> list[str]:
    """Execute whatever is released, as a worker would, until nothing is left; return the nodes that were."""
    done: list[str] = []
    while True:
        await scene.conduct()
        leases = await scene.claim(queues=["etl"])
        if not leases:
            return done
        for name, lease in leases.items():
            done.append(name)
            await execute(scene, worker, lease)


async def execute(scene: Scene, worker: Any, lease: Lease) -> None:
    context = Context.fake(task=lease.task, attempt=lease.attempt)
    outcome = await run_task_async(worker, lease.task, json.loads(lease.input), context=context)
    said = {"error": outcome.error, "retryable": outcome.retryable}
    await scene.report(lease, outcome.outcome, result=outcome.result, **said)


async def test_a_day_is_loaded_though_a_file_was_busy_at_first(scene: Scene, modules, shop, orders) -> None:
    made, url = shop
    made.busy["south.csv"] = 1
    run = await scene.run("shop-etl", input={"url": url, "day": DAY})

    done = await work(scene, modules[0].worker)

    assert done.count("transform[1]") == 2  # it was busy, and tried again
    assert (await scene.states(run))["run"] == "succeeded"
    assert orders.execute("select count(*), sum(cents) from orders").fetchone() == (6, 11_480)
    assert orders.execute("select count(*) from staged").fetchone() == (0,)


async def test_a_file_that_is_gone_fails_the_day_and_a_rerun_mends_it(scene: Scene, modules, shop, orders) -> None:
    made, url = shop
    made.gone.add("west.csv")
    first = await scene.run("shop-etl", input={"url": url, "day": DAY})
    await work(scene, modules[0].worker)

    assert await scene.states(first) == {
        "extract": "succeeded",
        "transform": "failed",
        "load": "upstream_failed",
        "clean": "succeeded",
        "run": "dead",
    }
    assert orders.execute("select count(*) from orders").fetchone() == (0,)
    made.gone.clear()
    second = await scene.rerun(first)
    done = await work(scene, modules[0].worker)

    assert "extract" not in done
    assert done[-2:] == ["load", "clean"]
    assert (await scene.states(second))["run"] == "succeeded"
    assert orders.execute("select count(*), sum(cents) from orders").fetchone() == (6, 11_480)
    assert (await scene.states(first))["run"] == "dead"
