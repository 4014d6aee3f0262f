"""`everwhen worker module:worker`: finding the worker, or saying in one line why not."""

import sys

import pytest
from click.testing import CliRunner

from everwhen.cli.worker import worker_command


@pytest.fixture
def directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delenv("EVERWHEN_URL", raising=False)
    (tmp_path / "jobs_fine.py").write_text("from everwhen.worker import Worker\nworker = Worker()\nother = 3\n")
    (tmp_path / "jobs_needy.py").write_text("import no_such_library\n")
    twice = "@worker.task('a')\ndef f(): ...\n"
    (tmp_path / "jobs_twice.py").write_text(f"from everwhen.worker import Worker\nworker = Worker()\n{twice}{twice}")
    yield tmp_path
    for name in ("jobs_fine", "jobs_needy", "jobs_twice"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("jobs_fine", "'jobs_fine' is not MODULE:WORKER; write for example tasks:worker"),
        ("jobs_absent:worker", "no module 'jobs_absent' in "),
        ("jobs_needy:worker", "module 'jobs_needy' imports 'no_such_library', which is not installed"),
        ("jobs_fine:wroker", "module 'jobs_fine' has no 'wroker'; name the Worker it creates"),
        ("jobs_fine:other", "jobs_fine:other is a int, not a Worker"),
        ("jobs_twice:worker", "module 'jobs_twice': task 'a' is jobs_twice.f already, so jobs_twice.f cannot be it"),
        ("jobs_fine:worker", "no address of the server: set EVERWHEN_URL, pass url= to Worker, or give --url"),
    ],
)
def test_what_cannot_be_run_is_said_in_one_line(directory, target, message):
    result = CliRunner().invoke(worker_command, [target])
    assert result.exit_code == 2
    assert result.output.startswith(f"Error: {message}")
    assert len(result.output.splitlines()) == 1
