"""Writes docs/reference/reasons.md from the registry: `python -m tests.contracts.openapi_snapshot` does it as well."""

from pathlib import Path

from everwhen.core.meanings import MEANINGS
from everwhen.core.reasons import Category, Reason

FILE = Path(__file__).parents[2] / "docs" / "reference" / "reasons.md"

INTRODUCTION = """\
# Reasons

Why a run is where it is: a closed list of codes. The code is stable and made for programs; the sentence is for people.
Codes stand in a run's `reason`, in its events and attempts, in explanations, and in the answers to a worker's reports.
What a code is about is its category, a field of its own. `GET /v1/reasons` gives the list, with the wording that takes
numbers.

This page is made from the registry, `src/everwhen/core/meanings.py`: `python -m tests.contracts.openapi_snapshot`.
"""

ABOUT = {
    Category.POLICY: "A rule of the schedule or a calendar chose not to run it, or to run it later.",
    Category.COALESCED: "Another run stands for it.",
    Category.SYSTEM: "Everwhen failed to do it in time.",
    Category.RESOURCE: "It waits for a worker, a slot, or its turn. More workers or higher limits would help.",
    Category.WAITING: "It waits for another run, or for its time.",
    Category.RETRY: "An attempt was under way or was lost, and another follows.",
    Category.ENDED: "It ended without success.",
    Category.CHANGED: "It was withdrawn before it was due, and decided anew.",
    Category.REFUSED: "A request or a report that changed nothing.",
    Category.NEVER: "No schedule ever intended it.",
}


def rendered() -> str:
    """The page as it is kept."""
    return "\n".join([INTRODUCTION, *(_section(category) for category in Category)])


def _section(category: Category) -> str:
    rows = [_row(reason) for reason in Reason if MEANINGS[reason].category is category]
    head = f"## {category.value.capitalize()}\n\n{ABOUT[category]}\n\n"
    return head + "| code | severity | meaning | what to do |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"


def _row(reason: Reason) -> str:
    meaning = MEANINGS[reason]
    return f'| <a id="{reason}"></a>`{reason}` | {meaning.severity} | {meaning.sentence} | {meaning.remedy or "–"} |'


def write() -> None:
    """Bring the page up to date."""
    FILE.write_text(rendered(), encoding="utf-8")


if __name__ == "__main__":
    write()
