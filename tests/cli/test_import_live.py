"""A crontab, imported into a live server: each line that is accepted becomes a schedule, and once only."""

import json
from pathlib import Path

CRONTAB = Path(__file__).parents[1] / "cases" / "crontab_200.txt"


def test_a_crontab_becomes_schedules_once(shell):
    first = shell.json("import", "crontab", str(CRONTAB), "--tenant", "acme", exit_code=2)
    second = shell.json("import", "crontab", str(CRONTAB), "--tenant", "acme", exit_code=2)
    made = {row["schedule"] for row in first if row.get("result") == "created"}
    listed = shell("schedule", "list", "--limit", "200", "--all", "-o", "name").stdout.split()

    assert len(made) > 100
    assert not [row for row in first if row.get("result") == "refused"]
    assert set(listed) == made
    assert {row["result"] for row in second if "result" in row} == {"exists"}


def test_what_another_scheduler_exports_becomes_schedules_once(shell, tmp_path):
    (tmp_path / "timers").write_text("last = *-*~01 18:00\nnight = Mon..Fri 02:30\nyears = 2027..2030-1-1\n")
    spec = {"cronString": ["0 9 * * 1-5"], "interval": [{"interval": "3600s", "phase": "60s"}], "jitter": "30s"}
    calendar = {name: [{"start": 1}] for name in ("dayOfMonth", "month", "dayOfWeek", "hour", "minute", "second")}
    temporal = {"scheduleId": "t", "spec": {**spec, "excludeStructuredCalendar": [calendar]}, "state": {"paused": True}}
    (tmp_path / "temporal.json").write_text(json.dumps(temporal))
    first = shell.json("import", "systemd", "timers", "--tz", "Europe/Berlin", "--tenant", "acme")
    second = shell.json("import", "systemd", "timers", "--tz", "Europe/Berlin", "--tenant", "acme")
    [paused] = shell.json("import", "temporal", "temporal.json", "--tenant", "acme")
    listed = {item["name"]: item for item in shell.json("schedule", "list")["items"]}

    assert [row["result"] for row in (*first, paused)] == ["created"] * 4
    assert {row["result"] for row in second} == {"exists"}
    assert {name: item["state"] for name, item in listed.items()} == {
        "last": "active",
        "night": "active",
        "years": "active",
        "t": "paused",
    }
    assert listed["night"]["trigger"]["expr"] == "30 2 * * 1-5"
    assert listed["t"]["flex"] == {"mode": "hash", "window_seconds": 30}
    assert {row["schedule"]: row["next_at"] for row in first} == {
        name: listed[name]["next_at"] for name in ("last", "night", "years")
    }


def test_what_is_said_of_overlap_catching_up_and_retries_arrives_at_schedules_and_tasks(shell, tmp_path):
    spec = {"schedule": "30 2 * * *", "timeZone": "UTC", "concurrencyPolicy": "Replace", "startingDeadlineSeconds": 900}
    job = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"}, "spec": spec}
    (tmp_path / "jobs.json").write_text(json.dumps(job))
    target = {"Arn": "arn", "RetryPolicy": {"MaximumRetryAttempts": 3, "MaximumEventAgeInSeconds": 3600}}
    events = [
        {"Name": name, "ScheduleExpression": "cron(0 8 * * ? *)", "ScheduleExpressionTimezone": "UTC", "Target": to}
        for name, to in (("kept", target), ("plain", {"Arn": "arn"}))
    ]
    (tmp_path / "events.json").write_text(json.dumps(events))

    [made] = shell.json("import", "kubernetes", "jobs.json", "--tenant", "acme")
    shell.json("import", "eventbridge", "events.json", "--tenant", "acme")
    listed = {item["name"]: item for item in shell.json("schedule", "list")["items"]}
    tasks = {item["name"]: item for item in shell.json("task", "list")["items"]}

    assert (made["result"], made["notes"]) == ("created", [])
    assert listed["default.nightly"]["overlap"]["policy"] == "terminate_other"
    assert listed["default.nightly"]["catch_up"]["window_seconds"] == 900
    assert listed["plain"]["task"] == "eventbridge.target"
    retry = tasks[listed["kept"]["task"]]["retry"]
    assert listed["kept"]["task"] == "eventbridge.target.attempts-4.age-3600"
    assert (retry["max_attempts"], retry["max_age_seconds"]) == (4, 3600)
