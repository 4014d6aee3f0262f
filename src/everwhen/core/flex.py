"""Flex: a run may become due a little after its nominal instant, so that not everything is due at :00.

A window says how far a run may be put off. Where in it, the mode decides:

    fixed   at its start: the nominal instant itself
    hash    at a place that follows from the schedule's uid: stable for ever, the same in every process
    smooth  at the offset that was assigned so that the peak falls; until one is, as hash

The nominal instant stays the run's identity; only `due_at` moves. It never reaches the next nominal instant: where that
is nearer than the window's end, the window shrinks to it, so two runs of one schedule never change their order.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, cast
from uuid import UUID

from everwhen.core.errors import TriggerError

MOST_WINDOW: Final = timedelta(hours=24)

_SECOND: Final = timedelta(seconds=1)
_NOTHING: Final = timedelta(0)
_SHARES: Final = 1 << 64


class FlexMode(StrEnum):
    """Where in its window a run becomes due."""

    FIXED = "fixed"
    HASH = "hash"
    SMOOTH = "smooth"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flex:
    """A window of whole seconds, at most a day, and for `smooth` the offset that was assigned in it.

    Raises:
        TriggerError: the window or the offset is out of its bounds.
    """

    mode: FlexMode
    window: timedelta
    offset: timedelta | None = None

    def __post_init__(self) -> None:
        if not _SECOND <= self.window <= MOST_WINDOW or self.window % _SECOND:
            raise TriggerError("trigger.flex.window", "window_seconds is a whole number, 1 to 86400", field="flex")
        if self.offset is None:
            return
        if self.mode is not FlexMode.SMOOTH:
            raise TriggerError("trigger.flex.offset", "only smooth is assigned an offset", field="flex")
        if not _NOTHING <= self.offset < self.window or self.offset % _SECOND:
            raise TriggerError("trigger.flex.offset", "offset_seconds lies within the window", field="flex")


def due_after(flex: Flex | None, schedule_uid: UUID, *, nominal_at: datetime, following: datetime | None) -> datetime:
    """Return when a run becomes due: never before its nominal instant, always before the following one."""
    if flex is None:
        return nominal_at
    window = flex.window if following is None else min(flex.window, following - nominal_at)
    return nominal_at + offset_within(flex, schedule_uid, window)


def offset_within(flex: Flex, schedule_uid: UUID, window: timedelta) -> timedelta:
    """Return the offset in a window that may be smaller than the flex's own; whole seconds, less than the window."""
    seconds = max(1, -(-window // _SECOND))
    match flex:
        case Flex(mode=FlexMode.FIXED):
            return _NOTHING
        case Flex(mode=FlexMode.SMOOTH, offset=timedelta() as assigned):
            return min(assigned, (seconds - 1) * _SECOND)
        case _:
            return share_of(schedule_uid) * seconds // _SHARES * _SECOND


def share_of(schedule_uid: UUID) -> int:
    """Return the schedule's place in any window, in 2**64ths: the head of the uid's SHA-256."""
    return int.from_bytes(hashlib.sha256(b"flex\0" + schedule_uid.bytes).digest()[:8], "big")


def parse_flex(value: Any) -> Flex | None:
    """Read a flex window from JSON data; raise TriggerError."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise TriggerError("trigger.flex.type", "flex is an object with mode and window_seconds", field="flex")
    given = cast("Mapping[str, Any]", value)
    if extra := sorted(set(given) - {"mode", "window_seconds", "offset_seconds"}):
        raise TriggerError("trigger.flex.field", f"flex has no field {extra[0]}", field="flex")
    if given.get("mode") not in set(FlexMode):
        raise TriggerError("trigger.flex.mode", "mode is fixed, hash or smooth", field="flex")
    return Flex(
        mode=FlexMode(given["mode"]),
        window=_seconds(given.get("window_seconds"), code="trigger.flex.window") or _NOTHING,
        offset=_seconds(given.get("offset_seconds"), code="trigger.flex.offset"),
    )


def flex_to_json(flex: Flex | None) -> dict[str, Any] | None:
    """Return what `parse_flex` reads."""
    if flex is None:
        return None
    offset = {} if flex.offset is None else {"offset_seconds": flex.offset // _SECOND}
    return {"mode": flex.mode.value, "window_seconds": flex.window // _SECOND} | offset


def _seconds(value: Any, *, code: str) -> timedelta | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_WINDOW // _SECOND:
        raise TriggerError(code, "seconds are a whole number, at most 86400", field="flex")
    return timedelta(seconds=value)
