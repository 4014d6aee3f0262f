"""A node's retry policy: any of the fields that a task's has, each over the task's own."""

from collections.abc import Mapping
from typing import Any, Final, cast

from everwhen.core.dag_reading import Reader
from everwhen.core.retry import (
    MAX_AGE_LIMIT,
    MAX_ATTEMPTS_LIMIT,
    MAX_DELAY,
    MOST_NON_RETRYABLE,
    Jitter,
    check_class,
)

RETRY_KEYS: Final = frozenset(
    {"max_attempts", "base_seconds", "factor", "cap_seconds", "jitter", "max_age_seconds", "non_retryable"}
)


def read_retry(reader: Reader, given: Mapping[str, Any], pointer: str) -> Mapping[str, Any] | None:
    """Read `retry` of a node or of the defaults, in which every field may be left out; None when it is left out."""
    if given.get("retry") is None:
        return None
    pointer = f"{pointer}/retry"
    retry = reader.mapping(given["retry"], pointer, RETRY_KEYS)
    most = MAX_DELAY.total_seconds()
    found: dict[str, Any] = {
        "max_attempts": reader.whole(retry, "max_attempts", pointer, most=MAX_ATTEMPTS_LIMIT),
        "base_seconds": reader.number(retry, "base_seconds", pointer, most=most),
        "factor": reader.number(retry, "factor", pointer, least=1, most=100),
        "cap_seconds": reader.number(retry, "cap_seconds", pointer, most=most),
        "max_age_seconds": reader.seconds(retry, "max_age_seconds", pointer, most=MAX_AGE_LIMIT.total_seconds()),
        "non_retryable": _classes(reader, retry, pointer),
    }
    if retry.get("jitter") is not None:
        found["jitter"] = reader.choice(retry, "jitter", pointer, Jitter.NONE).value
    found = {key: value for key, value in found.items() if value is not None}
    if {"base_seconds", "cap_seconds"} <= found.keys() and found["base_seconds"] > found["cap_seconds"]:
        reader.blame("range", "base_seconds is at most cap_seconds", f"{pointer}/base_seconds")
    return found


def _classes(reader: Reader, retry: Mapping[str, Any], pointer: str) -> list[str] | None:
    value = retry.get("non_retryable")
    if value is None:
        return None
    pointer = f"{pointer}/non_retryable"
    given = cast("list[Any]", value) if isinstance(value, list) else None
    if given is None or len(given) > MOST_NON_RETRYABLE:
        message = f"non_retryable is a list of at most {MOST_NON_RETRYABLE} names of error classes"
        reader.blame("non_retryable", message, pointer)
        return None
    for index, name in enumerate(given):
        fault = check_class(name) if isinstance(name, str) else "a class is named by a text"
        if fault is not None:
            reader.blame("non_retryable", fault, f"{pointer}/{index}")
    return [name for name in given if isinstance(name, str)]
