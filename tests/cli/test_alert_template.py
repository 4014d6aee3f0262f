"""`everwhen alert template` against a live server."""

from pathlib import Path


def test_a_template_is_begun_from_the_built_in_one_tried_kept_and_deleted(shell):
    Path("own.jinja").write_text("[own] {{ occasion.name }}")
    built_in = shell("alert", "template", "get", "run.dead", "subject").stdout
    tried = shell(
        "alert", "template", "preview", "run.dead", "--template", "subject=@own.jinja", "--html", "mail.html"
    ).stdout
    shell("alert", "template", "set", "run.dead", "subject", "@own.jinja")
    listed = shell.json("alert", "template", "list")
    kept = shell("alert", "template", "get", "run.dead", "subject").stdout
    json = shell.json("alert", "template", "preview", "run.dead")
    shell("alert", "template", "delete", "run.dead", "subject", exit_code=2)
    shell("alert", "template", "delete", "run.dead", "subject", "--yes")

    assert built_in.startswith("{{ occasion.name }}: {{ occasion.state }}")
    assert tried.startswith("Subject: [own] nightly-report\n\nA run of nightly-report is dead")
    assert Path("mail.html").read_text().startswith("<!doctype html>")
    assert [(item["kind"], item["part"]) for item in listed["items"]] == [("run.dead", "subject")]
    assert kept == "[own] {{ occasion.name }}\n"
    assert json["items"][0]["subject"] == "[own] nightly-report"
    assert shell.json("alert", "template", "list")["items"] == []


def test_what_is_wrong_is_said_in_one_line(shell):
    wrong = shell("alert", "template", "set", "run.dead", "text", "{{ misspelt }}", exit_code=2)
    nothing = shell("alert", "template", "set", "run.dead", "text", "@missing.jinja", exit_code=2)
    part = shell("alert", "template", "preview", "run.dead", "--template", "body=x", exit_code=2)

    assert "line 1: there is no `misspelt`" in wrong.stderr
    assert "missing.jinja cannot be read" in nothing.stderr
    assert "--template is like subject=@FILE" in part.stderr
