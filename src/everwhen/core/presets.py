"""Presets: the habits of other schedulers, by name, so that a schedule that moves here keeps its instants.

A preset is a dialect of cron together with what that scheduler does when clocks change. Where that is the same for
every pattern the preset names the policies; where it depends on the pattern it is the dialect's automatic choice. What
a schedule says itself is never overridden.

`CASES` are questions at changes of clocks, and `answer_to` is what a preset makes of them. `everwhen presets` prints
that, and a test holds it against what the libraries themselves were measured to do.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from everwhen.core.cron_dialects import DIALECTS, Dialect
from everwhen.core.errors import TriggerError, quoted
from everwhen.core.trigger_values import Cron
from everwhen.core.triggers import Timing, fires
from everwhen.core.zones import FoldPolicy, GapPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A scheduler whose habits are reproduced.

    Attributes:
        gap: its policy for every pattern; None: what the dialect says, which then depends on the pattern.
        fold: the same for times that occur twice.
        basis: how its habits are known.
    """

    name: str
    dialect: Dialect
    gap: GapPolicy | None
    fold: FoldPolicy | None
    basis: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A question at a change of clocks: when does this pattern fire in the 12 hours after a local midnight?"""

    name: str
    expr: str
    timezone: str
    date: str


_MEASURED, _DOCUMENTED, _READ = "measured", "documented", "read in its source"
_ROWS = (
    ("vixie", "cronie", None, None, _DOCUMENTED),
    ("kubernetes", "kubernetes", GapPolicy.SKIP, FoldPolicy.BOTH, _READ),
    ("temporal", "temporal", GapPolicy.SKIP, FoldPolicy.BOTH, _READ),
    ("eventbridge", "eventbridge", GapPolicy.SKIP, FoldPolicy.FIRST, _DOCUMENTED),
    ("airflow", "airflow", None, None, _MEASURED),
    ("dagster", "dagster", None, None, _MEASURED),
    ("prefect", "prefect", None, None, _MEASURED),
    ("apscheduler", "apscheduler", None, None, _MEASURED),
    ("quartz", "quartz", GapPolicy.SKIP, FoldPolicy.BOTH, _DOCUMENTED),
    ("croniter", "croniter", None, None, _MEASURED),
    ("cronsim", "cronsim", None, None, _MEASURED),
)
PRESETS = {
    name: Preset(name=name, dialect=DIALECTS[dialect], gap=gap, fold=fold, basis=basis)
    for name, dialect, gap, fold, basis in _ROWS
}

CASES = (
    Case(name="New York, gap", expr="30 2 * * *", timezone="America/New_York", date="2026-03-08"),
    Case(name="New York, fold", expr="30 1 * * *", timezone="America/New_York", date="2026-11-01"),
    Case(name="New York, fold, hourly", expr="30 * * * *", timezone="America/New_York", date="2026-11-01"),
    Case(name="Lord Howe, 30 minute gap", expr="15 2 * * *", timezone="Australia/Lord_Howe", date="2026-10-04"),
    Case(name="Lord Howe, 30 minute fold", expr="45 1 * * *", timezone="Australia/Lord_Howe", date="2026-04-05"),
    Case(name="Troll, 2 hour gap", expr="30 2 * * *", timezone="Antarctica/Troll", date="2026-03-29"),
    Case(name="Cairo, midnight gap", expr="0 0 * * *", timezone="Africa/Cairo", date="2026-04-24"),
    Case(name="Santiago, midnight gap", expr="30 0 * * *", timezone="America/Santiago", date="2026-09-06"),
)

LIBRARIES = ("croniter", "cronsim", "apscheduler", "airflow", "dagster", "prefect")


def find_preset(name: str) -> Preset:
    """Return a preset by its name; raise TriggerError when there is none."""
    if name not in PRESETS:
        raise TriggerError(
            "trigger.preset.unknown",
            f"preset {quoted(name)} is unknown; use one of {', '.join(PRESETS)}",
            field="preset",
        )
    return PRESETS[name]


def apply_preset(given: Mapping[str, Any], name: str | None) -> dict[str, Any]:
    """Return a schedule's `trigger`, `gap` and `fold` (decoded JSON) as a preset completes them.

    A cron trigger gets the preset's dialect, and its policies where the dialect alone does not say them. Every other
    trigger gets the policies for a time of day. A policy that is named stays. Without a preset nothing changes.

    Raises:
        TriggerError: there is no such preset, or the trigger names another dialect.
    """
    found = dict(given)
    if name is None:
        return found
    preset = find_preset(name)
    trigger = found.get("trigger")
    if not isinstance(trigger, Mapping):
        return found  # its reader says what is wrong with it
    fields = dict(cast("Mapping[str, Any]", trigger))
    if fields.get("kind") == "cron":
        if fields.get("dialect", preset.dialect.name) != preset.dialect.name:
            raise TriggerError(
                "trigger.preset.dialect",
                f"preset {quoted(name)} is dialect '{preset.dialect.name}'; leave the trigger's dialect out",
                field="preset",
            )
        found["trigger"] = {**fields, "dialect": preset.dialect.name}
        policies: tuple[GapPolicy | None, FoldPolicy | None] = (preset.gap, preset.fold)
    else:
        automatic = preset.dialect.time_of_day
        policies = (preset.gap or automatic.gap, preset.fold or automatic.fold)
    for key, policy in zip(("gap", "fold"), policies, strict=True):
        if policy is not None and found.get(key) is None:
            found[key] = policy.value
    return found


def answer_to(case: Case, preset: Preset) -> str:
    """Return when a preset fires in a case: local times with the passes of a fold named, or `dropped`."""
    expr = _expression(case.expr, preset.dialect)
    timing = Timing(Cron(expr, dialect=preset.dialect.name), case.timezone, preset.gap, preset.fold)
    midnight = datetime.fromisoformat(case.date).replace(tzinfo=UTC)
    minute = case.expr.split()[0].zfill(2)
    found: list[tuple[str, int, bool]] = []
    for instant in fires(timing, after=midnight - timedelta(days=2), until=midnight + timedelta(days=2)):
        local = timing.zone.local(instant)
        if f"{local:%Y-%m-%d}" == case.date:
            found.append((f"{local:%H:%M}", local.fold, timing.zone.is_repeated(local)))
    if "fold" not in case.name:
        return ", ".join(time for time, _, _ in found) or "dropped"
    passes = [fold for time, fold, repeated in found if repeated and time.endswith(minute)]
    return "both" if len(passes) > 1 else ("first", "second")[passes[0]] if passes else "neither"


def _expression(five: str, dialect: Dialect) -> str:
    """Return a pattern of five columns, whose days are open, as the dialect writes it."""
    minute, hour, *_ = five.split()
    match dialect.name:
        case "quartz" | "spring":
            return f"0 {minute} {hour} * * ?"
        case "eventbridge":
            return f"{minute} {hour} * * ? *"
        case _:
            return five
