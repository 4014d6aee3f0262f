"""Limits and usage on the command line."""


def test_limits_are_shown_set_and_given_back(shell):
    before = {row["name"]: row for row in shell.json("limits", "get")["items"]}
    after = shell.json("limits", "set", "schedules=500", "tasks=7", who="platform")["items"]
    shell("limits", "set", "tasks=default", who="platform")

    assert (before["schedules"]["limit"], before["schedules"]["source"]) == (20_000, "default")
    assert {row["name"]: row["limit"] for row in after if row["source"] == "set"} == {"schedules": 500, "tasks": 7}
    assert "500" in shell("limits", "get").stdout
    assert "schedules=500" in shell("limits", "set", "schedules", who="platform", exit_code=2).stderr
    shell("limits", "set", "schedules=1", exit_code=4)


def test_usage_is_told_day_by_day(shell):
    assert len(shell.json("usage", "--days", "3")["items"]) == 3
    assert "DAY" in shell("usage").stdout
