"""Triggers as JSON, in and out. Input is read strictly: an unknown key or a wrong type is refused by its name."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, assert_never, cast

from everwhen.core import interval
from everwhen.core.errors import TriggerError, quoted
from everwhen.core.trigger_values import At, Cron, Every, Trigger, as_utc
from everwhen.core.zones import FoldPolicy, GapPolicy

LONGEST_SEED = 64
KINDS = ("cron", "every", "at")

_LATER_KINDS = ("rrule",)
_INSTANT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}:[0-9]{2})?"
)


def parse_trigger(data: object) -> Trigger:
    """Read a trigger from decoded JSON, such as `{"kind": "cron", "expr": "30 2 * * *"}`.

    Raises:
        TriggerError: it is no trigger; the error's field is the key to be changed.
    """
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
        case _:
            state = "unsupported" if kind in _LATER_KINDS else "unknown"
            raise TriggerError(
                f"trigger.kind.{state}", f"kind {quoted(kind)} is {state}; use one of {', '.join(KINDS)}", field="kind"
            )


def trigger_to_json(trigger: Trigger) -> dict[str, Any]:
    """Return the trigger as JSON data that `parse_trigger` reads back to an equal value."""
    match trigger:
        case Cron(expr=expr, seconds=seconds, dialect=dialect, hash_seed=seed):
            seeded = {"hash_seed": seed} if seed else {}
            return {"kind": "cron", "expr": expr, "seconds": seconds, "dialect": dialect, **seeded}
        case Every(every=every, anchor=anchor):
            return {"kind": "every", "every": every, "anchor": instant_text(anchor)}
        case At(at=at):
            return {"kind": "at", "at": instant_text(at) if at.tzinfo else at.isoformat()}
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
    if mode != "elapsed":
        raise TriggerError(
            "trigger.every.mode", f"mode {quoted(mode)} is not supported; 'elapsed' is the only one", field="mode"
        )
    every = text_of(given, "every")
    if "anchor" not in given:
        return Every(every, interval.EPOCH)
    return Every(every, as_utc(parse_instant(text_of(given, "anchor"), field="anchor"), name="anchor"))
