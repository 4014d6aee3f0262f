"""Confines the process that calls: what the kernel offers for that, each by itself, so that what is refused is told.

The standard library has no mounts and no mount attributes, so a few calls go through the C library.
"""

import contextlib
import ctypes
import errno
import math
import os
import resource
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from everwhen.executor.model import Limits

CLONE_NEWNS: Final = 0x00020000
CLONE_NEWIPC: Final = 0x08000000
CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWPID: Final = 0x20000000
CLONE_NEWNET: Final = 0x40000000

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_PR_SET_NO_NEW_PRIVS: Final = 38
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_BIND, _MS_REC, _MS_PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
_SYS_MOUNT_SETATTR: Final = 442
_AT_RECURSIVE: Final = 0x8000
_AT_FDCWD: Final = -100
_ATTR_RDONLY: Final = 1

SHARED_FOLDERS: Final = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108  # they are hidden from programs
MEMORY_SLACK: Final = 64 * 1024 * 1024
"""How far beyond its limit a process may reach before the kernel refuses: the warden is to find it first."""

BUSY_TRIES: Final = 20
BUSY_SECONDS: Final = 0.05

_libc = ctypes.CDLL(None, use_errno=True)


def become_subreaper() -> None:
    """Have orphans of this process's children become its own children."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent dies. A change of user undoes it."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def forbid_new_privileges() -> None:
    """Make set-user-id programs ordinary ones, for this process and all that it starts."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def leave(flags: int) -> bool:
    """Leave these namespaces; say whether the kernel let us."""
    return _libc.unshare(flags) == 0


def leave_as_user(flags: int) -> bool:
    """Leave these namespaces without being root, by way of a user namespace in which the user is itself."""
    uid, gid = os.getuid(), os.getgid()
    if not leave(CLONE_NEWUSER | flags):
        return False
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    except OSError:
        return False
    return True


def close_folders(folder: Path, *, disk_bytes: int, owner: tuple[int, int]) -> bool:
    """Give this mount namespace a scratch of bounded size in `folder`/work, and everything else read-only.

    The scratch also stands for the folders that everybody may write to. Say whether all of it could be done.
    """
    try:
        _mount(None, "/", None, _MS_REC | _MS_PRIVATE)
        behind = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        read_only = _make_read_only()
        scratch = folder / "work"
        _mount("tmpfs", str(scratch), "tmpfs", _MS_NOSUID | _MS_NODEV, f"size={disk_bytes},mode=0700")
        for name in ("tmp", "home"):
            (scratch / name).mkdir(mode=0o700)
            os.chown(scratch / name, *owner)
        os.chown(scratch, *owner)
        inside = os.open(scratch, os.O_PATH | os.O_DIRECTORY)
        for shared in SHARED_FOLDERS:
            _hide(Path(shared), inside, folder, behind)
        os.close(behind)
        os.close(inside)
    except OSError:
        return False
    return read_only


def show_own_processes_only() -> bool:
    """Show /proc as it is in this process namespace."""
    try:
        _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    except OSError:
        return False
    return True


def limit(limits: Limits, *, processes: int) -> None:
    """Set the limits of one process, and of what it starts."""
    cpu = max(1, math.ceil(limits.cpu_seconds)) + 1  # the first second beyond it ends with a signal that tells why
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: cpu,
        resource.RLIMIT_DATA: limits.memory_bytes + MEMORY_SLACK,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_NPROC: processes,
        resource.RLIMIT_MEMLOCK: 0,
    }
    for kind, value in wanted.items():
        _, hard = resource.getrlimit(kind)
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (max(1, most - 1) if kind == resource.RLIMIT_CPU else most, most))


def become(uid: int, gid: int) -> None:
    """Become another user, for good."""
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def execute(argv: Sequence[str], environment: Mapping[str, str], *, output: int, kept: int) -> None:
    """Become the program; return only by an OSError. `kept` is closed by that, and nothing else is left open."""
    for number in range(1, signal.NSIG):
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.closerange(3, kept)
    os.closerange(kept + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[1] + 1024)
    for tries_left in reversed(range(BUSY_TRIES)):
        try:
            os.execve(argv[0], list(argv), dict(environment))  # noqa: S606  # to run it is what this is for
        except OSError as error:
            if error.errno != errno.ETXTBSY or not tries_left:
                raise
        time.sleep(BUSY_SECONDS)  # a process that was forked a moment ago still has it open for writing


def _hide(shared: Path, scratch: int, folder: Path, behind: int) -> None:
    """Put the scratch's tmp in the place of a shared folder, with the attempt's own folder still in it."""
    if not shared.is_dir() or shared.is_symlink():
        return
    _mount(f"/proc/self/fd/{scratch}/tmp", str(shared), None, _MS_BIND)  # noqa: S108  # the scratch's
    if folder.is_relative_to(shared):
        folder.mkdir(mode=0o711, parents=True, exist_ok=True)
        _mount(f"/proc/self/fd/{behind}", str(folder), None, _MS_BIND | _MS_REC)
        _mount(f"/proc/self/fd/{scratch}", str(folder / "work"), None, _MS_BIND)


def _make_read_only() -> bool:
    attributes = (ctypes.c_uint64 * 4)(_ATTR_RDONLY, 0, 0, 0)
    size = ctypes.sizeof(attributes)
    done = _libc.syscall(_SYS_MOUNT_SETATTR, _AT_FDCWD, b"/", _AT_RECURSIVE, ctypes.byref(attributes), size)
    return done == 0


def _mount(  # noqa: PLR0917  # the kernel's signature
    source: str | None, target: str, kind: str | None, flags: int, data: str | None = None
) -> None:
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    if _libc.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3]):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
