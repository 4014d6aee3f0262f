"""Real servers and real deaths of their parents. The tests share one data directory and leave it fit for the next."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from everwhen.postgres import cluster as clusters
from everwhen.postgres import embedded, host
from everwhen.postgres.embedded import EmbeddedPostgres
from everwhen.postgres.errors import DataDirectoryInUseError, EmbeddedServerError
from tests.database import chosen_bin_dir, public_folder

DEADLINE_SECONDS = 20.0

PARENT = """
import signal, sys
from pathlib import Path
from everwhen.postgres.embedded import EmbeddedPostgres
bin_dir = Path(sys.argv[2]) if sys.argv[2] else None
with EmbeddedPostgres.start(Path(sys.argv[1]), bin_dir=bin_dir, fast_and_unsafe=True) as server:
    print(server.pid, flush=True)
    signal.pause()
"""

CRASH_BEFORE_THE_RENAME = """
import os, sys
from pathlib import Path
from everwhen.postgres.embedded import EmbeddedPostgres
Path.rename = lambda *_: os._exit(9)
EmbeddedPostgres.start(Path(sys.argv[1]), bin_dir=Path(sys.argv[2]) if sys.argv[2] else None, fast_and_unsafe=True)
"""

# Everything is imported before the change of user, who may not be able to read our interpreter's files.
ORDINARY_USER = """
import os, sys
from pathlib import Path
import psycopg
from everwhen.postgres import embedded, host
bin_dir = Path(sys.argv[2]) if sys.argv[2] else host.find_bin_dir()
if os.getuid() == 0:
    os.setgroups([]); os.setgid(int(sys.argv[3])); os.setuid(int(sys.argv[3]))
with embedded.EmbeddedPostgres.start(Path(sys.argv[1]), bin_dir=bin_dir, fast_and_unsafe=True) as server:
    with psycopg.connect(server.app_conninfo) as conn:
        print(os.getuid(), conn.execute("select current_user").fetchone()[0])
