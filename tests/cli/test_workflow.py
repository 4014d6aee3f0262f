"""`everwhen workflow` against a live server."""

import json

import pytest

DEFINITION = {"name": "etl", "nodes": [{"id": "a", "task": "work"}, {"id": "b", "task": "work", "needs": ["a"]}]}


@pytest.fixture
def file(tmp_path):
    made = tmp_path / "etl.json"
    made.write_text(json.dumps(DEFINITION))
    return made


def test_a_workflow_from_its_definition_to_a_cancelled_run(shell, file):
    shell("task", "create", "work")
    assert shell.json("workflow", "apply", str(file))["items"][0]["version"] == 1
    assert shell.json("workflow", "apply", str(file))["items"][0]["version"] == 1
    file.write_text(json.dumps(DEFINITION | {"description": "more"}))
    assert shell.json("workflow", "apply", str(file), "--reason", "say more")["items"][0]["version"] == 2
    assert shell("workflow", "list", "-o", "name").stdout == "etl\n"
    assert json.loads(shell("workflow", "get", "etl").stdout)["description"] == "more"

    run = shell.json("workflow", "run", "etl", "--input", '{"day": 1}')["items"][0]["id"]
    assert shell.json("workflow", "get", run)["items"][0]["workflow"] == "etl"
    assert f"{run} is waiting" in shell("workflow", "why", run).stdout
    shell("why", run, "b", exit_code=5)  # it has not started, so there are no nodes
    assert shell.json("workflow", "cancel", run, "--reason", "not needed")["items"][0]["run"]["state"] == "cancelled"
    shell("workflow", "rerun", run, exit_code=5)
    shell("workflow", "graph", "--run", run, exit_code=5)


def test_a_schedule_of_a_workflow(shell, file):
    shell("task", "create", "work")
    shell("workflow", "apply", str(file))
    made = shell.json("schedule", "create", "nightly", "--workflow", "etl", "--cron", "30 2 * * *")
    assert made["items"][0]["workflow"] == "etl"
    shell("schedule", "create", "other", "--cron", "30 2 * * *", exit_code=2)


def test_what_is_wrong_is_said_in_one_line(shell, file, tmp_path):
    answer = shell("workflow", "apply", str(file), exit_code=2)
    assert "there is no task named work" in answer.stderr
    (tmp_path / "nameless.json").write_text('{"nodes": []}')
    assert "needs a name" in shell("workflow", "apply", str(tmp_path / "nameless.json"), exit_code=2).stderr
    shell("workflow", "get", "nothing", exit_code=3)
