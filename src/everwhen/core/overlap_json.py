"""An overlap policy as JSON data, and as a sentence."""

from collections.abc import Mapping
from typing import Any, Final, cast

from everwhen.core.errors import TriggerError
from everwhen.core.overlap import (
    MOST_BUFFERED,
    MOST_RUNNING,
    OnFailure,
    Overlap,
    OverlapPolicy,
)

_FIELDS: Final = {"policy", "max_running", "max_buffered", "on_failure"}


def parse_overlap(value: Any) -> Overlap:
    """Read an overlap policy from JSON data, None being `allow`; raise TriggerError."""
    if value is None:
        return Overlap()
    if not isinstance(value, Mapping):
        raise _error("type", "overlap is an object with a policy")
    given = cast("Mapping[str, Any]", value)
    if extra := sorted(set(given) - _FIELDS):
        raise _error("field", f"overlap has no field {extra[0]}")
    if given.get("policy") not in set(OverlapPolicy):
        raise _error("policy", f"policy is one of {', '.join(OverlapPolicy)}")
    if given.get("on_failure", OnFailure.CONTINUE) not in set(OnFailure):
        raise _error("on_failure", "on_failure is continue or hold")
    overlap = Overlap(
        policy=OverlapPolicy(given["policy"]),
        max_running=_number(given.get("max_running"), "max_running", most=MOST_RUNNING),
        max_buffered=_number(given.get("max_buffered"), "max_buffered", most=MOST_BUFFERED),
        on_failure=OnFailure(given.get("on_failure", OnFailure.CONTINUE)),
    )
    _refuse_mixtures(overlap)
    return overlap


def overlap_to_json(overlap: Overlap) -> dict[str, Any]:
    """Return what `parse_overlap` reads."""
    numbers = {"max_running": overlap.max_running, "max_buffered": overlap.max_buffered}
    return (
        {"policy": overlap.policy.value}
        | {name: number for name, number in numbers.items() if number is not None}
        | ({"on_failure": overlap.on_failure.value} if overlap.is_strict else {})
    )


def explain_overlap(overlap: Overlap) -> str:
    """Return one sentence, with its full stop, that says what happens while earlier runs have not ended."""
    most = overlap.most_running
    if most is None:
        return "Runs may overlap without limit."
    behind = f"While {'a run has' if most == 1 else f'{most} runs have'} not ended, "
    oldest = "it" if most == 1 else "the oldest"
    hold = "; a dead one holds the line up" if overlap.on_failure is OnFailure.HOLD else ""
    sentences = {
        OverlapPolicy.ALLOW: f"{behind}the next ones wait.",
        OverlapPolicy.SKIP: f"{behind}the next ones are skipped.",
        OverlapPolicy.BUFFER_ONE: f"{behind}the next one waits and the others are skipped.",
        OverlapPolicy.BUFFER_LATEST: f"{behind}the latest one waits, and takes the place of the one that waited.",
        OverlapPolicy.BUFFER_ALL: f"{behind}up to {overlap.most_waiting} wait in order; the others are skipped.",
        OverlapPolicy.CANCEL_OTHER: f"{behind}the latest one waits, and {oldest} is asked to stop for it.",
        OverlapPolicy.TERMINATE_OTHER: f"{behind}the latest one starts at once, and {oldest} loses its lease to it.",
        OverlapPolicy.STRICT_SEQUENTIAL: f"One run at a time, in order of their instants; none is skipped{hold}.",
    }
    return sentences[overlap.policy]


def _refuse_mixtures(overlap: Overlap) -> None:
    if overlap.is_strict and overlap.max_running not in {None, 1}:
        raise _error("max_running", "strict_sequential runs one at a time")
    if overlap.max_buffered is not None and overlap.policy is not OverlapPolicy.BUFFER_ALL:
        raise _error("max_buffered", "max_buffered goes with buffer_all")
    if overlap.on_failure is OnFailure.HOLD and not overlap.is_strict:
        raise _error("on_failure", "on_failure: hold goes with strict_sequential")


def _number(value: Any, name: str, *, most: int) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise _error(name, f"{name} is a whole number, 1 to {most}")
    return value


def _error(detail: str, message: str) -> TriggerError:
    return TriggerError(f"overlap.{detail}", message, field="overlap")
