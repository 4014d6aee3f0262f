"""Time zones as stretches of constant offset, from one source: the `tzdata` package, never the operating system.

A `Zone` answers one question fast: which stretch holds this instant, what is its offset, and how far around the
instant is it *calm*, that is, free of local times that a transition removes or repeats. Everything else about gaps and
folds follows from two neighbouring stretches. Transitions are read as they are: of any length, at any hour.

Transitions come from two places of a zone's file. The explicit ones are all listed; after the last of them some zones
follow a yearly rule. Years under a rule are told apart only by their length and their first weekday, so one year of
each of the 14 kinds is searched once, day by day, and every later year is a copy of it, moved by whole days.
"""

import io
import struct
import zoneinfo
from bisect import bisect_right
from calendar import isleap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from importlib import resources
from itertools import pairwise
from typing import NamedTuple

from everwhen.core.errors import TriggerError, quoted

FIRST_INSTANT = datetime.min.replace(tzinfo=UTC)
LAST_INSTANT = datetime.max.replace(tzinfo=UTC)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOTHING = timedelta(0)
_DAY = timedelta(days=1)
_LONGEST_NAME = 64
_MOST_WINDOWS = 64
_EARLIEST_LISTED = -(1 << 35)  # seconds; older entries of a file lie before year 881 and say only "local mean time"
_TZIF_HEADER = struct.Struct(">4sc15x6I")


class GapPolicy(StrEnum):
    """What a match at a local time that does not exist becomes."""

    SKIP = "skip"
    GAP_END = "gap_end"
    SHIFT = "shift"


class FoldPolicy(StrEnum):
    """Which passes of a local time that occurs twice fire."""

    FIRST = "first"
    SECOND = "second"
    BOTH = "both"


class Transition(NamedTuple):
    """The instant at which a zone's offset changes."""

    at: datetime
    before: timedelta
    after: timedelta


@dataclass(frozen=True, slots=True)
class Stretch:
    """An interval of constant offset, `start` inclusive, `end` exclusive, with the offsets on either side.

    Between `calm_from` and `calm_until` each local time exists exactly once and nothing is displaced into it.
    """

    start: datetime
    end: datetime
    offset: timedelta
    before: timedelta
    after: timedelta
    calm_from: datetime
    calm_until: datetime


