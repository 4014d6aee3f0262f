"""`everwhen explain`: every field of every definition, without a server."""

import json

import pytest
from click.testing import CliRunner

from everwhen.cli import main
from everwhen.cli.schema import ROOTS, Book


def explained(*arguments, exit_code=0):
    result = CliRunner().invoke(main, ["explain", *arguments], env={"EVERWHEN_URL": "http://nowhere.invalid"})
    assert result.exit_code == exit_code, result.output
    return result


def test_a_field_is_told_with_its_type_meaning_limits_default_and_children():
    told = json.loads(explained("schedule.trigger.cron", "-o", "json").stdout)
    dialect = explained("schedule.trigger.cron.dialect").stdout.splitlines()

    assert told["type"] == "object"
    assert told["meaning"] == "Local wall-clock times that match a cron expression."
    assert [child["name"] for child in told["children"] if child["required"]] == ["kind", "expr"]
    assert dialect == ["schedule.trigger.cron.dialect  <text>", '  default: "vixie"', "  at most 256 characters"]


def test_a_field_of_several_kinds_is_told_by_its_kinds():
    told = json.loads(explained("schedule.trigger", "-o", "json").stdout)

    assert {"cron", "every", "at", "rrule", "any_of"} <= {child["name"] for child in told["children"]}
    assert told["required"]
    assert "trigger" in explained("schedule.trigger.any_of").stdout


def test_without_a_path_it_lists_the_things():
    assert explained().stdout.split() == list(ROOTS)


@pytest.mark.parametrize(
    ("path", "hint"), [("schedul", "schedule?"), ("schedule.tigger", "trigger?"), ("task.name.x", "nothing below it")]
)
def test_what_is_not_there_is_said_in_one_line_with_what_is(path, hint):
    said = explained(path, exit_code=2).stderr

    assert hint in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("root", ROOTS)
def test_every_field_there_is_can_be_explained(root):
    book, seen = Book(root), 0

    def walk(steps, depth):
        nonlocal seen
        for name in book.children(book.find(steps)):
            child = book.find([*steps, name])
            assert book.type_of(child.schema)
            seen += 1
            if depth < 4:
                walk([*steps, name], depth + 1)

    walk([], 0)
    assert seen
