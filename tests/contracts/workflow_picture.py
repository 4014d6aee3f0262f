"""Draws docs/pictures/workflow.svg from the definition in the guide: `python -m tests.contracts.workflow_picture`."""

import json
import re
from pathlib import Path
from typing import Any

from everwhen.core.dag_json import parse_workflow
from everwhen.workflows.graph_svg import render

DOCS = Path(__file__).parents[2] / "docs"
FILE = DOCS / "pictures" / "workflow.svg"
GUIDE = DOCS / "guides" / "workflows.md"
_BLOCK = re.compile(r"^```json\n(?P<json>.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"^```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


def definition() -> dict[str, Any]:
    """The definition that the guide writes down."""
    found = _BLOCK.search(GUIDE.read_text(encoding="utf-8"))
    assert found is not None
    return json.loads(found["json"])


def in_python() -> dict[str, Any]:
    """The definition that the guide's Python makes."""
    found = _CODE.search(GUIDE.read_text(encoding="utf-8"))
    assert found is not None
    names: dict[str, Any] = {}
    exec(compile(found["code"], str(GUIDE), "exec"), names)  # our own page
    return names["flow"].to_json()


def rendered() -> str:
    """The picture as it is kept."""
    return render(parse_workflow(definition()), title="daily-report").rstrip() + "\n"


if __name__ == "__main__":
    FILE.write_text(rendered(), encoding="utf-8")
