"""Capability: which worker a run may be given to, as pure arithmetic.

A task may *require* labels that its worker has, and amounts of resources that it has free. A claim says what its worker
has: its labels, and what its runs leave free. A run is offered where it fits, and what one claim takes fits together.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

MOST_LABELS: Final = 32
MOST_RESOURCES: Final = 16
MOST_AMOUNT: Final = 1e12
KEY_PATTERN: Final = r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?"
"""How a label or a resource is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """What a task requires of the worker of a run."""

    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    resources: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What a worker has: labels, and what is free of its resources."""

    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    free: Mapping[str, float] = field(default_factory=dict[str, float])


def requirements_from_json(data: Mapping[str, Any]) -> Requirements:
    """Read what `requirements_to_json` made."""
    return Requirements(labels=data.get("labels") or {}, resources=data.get("resources") or {})


def requirements_to_json(required: Requirements) -> dict[str, Any]:
    """Return requirements as they stand in the database and on the wire."""
    return {"labels": dict(required.labels), "resources": dict(required.resources)}


def fits(required: Requirements, capacity: Capacity) -> bool:
    """Say whether a worker may be given a run. The function `everwhen.fits` of the database says the same."""
    return not missing_labels(required, capacity.labels) and has_room(required.resources, capacity.free)


def missing_labels(required: Requirements, labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels that a worker lacks."""
    return {name: value for name, value in required.labels.items() if labels.get(name) != value}


def has_room(needs: Mapping[str, float], free: Mapping[str, float]) -> bool:
    """Say whether so much is free."""
    return all(free.get(name, 0.0) >= amount for name, amount in needs.items())


def without(free: Mapping[str, float], needs: Mapping[str, float]) -> dict[str, float]:
    """Return what is left once so much is taken."""
    return {name: amount - needs.get(name, 0.0) for name, amount in free.items()}


def most_at_once(required: Requirements, free: Mapping[str, float], *, most: int) -> int:
    """Return how many runs of this kind fit together, and no more than `most`."""
    each = [free.get(name, 0.0) // amount for name, amount in required.resources.items() if amount > 0]
    return int(min([*each, most]))
