"""Bulk commands against a live server: they show before they ask, and carry out what was shown."""

import asyncio

import pytest

from everwhen.cli.bulk import progress_line
from everwhen.operations.operator import Operator
from everwhen.postgres.pool import Database, PoolLimits
from everwhen.tenants.service import find_tenant
from tests.operations.scene import drain, make_dead

HOURLY = ("--cron", "0 * * * *")
RANGE = ("--from", "2026-03-01T00:00:00Z", "--until", "2026-03-02T00:00:00Z")


@pytest.fixture
def beside(server, work_database):
    """Run something on the database beside the server: `beside(lambda db: …)`."""

    def run(work):
        async def go():
            async with await Database.open(server.app(work_database), limits=PoolLimits(min_size=1, max_size=2)) as db:
                return await work(db)

        return asyncio.run(go())

    return run


@pytest.fixture
def dead(shell, beside):
    shell("task", "create", "report", "--queue", "line")

    async def make(db):
        return await make_dead(db, await find_tenant(db, name="acme", bound_to=None), 3, fingerprints=["a"])

    return beside(make)


def work(beside):
    return beside(lambda db: drain(Operator(database=db)))


def test_dead_runs_are_listed_shown_dismissed_and_restored(shell, dead):
    listed = shell("dead", "list").stdout.splitlines()
    assert listed[0].split() == ["FINGERPRINT", "RUNS", "FIRST", "LAST", "TASKS", "ERROR"]
    assert listed[1].split()[:2] == ["a", "3"]
    assert "Broken: a" in listed[1]
    assert shell("dead", "show", "a", "-o", "name").stdout.split() == [str(run) for run in reversed(dead)]

    shell("dead", "dismiss", str(dead[0]), "--reason", "closed")
    assert shell.json("dead", "list")["items"][0]["letters"] == 2
    shell("dead", "restore", str(dead[0]))
    assert shell.json("dead", "dismiss", "--fingerprint", "a", "--reason", "closed")["items"] == [{"dismissed": 3}]
    assert shell.json("dead", "list")["items"] == []


def test_one_is_redriven_with_another_input(shell, dead):
    made = shell.json("dead", "redrive", str(dead[0]), "--input", '{"n": 2}', "--reason", "mended")["items"][0]

    assert (made["origin_run_id"], made["input"]) == (str(dead[0]), {"n": 2})
    shell("dead", "redrive", str(dead[0]), exit_code=5)
    shell("dead", "redrive", str(dead[0]), "--again")


def test_a_dry_run_writes_nothing_and_its_token_carries_it_out(shell, dead, beside):
    asked = ("dead", "redrive", "--fingerprint", "a", "--rate", "100")
    tried = shell(*asked, "--dry-run")
    assert "3 dead runs would be run anew" in tried.stderr
    assert tried.stdout == ""
    assert shell.json("operation", "list")["items"] == []
    token = shell.json(*asked, "--dry-run")["items"][0]["plan_token"]

    made = shell.json(*asked, "--plan", token, "--reason", "mended", "--yes")["items"][0]
    work(beside)

    assert shell.json("operation", "get", made["id"])["items"][0]["counts"]["done"] == 3
    listed = shell("operation", "list").stdout.splitlines()
    assert listed[0].split() == ["ID", "KIND", "STATE", "DONE", "SUCCEEDED", "DEAD", "BY", "CREATED", "WHY"]
    assert shell("run", "list", "--filter", f"operation:{made['id']}", "-o", "name").stdout.count("\n") == 3


@pytest.mark.parametrize("output", ["table", "json", "name"])
def test_without_a_terminal_it_insists_on_yes_and_on_a_reason_whatever_the_format(shell, dead, output):
    asked = ("dead", "redrive", "--filter", "task:report", "-o", output)

    assert "--reason" in shell(*asked, "--yes", exit_code=2).stderr
    assert "--yes" in shell(*asked, "--reason", "mended", exit_code=2).stderr
    assert shell.json("operation", "list")["items"] == []


