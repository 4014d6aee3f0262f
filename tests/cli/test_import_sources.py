"""The commands that import: what they show, what they post, and how they end."""

import json

import pytest
from click.testing import CliRunner

from everwhen.cli.import_sources import IMPORTERS, schedule_body
from everwhen.cli.imports import import_group
from everwhen.schedules.importers.entry import MOST_CHARACTERS, Options
from everwhen.schedules.wire import ScheduleIn, timing_of

FROM = ("--from", "2027-01-01T00:00:00Z")


def cron_job(name, schedule="30 2 * * *", **spec):
    spec = {"schedule": schedule, "timeZone": "Europe/Berlin", **spec}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name}, "spec": spec}


THREE = json.dumps([cron_job("a"), cron_job("b", "0 12 * * *", suspend=True), cron_job("c", "@every 1h")])


class Recorded:
    """A client at the network's edge that keeps what is posted."""

    def __init__(self, statuses=()):
        self.posts, self.statuses = [], iter(statuses)

    def post(self, path, json):
        self.posts.append((path, json))
        return Answer(next(self.statuses, 201))


class Answer:
    def __init__(self, status_code):
        self.status_code = status_code

    def json(self):
        return {"title": "Refused", "detail": "the queue is unknown"}


def run(tmp_path, source, text, *arguments, client=None):
    file = tmp_path / "file"
    file.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape"))
    command = import_group.get_command(None, source)
    return CliRunner().invoke(command, [str(file), *FROM, *arguments], obj=client and (lambda: client))


def test_a_dry_run_shows_a_table_with_the_proof_and_the_differences(tmp_path):
    result = run(tmp_path, "kubernetes", THREE, "--dry-run")
    lines = result.stdout.splitlines()

    assert result.exit_code == 2
    assert lines[0].split() == ["NAME", "BECOMES", "ZONE", "NEXT", "PROOF"]
    assert lines[1].split()[0] == "default.a"
    assert "20 differences, 3643 equal, for the next 10 years" in lines[1]
    assert lines[2].endswith("equal for the next 10 years")
    assert "default.a: added: - → 2027-03-28T03:00:00+02:00" in lines
    assert "default.b: paused: suspended in Kubernetes" in lines
    assert "CronJob 3: refused:" in lines[-1]


def test_json_gives_everything_as_data(tmp_path):
    first, second, third = json.loads(run(tmp_path, "kubernetes", THREE, "--dry-run", "-o", "json").stdout)

    assert first["schedule"] == "default.a"
    assert (first["gap"], first["fold"], first["task"]) == ("gap_end", "first", "kubernetes.cronjob")
    assert first["next_local"] == "2027-01-01T02:30:00+01:00"
    assert first["proof"]["differences"] == len(first["proof"]["first"]) == 20
    assert second["proof"] | {"equal": True, "complete": True, "same_rule": False, "first": []} == second["proof"]
    assert third["refused"]["code"] == "trigger.cron.every"


def test_kept_semantics_are_equal_for_everything(tmp_path):
    rows = json.loads(run(tmp_path, "kubernetes", THREE, "--dry-run", "--keep-semantics", "-o", "json").stdout)

    assert [row["proof"]["equal"] for row in rows[:2]] == [True, True]
    assert (rows[0]["gap"], rows[0]["fold"]) == ("skip", "both")


def test_a_budget_that_ends_early_is_said(tmp_path):
    result = run(tmp_path, "systemd", "*:*:0/5", "--dry-run", "--tz", "Europe/Berlin")

    assert result.exit_code == 0
    assert "equal until 2027-01-12T" in result.stdout
    assert "where the budget ended" in result.stdout


def test_an_import_creates_the_task_and_schedules_and_pauses_what_is_paused(tmp_path):
    client = Recorded()
    result = run(tmp_path, "kubernetes", THREE, "-t", "acme", "--queue", "k8s", client=client)
    (task_path, task), (path, first), (_, second) = client.posts

    assert result.exit_code == 2
    assert (task_path, task) == ("/v1/tenants/acme/tasks", {"name": "kubernetes.cronjob", "queue": "k8s"})
    assert path == "/v1/tenants/acme/schedules"
    assert first == {
        "name": "default.a",
        "trigger": {"kind": "cron", "expr": "30 2 * * *", "seconds": False, "dialect": "kubernetes"},
        "timezone": "Europe/Berlin",
        "task": "kubernetes.cronjob",
        "input": {"namespace": "default", "cronjob": "a"},
        "gap": "gap_end",
        "fold": "first",
        "catch_up": {"policy": "coalesce", "on_resume": {"policy": "coalesce"}},
    }
    assert (second["name"], second["paused"]) == ("default.b", "suspended in Kubernetes")
    assert result.stdout.count("created") == 2


