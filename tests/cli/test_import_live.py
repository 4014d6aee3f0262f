"""A crontab, imported into a live server: each line that is accepted becomes a schedule, and once only."""

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
