"""The guide to workflows: its Python and its JSON are one definition, and its picture is drawn from it."""

from everwhen.core.dag_json import parse_workflow
from tests.contracts import workflow_picture


def test_the_picture_is_up_to_date():
    told = "run python -m tests.contracts.workflow_picture"

    assert workflow_picture.FILE.read_text(encoding="utf-8") == workflow_picture.rendered(), told


def test_the_json_says_what_the_python_says():
    assert parse_workflow(workflow_picture.in_python()) == parse_workflow(workflow_picture.definition())
