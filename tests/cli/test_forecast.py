"""`everwhen forecast` and its relatives on the command line: what is printed, and what ends in one line."""

import json

import httpx2
import pytest
from click.testing import CliRunner

from everwhen.cli import main
from everwhen.cli.forecast import SHADES, lines

FOUND = {
    "start": "2027-01-04T00:58:00Z",
    "hours": 1,
    "schedules": 3,
    "due": 12,
    "peak": {"at": "2027-01-04T01:00:00Z", "due": 9},
    "herd": {"minute": 0, "due": 9, "share": 0.75, "sentence": "75% at :00."},
    "complete": False,
    "cut": ["often"],
    "per_minute": [1, 0, 9, *[0] * 55, 2, 0],
}


def test_the_heat_map_has_an_hour_a_line_with_sums_that_need_no_shades():
    told = lines(FOUND)
    rows = [line for line in told if line.startswith("Mon ")]

    assert told[0] == "12 runs of 3 schedules in 1 h, in UTC"
    assert "75% at :00." in told[1]
    assert "often" in told[2]
    assert [row.split("  ")[0] for row in rows] == ["Mon 04 00:00", "Mon 04 01:00"]
    assert rows[0].endswith("1  1 at :58")
    assert rows[1].endswith("11  9 at :00")
    cells = [row[14:74] for row in rows]
    assert cells[0] == " " * 58 + SHADES[1] + SHADES[0]
    assert cells[1][0] == SHADES[4]


def test_a_picture_of_all_tenants_is_refused():
    done = CliRunner().invoke(main, ["forecast", "--all", "-o", "svg"])

    assert done.exit_code == 2
    assert "one tenant" in done.stderr


@pytest.mark.parametrize("words", [["forecast"], ["forecast", "-o", "svg"], ["schedule", "smooth"]])
def test_a_server_that_is_away_ends_in_one_line(words, monkeypatch):
    monkeypatch.setenv("EVERWHEN_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("EVERWHEN_TENANT", "acme")
    monkeypatch.setattr("everwhen.cli.client.RETRY_SECONDS", ())
    done = CliRunner().invoke(main, words)

    assert (done.exit_code, len(done.stderr.splitlines())) == (6, 1)


def test_next_says_what_lies_ahead():
    words = ["next", "30 2 * * *", "--tz", "Europe/Berlin", "--from", "2027-01-01", "--count", "1", "--ahead"]
    text = CliRunner().invoke(main, words).stdout
    data = json.loads(CliRunner().invoke(main, [*words, "-o", "json"]).stdout)

    assert "At 02:30 every day.\n365 times a year\n" in text
    assert "2027-03-28T01:00:00Z  clocks go forward by 1:00:00: 1 moved" in text
    assert (data["fires_per_year"], data["transitions"][1]["once"]) == (365, 1)
    assert len(data["items"]) == 1


def test_flex_and_its_seconds_go_together(monkeypatch):
    monkeypatch.setenv("EVERWHEN_TENANT", "acme")
    done = CliRunner().invoke(main, ["schedule", "create", "x", "--task", "t", "--cron", "@daily", "--flex", "hash"])

    assert done.exit_code == 2
    assert "--flex-seconds" in done.stderr


def test_a_dry_run_sends_the_change_and_shows_its_moves(monkeypatch):
    seen = []
    plan = {
        "moves": [{"kind": "moved", "old_local": "a", "new_local": "b"}],
        "until": "2027-01-01T00:00:00Z",
        "moved": 1,
        "added": 0,
        "removed": 0,
        "unchanged": 3,
        "withdrawn": [],
    }

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append((request.method, str(request.url), json.loads(request.content)))
        return httpx2.Response(200, json=plan)

    monkeypatch.setenv("EVERWHEN_TENANT", "acme")
    client = httpx2.Client
    monkeypatch.setattr(httpx2, "Client", lambda **options: client(**options, transport=httpx2.MockTransport(answer)))
    done = CliRunner().invoke(main, ["schedule", "update", "nightly", "--cron", "@daily", "--dry-run", "--days", "7"])

    assert done.exit_code == 0
    assert "moved  a     b" in done.stdout
    assert "1 moved, 0 added, 0 removed, 3 unchanged" in done.stderr
    assert seen[0][0] == "PATCH"
    assert seen[0][1].endswith("/v1/tenants/acme/schedules/nightly?dry_run=true&days=7")
    assert seen[0][2] == {"trigger": {"kind": "cron", "expr": "@daily"}}