"""


def start(data_dir, **options):
    return EmbeddedPostgres.start(data_dir, bin_dir=chosen_bin_dir(), fast_and_unsafe=True, **options)


def python(script, *arguments):
    words = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def server_processes(data_dir):
    return clusters.processes_on(data_dir / "pgdata")


def wait_until(condition):
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.01)


def one(conninfo, query):
    with psycopg.connect(conninfo) as conn:
        return conn.execute(query).fetchone()


@pytest.fixture(scope="module")
def made():
    with public_folder() as folder:
        start(folder / "data").stop()
        yield folder / "data"


@pytest.fixture
def data_dir(made):
    yield made
    assert server_processes(made) == []


@pytest.fixture
def parent(data_dir):
    """A process that runs a server and waits."""
    process = python(PARENT, data_dir, chosen_bin_dir() or "")
    line = process.stdout.readline()
    assert line, process.stderr.read()
    yield process
    process.kill()
    process.communicate()
    wait_until(lambda: not server_processes(data_dir))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_parents_death_leaves_no_server_and_no_lock(data_dir, parent, number):
    parent.send_signal(number)
    parent.communicate()

    wait_until(lambda: not server_processes(data_dir))
    with start(data_dir) as server:
        assert one(server.app_conninfo, "select 1") == (1,)


def test_a_start_right_after_a_kill_waits_for_the_old_server(data_dir, parent):
    parent.kill()
    parent.communicate()

    with start(data_dir) as server:
        assert one(server.app_conninfo, "select 1") == (1,)


def test_a_second_start_is_refused_and_names_the_first(data_dir, parent):
    with pytest.raises(DataDirectoryInUseError, match=f"in use by process {parent.pid}.*kill {parent.pid}"):
        start(data_dir)


def test_another_process_may_connect_to_a_running_server(data_dir, parent):
    assert one(embedded.attach(data_dir), "select current_user") == ("postgres",)


def test_connecting_to_no_server_says_how_to_start_one(data_dir):
    with pytest.raises(EmbeddedServerError, match=r"no embedded PostgreSQL runs in .*: start it with `everwhen up`"):
        embedded.attach(data_dir)


def test_a_second_start_in_the_same_process_is_refused(data_dir):
    with start(data_dir), pytest.raises(DataDirectoryInUseError, match=str(os.getpid())):
        start(data_dir)


def test_an_orphan_is_stopped_and_its_data_taken_over(data_dir):
    user = host.server_user()
    bin_dir = chosen_bin_dir() or host.find_bin_dir()
    words = [str(bin_dir / "postgres"), "-D", str(data_dir / "pgdata")]
    clusters._prepare_socket_dir(clusters.open_cluster(data_dir, bin_dir=bin_dir, user=user))
    (data_dir / "pgdata" / "everwhen.conf").unlink()
    words += ["-c", f"unix_socket_directories={data_dir / 'socket'}", "-c", "listen_addresses="]
    orphan = subprocess.Popen(words, preexec_fn=user.demote, cwd="/", stderr=subprocess.DEVNULL)  # noqa: PLW1509
    wait_until((data_dir / "socket" / ".s.PGSQL.5432").exists)

    with start(data_dir) as server:
        assert orphan.wait(DEADLINE_SECONDS) == 0
        assert one(server.app_conninfo, "select 1") == (1,)


@pytest.fixture
def zombie():
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, and not yet reaped
    yield process.pid
    process.wait()


def test_a_pid_file_that_names_a_stranger_is_no_obstacle(data_dir):
    (data_dir / "pgdata" / "postmaster.pid").write_text(f"{os.getpid()}\n{data_dir / 'pgdata'}\n")

    start(data_dir).stop()


def test_a_pid_file_that_names_a_zombie_is_no_obstacle(data_dir, zombie):
    (data_dir / "pgdata" / "postmaster.pid").write_text(f"{zombie}\n{data_dir / 'pgdata'}\n")

    start(data_dir).stop()


def test_a_crash_in_the_making_is_made_good():
    with public_folder() as folder:
        crashed = python(CRASH_BEFORE_THE_RENAME, folder / "data", chosen_bin_dir() or "")
        assert (crashed.communicate()[1], crashed.returncode) == ("", 9)
        assert list((folder / "data").glob("pgdata.partial.*/PG_VERSION"))

        with start(folder / "data") as server:
            assert one(server.app_conninfo, "select 1") == (1,)
        assert not list((folder / "data").glob("pgdata.partial.*"))


def test_it_runs_for_an_ordinary_user():
    uid = os.getuid() or 5  # as root: the user `games`, who is in every system
    with public_folder() as folder:
        if os.getuid() == 0:
            os.chown(folder, uid, uid)
        done = python(ORDINARY_USER, folder / "data", chosen_bin_dir() or "", uid)

        assert done.communicate() == (f"{uid} everwhen_app\n", "")
        assert (folder / "data" / "pgdata").stat().st_uid == uid


async def test_the_death_of_the_server_is_noticed(data_dir):
    with start(data_dir) as server:
        os.kill(server.pid, signal.SIGKILL)
        async with asyncio.timeout(DEADLINE_SECONDS):
            assert await server.wait() == -signal.SIGKILL


def test_a_frozen_server_is_stopped_all_the_same(data_dir, monkeypatch):
    monkeypatch.setattr(embedded, "STOP_SECONDS", 0.3)
    server = start(data_dir)
    os.kill(server.pid, signal.SIGSTOP)

    server.stop()

    assert server.poll() == -signal.SIGKILL
    assert server_processes(data_dir) == []


def test_a_failing_start_shows_the_end_of_the_log(data_dir):
    with pytest.raises(EmbeddedServerError, match=r"(?s)ended while starting.*no_such_setting"):
        start(data_dir, settings={"no_such_setting": "1"})
    start(data_dir).stop()  # and nothing stays locked


def test_a_path_too_long_for_a_socket_gets_one_elsewhere(made):
    with public_folder() as folder:
        data_dir = folder / ("x" * 90) / "data"
        data_dir.parent.mkdir()
        subprocess.run(["cp", "-a", str(made), str(data_dir)], check=True)
        with start(data_dir) as server:
            socket_dir = Path(psycopg.conninfo.conninfo_to_dict(server.app_conninfo)["host"])
            assert one(server.app_conninfo, "select 1") == (1,)
            assert socket_dir.stat().st_mode & 0o777 == 0o700
        with contextlib.suppress(FileNotFoundError):
            socket_dir.rmdir()


def test_a_socket_folder_of_somebody_else_is_refused(data_dir):
    (data_dir / "socket").chmod(0o777)
    try:
        with pytest.raises(EmbeddedServerError, match="mode 0700"):
            start(data_dir)
    finally:
        (data_dir / "socket").chmod(0o700)


def test_a_data_directory_of_another_version_is_refused(data_dir):
    file = data_dir / "pgdata" / "PG_VERSION"
    version = file.read_text()
    file.write_text("9\n")
    try:
        with pytest.raises(EmbeddedServerError, match="made by PostgreSQL 9, but"):
            start(data_dir)
    finally:
        file.write_text(version)


def test_a_folder_without_a_server_is_refused(tmp_path):
    with pytest.raises(EmbeddedServerError, match="holds no PostgreSQL server"):
        EmbeddedPostgres.start(tmp_path / "data", bin_dir=tmp_path)


def test_passwords_are_needed_and_kept_private(data_dir):
    with start(data_dir) as server:
        assert one(server.owner_conninfo, "select current_user") == ("everwhen_owner",)
        without = psycopg.conninfo.make_conninfo(server.app_conninfo, password="wrong")
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(without)
    secrets = list((data_dir / "secrets").iterdir())
    assert {file.name for file in secrets} == {"postgres", "everwhen_migrator", "everwhen_app"}
    assert {file.stat().st_mode & 0o777 for file in secrets} == {0o600}


def test_a_closed_folder_is_out_of_the_servers_reach(tmp_path):
    other = host.OsUser(uid=os.getuid() + 1, gid=os.getgid() + 1, name="other", switch=True)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)

    assert not other.reaches(closed / "data")
    assert other.reaches(Path("/usr/lib"))


def test_a_data_directory_out_of_reach_is_refused_before_anything_is_made(tmp_path):
    other = host.OsUser(uid=os.getuid() + 1, gid=os.getgid() + 1, name="other", switch=True)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)

    with pytest.raises(EmbeddedServerError, match="runs as user other and cannot reach"):
        clusters.open_cluster(closed / "data", bin_dir=host.find_bin_dir(), user=other)

    assert list(closed.iterdir()) == []


def test_programs_out_of_reach_are_published_once_with_their_libraries(monkeypatch):
    package = host.find_bin_dir().parents[1]
    with public_folder() as folder:
        monkeypatch.setattr(host, "SYSTEM_DIR", folder / "public")

        published = host._published(package)
        assert host._published(package) == published

        assert [path.parent for path in (folder / "public").iterdir()] == [folder / "public"]
        with EmbeddedPostgres.start(
            folder / "data", bin_dir=published / "pginstall" / "bin", fast_and_unsafe=True
        ) as own:
            assert one(own.app_conninfo, "select 1") == (1,)
