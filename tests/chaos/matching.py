"""Which execution stands for which instant: a black-box check in the manner of Jepsen's Chronos test.

A target is a window [start, end] in which one execution must begin; an execution is a point. Windows and points make a
convex bipartite graph, so taking the earliest deadline first finds a maximum matching, also where windows overlap. A
target that is left over was missed; an execution that is left over is a duplicate, or early, or late.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Matching:
    """Targets to executions, by index; targets without one, and executions without one."""

    pairs: dict[int, int] = field(default_factory=dict)
    missed: list[int] = field(default_factory=list)
    extra: list[int] = field(default_factory=list)


def match(targets: Sequence[tuple[float, float]], executions: Sequence[float]) -> Matching:
    """Match as many as can be."""
    found = Matching()
    opening = sorted(range(len(targets)), key=lambda index: targets[index][0])
    open_windows: list[tuple[float, int]] = []
    opened = 0
    for execution in sorted(range(len(executions)), key=lambda index: executions[index]):
        moment = executions[execution]
        while opened < len(opening) and targets[opening[opened]][0] <= moment:
            heapq.heappush(open_windows, (targets[opening[opened]][1], opening[opened]))
            opened += 1
        while open_windows and open_windows[0][0] < moment:
            heapq.heappop(open_windows)  # closed without an execution
        if open_windows:
            found.pairs[heapq.heappop(open_windows)[1]] = execution
        else:
            found.extra.append(execution)
    found.missed = [index for index in range(len(targets)) if index not in found.pairs]
    return found
