"""A virtual environment for each peer, under .peers/, made from its pinned requirements when missing or outdated."""

import functools
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.cluster import ROOT

HERE = Path(__file__).resolve().parent
HOME = ROOT / ".peers"
NEWER = ("python3.14", "python3.13", "python3.12")
NEED_312 = frozenset({"oban"})


@functools.cache
def python_for(peer: str) -> str | None:
    """Return the interpreter of the peer's environment, making it first; None when this machine cannot have it."""
    interpreter = _newer_python() if peer in NEED_312 else sys.executable
    if interpreter is None:
        print(f"{peer}: left out, it needs Python >= 3.12 and none was found on the PATH or under ~/.pyenv/versions")
        return None
    requirements = HERE / f"requirements-{peer}.txt"
    mark = hashlib.sha256(requirements.read_bytes() + _version(interpreter).encode()).hexdigest()
    folder = HOME / peer
    python, stamp = folder / "bin" / "python", folder / "stamp"
    if stamp.exists() and stamp.read_text() == mark:
        return str(python)
    print(f"{peer}: making its environment in {folder.relative_to(ROOT)}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(requirements)]
    for command in ([interpreter, "-m", "venv", str(folder)], install):
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            print(f"{peer}: left out, its environment cannot be made: {done.stderr.strip()[-300:]}")
            return None
    stamp.write_text(mark)
    return str(python)


def _newer_python() -> str | None:
    if sys.version_info >= (3, 12):
        return sys.executable
    versions = sorted((Path.home() / ".pyenv" / "versions").glob("3.1[2-9]*/bin/python"), reverse=True)
    for candidate in (*NEWER, *map(str, versions)):
        if _version(candidate):
            return candidate
    return None


def _version(interpreter: str) -> str:
    """Return what the interpreter says it is; empty when it does not run (a pyenv shim without a version does not)."""
    try:
        done = subprocess.run(
            [interpreter, "-c", "import sys, venv; print(sys.version)"], check=False, capture_output=True, text=True
        )
    except OSError:
        return ""
    return done.stdout.strip() if not done.returncode else ""
