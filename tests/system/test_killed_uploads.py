"""An API that is killed in the middle of an upload: what is in the store is a payload or is swept, and nothing else."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from everwhen.core.zones import use_tzdata_only
from everwhen.failpoints import ALLOWED, VARIABLE
from everwhen.http.roles import Role
from everwhen.payloads.depot import PIECE_BYTES, Depot
from everwhen.payloads.porter import GRACE, HOLD, Porter
from everwhen.postgres.pool import Database
from tests.payloads.scene import files
from tests.system.fleet import Fleet, Process, free_port, running_fleet, wait_until

pytestmark = pytest.mark.system

CONTENT = b"a megabyte of this " * 1_100_000
PIECES = -(-len(CONTENT) // PIECE_BYTES)


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    with running_fleet() as running:
        yield running


def upload(fleet: Fleet, port: int) -> httpx2.Response:
    def chunks() -> Iterator[bytes]:
        for begin in range(0, len(CONTENT), 65_536):
            yield CONTENT[begin : begin + 65_536]

    headers = {"Authorization": f"Bearer {fleet.token(Role.ADMIN)}", "Content-Type": "application/octet-stream"}
    url = f"http://127.0.0.1:{port}/v1/tenants/acme/payloads"
    return httpx2.post(url, content=chunks(), headers=headers, timeout=60)


def serve(fleet: Fleet, folder: Path, failpoint: str) -> tuple[Process, int]:
    port = free_port()
    environment = {"EVERWHEN_PAYLOAD_URL": str(folder), VARIABLE: failpoint, ALLOWED: "yes"}
    process = fleet.serve("api", port=port, environment=environment)

    def is_ready() -> bool:
        try:
            return httpx2.get(f"http://127.0.0.1:{port}/healthz/ready").is_success
        except httpx2.HTTPError:
            return False

    wait_until(is_ready, seconds=150, what="the API is ready")
    return process, port


async def sweep(fleet: Fleet, folder: Path) -> None:
    """Let the porter come when nobody has been heard of the upload for long enough, and once more later."""
    use_tzdata_only()
    async with await Database.open(fleet.server.app_conninfo) as database:
        porter = Porter(database=database, depot=Depot.at(folder))
        async with database.system() as conn:
            now = conn.now
        for later in (2 * HOLD, 2 * HOLD + 2 * GRACE):
            while (await porter.tick(now + later)).more:
                pass


@pytest.mark.parametrize(
    ("failpoint", "pieces", "kept"),
    [
        ("upload.after_piece:kill9:2", 2, 0),
        ("upload.before_commit:kill9", PIECES, 0),
        ("upload.after_commit:kill9", PIECES, 1),
    ],
)
def test_a_killed_upload_leaves_a_payload_or_nothing(
    *, fleet: Fleet, tmp_path: Path, failpoint: str, pieces: int, kept: int
) -> None:
    folder = tmp_path / "payloads"
    fleet.sql.execute("truncate everwhen.payloads, everwhen.payload_objects, everwhen.payload_usage cascade")
    process, port = serve(fleet, folder, failpoint)

    with pytest.raises(httpx2.HTTPError):
        upload(fleet, port)
    process.wait(30)
    assert len(files(folder)) == pieces

    asyncio.run(sweep(fleet, folder))
    assert (len(files(folder)), fleet.count("payloads")) == (kept * PIECES, kept)
