import json

import pytest
from click.testing import CliRunner

from everwhen.cli import main
from everwhen.core.presets import CASES, PRESETS, answer_to


def run(*arguments):
    return CliRunner().invoke(main, list(arguments))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["30 2 * * *"], "At 02:30 every day."),
        (["0 0 12 ? * 2-6", "--dialect", "quartz"], "At 12:00 on Monday to Friday."),
        (["*/20 0 0 * * *", "--seconds"], "At 00:00:00, 00:00:20 and 00:00:40 every day."),
        (["PT90M"], "Every 1 hour and 30 minutes, counted from the start of 1970 in UTC."),
        (["2027-03-28T02:30"], "Once, at 2027-03-28 02:30:00 local time."),
        (['{"kind": "cron", "expr": "0 0 L * *", "dialect": "vixie-ext"}'], "At 00:00 on the last day of the month."),
    ],
)
def test_a_trigger_is_explained(arguments, sentence):
    result = run("explain-trigger", *arguments)
    assert (result.exit_code, result.stdout) == (0, f"{sentence}\n")


@pytest.mark.parametrize("expr", ["0 0 31 2 *", "P1Y", "{", "[1]", "2027-02-30T00:00", "0 0 L * *"])
def test_what_cannot_be_read_is_refused_in_one_line(expr):
    result = run("explain-trigger", expr)
    assert result.exit_code == 2
    assert "trigger." in result.output or "input.json" in result.output
    assert "Traceback" not in result.output


def test_presets_prints_what_the_engine_computes():
    found = json.loads(run("presets", "-o", "json").stdout)
    assert [row["answers"] for row in found] == [
        {name: answer_to(case, preset) for name, preset in PRESETS.items()} for case in CASES
    ]
    lines = run("presets").stdout.splitlines()
    assert lines[0].split() == [*PRESETS]
    answers = "03:00 dropped dropped dropped 04:30 04:00 04:30 04:30 dropped 03:00 03:00"
    assert " ".join(lines[6].split()) == f"Troll, 2 hour gap {answers}"


def test_next_does_as_another_scheduler_does():
    arguments = ("next", "30 2 * * *", "--tz", "America/New_York", "--from", "2026-03-08", "--count", "1", "-o", "json")
    local = {
        preset: json.loads(run(*arguments, "--preset", preset).stdout)[-1]["local"] for preset in ("airflow", "vixie")
    }
    assert local == {"airflow": "2026-03-08T03:30:00-04:00", "vixie": "2026-03-08T03:00:00-04:00"}
    assert run(*arguments, "--preset", "luigi").exit_code == 2


def test_next_reads_another_dialect_and_names_it_when_it_is_needed():
    found = run("next", "0 0 12 ? * 2", "--dialect", "quartz", "--from", "2026-01-01", "--count", "1", "-o", "json")
    assert json.loads(found.stdout)[0]["local"] == "2026-01-05T12:00:00+00:00"
    assert "'vixie-ext'" in run("next", "0 0 L * *").output
