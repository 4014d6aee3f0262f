"""A directory in git as the truth: applied, diffed, changed by hand, applied again; pruned, adopted, interrupted."""

import json
import re
import subprocess
from pathlib import Path

import everwhen
from everwhen.cli.client import CallFailed
from everwhen.cli.declared import carrying

CRON = """apiVersion: everwhen/v1
kind: Schedule
name: {name}
spec:
  task: {task}
  trigger: {{kind: cron, expr: "{expr}"}}
  timezone: Europe/Berlin
"""
BASE = """apiVersion: everwhen/v1
kind: Task
name: load
spec: {queue: etl, retry: {max_attempts: 3}}
---
apiVersion: everwhen/v1
kind: Calendar
name: de
spec:
  definition:
    week: [mon, tue, wed, thu, fri]
---
apiVersion: everwhen/v1
kind: Workflow
name: etl
spec:
  definition:
    nodes: [{id: a, task: load}]
"""
GUIDE = Path(everwhen.__file__).parents[2] / "docs" / "guides" / "gitops.md"
GIT = ("--owner", "git")


def write(name, text):
    path = Path("defs") / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def schedule(name, *, expr="30 2 * * *", task="load"):
    write(f"schedules/{name}.yaml", CRON.format(name=name, task=task, expr=expr))


def foundation():
    write("base.yaml", BASE)
    write("flow.toml", 'apiVersion = "everwhen/v1"\nkind = "Schedule"\nname = "flow"\n[spec]\nworkflow = "etl"\n'
                       'calendars = {open = ["de"]}\ntrigger = {kind = "daily", times = [09:30:00]}\n')  # fmt: skip


def test_a_git_directory_of_three_hundred_schedules_is_applied_diffed_changed_by_hand_and_applied_again(shell):
    foundation()
    for number in range(299):
        schedule(f"s{number:03}", expr=f"{number % 60} {number % 24} * * *")
    subprocess.run(["git", "init", "-q", "defs"], check=True)

    shell("apply", "-f", "defs", *GIT, "--yes", "--reason", "first")
    assert shell("diff", "-f", "defs", *GIT, "--prune").stdout == ""
    assert "0 to add, 0 to change" in shell("apply", "-f", "defs", *GIT).stderr

    shell("schedule", "update", "s007", "--cron", "15 4 * * *")
    shell("task", "update", "load", "--priority", "8")
    shown = shell("diff", "-f", "defs", *GIT, "--prune", exit_code=1)
    assert [line.split()[:2] for line in shown.stdout.splitlines()] == [["~", "task/load"], ["~", "schedule/s007"]]
    assert 'trigger.expr: "15 4 * * *" -> "7 7 * * *"' in shown.stdout
    assert "next fire" in shown.stdout
    assert "0 to add, 2 to change" in shown.stderr

    shell("apply", "-f", "defs", *GIT, "--yes")
    shell("diff", "-f", "defs", *GIT, "--prune")
    assert len(shell.json("schedule", "list", "--all")["items"]) == 300


def test_prune_touches_only_what_it_owns(shell):
    foundation()
    schedule("own")
    schedule("stays")
    shell("apply", "-f", "defs", *GIT, "--yes")
    shell("schedule", "create", "hand", "--task", "load", "--every", "PT1H")
    write("../other/x.yaml", CRON.format(name="theirs", task="load", expr="0 0 * * *"))
    shell("apply", "-f", "other", "--owner", "other", "--yes")
    Path("defs/schedules/own.yaml").unlink()

    assert shell("apply", "-f", "defs", *GIT, "--yes").stdout == ""
    assert shell("apply", "-f", "defs", *GIT, "--prune", "--dry-run").stdout.startswith("- schedule/own")
    assert "--owner" in shell("apply", "-f", "defs", "--prune", "--yes", exit_code=2).stderr
    shell("apply", "-f", "defs", *GIT, "--prune", "--yes")

    assert shell("schedule", "list", "-o", "name").stdout.split() == ["flow", "hand", "stays", "theirs"]


def test_prune_takes_everything_that_no_file_declares_in_an_order_that_works(shell):
    foundation()
    shell("apply", "-f", "defs", *GIT, "--yes")
    Path("defs/flow.toml").unlink()
    write("base.yaml", BASE.split("---")[1])
    shown = shell("diff", "-f", "defs", *GIT, "--prune", exit_code=1)
    assert [line.split()[:2] for line in shown.stdout.splitlines()] == [
        ["-", "schedule/flow"], ["-", "workflow/etl"], ["-", "task/load"],
    ]  # fmt: skip
    assert "3 to delete" in shown.stderr

    shell("apply", "-f", "defs", *GIT, "--prune", "--yes", "--reason", "given up")

    assert [shell(kind, "list", "-o", "name").stdout for kind in ("schedule", "workflow", "task")] == ["", "", ""]
    shell("diff", "-f", "defs", *GIT, "--prune")
    # By hand, and with somebody who uses it.
    shell("task", "create", "load")
    shell("schedule", "create", "hand", "--task", "load", "--every", "PT1H")
    refused = shell("task", "delete", "load", "--yes", exit_code=5)
    assert "schedule hand" in refused.stderr
    shell("schedule", "delete", "hand", "--yes")
    assert shell("task", "delete", "load", "--yes", "-o", "name").stdout == "load\n"
    shell("task", "get", "load", exit_code=3)


