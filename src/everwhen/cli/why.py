"""`everwhen why`: why a run started when it did, or why there is none."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Final

import click

from everwhen.cli.client import with_api
from everwhen.cli.output import show_list

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from everwhen.cli.client import Api

    Row = Mapping[str, Any]

BAR: Final = 24
"""How many characters the longest segment's bar has."""


@click.command("why", short_help="Say why a run was late, or did not run.")
@click.argument("ref")
@click.argument("node", required=False)
@with_api
def why(*, api: Api, output: str, ref: str, node: str | None) -> None:
    """Say why a run was late, or did not run at all. NODE tells of one node of a workflow's run, released or not.

    REF is a run's id, or `schedule@time`: a local time of the schedule, such as `nightly@2026-11-30T02:30`, or one with
    its offset. It also names instants at which nothing ran.
    """
    if node is not None:
        show_node(api, ref, node, output=output)
        return
    said = api.call("GET", api.tenant_path("runs", ref, "explain"))
    if output != "table":
        show_list([said], kind="ExplanationList", output=output, columns={}, name="ref")
        return
    for line in lines(said):
        click.echo(line)


def show_node(api: Api, ref: str, node: str, *, output: str) -> None:
    """Show why a node of a workflow's run stands where it stands, and how what it needs does."""
    said = api.call("GET", api.tenant_path("workflow-runs", ref, "nodes", node, "explain"))
    if output != "table":
        show_list([said], kind="NodeExplanationList", output=output, columns={}, name="node")
        return
    click.echo(f"{said['node']}: {_printable(said['headline'])}")
    if said["detail"] and said["detail"].get("message"):
        click.echo(f"  {_printable(said['detail']['message'])}")
    for each in said["upstreams"]:
        told = f"  {each['id']}: {each['state'].replace('_', ' ')}"
        click.echo(told + (f", {each['reason']}" if each["reason"] else ""))


def lines(said: Row) -> Iterator[str]:
    """Tell an explanation to a person, line by line."""
    yield _title(said)
    yield ""
    yield f"  {_printable(said['headline'])}"
    if said["segments"]:
        yield ""
        yield from _timeline(said["segments"], _offset(said["intended_local"]))
    if said["also_blocking"]:
        yield ""
        yield "  Meanwhile also"
        yield from (f"    {_printable(each['sentence'])}" for each in said["also_blocking"])
    if said["remedies"]:
        yield ""
        yield "  What would help"
        yield from _remedies(said["remedies"])
    yield ""
    yield _footer(said)


def _title(said: Row) -> str:
    return f"{_printable(said['ref'])}  {said['state'] or 'never intended'}"


def _timeline(segments: list[Row], offset: timedelta) -> Iterator[str]:
    longest = max(each["seconds"] for each in segments)
    spans = [_span(each["seconds"]) for each in segments]
    width = max(map(len, spans))
    for each, span in zip(segments, spans, strict=True):
        length = max(1, round(BAR * each["seconds"] / longest)) if longest else 1
        clock = _clock(each["from"], offset)
        yield f"  {clock}  {'█' * length:<{BAR}}  {span:>{width}}  {each['reason']}"
        yield f"  {'':{len(clock)}}  {'':{BAR}}  {'':{width}}  {_printable(each['sentence'])}"
    yield f"  {_clock(segments[-1]['to'], offset)}"


def _remedies(remedies: list[Row]) -> Iterator[str]:
    for each in remedies:
        yield f"    {_printable(each['text'])}"
        if each["action"]:
            yield f"      $ {_printable(each['action'])}"


def _footer(said: Row) -> str:
    policy = said["policy_in_force"]
    parts = [] if policy["revision"] is None else [f"revision {policy['revision']}"]
    parts.append(f"as of {_clock(said['evaluated_at'], _offset(said['intended_local']))}")
    parts.append("complete" if said["complete"] else "not complete: nobody watched all the time")
    return f"  {' · '.join(parts)}"


def _span(seconds: float) -> str:
    from everwhen.core.tellings import duration

    return duration(timedelta(seconds=seconds))


def _clock(instant: str, offset: timedelta) -> str:
    local = datetime.fromisoformat(instant).astimezone(timezone(offset))
    return f"{local:%Y-%m-%d %H:%M:%S}"


def _offset(local: str) -> timedelta:
    return datetime.fromisoformat(local).utcoffset() or timedelta()


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in str(text))
