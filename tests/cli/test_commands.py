"""The commands against a live server: what they print, and with which code they end."""

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from everwhen.cli import main

CRON = ("--cron", "30 2 * * *", "--tz", "Europe/Berlin")


def test_a_schedule_from_its_creation_to_its_end(shell):
    shell("task", "create", "report", "--queue", "slow", "--max-attempts", "3")
    made = shell.json("schedule", "create", "nightly", "--task", "report", *CRON, "--input", '{"a": 1}')
    assert made["kind"] == "ScheduleList"
    assert made["items"][0]["input"] == {"a": 1}

    shell("schedule", "update", "nightly", "--cron", "0 3 * * *", "--catch-up", "skip", "--reason", "later")
    shell("schedule", "pause", "nightly", "--reason", "migration")
    assert shell.json("schedule", "get", "nightly")["items"][0]["state"] == "paused"
    shell("schedule", "resume", "nightly")
    revisions = shell.json("schedule", "revisions", "nightly")["items"]
    assert [revision["action"] for revision in revisions] == ["created", "updated", "paused", "resumed"]
    assert revisions[1]["spec"]["catch_up"]["policy"] == "skip"
    assert revisions[1]["spec"]["timezone"] == "Europe/Berlin"

    listed = shell("schedule", "list").stdout.splitlines()
    assert listed[0].split() == ["NAME", "STATE", "RULE", "TASK", "NEXT", "REV", "WHY"]
    assert listed[1].split()[:2] == ["nightly", "active"]
    shell("schedule", "delete", "nightly", "--yes")
    assert shell("schedule", "list", "-o", "name").stdout == ""


def test_a_run_from_its_request_to_its_end(shell):
    shell("task", "create", "report")
    asked = ("run", "request", "report", "--input", '{"a": 1}', "--key", "k1")
    first, second = shell.json(*asked)["items"][0], shell.json(*asked)["items"][0]
    assert first["id"] == second["id"]
    assert first["state"] == "waiting"

    listed = shell.json("run", "list", "--task", "report", "--state", "waiting")["items"]
    assert [run["id"] for run in listed] == [first["id"]]
    shell("run", "cancel", first["id"], "--reason", "not needed")
    assert shell.json("run", "get", first["id"])["items"][0]["state"] == "cancelled"
    events = shell("run", "events", first["id"], "-o", "ndjson").stdout.splitlines()
    assert [json.loads(event)["kind"] for event in events] == ["planned", "cancelled"]
    assert shell.json("run", "attempts", first["id"])["items"] == []


def test_waiting_for_a_run_tells_how_it_ended_by_the_exit_code(shell):
    shell("task", "create", "report")
    run = shell.json("run", "request", "report", "--key", "k")["items"][0]["id"]
    shell("run", "request", "report", "--key", "k", "--wait", "--timeout", "0", exit_code=7)
    shell("run", "cancel", run)
    ended = shell.json("run", "request", "report", "--key", "k", "--wait", exit_code=10)

    assert ended["items"][0]["state"] == "cancelled"


def test_a_list_goes_page_by_page_or_all_at_once(shell):
    for name in "abc":
        shell("task", "create", name)
    first = shell("task", "list", "--limit", "2", "-o", "json")
    cursor = json.loads(first.stdout)["next"].partition("cursor=")[2]
    rest = shell.json("task", "list", "--limit", "2", "--cursor", cursor)
    told = shell("task", "list", "--limit", "2")

    assert [task["name"] for task in rest["items"]] == ["c"]
    assert rest["next"] is None
    assert shell("task", "list", "--limit", "1", "--all", "-o", "name").stdout.split() == ["a", "b", "c"]
    assert "--cursor" in told.stderr


def test_previews_show_local_time_and_utc(shell):
    shell("task", "create", "report")
    shell("schedule", "create", "nightly", "--task", "report", *CRON)
    saved = shell.json("schedule", "preview", "nightly", "--count", "3")["items"]
    unsaved = shell.json("schedule", "preview", *CRON, "--count", "3")["items"]

    assert saved == unsaved
    assert saved[0]["local"][11:16] == "02:30"