def test_a_second_import_finds_everything_and_pauses_nothing(tmp_path):
    client = Recorded([409, 409])
    result = run(tmp_path, "kubernetes", json.dumps(cron_job("b", suspend=True)), "-t", "acme", client=client)

    assert (result.exit_code, len(client.posts)) == (0, 2)
    assert "exists" in result.stdout


def test_what_the_server_refuses_is_shown_with_its_reason(tmp_path):
    client = Recorded([201, 422])
    result = run(tmp_path, "kubernetes", json.dumps(cron_job("b", suspend=True)), "-t", "acme", client=client)

    assert result.exit_code == 2
    assert "the queue is unknown" in result.stdout


def test_what_cannot_begin_says_what_to_do(tmp_path):
    assert run(tmp_path, "kubernetes", THREE, "-t", "acme", client=Recorded([403])).exit_code == 1
    assert "--dry-run" in run(tmp_path, "kubernetes", THREE, "-t", "acme").output
    assert run(tmp_path, "kubernetes", THREE, "--dry-run", "--tz", "Europe").exit_code == 2
    assert "not UTF-8" in run(tmp_path, "systemd", b"\xff", "--dry-run").output
    assert "at most" in run(tmp_path, "systemd", b" " * (4 * MOST_CHARACTERS + 1), "--dry-run").output


@pytest.mark.parametrize(
    ("source", "text", "becomes"),
    [
        ("eventbridge", '{"Name": "a", "ScheduleExpression": "at(2027-05-01T10:00:00)"}', "at 2027-05-01T10:00:00"),
        (
            "eventbridge",
            '{"Name": "a", "ScheduleExpression": "rate(5 minutes)", "CreationDate": "2026-01-01T00:00:00Z"}',
            "every PT5M",
        ),
        ("quartz", "0 15 10 ? * 6#3", "quartz 0 15 10 ? * 6#3"),
        ("airflow", '{"etl": "@daily"}', "airflow @daily"),
        ("temporal", '{"scheduleId": "a", "spec": {"cronString": ["@daily", "@hourly"]}}', "any_of 2"),
        ("systemd", "*-*~01", "FREQ=DAILY;BYMONTHDAY=-1"),
        ("systemd", "Mon..Fri 10:00", "vixie 0 10 * * 1-5"),
    ],
)
def test_each_source_says_what_its_schedules_become(tmp_path, source, text, becomes):
    result = run(tmp_path, source, text, "--dry-run")

    assert result.exit_code == 0, result.output
    assert becomes in result.stdout
    assert "equal for the next 10 years" in result.stdout


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("kubernetes", THREE),
        (
            "eventbridge",
            '{"Name": "a", "ScheduleExpression": "cron(0 8 ? * 2#1 *)", "EndDate": "2030-01-01T00:00:00Z"}',
        ),
        ("eventbridge", '{"Name": "a", "ScheduleExpression": "rate(1 day)", "StartDate": "2027-01-01T00:00:00Z"}'),
        ("quartz", "0 0/5 14,18 L-3 * ? 2027-2030"),
        ("airflow", '{"a": {"schedule": "30 2 * * MON", "catchup": true}}'),
        ("temporal", '{"scheduleId": "a", "spec": {"cronString": ["0 5 * * *"], "interval": [{"interval": "90s"}]}}'),
        ("systemd", "Mon *-05~07/1 10:00\n2027..2030-1-1\n*:0/7\n12:00:30"),
    ],
)
def test_what_the_server_makes_of_a_body_is_what_was_proven(source, text, keep):
    [importer] = [each for each in IMPORTERS if each.name == source]
    entries = [
        line for line in importer.parse(text, Options(timezone="Europe/Berlin", keep=keep)) if hasattr(line, "stored")
    ]

    assert entries
    for entry in entries:
        body = ScheduleIn.model_validate(schedule_body(entry, task=importer.task))
        assert timing_of(body) == entry.stored


def test_a_hostile_name_reaches_no_terminal(tmp_path):
    result = run(tmp_path, "airflow", json.dumps({"\x1b[2J\u202e": "@never"}), "--dry-run")

    assert result.exit_code == 2
    assert "\x1b" not in result.stdout
