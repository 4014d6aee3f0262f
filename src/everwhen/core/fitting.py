"""Why nobody takes a run, in numbers: what it requires, held against the live workers of its queue.

The workers are those that announced themselves; what they say decides nothing (`core/fleets.py`), so this is what is
told and never what is granted. Of several things that are missing the first is told, since the others say nothing until
it is there: a worker that knows the task, one with the labels, one that has as much, one that has as much free.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from everwhen.core.capability import Requirements, has_room, missing_labels

MOST_TOLD: Final = 4
"""How many labels or resources are named in one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveWorker:
    """A live worker, as it said with its last beat. `tasks` None: it takes any. `is_taking`: nothing holds it back."""

    tasks: Sequence[str] | None = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    resources: Mapping[str, float] = field(default_factory=dict[str, float])
    in_use: Mapping[str, float] = field(default_factory=dict[str, float])
    is_taking: bool = True
    has_slot: bool = True

    @property
    def free(self) -> dict[str, float]:
        """Return what its runs leave of what it has."""
        return {name: max(0.0, amount - self.in_use.get(name, 0.0)) for name, amount in self.resources.items()}


def why_unfit(task: str, required: Requirements, workers: Iterable[LiveWorker]) -> dict[str, Any]:
    """Return the numbers of a run that fits nobody, and `why`, the same as half a sentence.

    `workers` is how many there are that take runs, `knowing` how many of them know the task, `able` how many could ever
    hold the run, `fitting` how many have room for it now.
    """
    live = list(workers)
    taking = [each for each in live if each.is_taking]
    knowing = [each for each in taking if each.tasks is None or task in each.tasks]
    labelled = [each for each in knowing if not missing_labels(required, each.labels)]
    able = [each for each in labelled if has_room(required.resources, each.resources)]
    roomy = [each for each in able if has_room(required.resources, each.free)]
    fitting = [each for each in roomy if each.has_slot]
    told: dict[str, Any] = {
        "workers": len(taking),
        "held_back": len(live) - len(taking),
        "knowing": len(knowing),
        "able": len(able),
        "fitting": len(fitting),
    }
    if required.resources:
        told["asks"] = dict(required.resources)
        told["largest"] = _largest(labelled, required, free=False)
        told["largest_free"] = _largest(labelled, required, free=True)
    return told | {"why": _why(told, required, labelled=len(labelled), roomy=len(roomy))}


def _why(told: Mapping[str, Any], required: Requirements, *, labelled: int, roomy: int) -> str:
    if not told["workers"]:
        held_back = told["held_back"]
        return f"all {held_back} live workers are cordoned or draining" if held_back else "no live worker is known"
    if not told["knowing"]:
        return f"none of {_live(told['workers'])} knows the task"
    if not labelled:
        return f"none of {_live(told['knowing'])} has the label {_pairs(required.labels)}"
    return _why_no_room(told, required, labelled=labelled, roomy=roomy)


def _why_no_room(told: Mapping[str, Any], required: Requirements, *, labelled: int, roomy: int) -> str:
    asked = f"it asks for {_pairs(required.resources)}"
    if not told["able"]:
        return f"{asked}, and the most that any of {_live(labelled)} has is {_pairs(told['largest'])}"
    if roomy and not told["fitting"]:
        return f"{_could(told['able'], labelled)}, and every slot of those with room for it is taken"
    if not told["fitting"]:
        return f"{asked}, the most that is free is {_pairs(told['largest_free'])}; {_could(told['able'], labelled)}"
    return f"{_could(told['able'], labelled)}, and {told['fitting']} had room by its last beat"


def _live(count: int) -> str:
    return "1 live worker" if count == 1 else f"{count} live workers"


def _could(able: int, among: int) -> str:
    return f"{able} of {_live(among)} could hold it"


def _largest(workers: Iterable[LiveWorker], required: Requirements, *, free: bool) -> dict[str, float]:
    """Return the most that one worker has of each resource, or has free; not all of it need be one worker's."""
    each = [worker.free if free else worker.resources for worker in workers]
    return {name: max((has.get(name, 0.0) for has in each), default=0.0) for name in required.resources}


def _pairs(pairs: Mapping[str, Any]) -> str:
    told = [
        f"{name}={value:g}" if isinstance(value, float | int) else f"{name}={value}"
        for name, value in sorted(pairs.items())
    ]
    more = len(told) - MOST_TOLD
    return " ".join(told[:MOST_TOLD]) + (f" and {more} more" if more > 0 else "")
