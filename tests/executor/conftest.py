"""Machines in folders of their own that any user can pass through."""

import shutil
import tempfile
from pathlib import Path

import pytest

from tests.executor.scene import Machine


@pytest.fixture
def folder():
    made = Path(tempfile.mkdtemp(prefix="everwhen-test-"))
    made.chmod(0o711)
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def machine_with(folder):
    made = []

    def make(**settings):
        made.append(Machine(folder / f"home{len(made)}", **settings))
        return made[-1]

    yield make
    for machine in made:
        machine.method.kill_orphans()
        machine.home.close()


@pytest.fixture(params=[True, False], ids=["namespaces", "plain"])
def machine(request, machine_with):
    """One with all that the kernel offers, and one with process limits and a warden alone."""
    return machine_with(namespaces=request.param)
