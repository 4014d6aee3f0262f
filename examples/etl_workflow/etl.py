"""Extract, transform, load, always clean: the functions of the worker, and the graph of them. See README.md.

python etl.py > etl.json            the definition
everwhen worker etl:worker          the fleet
"""

import csv
import io
import json
import os
import urllib.error
import urllib.request
from dataclasses import dataclass
from datetime import timedelta

import psycopg

from everwhen.worker import Context, NoRetry, Retry, Worker
from everwhen.workflow import Retry as Policy
from everwhen.workflow import Workflow, default, each, run

worker = Worker()


@dataclass(frozen=True)
class Extracted:
    """A day's files, by their addresses."""

    files: list[str]


@dataclass(frozen=True)
class Loaded:
    """How much there is of a day, once all of it is in."""

    orders: int
    cents: int


def fetch(url: str) -> str:
    """Read an address; what is busy is tried again, what is gone is not."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310  # the address is the run's input
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 503:
                raise Retry(f"{url} is busy") from error
            raise NoRetry(f"{url} answers {error.code}") from error


def database() -> "psycopg.Connection[tuple[object, ...]]":
    """Connect to where the orders go; the table of rows that are not in yet is made by whoever needs it first."""
    conn = psycopg.connect(os.environ["ETL_DATABASE"])
    conn.execute("create table if not exists orders (day date, id text, cents bigint, primary key (day, id))")
    conn.execute(
        "create table if not exists staged (day date, file text, id text, cents bigint, primary key (day, id))"
    )
    return conn


@worker.task("shop.extract")
def extract(ctx: Context, url: str, day: str) -> Extracted:
    """Ask the shop which files there are."""
    ctx.check()
    found = json.loads(fetch(f"{url}/{day}/index.json"))
    return Extracted(files=[f"{url}/{day}/{name}" for name in found["files"]])


@worker.task("shop.transform")
def transform(file: str, day: str) -> int:
    """Stage one file's orders; return how many. Done twice it stages the same rows."""
    rows = [(day, file, row["order"], int(row["cents"])) for row in csv.DictReader(io.StringIO(fetch(file)))]
    with database() as conn, conn.cursor() as cursor:
        cursor.executemany("insert into staged values (%s, %s, %s, %s) on conflict do nothing", rows)
    return len(rows)


@worker.task("shop.load")
def load(day: str, staged: list[int]) -> Loaded:
    """Move everything that is staged into the orders, in one transaction."""
    with database() as conn:
        conn.execute(
            "insert into orders select day, id, cents from staged where day = %s on conflict do nothing", (day,)
        )
        row = conn.execute("select count(*), sum(cents) from orders where day = %s", (day,)).fetchone()
    assert row is not None
    orders, cents = int(str(row[0])), int(str(row[1]))
    if orders != sum(staged):
        raise NoRetry(f"{orders} orders are in, and {sum(staged)} were staged")
    return Loaded(orders=orders, cents=cents)


@worker.task("shop.clean")
def clean(day: str, outcome: str) -> str:
    """Leave nothing staged once it is loaded. What is staged of a load that failed is kept for the rerun."""
    with database() as conn:
        if outcome == "succeeded":
            conn.execute("delete from staged where day = %s", (day,))
    return f"cleaned after a load that is {outcome}"


flow = Workflow("shop-etl", deadline=timedelta(hours=1), defaults={"queue": "etl"})
extracted = flow.call("extract", extract, task="shop.extract")(url=run.input["url"], day=run.input["day"])
transformed = flow.call("transform", transform, task="shop.transform", max_parallel=8, retry=Policy(max_attempts=5))(
    file=each(extracted.result.files), day=run.input["day"]
)
loaded = flow.call("load", load, task="shop.load")(day=run.input["day"], staged=transformed.results)
flow.call("clean", clean, task="shop.clean", finally_=True)(
    day=run.input["day"], outcome=default(loaded.state, "failed")
)

if __name__ == "__main__":
    print(json.dumps(flow.to_json(), indent=2))
