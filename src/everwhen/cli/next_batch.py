"""The line protocol of `everwhen next --batch`: one JSON question in, one JSON answer out, whatever the line holds."""

import json
from collections.abc import Iterator, Mapping
from typing import IO, Any, NoReturn, cast

from everwhen.core.errors import TriggerError, quoted
from everwhen.core.presets import apply_preset
from everwhen.core.trigger_json import instant_text, refuse_unknown, text_of
from everwhen.core.trigger_values import as_utc
from everwhen.core.triggers import Timing, fires, next_after, parse_fold, parse_gap, parse_instant, parse_trigger

MOST_FIRES = 1000
LONGEST_LINE = 65_536

_KEYS = {"trigger", "timezone", "after", "count", "gap", "fold", "preset"}


def answers(lines: IO[bytes]) -> Iterator[str]:
    """Yield the answer to each line of a stream; blank lines have none."""
    while line := lines.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE and not line.endswith(b"\n"):
            _skip_rest_of_line(lines)
            yield _error("input.too_long", f"a line has at most {LONGEST_LINE} bytes", field="")
        elif line.strip():
            yield answer(line)


def answer(line: bytes) -> str:
    """Return the answer to one question: its fires, or what is wrong with it."""
    try:
        return json.dumps(_fires(_decoded(line)))
    except TriggerError as error:
        return _error(error.code, error.message, field=error.field)


def _fires(question: Mapping[str, Any]) -> dict[str, Any]:
    refuse_unknown(question, _KEYS)
    question = apply_preset(question, _text_or_none(question, "preset"))
    if "trigger" not in question:
        raise TriggerError("trigger.field.missing", "trigger is required", field="trigger")
    count = _count(question)
    timing = Timing(
        parse_trigger(question.get("trigger")),
        text_of(question, "timezone", default="UTC"),
        parse_gap(_text_or_none(question, "gap")),
        parse_fold(_text_or_none(question, "fold")),
    )
    after = as_utc(parse_instant(text_of(question, "after"), field="after"), name="after")
    found = list(fires(timing, after=after, count=count))
    return {
        "fires": [instant_text(instant) for instant in found],
        "local": [timing.zone.local(instant).isoformat() for instant in found],
        "exhausted": len(found) < count or next_after(timing, found[-1]) is None,
    }


def _decoded(line: bytes) -> Mapping[str, Any]:
    try:
        question = json.loads(line, parse_constant=_refuse_constant, object_pairs_hook=_without_duplicates)
    except RecursionError:
        raise TriggerError("input.json", "the line is nested too deeply", field="") from None
    except ValueError as error:
        raise TriggerError("input.json", f"the line is not JSON: {error}", field="") from None
    if not isinstance(question, dict):
        raise TriggerError("input.json", "the line is not a JSON object", field="")
    return cast("Mapping[str, Any]", question)


def _count(question: Mapping[str, Any]) -> int:
    count = question.get("count", 1)
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST_FIRES:
        raise TriggerError("input.count", f"count is a whole number from 1 to {MOST_FIRES}", field="count")
    return count


def _text_or_none(question: Mapping[str, Any], key: str) -> str | None:
    return None if question.get(key) is None else text_of(question, key)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for i, (key, _) in enumerate(pairs) if any(key == other for other, _ in pairs[:i]))
        raise ValueError(f"the key {quoted(twice)} occurs twice")
    return found


def _skip_rest_of_line(lines: IO[bytes]) -> None:
    while (rest := lines.readline(LONGEST_LINE)) and not rest.endswith(b"\n"):
        pass


def _error(code: str, message: str, *, field: str) -> str:
    return json.dumps({"error": {"code": code, "message": message, "field": field}})
