"""Options and paging that every list command shares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from everwhen.cli.client import Api
from everwhen.cli.output import Columns, show_list


def paged(function: Callable[..., None]) -> Callable[..., None]:
    """Add --limit, --cursor and --all."""
    function = click.option("--all", "everything", is_flag=True, help="Follow the pages to the last one.")(function)
    function = click.option("--cursor", help="Go on where a list ended.")(function)
    return click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True, help="Items on a page.")(
        function
    )


def tagging(function: Callable[..., None]) -> Callable[..., None]:
    """Add --tag and --no-tags, which `tags_given` reads."""
    function = click.option("--no-tags", is_flag=True, help="Take every tag away.")(function)
    return click.option("--tag", "tags", multiple=True, help="A word to find it by; repeatable. All of them replace.")(
        function
    )


def tags_given(tags: tuple[str, ...], *, no_tags: bool) -> dict[str, Any]:
    """Return the tags as a part of a body, if they were given."""
    if tags and no_tags:
        raise click.UsageError("--tag and --no-tags exclude each other")
    return {"tags": list(tags)} if tags or no_tags else {}


def filtered(example: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add --filter, which `list_pages` sends; which terms there are is told by whoever reads a wrong one."""
    return click.option("--filter", "filter", metavar="TERMS", help=f"Such as '{example}'.")


def list_pages(  # noqa: PLR0913  # what a list is made of
    api: Api,
    path: str,
    *,
    kind: str,
    output: str,
    columns: Columns,
    paging: dict[str, Any],
    name: str = "name",
    **where: Any,
) -> None:
    """Print one page, or all of them; a page of a filter that is a short one is filled with those that follow."""
    page = api.call("GET", path, limit=paging["limit"], cursor=paging["cursor"], filter=paging.get("filter"), **where)
    items, following = page["items"], page.get("next")
    while following and (paging["everything"] or len(items) < paging["limit"]):
        page = api.call("GET", following)
        items, following = items + page["items"], page["next"]
    show_list(items, kind=kind, output=output, columns=columns, name=name, following=following)


def json_option(text: str | None, *, option: str) -> Any:
    """Read an option whose value is JSON; `@file` reads it from a file."""
    import json
    from pathlib import Path

    if text is None:
        return None
    try:
        return json.loads(Path(text[1:]).read_text() if text.startswith("@") else text)
    except (OSError, ValueError) as error:
        raise click.UsageError(f"{option} is not JSON: {error}") from error


def given(**values: Any) -> dict[str, Any]:
    """Return the values that are not None: what the caller said."""
    return {name: value for name, value in values.items() if value is not None}
