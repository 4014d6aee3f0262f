"""The commands of docs/guides/task-service.md, as a reader would paste them: one shell, one after the other."""

import asyncio
import json
import os
import re
from pathlib import Path

import pytest

from tests.people import token_of

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "task-service.md"
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", GUIDE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
# What is refused ends the script, and each answer is a line of its own.
CURL = 'curl() { command curl --fail-with-body "$@" && echo; }\n'


async def paste(served, folder, *blocks):
    """Run blocks in one shell; return its exit code, and the answers that it printed."""
    token = token_of("admin", tenant_id=served.tenant.id, subject="ann")
    process = await asyncio.create_subprocess_exec(
        *("sh", "-euc", CURL + "\n".join(blocks)),
        cwd=folder,
        env={"PATH": os.environ["PATH"], "EVERWHEN_URL": served.url, "EVERWHEN_TOKEN": token},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), 50)
    return process.returncode, [json.loads(line) for line in out.decode().splitlines() if line], err.decode()


async def test_the_commands_of_the_guide_do_what_it_says(served, tmp_path):
    code, answers, complaints = await paste(served, tmp_path, *BLOCKS)

    assert code == 0, (answers, complaints)
    posted, listed, read, rescheduled, repaid, disabled = answers
    assert (posted["dedup_id"], posted["priority"]) == ("hello", 7)
    assert [each["id"] for each in listed["items"]] == [posted["id"]]
    assert {each["id"] for each in (read, rescheduled, repaid, disabled)} == {posted["id"]}
    assert rescheduled["schedule"] == "30 2 * * *"
    assert disabled["enabled"] is False
    async with served.client("ann") as client:
        assert (await client.get(f"/task?id={posted['id']}")).json()["deleted_at"] is not None
        assert (await client.get("/tasks")).json()["items"] == []


@pytest.mark.parametrize(
    ("right", "wrong"), [("-F priority=7", "-F priority=70"), ('"status": "disable"', '"status": "off"')]
)
async def test_a_command_that_is_refused_is_found_out(served, tmp_path, right, wrong):
    assert sum(right in block for block in BLOCKS) == 1

    code, answers, _ = await paste(served, tmp_path, *[block.replace(right, wrong) for block in BLOCKS])

    assert code != 0
    assert answers[-1]["status"] == 422
