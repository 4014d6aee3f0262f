# pyright: reportArgumentType=false, reportOptionalMemberAccess=false, reportOperatorIssue=false
# pyright: reportAttributeAccessIssue=false
"""What exists is documented, and what is documented exists."""

import re
from pathlib import Path

import click
import pytest

import everwhen
from everwhen.cli import main
from everwhen.config import OTHER_VARIABLES, Settings
from everwhen.core.bulk import OperationState
from everwhen.core.lifecycle import RunState
from everwhen.core.quotas import KINDS
from everwhen.core.reasons import Reason
from everwhen.http.roles import Permission, Role
from everwhen.schedules.model import ScheduleState
from tests.contracts import reasons_page, roles_page
from tests.contracts.openapi_snapshot import app_for_its_document

DOCS = Path(everwhen.__file__).parents[2] / "docs"
SOURCES = sorted(Path(everwhen.__path__[0]).rglob("*.py"))
# Codes of commands that work without the API, and of nodes that end without a run, told where those are.
ELSEWHERE = ("workflow.condition", "workflow.no_items", "crontab.", "input.count", "input.json")


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def first_cells(text: str) -> set[str]:
    """What stands in backticks in the first column of the page's tables."""
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| ")]
    return {found for row in rows for found in re.findall(r"`([^`]+)`", row)}


def commands(command: click.Command, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if not isinstance(command, click.Group):
        return [path]
    context = click.Context(command)
    found = []
    for name in command.list_commands(context):
        found += commands(command.get_command(context, name), (*path, name))
    return found


def codes() -> set[str]:
    found = set()
    for file in SOURCES:
        text = file.read_text(encoding="utf-8")
        found |= set(re.findall(r'\bcode="([a-z_]+(?:\.[a-z_]+)+)"', text))
        found |= set(re.findall(r'TriggerError\(\s*"([a-z_.]+)"', text))
        found |= set(re.findall(r'status, code, title(?:, retryable)? = \d+, "([a-z_.]+)"', text))
    return {code for code in found if not code.startswith(ELSEWHERE)}


def test_every_setting_is_on_its_page_with_its_meaning():
    text = page("reference/settings.md")
    names = first_cells(text)

    assert {name for name in names if not name.startswith("EVERWHEN_")} == set(Settings.model_fields)
    assert {name for name in names if name.startswith("EVERWHEN_")} == OTHER_VARIABLES
    for field in Settings.model_fields.values():
        assert field.description in text


def test_the_page_of_reasons_is_the_registry():
    text = page("reference/reasons.md")

    assert text == reasons_page.rendered(), "run `python -m tests.contracts.openapi_snapshot`"
    assert first_cells(text) == set(Reason)


def test_the_states_are_in_the_glossary():
    text = page("glossary.md")

    assert first_cells(text.partition("## The states of a run")[2].partition("## ")[0]) == set(RunState)
    assert first_cells(text.partition("## The states of an operation")[2].partition("## ")[0]) == set(OperationState)
    for state in ScheduleState:
        assert f"`{state}`" in text.partition("## The states of a schedule")[2]


def test_the_words_of_the_code_are_not_those_that_the_glossary_refuses():
    for file in SOURCES:
        assert not re.search(r"\b(job|jobs|utils|helpers|manager)\b", file.stem), file


def test_every_limit_is_on_its_page_with_what_is_usual():
    text = page("concepts/limits.md").partition("## Quotas")[2]
    rows = {cells[1].strip(" `"): cells for line in text.splitlines() if len(cells := line.split("|")) == 5}

    for limit, kind in KINDS.items():
        _, _, usual, sentence, _ = rows[limit.value]
        assert sentence.strip() == kind.sentence
        assert usual.strip() == (f"{kind.usual:,}" if kind.usual is not None else usual.strip())


def test_every_error_code_is_on_the_page_of_the_api():
    text = page("reference/http.md")

    assert len(codes()) > 40
    families = {code: ".".join(code.split(".")[:2]) for code in codes()}
    missing = {code for code, family in families.items() if f"`{code}`" not in text and f"`{family}.…`" not in text}
    assert missing == set()


def test_every_link_from_a_problem_leads_to_an_anchor():
    text = page("reference/http.md")

    assert {code for code in codes() if f'id="{code.split(".")[0]}"' not in text} == set()


def test_every_operation_is_on_the_page_of_the_api():
    text = page("reference/http.md").partition("## Operations")[2]
    ids = {
        operation["operationId"]
        for methods in app_for_its_document().openapi()["paths"].values()
        for operation in methods.values()
    }

    assert set(re.findall(r"`([a-z_]+)`", text)) == ids


def test_the_page_of_roles_is_the_table():
    text = page("reference/roles.md")

    assert text == roles_page.rendered(app_for_its_document()), "run `python -m tests.contracts.openapi_snapshot`"
    assert set(Role) | set(Permission) <= first_cells(text)


@pytest.mark.parametrize("path", commands(main), ids=" ".join)
def test_every_command_is_on_its_page_and_explains_itself(path):
    rows = [line for line in page("reference/cli.md").splitlines() if line.startswith(f"| `everwhen {path[0]}")]

    assert rows
    if len(path) > 1:
        assert any(re.search(rf"`(?:everwhen {path[0]} )?{path[1]}`", row) for row in rows), path


@pytest.mark.parametrize("path", commands(main), ids=" ".join)
def test_every_option_has_a_help_text(path):
    command = main
    for name in path:
        command = command.get_command(click.Context(command), name)

    assert command.help
    for parameter in command.params:
        assert not isinstance(parameter, click.Option) or parameter.help, (path, parameter.name)
