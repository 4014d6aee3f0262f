"""From measurements to tables: medians over the rounds, ratios, bars. No table is wider than a terminal should be."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

PEERS = ("procrastinate", "pgqueuer", "oban")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A title, a note, columns, rows of text."""

    title: str
    note: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """The rate of one subject at one setting: median, every round, CPU microseconds by process."""

    subject: str
    setting: str
    per_s: float
    all: tuple[float, ...]
    cpu: dict[str, float]
    other_cores: float

    @property
    def name(self) -> str:
        return f"{self.subject}: {self.setting}"


def rates(records: Sequence[dict[str, Any]], part: str, subject: str | None = None) -> list[Rate]:
    """Return the rates of a part, in the order in which they were first measured."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for record in records:
        if record["part"] == part and subject in {None, record["subject"]} and "per_s" in record:
            found.setdefault((record["subject"], record["setting"]), []).append(record)
    return [_rate(*key, rounds) for key, rounds in found.items()]


def _rate(subject: str, setting: str, rounds: Sequence[dict[str, Any]]) -> Rate:
    names = dict.fromkeys(name for each in rounds for name in each.get("cpu_us", {}))
    return Rate(
        subject=subject,
        setting=setting,
        per_s=statistics.median(each["per_s"] for each in rounds),
        all=tuple(each["per_s"] for each in rounds),
        cpu={name: statistics.median(each.get("cpu_us", {}).get(name, 0.0) for each in rounds) for name in names},
        other_cores=statistics.median(each.get("other_cores", 0.0) for each in rounds),
    )


def peer_records(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Spread what a peer's process measured over records of its own: enqueue, drain at each setting, schedules."""
    found = []
    for record in records:
        if record["part"] != "peers":
            continue
        shared = {"subject": record["subject"], "other_cores": record["other_cores"], "round": record["round"]}
        if record["setting"] == "schedules" and "per_s" in record:
            found.append(record | {"part": "peer schedules"})
        for name, value in record.items():
            if isinstance(value, dict) and "per_s" in value:
                kind = "peer drain" if name.startswith("drain ") else "peer enqueue"
                found.append(shared | {"part": kind, "setting": name.removeprefix("drain ")} | value)
    return found


def best(found: Iterable[Rate]) -> Rate | None:
    """Return the fastest."""
    return max(found, key=lambda rate: rate.per_s, default=None)


def ours_sdk(records: Sequence[dict[str, Any]]) -> list[Rate]:
    """Return our rates with the SDK, statistics fresh."""
    found = rates(records, "cycle")
    return [rate for rate in found if rate.setting.startswith("SDK") and "stale" not in rate.setting]


def cycle_table(records: Sequence[dict[str, Any]]) -> Table:
    """Full cycles: ours at every setting, the raw-SQL limit, the peers."""
    ours = best(ours_sdk(records))
    rows = [
        *rates(records, "cycle"),
        *rates(records, "raw", "raw SQL cycle"),
        *rates(peer_records(records), "peer drain"),
    ]
    return Table(
        title="Full cycles a second (claim, complete, history)",
        note="ratio: our best with the SDK divided by the row. CPU in microseconds a run, in ticks of 10 ms.",
        columns=("who: setting", "runs/s", "each round", "CPU us/run", "of which", "others", "ratio"),
        rows=[_rate_row(rate, ours) for rate in rows],
    )


def plan_table(records: Sequence[dict[str, Any]]) -> Table:
    """Planning: ours, the raw-SQL limit, the peers' schedules, their bulk enqueue."""
    ours = best(rates(records, "plan"))
    spread = peer_records(records)
    rows = [
        *rates(records, "plan"),
        *rates(records, "raw", "raw SQL plan"),
        *rates(spread, "peer schedules"),
        *rates(spread, "peer enqueue"),
    ]
    return Table(
        title="Runs planned a second (run, place in the line, event)",
        note="schedules: due at one instant until all are jobs; enqueue: bulk inserts of 1,000 without a schedule.",
        columns=("who: setting", "runs/s", "each round", "CPU us/run", "of which", "others", "ratio"),
        rows=[_rate_row(rate, ours) for rate in rows],
    )


