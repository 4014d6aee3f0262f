"""What processes use, and who belongs to whom: as /proc tells it, for a whole tree of them."""

import errno
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from everwhen.executor.model import Usage

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
MOST_ENTRIES: Final = 20_000
"""How many files of a folder are looked at to say how large it is; more of them are too large anyway."""

UNCOUNTABLE: Final = 1 << 62
"""What a folder takes whose files cannot all be looked at: too much, or a program could hide there what it keeps."""

_HIDES: Final = frozenset({errno.EACCES, errno.ELOOP, errno.ENAMETOOLONG})


class Process:
    """A process at a moment: its parent, its state, its CPU seconds with those of children that it has buried."""

    __slots__ = ("cpu_seconds", "parent", "pid", "started", "state")

    def __init__(self, pid: int, text: str) -> None:
        """Read /proc/PID/stat; a name may have any character, and ends at the last parenthesis."""
        fields = text[text.rindex(")") + 2 :].split()
        self.pid = pid
        self.state = fields[0]
        self.parent = int(fields[1])
        self.cpu_seconds = sum(map(int, fields[11:15])) / _TICKS
        self.started = int(fields[19])


def processes() -> dict[int, Process]:
    """Return all processes that can be seen."""
    found: dict[int, Process] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208  # thousands of names, several times a second
        if name.isdigit() and (process := read(int(name))) is not None:
            found[process.pid] = process
    return found


def read(pid: int) -> Process | None:
    """Return a process; None when it is gone."""
    try:
        return Process(pid, Path(f"/proc/{pid}/stat").read_text("utf-8", "replace"))
    except (OSError, ValueError, IndexError):
        return None


def descendants(root: int, among: dict[int, Process] | None = None) -> list[Process]:
    """Return those below a process, dead ones that nobody has buried left out."""
    everybody = processes() if among is None else among
    children: dict[int, list[Process]] = {}
    for process in everybody.values():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    level = children.get(root, [])
    while level:
        found += level
        level = [child for process in level for child in children.get(process.pid, [])]
    return [process for process in found if process.state != "Z"]


def usage_of(tree: Iterable[Process]) -> Usage:
    """Add up what these use."""
    cpu, memory, io, count = 0.0, 0, 0, 0
    for process in tree:
        cpu += process.cpu_seconds
        memory += _memory(process.pid)
        io += _io(process.pid)
        count += 1
    return Usage(cpu_seconds=cpu, memory_bytes=memory, io_bytes=io, processes=count)


def size_of(folder: Path) -> int:
    """Return the bytes that a folder's files take; it follows no link. UNCOUNTABLE: there is more than can be seen."""
    total, left, folders = 0, MOST_ENTRIES, [str(folder)]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    left -= 1
                    if left < 0:
                        return UNCOUNTABLE
                    total += _blocks(entry)
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
        except OSError as error:
            if error.errno in _HIDES:
                return UNCOUNTABLE
    return total


def _blocks(entry: "os.DirEntry[str]") -> int:
    try:
        return entry.stat(follow_symlinks=False).st_blocks * 512
    except OSError:  # it was removed meanwhile: what else is there counts all the same
        return 0


def _memory(pid: int) -> int:
    """Return the memory of a process, its share of what it has in common with others; all of that if need be."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0


def _io(pid: int) -> int:
    """Return how many bytes it has read and written, from and to whatever it has open."""
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines[:2])
    except (OSError, ValueError, IndexError):
        return 0
