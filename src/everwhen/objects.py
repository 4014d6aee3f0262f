"""Object stores: a bucket by its URL, or a folder of this machine, and files that survive a loss of power.

What a store throws is one of FAILED; whoever uses one says it in words of its own.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from obstore.exceptions import BaseError
from obstore.store import from_url

from everwhen.errors import ConfigurationError

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore

REQUEST_SECONDS: Final = 60.0
"""How long one request to a store may take, with its repetitions."""

FILE_MODE: Final = 0o640
FOLDER_MODE: Final = 0o750
FAILED: Final = (BaseError, OSError, TimeoutError)


def is_folder(location: str | Path) -> bool:
    """Whether a location is a folder of this machine, and no URL."""
    return isinstance(location, Path) or "://" not in location


def open_bucket(url: str, *, called: str) -> "ObjectStore":
    """Open the store at a URL such as `s3://bucket/prefix`; raise ConfigurationError, in which it is `called` so.

    For S3 the rest is read from the environment: AWS_ENDPOINT, AWS_REGION, AWS_ACCESS_KEY_ID and so on.
    """
    timeouts: ClientConfig = {"timeout": f"{REQUEST_SECONDS / 2:.0f}s", "connect_timeout": "5s"}
    if os.environ.get("AWS_ALLOW_HTTP", "").lower() == "true":  # our options would hide it
        timeouts["allow_http"] = True
    try:
        return _from_url(url, timeouts)
    except (*FAILED, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigurationError(f"the {called} at {url} cannot be opened: {reason}") from error


def settle(file: Path) -> None:
    """Close the file to strangers, and have it and its name on the disk."""
    with file.open("rb") as opened:
        os.fchmod(opened.fileno(), FILE_MODE)
        os.fsync(opened.fileno())
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _from_url(url: str, timeouts: "ClientConfig") -> "ObjectStore":
    return from_url(url, client_options=timeouts)  # pyright: ignore[reportUnknownVariableType] - half typed