def test_presets_and_dialects_are_options(shell):
    shell("task", "create", "report")
    made = shell.json("schedule", "create", "nightly", "--task", "report", *CRON, "--preset", "kubernetes")["items"][0]
    reread = shell.json("schedule", "update", "nightly", "--preset", "cronsim")["items"][0]
    hashed = ("--cron", "H 2 * * *", "--dialect", "vixie-ext")
    changed = shell.json("schedule", "update", "nightly", *hashed)["items"][0]
    asked = ("--tz", "Europe/Berlin", "--hash-seed", changed["uid"], "--count", "1", "-o", "json")
    drawn = shell("schedule", "preview", *hashed, *asked)
    shell("schedule", "preview", *CRON, "--preset", "moon", exit_code=2)
    shell("schedule", "update", "nightly", "--dialect", "quartz", exit_code=2)

    assert (made["trigger"]["dialect"], made["gap"], made["fold"]) == ("kubernetes", "skip", "both")
    assert (reread["trigger"]["dialect"], reread["preset"], reread["gap"]) == ("cronsim", "cronsim", None)
    assert (changed["trigger"]["dialect"], changed["preset"]) == ("vixie-ext", None)
    assert changed["uid"] in drawn.stderr
    assert json.loads(drawn.stdout)["items"][0]["at"] == changed["next_at"]


@pytest.mark.parametrize(
    ("arguments", "who", "exit_code"),
    [
        (("schedule", "get", "nope"), "admin", 3),
        (("run", "get", "nope"), "admin", 3),
        (("tenant", "get", "nobody"), "admin", 3),
        (("task", "create", "x"), "viewer", 4),
        (("tenant", "list"), "admin", 4),
        (("schedule", "list"), None, 4),
        (("task", "create", "taken"), "admin", 5),
        (("schedule", "create", "s", "--task", "nope", "--cron", "* * * * *"), "admin", 2),
        (("schedule", "create", "s", "--task", "taken", "--cron", "61 * * * *"), "admin", 2),
        (("schedule", "create", "s", "--task", "taken"), "admin", 2),
        (
            ("schedule", "create", "s", "--task", "taken", "--cron", "* * * * *", "--at", "2030-01-01T00:00Z"),
            "admin",
            2,
        ),
        (("schedule", "create", "s", "--task", "taken", "--cron", "* * * * *", "--input", "{"), "admin", 2),
        (("schedule", "preview"), "admin", 2),
        (("schedule", "pause", "s"), "admin", 2),
        (("schedule", "delete", "s"), "admin", 2),
        (("run", "request"), "admin", 2),
        (("run", "request", "taken", "--at", "2000-01-01T00:00Z"), "admin", 2),
        (("schedule", "list", "--url", "http://127.0.0.1:1"), "admin", 6),
        (("schedule", "list", "--url", "nonsense"), "admin", 6),
    ],
)
def test_what_goes_wrong_is_one_line_and_a_code(shell, arguments, who, exit_code):
    shell("task", "create", "taken")
    result = shell(*arguments, who=who, exit_code=exit_code)

    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert len(result.stderr.splitlines()) == 1, result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("schedule", "creat"), "everwhen schedule: no such command 'creat'"),
        (("schedule", "create"), "everwhen schedule create: missing argument 'NAME'; see everwhen schedule create"),
        (("--nonsense",), "everwhen: no such option '--nonsense'"),
    ],
)
def test_a_wrong_command_line_is_one_line_that_says_where_to_look(arguments, said):
    result = CliRunner().invoke(main, arguments, prog_name="everwhen")

    assert (result.exit_code, result.stdout, len(result.stderr.splitlines())) == (2, "", 1)
    assert result.stderr.startswith(said)


def test_a_group_by_itself_shows_what_it_can_do():
    assert "Commands:" in CliRunner().invoke(main, ["schedule"]).output


def test_with_json_an_error_is_the_problem_itself(shell):
    result = shell("schedule", "get", "nope", "-o", "json", exit_code=3)

    assert result.stdout == ""
    assert json.loads(result.stderr)["code"] == "schedule.unknown"


def test_tenants_are_the_platforms(shell):
    shell("tenant", "create", "globex", who="platform")

    assert shell("tenant", "list", "-o", "name", who="platform").stdout.split() == ["acme", "globex"]
    assert shell.json("tenant", "get")["items"][0]["name"] == "acme"


def test_a_hostile_name_cannot_write_on_the_terminal(shell):
    shell("task", "create", "report")
    shell("schedule", "create", "s", "--task", "report", *CRON)
    made = shell("schedule", "update", "s", "--input", '{"a": "\\u001b[31mred\\u0007"}')

    assert "\x1b[31m" not in made.stdout
    assert "\x07" not in made.stdout


def test_a_command_imports_neither_the_server_nor_the_driver():
    script = (
        "import sys; import everwhen.cli, everwhen.cli.schedule, everwhen.cli.run, everwhen.cli.doctor;"
        "print(sorted({'fastapi', 'psycopg', 'pydantic', 'httpx2', 'starlette', 'rich', 'jwt'} & set(sys.modules)))"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert told.stdout.strip() == "[]"