def test_a_schedule_is_backfilled_and_the_operation_paused_resumed_and_aborted(shell, beside):
    shell("task", "create", "report")
    shell("schedule", "create", "hourly", "--task", "report", *HOURLY)
    made = shell.json("schedule", "backfill", "hourly", *RANGE, "--reason", "new rate", "--yes")["items"][0]
    assert (made["backfill"]["schedule"], made["counts"]["total"], made["priority"]) == ("hourly", 24, 0)

    assert shell.json("operation", "pause", made["id"])["items"][0]["state"] == "paused"
    assert shell.json("operation", "resume", made["id"])["items"][0]["state"] == "planned"
    assert shell.json("operation", "abort", made["id"], "--reason", "no", "--yes")["items"][0]["state"] == "aborted"
    ended = shell("operation", "watch", made["id"], exit_code=10)
    assert "aborted" in ended.stderr
    assert "0/24" in ended.stderr


def test_runs_are_cancelled_by_a_filter_and_watched_to_the_end(shell, beside):
    shell("task", "create", "report")
    for _ in range(3):
        shell("run", "request", "report")
    asked = ("run", "cancel", "--filter", "task:report", "--reason", "wrong")
    made = shell.json(*asked, "--yes")["items"][0]
    shell("operation", "watch", made["id"], "--timeout", "0", exit_code=7)

    work(beside)
    work(beside)

    assert len(shell.json("run", "list", "--state", "cancelled")["items"]) == 3
    shell("run", "cancel", exit_code=2)


def test_schedules_and_tasks_are_changed_by_a_filter_after_the_plan_was_shown(shell, beside):
    shell("task", "create", "report", "--tag", "old")
    for name in ("a", "b"):
        shell("schedule", "create", name, "--task", "report", "--tag", "billing", *HOURLY)
    tried = shell("schedule", "pause", "--filter", "tag:billing", "--dry-run")
    assert "2 schedules would be paused" in tried.stderr
    assert "filter: tag:billing state:active" in tried.stderr
    assert "sample: a, b" in tried.stderr
    shell("schedule", "pause", "b", "--reason", "by hand")
    shell("schedule", "pause", "a", "--dry-run", "--reason", "so", exit_code=2)  # neither tried nor done
    assert shell("schedule", "list", "--filter", "state:active", "-o", "name").stdout == "a\n"

    sure = ("--reason", "tidied up", "--yes")
    made = shell.json("schedule", "pause", "--filter", "tag:billing", *sure)["items"][0]
    shell("schedule", "resume", "a", exit_code=5)
    shell("schedule", "tag", "x", "y", "--filter", "", *sure)
    shell("task", "untag", "old", "--filter", "tag:old", *sure)
    work(beside)

    assert shell("schedule", "list", "--filter", "tag:y", "-o", "name").stdout.split() == ["a", "b"]
    assert shell.json("task", "get", "report")["items"][0]["tags"] == []
    (item,) = shell.json("operation", "items", made["id"])["items"]
    assert (item["name"], item["state"]) == ("a", "succeeded")
    shell("schedule", "delete", "--filter", "", *sure, exit_code=2)
    shell("schedule", "delete", exit_code=2)
    shell("schedule", "delete", "--filter", "tag:x", *sure)
    work(beside)
    assert shell("schedule", "list", "-o", "name").stdout == ""


def test_a_line_of_progress_says_how_far_it_is():
    counts = {"total": 40, "done": 18, "skipped": 2, "succeeded": 10, "dead": 1, "ended_otherwise": 0, "under_way": 7}
    operation = {"state": "running", "counts": counts, "eta_seconds": 12.4}

    line = progress_line(operation)

    assert line.startswith("running   [###############...............] 20/40  10 succeeded, 1 dead, 7 under way, ")
    assert line.endswith("2 skipped, about 12 s left")
