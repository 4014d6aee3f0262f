"""Clients that other people's generators make of the OpenAPI document compile under strict checks, and work.

Nothing of what is generated is kept: it is made anew, in a folder of the test. A warning of a generator fails as well,
since what a generator leaves out is mostly what the document says badly.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from everwhen.http.roles import Role
from tests.system.fleet import free_port, running_fleet, wait_until

HERE = Path(__file__).parent
DOCUMENT = HERE.parents[1] / "docs" / "reference" / "openapi.json"
BIN = Path(sys.executable).parent
MODULES = HERE / "typescript" / "node_modules"


@pytest.fixture(scope="module")
def platform() -> Iterator[tuple[str, str]]:
    """The address of a started platform, and an admin's token."""
    with running_fleet() as fleet:
        port = free_port()
        fleet.serve("api,scheduler", port=port)
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: is_ready(url), seconds=60, what=f"{url} is ready")
        yield url, fleet.token(Role.ADMIN)


def is_ready(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/healthz/ready").is_success
    except httpx2.TransportError:
        return False


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command that finds the environment's own tools first, as the generator does its formatter."""
    words = [str(word) for word in command]
    environment = os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(words, cwd=cwd, env=environment, check=False, timeout=280, text=True, capture_output=True)


def said(done: subprocess.CompletedProcess[str]) -> str:
    return f"exit code {done.returncode}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}"


def generate_python(folder: Path, document: Path = DOCUMENT) -> subprocess.CompletedProcess[str]:
    return run(
        BIN / "openapi-python-client", "generate", "--path", document, "--config", HERE / "python.yml",
        "--meta", "none", "--output-path", folder / "everwhen_client", "--fail-on-warning", cwd=folder,
    )  # fmt: skip


def check_python(folder: Path) -> subprocess.CompletedProcess[str]:
    return run(BIN / "pyright", "--pythonpath", sys.executable, folder, cwd=folder)


def generate_typescript(folder: Path, document: Path = DOCUMENT) -> subprocess.CompletedProcess[str]:
    for name in ("package.json", "tsconfig.json", "live.ts"):
        shutil.copy(HERE / "typescript" / name, folder)
    if not (folder / "node_modules").exists():
        (folder / "node_modules").symlink_to(MODULES)
    return run(
        "node",
        MODULES / "openapi-typescript/bin/cli.js",
        document,
        "-o",
        "everwhen.ts",
        "--default-non-nullable=false",
        cwd=folder,
    )


def check_typescript(folder: Path) -> subprocess.CompletedProcess[str]:
    return run("node", MODULES / "typescript/bin/tsc", "--project", folder, cwd=folder)


def run_typescript(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program as JavaScript that the compiler writes: older Nodes know no types."""
    written = run("node", MODULES / "typescript/bin/tsc", "--project", folder, "--noEmit", "false",
        "--allowImportingTsExtensions", "false", "--rewriteRelativeImportExtensions", "--outDir", "out",
        cwd=folder)  # fmt: skip
    assert written.returncode == 0, said(written)
    return run("node", folder / "out" / "live.js", *arguments, cwd=folder)


def test_the_python_client_compiles_and_works(tmp_path, platform):
    done = generate_python(tmp_path)
    assert done.returncode == 0, said(done)
    shutil.copy(HERE / "live.py", tmp_path)

    compiled = run(sys.executable, "-m", "compileall", "-q", tmp_path, cwd=tmp_path)
    checked = check_python(tmp_path)
    lived = run(sys.executable, "live.py", *platform, cwd=tmp_path)

    assert compiled.returncode == 0, said(compiled)
    assert checked.returncode == 0, said(checked)
    assert lived.returncode == 0, said(lived)


def test_the_typescript_client_compiles_and_works(tmp_path, platform):
    done = generate_typescript(tmp_path)
    assert done.returncode == 0, said(done)

    checked = check_typescript(tmp_path)
    lived = run_typescript(tmp_path, *platform)

    assert checked.returncode == 0, said(checked)
    assert lived.returncode == 0, said(lived)


def test_a_document_that_is_wrong_is_found_out_by_both(tmp_path):
    """A field of tasks that the programs use goes; an answer has a type that no generator reads."""
    document = json.loads(DOCUMENT.read_text("utf-8"))
    del document["components"]["schemas"]["TaskOut"]["properties"]["revision"]
    wrong = tmp_path / "openapi.json"
    wrong.write_text(json.dumps(document), "utf-8")
    assert generate_python(tmp_path, wrong).returncode == 0
    assert generate_typescript(tmp_path, wrong).returncode == 0
    shutil.copy(HERE / "live.py", tmp_path)

    assert "revision" in check_python(tmp_path).stdout
    assert "revision" in check_typescript(tmp_path).stdout

    answer = document["paths"]["/v1/tenants/{tenant}/tasks"]["get"]["responses"]["200"]
    answer["content"] = {"application/x-unheard-of": answer["content"]["application/json"]}
    wrong.write_text(json.dumps(document), "utf-8")
    other = tmp_path / "other"
    other.mkdir()
    assert generate_python(other, wrong).returncode != 0
