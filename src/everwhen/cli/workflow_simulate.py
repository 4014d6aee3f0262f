"""The line protocol of `everwhen workflow simulate`: a graph with scripted outcomes in, what becomes of it out."""

import json
from collections.abc import Iterator
from typing import IO, Any, Final, NoReturn

from everwhen.core.dag_script import parse_scripted, simulation_to_json
from everwhen.core.dag_simulate import simulate
from everwhen.core.dag_values import MOST_FAULTS, Fault, WorkflowError
from everwhen.core.errors import quoted

LONGEST_INPUT: Final = 64 * 1024 * 1024


def answers(lines: IO[bytes]) -> Iterator[str]:
    """Yield the answer to each line of a stream; blank lines have none."""
    while line := lines.readline(LONGEST_INPUT + 1):
        if len(line) > LONGEST_INPUT and not line.endswith(b"\n"):
            _skip_rest_of_line(lines)
            yield _error(_too_long())
        elif line.strip():
            yield json.dumps(answer(line))


def answer_whole(stream: IO[bytes]) -> dict[str, Any]:
    """Return the answer to all that a stream holds, as one object."""
    whole = stream.read(LONGEST_INPUT + 1)
    return error_to_json(_too_long()) if len(whole) > LONGEST_INPUT else answer(whole)


def answer(text: bytes) -> dict[str, Any]:
    """Return what becomes of one graph, or what is wrong with it."""
    try:
        scripted = parse_scripted(decoded(text))
    except WorkflowError as error:
        return error_to_json(*error.faults)
    found = simulate(scripted.workflow, scripted.scripts, cancel_at=scripted.cancel_at, given=scripted.given)
    return simulation_to_json(found)


def error_to_json(first: Fault, *others: Fault) -> dict[str, Any]:
    """Return a fault as `{"error": …}`; `others` are listed when there are any."""
    error: dict[str, Any] = _fault_to_json(first)
    if others:
        error["others"] = [_fault_to_json(fault) for fault in others[:MOST_FAULTS]]
    return {"error": error}


def _fault_to_json(fault: Fault) -> dict[str, str]:
    return {"code": fault.code, "message": fault.message, "pointer": fault.pointer}


def decoded(text: bytes) -> object:
    """Decode one JSON document strictly; raise WorkflowError."""
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_without_duplicates)
    except RecursionError:
        raise WorkflowError(Fault("input.json", "the input is nested too deeply", "")) from None
    except ValueError as error:
        raise WorkflowError(Fault("input.json", f"the input is not JSON: {error}", "")) from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise ValueError(f"the key {quoted(twice)} occurs twice")
    return found


def _too_long() -> Fault:
    return Fault("input.too_long", f"the input has at most {LONGEST_INPUT:,} bytes", "")


def _error(fault: Fault) -> str:
    return json.dumps(error_to_json(fault))


def _skip_rest_of_line(lines: IO[bytes]) -> None:
    while (rest := lines.readline(LONGEST_INPUT)) and not rest.endswith(b"\n"):
        pass
