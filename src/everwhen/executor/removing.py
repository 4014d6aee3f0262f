"""Removes a folder that a program has filled as it liked: whatever it made, however deep, whoever may enter it.

`shutil.rmtree` goes down by calling itself, and comes to Python's end of that long before the file system's. Here every
folder below is brought up to the first level before it is emptied, by descriptors: so neither the depth nor the length
of a path matters, and no link is followed.
"""

import contextlib
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Final

_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove(folder: Path) -> bool:
    """Remove it and all that is in it, as far as this user may; say whether it is gone."""
    with contextlib.suppress(OSError):
        top = os.open(folder, _OPEN)
        try:
            _empty(top)
        finally:
            os.close(top)
        folder.rmdir()
    return not folder.exists()


def _empty(top: int) -> None:
    numbers = count()
    while folders := _remove_files(top):
        if not sum(_flatten(top, name, numbers) for name in folders):  # none of it is ours to remove
            return


def _flatten(top: int, name: str, numbers: Iterator[int]) -> bool:
    """Empty one folder of the first level: its files go, its folders come up; say whether that could be done."""
    try:
        os.chmod(name, 0o700, dir_fd=top)  # its maker may have closed it to himself
        inside = os.open(name, _OPEN, dir_fd=top)
    except OSError:
        return False
    try:
        for below in _remove_files(inside):
            with contextlib.suppress(OSError):
                os.chmod(below, 0o700, dir_fd=inside)
                os.rename(below, _free_name(top, numbers), src_dir_fd=inside, dst_dir_fd=top)
    finally:
        os.close(inside)
    with contextlib.suppress(OSError):
        os.rmdir(name, dir_fd=top)
        return True
    return False


def _free_name(top: int, numbers: Iterator[int]) -> str:
    for number in numbers:
        name = f".removed-{number}"
        try:
            os.stat(name, dir_fd=top, follow_symlinks=False)
        except FileNotFoundError:
            return name
    raise AssertionError  # numbers do not end


def _remove_files(folder: int) -> list[str]:
    """Remove what is no folder; return the folders."""
    folders: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
                continue
            with contextlib.suppress(OSError):
                os.unlink(entry.name, dir_fd=folder)
    return folders
