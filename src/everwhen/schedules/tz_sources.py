"""Reads a release of the tz database from a folder, a wheel or a zip, without touching the installed one.

What is accepted: a folder with TZif files (what `zic -d` writes), the same with a `zoneinfo` folder or a `tzdata`
package in it, and a wheel or zip of that package. Names are looked up in a list that is made first, so a name is never
a path.
"""

import io
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from everwhen.core.zones import ZoneSource, installed_zones
from everwhen.errors import InvalidInput

_MAGIC: Final = b"TZif"
_ROOTS: Final = ("zoneinfo", "tzdata/zoneinfo", "")
_ZONE: Final = re.compile(r"[A-Za-z0-9_+-]{1,32}(/[A-Za-z0-9_+-]{1,32}){0,3}", re.ASCII)
_RELEASE: Final = re.compile(r"20\d\d[a-z]{1,2}")
_VERSION_LINE: Final = re.compile(r"#\s*version\s+(\S+)|IANA_VERSION\s*=\s*[\"']([^\"']+)[\"']|(20\d\d[a-z]{1,2})")
_LARGEST_FILE: Final = 1 << 20

MOST_FILES: Final = 5_000
"""The most files of an archive; a release has about a thousand."""


def open_source(where: str) -> ZoneSource:
    """Return the release that a path holds, or the installed one for `installed` or its version, such as `2026f`.

    Raises InvalidInput when there is none.
    """
    if where in {"installed", installed_zones().version}:
        return installed_zones()
    path = Path(where)
    if path.is_dir():
        return _source(where, [file.relative_to(path).as_posix() for file in path.rglob("*")], _reader(path))
    if path.is_file() and zipfile.is_zipfile(path):
        return _archived(where, zipfile.ZipFile(path))
    known = f"the installed release is {installed_zones().version}"
    hint = f"this release is not installed ({known})" if _RELEASE.fullmatch(where) else "there is no such folder or zip"
    raise InvalidInput(f"{where}: {hint}; give a folder of zone files, a tzdata wheel, or `installed`.")


def read_archive(data: bytes) -> ZoneSource:
    """Return the release that the bytes of a tzdata wheel, or of a zip of zone files, hold; raise InvalidInput."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError):
        raise InvalidInput("The archive is no wheel and no zip.") from None
    return _archived("the archive", archive)


def _archived(where: str, archive: zipfile.ZipFile) -> ZoneSource:
    names = archive.namelist()
    if len(names) > MOST_FILES:
        raise InvalidInput(
            f"{where}: it has {len(names)} files; a release of the tz database has at most {MOST_FILES}."
        )

    def read(name: str) -> bytes:
        # What is larger than a zone file can be is not unpacked, whatever it would grow to.
        if archive.getinfo(name).file_size > _LARGEST_FILE:
            return b""
        try:
            return archive.read(name)
        except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, OSError):
            return b""

    return _source(where, names, read)


def _reader(folder: Path) -> Callable[[str], bytes]:
    def read(name: str) -> bytes:
        file = folder / name
        return file.read_bytes() if file.is_file() and file.stat().st_size <= _LARGEST_FILE else b""

    return read


def _source(where: str, files: Iterable[str], read: Callable[[str], bytes]) -> ZoneSource:
    listed = frozenset(files)
    found = next(filter(None, (_zones_under(root, listed, read) for root in _ROOTS)), None)
    if found is None:
        raise InvalidInput(f"{where}: there are no zone files (TZif) in it.")
    return ZoneSource(version=_version(where, listed, read), names=found, read=lambda name: read(found[name]))


def _zones_under(root: str, files: Iterable[str], read: Callable[[str], bytes]) -> Mapping[str, str]:
    prefix = f"{root}/" if root else ""
    names = {file.removeprefix(prefix): file for file in files if file.startswith(prefix)}
    return {name: file for name, file in names.items() if _ZONE.fullmatch(name) and read(file).startswith(_MAGIC)}


def _version(where: str, files: frozenset[str], read: Callable[[str], bytes]) -> str:
    for file in sorted(files):
        if PurePosixPath(file).name in {"tzdata.zi", "+VERSION", "version"} or file.endswith("tzdata/__init__.py"):
            found = _VERSION_LINE.search(read(file)[:4096].decode("ascii", "replace"))
            if found:
                return next(group for group in found.groups() if group)
    return PurePosixPath(where).name