class Zone:
    """One IANA time zone. Safe to share between threads: its caches only ever gain equal values."""

    __slots__ = ("_explicit", "_models", "_rule_from", "_windows", "info", "listed_until", "name", "recent")

    def __init__(self, name: str, data: bytes) -> None:
        self.name = name
        self.info = zoneinfo.ZoneInfo.from_file(io.BytesIO(data), key=name)
        listed, rule = _read_tzif(data)
        instants = [_EPOCH + timedelta(seconds=second) for second in listed]
        self._explicit = tuple(self._changes(instants))
        self.listed_until = max(instants, default=FIRST_INSTANT)
        self._rule_from = self.listed_until if "," in rule else None
        self._models: dict[int, tuple[Transition, ...]] = {}
        self._windows: dict[int, tuple[Transition, ...]] = {}
        self.recent = self._find(_EPOCH)

    def at(self, instant: datetime) -> Stretch:
        """Return the stretch that holds an instant (UTC)."""
        stretch = self.recent
        if stretch.start <= instant < stretch.end:
            return stretch
        self.recent = stretch = self._find(instant)
        return stretch

    def local(self, instant: datetime) -> datetime:
        """Return the instant as an aware local time; in UTC where the local time lies beyond the calendar."""
        try:
            return instant.astimezone(self.info)
        except OverflowError:
            return instant

    def is_repeated(self, local: datetime) -> bool:
        """Tell whether an aware local time of this zone occurs twice."""
        return local.replace(fold=1 - local.fold).utcoffset() != local.utcoffset()

    def is_calm(self, instant: datetime) -> bool:
        """Tell, without a search, whether an instant's local time exists once only; False: it may not."""
        stretch = self.recent  # once: another thread may replace it
        return stretch.calm_from <= instant < stretch.calm_until

    def transitions(self, after: datetime, until: datetime) -> Iterator[Transition]:
        """Yield the changes of offset in `(after, until]`, ascending."""
        stretch = self.at(after)
        while stretch.end <= until and stretch.end is not LAST_INSTANT:
            yield Transition(stretch.end, stretch.offset, stretch.after)
            stretch = self.at(stretch.end)

    def _find(self, instant: datetime) -> Stretch:
        known = self._transitions_around(instant)
        after = bisect_right(known, instant, key=_at)
        start = known[after - 1] if after else None
        end = known[after] if after < len(known) else None
        offset = start.after if start else end.before if end else self._offset(instant)
        return _stretch(start, end, offset)

    def _transitions_around(self, instant: datetime) -> tuple[Transition, ...]:
        first = self._rule_from
        if first is None or (self._explicit and instant < self._explicit[-1].at):
            return self._explicit
        year = max(first.year, instant.year)
        window = self._windows.get(year)
        if window is None:
            if len(self._windows) >= _MOST_WINDOWS:
                self._windows.clear()
            window = self._windows[year] = self._window(year, first)
        return window

    def _window(self, year: int, rule_from: datetime) -> tuple[Transition, ...]:
        """Return the transitions of a year under the rule and of its neighbours, and of what was before the rule."""
        years = range(max(rule_from.year, year - 1), min(9999, year + 1) + 1)
        ruled = tuple(change for y in years for change in self._ruled_year(y, rule_from) if change.at > rule_from)
        return ruled if ruled and years.start > rule_from.year else self._explicit + ruled

    def _ruled_year(self, year: int, rule_from: datetime) -> Iterator[Transition]:
        new_year = date(year, 1, 1)
        model = year
        if year > rule_from.year:
            model = _model_year(new_year.weekday(), leap=isleap(year), first=rule_from.year + 1)
        moved = new_year - date(model, 1, 1)
        if model not in self._models:
            self._models[model] = tuple(self._changes_in_year(model))
        return (Transition(change.at + moved, change.before, change.after) for change in self._models[model])

    def _changes_in_year(self, year: int) -> Iterator[Transition]:
        # No two transitions of any zone lie closer than six days (a test holds this against the data).
        start = datetime(year, 1, 1, tzinfo=UTC)
        days = [start + _DAY * day for day in range(367 if isleap(year) else 366)]
        offsets = [self._offset(day) for day in days]
        for (left, right), (before, after) in zip(pairwise(days), pairwise(offsets), strict=True):
            if before != after:
                yield Transition(self._bisect(left, right, before), before, after)

    def _bisect(self, left: datetime, right: datetime, before: timedelta) -> datetime:
        while (seconds := (right - left) // timedelta(seconds=1)) > 1:
            middle = left + timedelta(seconds=seconds // 2)
            left, right = (middle, right) if self._offset(middle) == before else (left, middle)
        return right

    def _changes(self, instants: Iterable[datetime]) -> Iterator[Transition]:
        for instant in instants:
            before, after = self._offset(instant - timedelta(seconds=1)), self._offset(instant)
            if before != after:
                yield Transition(instant, before, after)

    def _offset(self, instant: datetime) -> timedelta:
        return instant.astimezone(self.info).utcoffset() or _NOTHING


class ZoneSource:
    """One release of the tz database as a value, apart from the installed one. Safe to share between threads.

    `read` returns the bytes of a zone's TZif file; it is asked for `names` only.
    """

    __slots__ = ("_known", "names", "read", "version")

    def __init__(self, *, version: str, names: Iterable[str], read: Callable[[str], bytes]) -> None:
        self.version = version
        self.names = frozenset(names)
        self.read = read
        self._known: dict[str, Zone] = {}

    def find(self, name: str) -> Zone:
        """Return a zone by its exact name; raise TriggerError as `find_zone` does."""
        if name not in self.names:
            raise _unknown_zone(name)
        zone = self._known.get(name)
        if zone is None:
            zone = self._known.setdefault(name, Zone(name, self.read(name)))
        return zone

    def agrees(self, other: "ZoneSource", name: str) -> bool:
        """Tell whether another source has the same file for a zone. False does not mean that any instant differs."""
        both = name in self.names and name in other.names
        return both and (self is other or self.read(name) == other.read(name))


def use_tzdata_only() -> None:
    """Make the whole process resolve zones from the `tzdata` package; entry points call it once, first."""
    zoneinfo.reset_tzpath(to=[])


@lru_cache(maxsize=1)
def tz_version() -> str:
    """Return the release of the tz database in use, such as `2026f`."""
    first_line = (resources.files("tzdata") / "zoneinfo" / "tzdata.zi").read_text("ascii").partition("\n")[0]
    return first_line.rpartition(" ")[2]


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """Return the names of all zones."""
    return frozenset((resources.files("tzdata") / "zones").read_text("ascii").split())


def find_zone(name: str) -> Zone:
    """Return a zone by its exact IANA name.

    Raises:
        TriggerError: there is no such zone. The name is looked up in a list and never used as a path before.
    """
    if len(name) > _LONGEST_NAME or name not in zone_names():
        raise _unknown_zone(name)
    return _load(name)


@lru_cache(maxsize=1)
def installed_zones() -> ZoneSource:
    """Return the installed release as a value."""
    return ZoneSource(version=tz_version(), names=zone_names(), read=_read_installed)


def resolve(wall: datetime, zone: Zone, *, gap: GapPolicy, fold: FoldPolicy) -> tuple[datetime, ...]:
    """Return the instants that a local wall-clock time (naive) stands for under these policies, ascending."""
    as_utc = wall.replace(tzinfo=UTC)
    instants = [instant for stretch in _around(as_utc, zone) for instant in _instants_in(stretch, as_utc)]
    if instants:
        chosen = {FoldPolicy.FIRST: instants[:1], FoldPolicy.SECOND: instants[-1:], FoldPolicy.BOTH: instants}
        return tuple(chosen[fold])
    jump = gap_around(wall, zone)
    if jump is None or gap is GapPolicy.SKIP:
        return ()
    return (jump.at if gap is GapPolicy.GAP_END else as_utc - jump.before,)


def gap_around(wall: datetime, zone: Zone) -> Transition | None:
    """Return the transition that removes a local wall-clock time (naive), if one does."""
    as_utc = wall.replace(tzinfo=UTC)
    for stretch in _around(as_utc, zone):
        if stretch.end is not LAST_INSTANT and stretch.end + stretch.offset <= as_utc < stretch.end + stretch.after:
            return Transition(stretch.end, stretch.offset, stretch.after)
    return None


def add(instant: datetime, amount: timedelta) -> datetime:
    """Add, stopping at the ends of the calendar instead of raising OverflowError."""
    try:
        return instant + amount
    except OverflowError:
        return LAST_INSTANT if amount > _NOTHING else FIRST_INSTANT


def _around(as_utc: datetime, zone: Zone) -> Iterator[Stretch]:
    """Yield the stretches that can hold a local time: no offset reaches a whole day."""
    stretch = zone.at(add(as_utc, -_DAY))
    yield stretch
    while stretch.end <= add(as_utc, _DAY) and stretch.end is not LAST_INSTANT:
        stretch = zone.at(stretch.end)
        yield stretch


def _instants_in(stretch: Stretch, as_utc: datetime) -> Iterator[datetime]:
    instant = add(as_utc, -stretch.offset)
    if stretch.start <= instant < stretch.end and add(instant, stretch.offset) == as_utc:
        yield instant


def _stretch(start: Transition | None, end: Transition | None, offset: timedelta) -> Stretch:
    before = start.before if start else offset
    after = end.after if end else offset
    starts_at = start.at if start else FIRST_INSTANT
    ends_at = end.at if end else LAST_INSTANT
    return Stretch(
        start=starts_at,
        end=ends_at,
        offset=offset,
        before=before,
        after=after,
        calm_from=starts_at + abs(offset - before),
        calm_until=ends_at - max(offset - after, _NOTHING),
    )


@lru_cache(maxsize=4096)
def _model_year(new_year_weekday: int, *, leap: bool, first: int) -> int:
    """Return the year of this kind among the 41 from the first one wholly under a rule; they hold all 14 kinds."""
    kind = (leap, new_year_weekday)
    return next(year for year in range(first, first + 41) if (isleap(year), date(year, 1, 1).weekday()) == kind)


def _unknown_zone(name: str) -> TriggerError:
    return TriggerError(
        "trigger.timezone.unknown",
        f"{quoted(name)} is not an IANA time zone; use a name such as 'Europe/Berlin' or 'UTC'",
        field="timezone",
    )


def _at(change: Transition) -> datetime:
    return change.at


@lru_cache(maxsize=1024)
def _load(name: str) -> Zone:
    return Zone(name, _read_installed(name))


def _read_installed(name: str) -> bytes:
    return (resources.files("tzdata") / "zoneinfo" / name).read_bytes()


def _read_tzif(data: bytes) -> tuple[tuple[int, ...], str]:
    """Return the listed transition times and the rule that follows them, from the 64-bit part of a TZif file."""
    _, _, *counts = _TZIF_HEADER.unpack_from(data)
    second = _TZIF_HEADER.size + _block_size(counts, time_size=4)
    _, _, *counts = _TZIF_HEADER.unpack_from(data, second)
    body = second + _TZIF_HEADER.size
    times = struct.unpack_from(f">{counts[3]}q", data, body)
    rule = data[body + _block_size(counts, time_size=8) :].decode("ascii").strip()
    return tuple(time for time in times if time > _EARLIEST_LISTED), rule


def _block_size(counts: list[int], *, time_size: int) -> int:
    is_utc, is_standard, leaps, times, types, characters = counts
    return times * (time_size + 1) + types * 6 + characters + leaps * (time_size + 4) + is_standard + is_utc
