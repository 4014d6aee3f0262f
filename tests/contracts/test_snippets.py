"""Every Python block in the docs and the README runs, and the functions in it that are called test_… pass."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?P<target>[^)#\s]+)(?:#[^)]*)?\)")
SNIPPETS = [
    pytest.param(match["code"], id=f"{page.relative_to(ROOT)}:{page.read_text()[: match.start()].count(chr(10)) + 1}")
    for page in PAGES
    for match in BLOCK.finditer(page.read_text())
]


def run(code: str) -> dict:
    names: dict = {}
    exec(compile(code, "snippet", "exec"), names)
    return names


@pytest.mark.parametrize("code", SNIPPETS)
def test_a_snippet_runs_and_its_own_tests_pass(code: str) -> None:
    names = run(code)

    for name, value in names.items():
        if name.startswith("test_"):
            value()


def test_there_are_snippets_to_run() -> None:
    assert len(SNIPPETS) >= 4


def test_a_snippet_that_is_wrong_is_found_out() -> None:
    with pytest.raises(ImportError):
        run("from everwhen.worker import Wroker")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_a_file_of_ours_leads_somewhere(page: Path) -> None:
    targets = [match["target"] for match in LINK.finditer(page.read_text()) if "://" not in match["target"]]

    assert [target for target in targets if not (page.parent / target).exists()] == []
