"""Where the bytes are: an S3 bucket, or a folder, through one interface.

An object is a folder of numbered pieces, each written whole by one request. It is no multipart upload of S3: what a
crash leaves of one of those no listing shows, and neither our client nor every provider can abort it; of pieces,
whatever a crash leaves is listed, and removed, like anything else. A piece is also all that an upload or a download
keeps in memory.

Keys are `tenant/object/piece`. Nobody outside chooses any part of one, and an object's name is never used twice, so
that a removal which comes late removes nothing but what it was meant for.
"""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import UUID

import obstore
from obstore.store import LocalStore

from everwhen.errors import Unavailable
from everwhen.objects import FAILED, FOLDER_MODE, REQUEST_SECONDS, is_folder, open_bucket, settle

if TYPE_CHECKING:
    from obstore.store import ObjectStore

PIECE_BYTES: Final = 8 * 1024 * 1024
STREAM_BYTES: Final = 256 * 1024
LIST_BATCH: Final = 1_000


class Depot:
    """An object store, as much of it as payloads need."""

    def __init__(self, store: "ObjectStore | None", *, folder: Path | None = None) -> None:
        """Use this store, or a folder of this machine, which is made when it is needed."""
        self._opened = store
        self._folder = folder

    @property
    def _store(self) -> "ObjectStore":
        if self._opened is None:
            assert self._folder is not None  # one of the two is given
            self._folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            self._opened = LocalStore(self._folder)
        return self._opened

    @classmethod
    def at(cls, location: str | Path) -> "Depot":
        """Open the store at a URL such as `s3://bucket/prefix`, or in a folder; raise ConfigurationError.

        For S3 the rest is read from the environment: AWS_ENDPOINT, AWS_REGION, AWS_ACCESS_KEY_ID and so on.
        """
        if is_folder(location):
            return cls(None, folder=Path(location).absolute())
        return cls(open_bucket(str(location), called="payload store"))

    async def put(self, tenant_id: UUID, object_id: UUID, piece: int, data: bytes) -> None:
        """Write one piece, so that it is still there after a loss of power; raise Unavailable."""
        key = _key(tenant_id, object_id, piece)
        with _away():
            async with asyncio.timeout(REQUEST_SECONDS):
                await obstore.put_async(self._store, key, data, use_multipart=False)
                if self._folder is not None:
                    await asyncio.to_thread(settle, self._folder / key)

    async def read(self, tenant_id: UUID, object_id: UUID, pieces: int) -> AsyncIterator[bytes]:
        """Yield an object's bytes; raise Unavailable."""
        for piece in range(pieces):
            with _away():
                async with asyncio.timeout(REQUEST_SECONDS):
                    found = await obstore.get_async(self._store, _key(tenant_id, object_id, piece))
                async for chunk in found.stream(min_chunk_size=STREAM_BYTES):
                    yield bytes(chunk)

    async def piece(self, tenant_id: UUID, object_id: UUID, piece: int) -> bytes:
        """Return one piece; raise Unavailable."""
        with _away():
            async with asyncio.timeout(REQUEST_SECONDS):
                found = await obstore.get_async(self._store, _key(tenant_id, object_id, piece))
                return bytes(await found.bytes_async())

    async def remove(self, tenant_id: UUID, object_id: UUID) -> int:
        """Remove whatever there is of an object, whole or not; return how many pieces; raise Unavailable."""
        with _away():
            async with asyncio.timeout(REQUEST_SECONDS):
                removed = 0
                batches = obstore.list(self._store, f"{tenant_id}/{object_id}", chunk_size=LIST_BATCH)  # pyright: ignore[reportUnknownMemberType] - Arrow's overload
                async for batch in batches:
                    await obstore.delete_async(self._store, [entry["path"] for entry in batch])
                    removed += len(batch)
                if self._folder is not None:  # a piece that was being written lies there under a name of its own
                    await asyncio.to_thread(_remove_folder, self._folder / str(tenant_id) / str(object_id))
                return removed


def _key(tenant_id: UUID, object_id: UUID, piece: int) -> str:
    return f"{tenant_id}/{object_id}/{piece:06}"


def _remove_folder(folder: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(folder)
    with contextlib.suppress(OSError):  # the tenant has other objects
        folder.parent.rmdir()


@contextlib.contextmanager
def _away() -> Generator[None]:
    try:
        yield
    except FAILED as error:
        raise Unavailable("The payload store does not answer; try again.", code="payload.store_away") from error
