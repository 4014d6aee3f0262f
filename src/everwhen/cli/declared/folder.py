"""Writes declarations as a folder of files: one for each thing, in one form, so that git sees what has changed only.

A file that begins with the mark was exported, and may be written again; whatever else is in the way is somebody's.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from everwhen.cli.declared import yaml_text
from everwhen.cli.declared.carrying import PATHS
from everwhen.cli.output import API_VERSION

MARK: Final = "# Written by everwhen export.\n"


class Foreign(Exception):  # noqa: N818  # an answer, not an accident
    """A file is in the way that was not exported, or was exported and is declared no more."""


def text_of(found: Mapping[str, Any]) -> str:
    """Return a declaration as a document of YAML."""
    return yaml_text.write(
        {"apiVersion": API_VERSION, "kind": found["kind"], "name": found["name"], "spec": found["spec"]}
    )


def write_folder(
    folder: Path, found: Iterable[Mapping[str, Any]], *, kinds: Sequence[str], overwrite: bool
) -> tuple[list[Path], list[Path]]:
    """Write the declarations; return which files changed and which were removed. Raises Foreign before any is."""
    wanted = {folder / PATHS[each["kind"]] / f"{each['name']}.yaml": MARK + text_of(each) for each in found}
    stale = [
        path
        for kind in kinds
        for path in sorted((folder / PATHS[kind]).glob("*.yaml"))
        if path not in wanted and _is_ours(path)
    ]
    if not overwrite:
        for path in wanted:
            if path.exists() and not _is_ours(path):
                raise Foreign(f"{path} was not written by an export")
        for path in stale:
            raise Foreign(f"{path} was exported and is in the tenant no more")
    written = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    for path in written:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(wanted[path])
    for path in stale:
        path.unlink()
    return written, stale


def _is_ours(path: Path) -> bool:
    with path.open() as opened:
        return opened.readline() == MARK
