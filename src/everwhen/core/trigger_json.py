"""Triggers as JSON, in and out. Input is read strictly: an unknown key or a wrong type is refused by its name."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, assert_never, cast

from everwhen.core import business_days, interval, rules
from everwhen.core.business_days import BusinessDay
from everwhen.core.errors import TriggerError, quoted
from everwhen.core.rules import CalendarRule
from everwhen.core.trigger_values import DEEPEST, MOST_TRIGGERS, AnyOf, At, Cron, Every, Rrule, Trigger, as_utc
from everwhen.core.zones import FoldPolicy, GapPolicy

LONGEST_SEED = 64
KINDS = ("cron", "every", "at", "rrule", *rules.KINDS, business_days.KIND, "any_of")

_INSTANT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}:[0-9]{2})?"
)


def parse_trigger(data: object) -> Trigger:
    """Read a trigger from decoded JSON, such as `{"kind": "cron", "expr": "30 2 * * *"}`.

    Raises:
        TriggerError: it is no trigger; the error's field is the key to be changed, inside an `any_of` its path, such as
            `triggers/0/expr`.
    """
    return _parse(data, depth=0)


def _parse(data: object, *, depth: int) -> Trigger:  # noqa: PLR0911  # one for each kind
    if not isinstance(data, Mapping):
        raise TriggerError("trigger.type", "a trigger is an object with a kind", field="trigger")
    given = cast("Mapping[str, Any]", data)
    kind = text_of(given, "kind")
    match kind:
        case "cron":
            return _parse_cron(given)
        case "every":
            return _parse_every(given)
        case "at":
            refuse_unknown(given, {"kind", "at"})
            return At(parse_instant(text_of(given, "at"), field="at"))
        case "rrule":
            return _parse_rrule(given)
        case "daily" | "weekly" | "monthly" | "yearly":
            refuse_unknown(given, rules.keys_of(kind))
            return rules.parse_rule(given)
        case "business_day":
            refuse_unknown(given, set(business_days.KEYS))
            return business_days.parse_business_day(given)
        case "any_of":
            return _parse_any_of(given, depth=depth)
        case _:
            raise TriggerError(
                "trigger.kind.unknown", f"kind {quoted(kind)} is unknown; use one of {', '.join(KINDS)}", field="kind"
            )


def trigger_to_json(trigger: Trigger) -> dict[str, Any]:  # noqa: PLR0911  # one for each kind
    """Return the trigger as JSON data that `parse_trigger` reads back to an equal value."""
    match trigger:
        case Cron(expr=expr, seconds=seconds, dialect=dialect, hash_seed=seed):
            seeded = {"hash_seed": seed} if seed else {}
            return {"kind": "cron", "expr": expr, "seconds": seconds, "dialect": dialect, **seeded}
        case Every(every=every, anchor=anchor, mode=mode):
            mode_key = {} if mode == "elapsed" else {"mode": mode}
            return {"kind": "every", "every": every, "anchor": _time_text(anchor), **mode_key}
        case At(at=at):
            return {"kind": "at", "at": _time_text(at)}
        case Rrule(rrule=rrule, dtstart=dtstart):
            start = {} if dtstart is None else {"dtstart": dtstart.isoformat()}
            return {"kind": "rrule", "rrule": rrule, **start}
        case CalendarRule():
            return rules.rule_to_json(trigger)
        case BusinessDay():
            return business_days.business_day_to_json(trigger)
        case AnyOf():
            return _any_of_to_json(trigger)
        case _:
            assert_never(trigger)


def parse_gap(text: str | None) -> GapPolicy | None:
    """Read a gap policy; None is automatic."""
    if text is None:
        return None
    if text not in list(GapPolicy):
        raise TriggerError("trigger.gap.unknown", f"gap is one of {', '.join(GapPolicy)}", field="gap")
    return GapPolicy(text)


def parse_fold(text: str | None) -> FoldPolicy | None:
    """Read a fold policy; None is automatic."""
    if text is None:
        return None
    if text not in list(FoldPolicy):
        raise TriggerError("trigger.fold.unknown", f"fold is one of {', '.join(FoldPolicy)}", field="fold")
    return FoldPolicy(text)


def parse_instant(text: str, *, field: str) -> datetime:
    """Read an ISO 8601 date and time: aware, in UTC, if it names an offset, otherwise naive."""
    if not _INSTANT.fullmatch(text):
        raise TriggerError("trigger.instant.syntax", f"{quoted(text)} is not like '2027-03-28T00:30:00Z'", field=field)
    try:
        instant = datetime.fromisoformat(text)
    except ValueError as error:
        raise TriggerError("trigger.instant.range", f"{quoted(text)} does not exist: {error}", field=field) from None
    return instant if instant.tzinfo is None else as_utc(instant, name=field)


def instant_text(instant: datetime) -> str:
    """Return an instant as ISO 8601 in UTC with a trailing Z, with a fraction only if there is one."""
    return instant.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def text_of(given: Mapping[str, Any], key: str, *, default: str | None = None) -> str:
    """Return a text by its key; raise TriggerError if it is missing without a default, or no text."""
    value = given.get(key, default)
    if value is None and key not in given:
        raise TriggerError("trigger.field.missing", f"{key} is required", field=key)
    if not isinstance(value, str):
        raise TriggerError("trigger.field.type", f"{key} is a text", field=key)
    return value


def refuse_unknown(given: Mapping[str, Any], known: set[str]) -> None:
    """Raise TriggerError for the first key that is not known."""
    for key in given:
        if key not in known:
            names = ", ".join(sorted(known))
            raise TriggerError("trigger.field.unknown", f"unknown key {quoted(key)}; known are {names}", field=key[:60])


def _parse_cron(given: Mapping[str, Any]) -> Cron:
    refuse_unknown(given, {"kind", "expr", "seconds", "dialect", "hash_seed"})
    seconds = given.get("seconds", False)
    if not isinstance(seconds, bool):
        raise TriggerError("trigger.field.type", "seconds is true or false", field="seconds")
    seed = text_of(given, "hash_seed", default="")
    if len(seed) > LONGEST_SEED:
        raise TriggerError(
            "trigger.field.length", f"hash_seed has at most {LONGEST_SEED} characters", field="hash_seed"
        )
    return Cron(text_of(given, "expr"), seconds, text_of(given, "dialect", default="vixie"), seed)


def _parse_every(given: Mapping[str, Any]) -> Every:
    refuse_unknown(given, {"kind", "every", "anchor", "mode"})
    mode = text_of(given, "mode", default="elapsed")
    every = text_of(given, "every")
    if "anchor" not in given:
        return Every(every, interval.WALL_EPOCH if mode == "wall" else interval.EPOCH, mode)
    return Every(every, parse_instant(text_of(given, "anchor"), field="anchor"), mode)


def _parse_rrule(given: Mapping[str, Any]) -> Rrule:
    refuse_unknown(given, {"kind", "rrule", "dtstart"})
    dtstart = parse_instant(text_of(given, "dtstart"), field="dtstart") if "dtstart" in given else None
    return Rrule(text_of(given, "rrule"), dtstart)


def _parse_any_of(given: Mapping[str, Any], *, depth: int) -> AnyOf:
    refuse_unknown(given, {"kind", "triggers", "except", "start", "end", "max_runs"})
    if depth >= DEEPEST:
        raise TriggerError("trigger.any_of.size", f"any_of is nested {DEEPEST} levels deep at most", field="triggers")
    max_runs = given.get("max_runs")
    if max_runs is not None and (isinstance(max_runs, bool) or not isinstance(max_runs, int)):
        raise TriggerError("trigger.field.type", "max_runs is a whole number", field="max_runs")
    return AnyOf(
        triggers=_members(given, "triggers", depth=depth),
        exceptions=_members(given, "except", depth=depth),
        start=parse_instant(text_of(given, "start"), field="start") if "start" in given else None,
        end=parse_instant(text_of(given, "end"), field="end") if "end" in given else None,
        max_runs=max_runs,
    )


def _members(given: Mapping[str, Any], key: str, *, depth: int) -> tuple[Trigger, ...]:
    items = given.get(key, [])
    if not isinstance(items, list) or len(cast("list[Any]", items)) > MOST_TRIGGERS:
        raise TriggerError("trigger.field.type", f"{key} is a list of at most {MOST_TRIGGERS} triggers", field=key)
    found: list[Trigger] = []
    for index, item in enumerate(cast("list[Any]", items)):
        try:
            found.append(_parse(item, depth=depth + 1))
        except TriggerError as error:
            raise TriggerError(error.code, error.message, field=f"{key}/{index}/{error.field}") from error
    return tuple(found)


def _any_of_to_json(trigger: AnyOf) -> dict[str, Any]:
    data: dict[str, Any] = {"kind": "any_of", "triggers": [trigger_to_json(member) for member in trigger.triggers]}
    if trigger.exceptions:
        data["except"] = [trigger_to_json(member) for member in trigger.exceptions]
    if trigger.start is not None:
        data["start"] = _time_text(trigger.start)
    if trigger.end is not None:
        data["end"] = _time_text(trigger.end)
    if trigger.max_runs is not None:
        data["max_runs"] = trigger.max_runs
    return data


def _time_text(time: datetime) -> str:
    return instant_text(time) if time.tzinfo else time.isoformat()