def test_what_is_another_s_is_taken_over_only_when_that_is_said(shell):
    foundation()
    shell("task", "create", "load")

    refused = shell("apply", "-f", "defs", *GIT, "--yes", exit_code=5)
    assert "made by hand" in refused.stderr
    assert "--adopt" in refused.stderr
    assert shell("calendar", "list", "-o", "name").stdout == ""
    shell("apply", "-f", "defs", *GIT, "--adopt", "--yes")
    assert shell.json("task", "get", "load")["items"][0]["owner"] == "git"


def test_nothing_is_done_while_anything_is_wrong_and_each_fault_has_its_place(shell):
    foundation()
    write("bad.yaml", CRON.format(name="bad", task="load", expr="61 * * * *") + "  overlp: {policy: skip}\n")
    write("worse.yaml", CRON.format(name="worse", task="nobody", expr="0 0 * * *"))

    told = shell("apply", "-f", "defs", "--yes", exit_code=2).stderr

    assert "defs/bad.yaml:8: /spec/overlp: Schedule bad: There is no such field: did you mean overlap?" in told
    assert "defs/worse.yaml:5: /spec/task: Schedule worse: There is no task named nobody" in told
    assert shell("task", "list", "-o", "name").stdout == ""
    assert json.loads(shell("diff", "-f", "defs", "-o", "json", exit_code=2).stderr)["errors"][0]["line"]
    write("bomb.yaml", "a: &a [x, x]\nb: [*a, *a]\n")
    assert "defs/bomb.yaml:2: an alias" in shell("diff", "-f", "defs", exit_code=2).stderr


def test_a_change_by_hand_after_the_plan_is_a_conflict_and_the_next_apply_goes_on(shell, monkeypatch):
    foundation()
    shell("apply", "-f", "defs", *GIT, "--yes")
    schedule("new")
    write("flow.toml", Path("defs/flow.toml").read_text().replace("09:30:00", "10:30:00"))
    real = carrying.carry_out

    def meanwhile(*arguments, **more):
        shell("schedule", "update", "flow", "--priority", "3")
        return real(*arguments, **more)

    monkeypatch.setattr("everwhen.cli.apply.carry_out", meanwhile)
    told = shell("apply", "-f", "defs", *GIT, "--yes", exit_code=5).stderr
    assert "failed: schedule/flow" in told
    assert "1 done, 1 failed, 0 not begun" in told
    monkeypatch.setattr("everwhen.cli.apply.carry_out", real)
    assert "applied 1" in shell("apply", "-f", "defs", *GIT, "--yes").stderr


def test_a_failure_in_the_middle_is_told_exactly_and_the_next_apply_goes_on(shell, monkeypatch):
    foundation()
    schedule("s")
    real = carrying._change

    def breaking(api, item, *arguments, **more):
        if item["kind"] == "Workflow":
            raise CallFailed({"detail": "the cable is cut"}, exit_code=6)
        real(api, item, *arguments, **more)

    with monkeypatch.context() as patched:
        patched.setattr(carrying, "_change", breaking)
        told = shell("apply", "-f", "defs", *GIT, "--yes", exit_code=6).stderr
    assert "failed: workflow/etl: the cable is cut" in told
    assert "2 done, 1 failed, 2 not begun: apply again to go on" in told
    done = shell.json("apply", "-f", "defs", *GIT, "--yes")["items"]
    assert sorted(item["result"] for item in done) == ["done", "done", "done", "unchanged", "unchanged"]
    shell("diff", "-f", "defs", *GIT)


def test_without_a_terminal_nothing_is_applied_unasked(shell):
    foundation()

    assert "--yes" in shell("apply", "-f", "defs", exit_code=2).stderr
    assert "--yes" in shell("apply", "-f", "defs", "-o", "json", exit_code=2).stderr
    assert shell("task", "list", "-o", "name").stdout == ""


def test_what_is_exported_is_clean_and_what_is_somebody_s_stays(shell):
    foundation()
    schedule("s")
    shell("apply", "-f", "defs", "--yes")

    shell("export", "-f", "out")
    assert shell("diff", "-f", "out").stdout == ""
    before = {path: path.read_text() for path in Path("out").rglob("*.yaml")}
    shell("export", "-f", "out")
    assert {path: path.read_text() for path in Path("out").rglob("*.yaml")} == before
    assert len(before) == 5
    assert "09:30" in before[Path("out/schedules/flow.yaml")]
    Path("out/schedules/s.yaml").write_text("mine\n")
    assert "--overwrite" in shell("export", "-f", "out", exit_code=5).stderr
    shell("export", "-f", "out", "--overwrite")
    shell("schedule", "delete", "s", "--yes")
    assert "in the tenant no more" in shell("export", "-f", "out", exit_code=5).stderr
    shell("export", "-f", "out", "--overwrite")
    assert not Path("out/schedules/s.yaml").exists()
    assert shell("export").stdout.count("apiVersion: everwhen/v1") == 4
    assert "payloads" in shell("export", who="viewer", exit_code=4).stderr


def test_the_directory_of_the_guide_is_applied_as_it_stands(shell):
    files = re.findall(r"^```(?:yaml|toml)\n# (defs/\S+)\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    for name, text in files:
        write(f"../{name}", text)

    told = shell("apply", "-f", "defs", "--owner", "acme/reports", "--yes")

    assert len(files) == 2
    assert [line.split()[1] for line in told.stdout.splitlines()] == [
        "calendar/office", "task/report", "workflow/month-end", "schedule/month-end", "schedule/nightly-report",
    ]  # fmt: skip
    shell("diff", "-f", "defs", "--owner", "acme/reports", "--prune")
    shell("export", "-f", "out")
    shell("diff", "-f", "out")
