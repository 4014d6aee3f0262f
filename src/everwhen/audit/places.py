"""Where anchors are noted outside of the database: a bucket or a folder, and whoever listens at a URL.

    2026/11/30/<id>.ndjson      one object a note, a line a chain; a name is never used twice

Nothing here overwrites or removes: give the bucket object lock and the server's credentials no right to delete, and
what was noted stays noted. What is kept in a bucket or a folder can be read again; who listens keeps it himself.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import obstore
from obstore.store import LocalStore

from everwhen.audit.lines import MOST_BYTES
from everwhen.audit.model import PLATFORM
from everwhen.egress.client import Answered, Egress
from everwhen.errors import Unavailable
from everwhen.objects import FAILED, FOLDER_MODE, REQUEST_SECONDS, is_folder, open_bucket, settle

if TYPE_CHECKING:
    from obstore.store import ObjectStore

MEDIA_TYPE: Final = "application/x-ndjson"
NAME_HEADER: Final = "Everwhen-Anchors"
RECENT_DAYS: Final = 2
"""A chain is noted once a day at least, so the last two days have a note of each."""

READ_AT_ONCE: Final = 16


class Place(Protocol):
    """Somewhere outside of the database."""

    @property
    def name(self) -> str:
        """What it is called in logs; no secret."""
        ...

    async def note(self, name: str, content: bytes) -> None:
        """Keep this under a name that is never used again; raise Unavailable when it may not be there."""
        ...


def open_places(url: str | None, webhook: str | None, *, egress: Callable[[], Egress]) -> list[Place]:
    """Open the places that are set; raise ConfigurationError for one that is none."""
    shelf: list[Place] = [] if url is None else [Shelf.at(url)]
    return shelf if webhook is None else [*shelf, Listener(egress(), webhook)]


def name_of(now: datetime, note_id: str) -> str:
    """Name a note by its day, so that the last days' are found without reading all."""
    return f"{now:%Y/%m/%d}/{note_id}.ndjson"


class Shelf:
    """A bucket, or a folder of this machine, which is made when it is needed."""

    name = "audit_anchor_url"

    def __init__(self, store: "ObjectStore", *, folder: Path | None = None) -> None:
        self._store = store
        self._folder = folder

    @classmethod
    def at(cls, location: str) -> "Shelf":
        """Open the bucket at a URL such as `s3://bucket/prefix`, or a folder; raise ConfigurationError."""
        if is_folder(location):
            folder = Path(location).absolute()
            return cls(LocalStore(folder, mkdir=True), folder=folder)
        return cls(open_bucket(location, called="place of anchors"))

    async def note(self, name: str, content: bytes) -> None:
        """Keep this, so that it is still there after a loss of power; raise Unavailable."""
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                if self._folder is not None:
                    (self._folder / name).parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
                await obstore.put_async(self._store, name, content, use_multipart=False)
                if self._folder is not None:
                    await asyncio.to_thread(settle, self._folder / name)
        except FAILED as error:
            raise _away(self.name, type(error).__name__) from error

    async def read(self, *, all_days: bool = False) -> AsyncIterator[tuple[str, bytes]]:
        """Yield what was noted on the last days on which anything was, or ever, by name; raise Unavailable."""
        days = [""] if all_days else await self._last_days()
        try:
            for day in days:
                async for batch in obstore.list(self._store, day or None, chunk_size=READ_AT_ONCE):  # pyright: ignore[reportUnknownMemberType] - Arrow's overload
                    paths = sorted(entry["path"] for entry in batch)
                    for path, content in zip(paths, await self._contents(paths), strict=True):
                        yield path, content
        except FAILED as error:
            raise _away(self.name, type(error).__name__) from error

    async def _contents(self, paths: Sequence[str]) -> list[bytes]:
        async def content(path: str) -> bytes:
            found = await obstore.get_async(self._store, path)
            if found.meta["size"] > MOST_BYTES:
                raise Unavailable(f"{path} is larger than any note is.")
            return bytes(await found.bytes_async())

        async with asyncio.timeout(REQUEST_SECONDS):
            return list(await asyncio.gather(*(content(path) for path in paths)))

    async def _last_days(self) -> list[str]:
        """Find the last days that have notes: years, months and days sort as their names do."""
        found: list[str] = []
        try:
            for year in await self._within(None):
                for month in await self._within(year):
                    found += (await self._within(month))[: RECENT_DAYS - len(found)]
                    if len(found) == RECENT_DAYS:
                        return found
        except FAILED as error:
            raise _away(self.name, type(error).__name__) from error
        return found

    async def _within(self, prefix: str | None) -> list[str]:
        async with asyncio.timeout(REQUEST_SECONDS):
            listed = await obstore.list_with_delimiter_async(self._store, prefix)  # pyright: ignore[reportUnknownMemberType] - as above
        return sorted(listed["common_prefixes"], reverse=True)


class Listener:
    """Whoever listens at a URL: it is told each note by a POST, and answers 2xx when it has it."""

    name = "audit_anchor_webhook"

    def __init__(self, egress: Egress, url: str) -> None:
        self._egress = egress
        self._url = url

    async def note(self, name: str, content: bytes) -> None:
        """Tell it; raise Unavailable when it did not take it."""
        headers = {"Content-Type": MEDIA_TYPE, NAME_HEADER: name}
        answer = await self._egress.post(self._url, tenant_id=PLATFORM, headers=headers, content=content)
        if not isinstance(answer, Answered):
            raise _away(self.name, answer.why)
        if not 200 <= answer.status < 300:
            raise _away(self.name, f"it answered {answer.status}")


def _away(place: str, why: str) -> Unavailable:
    return Unavailable(f"What was to be noted may not be at {place}: {why}.")
