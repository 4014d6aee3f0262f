"""Payloads, as a task gets them: what its input refers to, fetched by the attempt's lease and checked by its digest.

A file is whole or not there: what arrives is written beside it, and takes its name when the digest is right.
"""

import hashlib
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, cast

from everwhen.worker.errors import PayloadBroken, PayloadUnknown, RequestRefused, ServerAway
from everwhen.worker.protocol import ClaimedRun

KEY: Final = "$payload"
TRIES: Final = 3
PAUSE_SECONDS: Final = 1.0

Download = Callable[[ClaimedRun, str, Callable[[bytes], object]], None]
"""Fetches a payload of a run by its digest, and hands over each chunk as it arrives."""


def digest_in(reference: object) -> str:
    """Return the digest that a reference names: `{"$payload": …}` as it stands in the input, or the digest itself.

    Raises PayloadUnknown for what is none.
    """
    found: object = reference
    if isinstance(reference, Mapping):
        found = cast("Mapping[str, Any]", reference).get(KEY)
    if not isinstance(found, str):
        raise PayloadUnknown(f"{reference!r} refers to no payload; pass {{{KEY!r}: 'sha256:…'}} as the input has it")
    return found


def fetch_to(path: Path, reference: object, run: ClaimedRun, download: Download, *, check: Callable[[], None]) -> Path:
    """Write a payload to this file, and return it."""
    draft = path.with_name(f".{path.name}.{run.run_id}.part")
    try:
        with draft.open("w+b") as file:
            _fetch(file, digest_in(reference), run, download, check=check)
        return draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def fetch_open(
    reference: object, run: ClaimedRun, download: Download, *, check: Callable[[], None]
) -> Generator[IO[bytes]]:
    """Open a payload as a temporary file, which is gone when the block ends."""
    with tempfile.TemporaryFile() as file:
        _fetch(file, digest_in(reference), run, download, check=check)
        file.seek(0)
        yield file


def given(contents: Mapping[str, bytes]) -> Download:
    """Return a way to get these payloads, for tests without a server."""

    def download(run: ClaimedRun, digest: str, write: Callable[[bytes], object]) -> None:
        if digest not in contents:
            raise PayloadUnknown(f"run {run.run_id} has no payload {digest}")
        write(contents[digest])

    return download


def _fetch(file: IO[bytes], digest: str, run: ClaimedRun, download: Download, *, check: Callable[[], None]) -> None:
    for tries_left in reversed(range(TRIES)):
        file.seek(0)
        file.truncate()
        try:
            _fetch_once(file, digest, run, download, check=check)
        except (ServerAway, PayloadBroken):
            if not tries_left:
                raise
            check()
            time.sleep(PAUSE_SECONDS)
        except RequestRefused as error:
            raise PayloadUnknown(str(error)) from error
        else:
            return


def _fetch_once(
    file: IO[bytes], digest: str, run: ClaimedRun, download: Download, *, check: Callable[[], None]
) -> None:
    sha256 = hashlib.sha256()

    def write(chunk: bytes) -> None:
        check()
        sha256.update(chunk)
        file.write(chunk)

    download(run, digest, write)
    file.flush()
    if f"sha256:{sha256.hexdigest()}" != digest:
        raise PayloadBroken(f"what arrived of {digest} has the digest sha256:{sha256.hexdigest()}")
