"""Releases of a tz database made for a test: zones by a rule, in the format that `zic` writes."""

import base64
import io
import struct
import zipfile
from collections.abc import Mapping
from datetime import UTC, datetime

from everwhen.core.zones import ZoneSource

BERLIN = "CET-1CEST,M3.5.0,M10.5.0/3"
WITHOUT_SUMMER_TIME = "CET-1"


def tzif(rule: str) -> bytes:
    """One zone's file: standard time, one summer of the year 2000, and from then on the POSIX rule."""
    offset = 0 if rule.startswith("UTC") else 3600
    listed = [(datetime(2000, 3, 26, 1, tzinfo=UTC), 1), (datetime(2000, 10, 29, 1, tzinfo=UTC), 0)]
    listed = listed if offset else []
    times = b"".join(struct.pack(">q", int(at.timestamp())) for at, _ in listed)
    kinds = bytes(kind for _, kind in listed)
    types = struct.pack(">iBB", offset, 0, 0) + struct.pack(">iBB", 7200, 1, 4)
    body = times + kinds + types + b"STD\0DST\0"
    first = struct.pack(">4sc15x6I", b"TZif", b"2", 0, 0, 0, 0, 1, 4) + struct.pack(">iBB", offset, 0, 0) + b"STD\0"
    second = struct.pack(">4sc15x6I", b"TZif", b"2", 0, 0, 0, len(listed), 2, 8) + body
    return first + second + b"\n" + rule.encode() + b"\n"


def release(version: str, zones: Mapping[str, str]) -> ZoneSource:
    """A release with these zones, by name, each following its rule."""
    return ZoneSource(version=version, names=zones, read=lambda name: tzif(zones[name]))


BERLIN_FILE = "tzdata/zoneinfo/Europe/Berlin"


def archive(files: Mapping[str, bytes] | None = None) -> str:
    """A wheel, in base64, in which Berlin has no summer time; with more files, or others."""
    held, zones = io.BytesIO(), {BERLIN_FILE: tzif(WITHOUT_SUMMER_TIME)}
    release = {"tzdata/__init__.py": b'IANA_VERSION = "2030c"\n'}
    with zipfile.ZipFile(held, "w") as wheel:
        for name, data in (release | zones | dict(files or {})).items():
            wheel.writestr(
                zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED
            )  # of no date, so that it is always the same
    return base64.b64encode(held.getvalue()).decode()
