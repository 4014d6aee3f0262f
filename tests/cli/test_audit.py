"""The audit on the command line, beside a live server."""


def test_who_changed_what_is_listed_the_newest_first_and_by_a_filter(shell):
    shell("task", "create", "report")
    shell("task", "create", "invoice")

    items = shell.json("audit", "list", who="admin")["items"]

    assert [item["resource"] for item in items] == ["tasks/invoice", "tasks/report"]
    assert {item["actor"] for item in items} == {"tester"}
    found = shell.json("audit", "list", "--filter", "resource:tasks/report", who="admin")["items"]
    assert [item["operation"] for item in found] == ["create_task"]
    assert "tasks/report" in shell("audit", "list", who="admin").stdout


def test_the_platforms_audit_is_the_platforms(shell):
    shell("tenant", "create", "other", who="platform")

    assert [item["resource"] for item in shell.json("audit", "list", "--platform", who="platform")["items"]] == [
        "tenants/other"
    ]
    shell("audit", "list", "--platform", who="admin", exit_code=4)
