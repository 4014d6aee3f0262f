"""The verdict: what the database says, what the witness says, and whether the two agree.

Everything that is returned is a fault of the system. What may happen is counted instead: an execution that was repeated
because a lease was lost, a report that came too late and was refused.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

from tests.chaos.matching import match

CLOCKS_APART = 0.05
"""How far the witness's clock and the database's may seem apart, in seconds: they are one machine's."""


@dataclass(frozen=True)
class Execution:
    """One file of the witness. `token` is the lease's number; times are seconds since the epoch."""

    run_id: UUID
    attempt: int
    token: int
    began: float
    ended: float | None


@dataclass(frozen=True)
class Attempt:
    """One attempt by the database."""

    run_id: UUID
    attempt: int
    token: int
    outcome: str


@dataclass
class Verdict:
    """Faults by what is wrong, and figures."""

    faults: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    figures: Counter[str] = field(default_factory=Counter)

    def blame(self, what: str, whom: Iterable[object]) -> None:
        """Note what is wrong, if it concerns anybody."""
        if found := [str(each) for each in whom]:
            self.faults[what] += found


def read_witness(folder: Path, open_token) -> list[Execution]:
    """Read every file; one that its worker could not even begin says nothing."""
    found = []
    for path in folder.iterdir():
        lines = path.read_text().splitlines()
        if not lines or not lines[0].startswith("begin "):
            continue
        _, run, attempt, token, began = lines[0].split()
        run_id = UUID(run)
        ended = int(lines[1].split()[1]) / 1e9 if len(lines) > 1 else None
        token_number = int(open_token(run_id, token))
        found.append(Execution(run_id, int(attempt), token_number, int(began) / 1e9, ended))
    return found


def judge_executions(verdict: Verdict, executions: Sequence[Execution], attempts: Sequence[Attempt]) -> None:
    """Hold what was executed against what was granted and accepted."""
    granted = {(a.run_id, a.attempt, a.token): a for a in attempts}
    by_run: dict[UUID, list[Execution]] = defaultdict(list)
    for execution in executions:
        by_run[execution.run_id].append(execution)
    keys = [(e.run_id, e.attempt, e.token) for e in executions]
    verdict.blame("executed without a lease", (key for key in keys if key not in granted))
    verdict.blame("one lease executed twice", (key for key, count in Counter(keys).items() if count > 1))
    witnessed = set(keys)
    succeeded = [a for a in attempts if a.outcome == "succeeded"]
    verdict.blame(
        "accepted as done, but nobody did it",
        (a for a in succeeded if (a.run_id, a.attempt, a.token) not in witnessed),
    )
    verdict.blame("accepted twice", (run for run, count in Counter(a.run_id for a in succeeded).items() if count > 1))
    highest: dict[UUID, int] = {}
    for attempt in attempts:
        highest[attempt.run_id] = max(highest.get(attempt.run_id, 0), attempt.token)
    verdict.blame("a stale attempt was accepted", (a for a in succeeded if a.token < highest[a.run_id]))
    _explain_extra(verdict, by_run, granted)


def _explain_extra(
    verdict: Verdict, by_run: Mapping[UUID, Sequence[Execution]], granted: Mapping[tuple[UUID, int, int], Attempt]
) -> None:
    """Each execution of a run but its last has a cause: its attempt failed, was given back, or lost its lease."""
    for run_id, found in by_run.items():
        in_order = sorted(found, key=lambda e: e.attempt)
        for execution in in_order:
            attempt = granted.get((run_id, execution.attempt, execution.token))
            outcome = attempt.outcome if attempt else "unknown"
            verdict.figures[f"executions whose attempt was {outcome}"] += 1
            if outcome == "lost" and execution.ended is not None:
                verdict.figures["executions that ended after all and whose report did not count"] += 1
        repeated = in_order[:-1]
        unexplained = [
            e
            for e in repeated
            if (a := granted.get((run_id, e.attempt, e.token))) is None
            or a.outcome not in {"lost", "failed", "released", "timed_out"}
        ]
        verdict.blame("repeated without a cause", unexplained)


def judge_instants(
    verdict: Verdict,
    schedule: str,
    *,
    intended: Sequence[datetime],
    runs: Mapping[datetime, UUID],
    skipped: int,
    executions: Mapping[UUID, Sequence[Execution]],
    patience: timedelta,
) -> None:
    """Hold one schedule's instants, computed apart, against its runs, and its executions against its instants."""
    verdict.blame(f"{schedule}: a run that nobody intended", sorted(set(runs) - set(intended)))
    missing = sorted(set(intended) - set(runs))
    if len(missing) > skipped:
        verdict.blame(f"{schedule}: lost", missing)
    if skipped:
        return  # what was skipped has no execution, and the witness cannot tell which
    began = [
        (min(e.began for e in of), at)
        for at, run_id in runs.items()
        if (of := [e for e in executions.get(run_id, ()) if e.ended is not None])
    ]
    windows = [(at.timestamp() - CLOCKS_APART, (at + patience).timestamp()) for at in intended]
    matched = match(windows, [moment for moment, _ in began])
    verdict.blame(f"{schedule}: no execution in time", (intended[i] for i in matched.missed))
    verdict.blame(f"{schedule}: an execution too many, too early or too late", (began[i] for i in matched.extra))
    verdict.figures["instants matched with an execution"] += len(matched.pairs)