def _rate_row(rate: Rate, ours: Rate | None) -> tuple[str, ...]:
    ratio = "" if ours is None or not rate.per_s or rate is ours else f"{ours.per_s / rate.per_s:.2f}"
    return (
        rate.name,
        f"{rate.per_s:,.0f}",
        " ".join(f"{value:,.0f}" for value in rate.all),
        f"{sum(rate.cpu.values()):,.0f}",
        " ".join(f"{name} {value:,.0f}" for name, value in rate.cpu.items()),
        f"{rate.other_cores:.2f}",
        ratio,
    )


def lag_table(records: Sequence[dict[str, Any]]) -> Table:
    """How late, at each rate, every round."""
    rows = []
    for record in (each for each in records if each["part"] == "lag"):
        cpu = " ".join(f"{name} {value:,.0f}" for name, value in record["cpu_us"].items())
        rows.append(
            (
                f"{record['rate']:,}/s",
                *_three(record["claimed"]),
                *_three(record["started"]),
                f"{record['unclaimed']} of {record['units']:,}",
                cpu,
                f"{record['other_cores']:.2f}",
            )
        )
    return Table(
        title="Lag in ms: due to claimed, due to started",
        note="through api, scheduler, reaper and one worker process; a row for each round.",
        columns=("due", "p50", "p99", "max", "start p50", "p99", "max", "unclaimed", "CPU us/run", "others"),
        rows=rows,
    )


def _three(summary: dict[str, float]) -> tuple[str, ...]:
    return tuple(f"{summary[name]:,.1f}" for name in ("p50_ms", "p99_ms", "max_ms"))


def latency_table(records: Sequence[dict[str, Any]]) -> Table:
    """Idle latency, ours and the peers'."""
    found = [(record["subject"], record["latency"]) for record in records if record.get("latency")]
    rows = [(subject, *_three(latency), f"{latency['samples']}") for subject, latency in found]
    return Table(
        title="From asking for a run to its start, one at a time, in ms",
        note="an idle system; ours asks over HTTP, the peers insert from the process that measures.",
        columns=("who", "p50", "p99", "max", "samples"),
        rows=rows,
    )


def cost_table(records: Sequence[dict[str, Any]]) -> Table:
    """What one run leaves behind."""
    found = [each for each in records if "wal_bytes" in each and "stale" not in each["setting"]]
    if not found:
        return Table(title="Bytes a run", note="", columns=(), rows=[])
    rows = [
        (name, *(f"{pick(each[key] for each in found):,.0f}" for pick in (statistics.median, min, max)))
        for name, key in (("database, indexes included", "database_bytes"), ("log (WAL)", "wal_bytes"))
    ]
    return Table(
        title="Bytes a run (planned, claimed, completed; 600 of input are in it)",
        note="over all drains; the database after a vacuum of the line and the leases.",
        columns=("what", "median", "least", "most"),
        rows=rows,
    )


def bars(records: Sequence[dict[str, Any]]) -> list[tuple[str, bool]]:
    """Return each promise with whether it holds."""
    found: list[tuple[str, bool]] = []
    for record in (each for each in records if each["part"] == "lag"):
        p99, lost = record["claimed"]["p99_ms"], record["unclaimed"]
        text = f"lag p99 below 1 s at {record['rate']:,}/s: {p99:,.0f} ms, {lost} unclaimed (round {record['round']})"
        found.append((text, p99 < 1000 and not lost))
    cycles, plans = best(ours_sdk(records)), best(rates(records, "plan"))
    if cycles:
        found.append((f"at least 3,000 cycles a second: {cycles.per_s:,.0f}", cycles.per_s >= 3000))
    if plans:
        found.append((f"at least 5,000 planned a second: {plans.per_s:,.0f}", plans.per_s >= 5000))
    return found + _ahead(records, cycles, plans)


def _ahead(records: Sequence[dict[str, Any]], cycles: Rate | None, plans: Rate | None) -> list[tuple[str, bool]]:
    found, spread = [], peer_records(records)
    for peer in ("procrastinate", "oban"):
        for what, ours, part in (("cycles", cycles, "peer drain"), ("planning", plans, "peer schedules")):
            theirs = best(rates(spread, part, peer))
            if ours and theirs:
                text = f"{what} ahead of {peer}: {ours.per_s:,.0f} against {theirs.per_s:,.0f}"
                found.append((text, ours.per_s > theirs.per_s))
    return found
