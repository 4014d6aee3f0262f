"""The README's first schedule, as a newcomer types it, against `everwhen up`."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.database import public_folder
from tests.system.fleet import EVERWHEN, wait_until

pytestmark = pytest.mark.system

README = (Path(__file__).parents[2] / "README.md").read_text()
SECTION = README.split("## A first schedule of your own")[1].split("\n## ")[0]


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", SECTION, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_first_schedule_of_the_readme_succeeds() -> None:
    with public_folder() as folder:
        (folder / "tasks.py").write_text(block("python"))
        environment = os.environ | {"PATH": f"{Path(EVERWHEN).parent}:{os.environ['PATH']}"}
        server = subprocess.Popen([EVERWHEN, "up", "--port", "0"], cwd=folder, env=environment)
        worker = None
        try:
            client = folder / ".everwhen" / "client.json"
            wait_until(client.exists, seconds=60, what="the server has started")
            script = block("sh").replace("source .venv/bin/activate\n", "")
            worker = subprocess.Popen(["bash", "-euc", script], cwd=folder, env=environment, start_new_session=True)

            def succeeded() -> bool:
                listed = subprocess.run(
                    [EVERWHEN, "run", "list", "--schedule", "every-minute", "-o", "json"],
                    cwd=folder,
                    env=environment,
                    capture_output=True,
                    text=True,
                    check=False,
                )
                return '"succeeded"' in listed.stdout

            wait_until(succeeded, seconds=120, what="a run of every-minute has succeeded")
        finally:
            if worker is not None:
                os.killpg(worker.pid, signal.SIGTERM)
                worker.wait(20)
            server.send_signal(signal.SIGINT)
            server.wait(20)
