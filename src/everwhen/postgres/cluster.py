"""One data directory: its files, its passwords, its making, and the proof that nobody else uses it.

    <data_dir>/                 ours, 0711 so that the server's user can pass through
      everwhen.lock             flock'ed by the process that runs the server; holds its pid
      secrets/<role>            generated passwords, 0600, ours alone
      pgdata/                   the cluster, 0700, the server user's
      pgdata.partial.<pid>/     a cluster in the making; whatever is found here is thrown away
      socket/                   the Unix socket, 0700, the server user's (in /tmp if this path is too long for one)
      postgres.log

Crash points of the making: `initdb`, the configuration and the roles all happen inside `pgdata.partial.<pid>`, without
a running server, and one rename makes the result a cluster. So a cluster either has its roles, its database and the
passwords that we know, or does not exist.

Crash points of running: the kernel drops the flock with our process, however it dies, so a lock that is free proves
that no starter lives. A `postmaster.pid` proves nothing: after a crash its number may belong to a stranger or to a
zombie. What is believed are processes whose working directory is this `pgdata`, as that of every PostgreSQL process
is. Such orphans are stopped; the pid file is removed only when none is left.
"""

import contextlib
import fcntl
import hashlib
import os
import secrets
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from psycopg.conninfo import make_conninfo

from everwhen.postgres.errors import DataDirectoryInUseError, EmbeddedServerError
from everwhen.postgres.host import OsUser

DATABASE = "everwhen"
OWNER = "everwhen_owner"
MIGRATOR = "everwhen_migrator"
APP = "everwhen_app"
SUPERUSER = "postgres"

_SOCKET_NAME_BYTES = len("/.s.PGSQL.5432")
_MAX_SOCKET_PATH_BYTES = 107
_ORPHAN_STEPS = ((signal.SIGINT, 5.0), (signal.SIGQUIT, 3.0), (signal.SIGKILL, 3.0))
_POLL_SECONDS = 0.02
_MAX_LOG_BYTES = 16 * 1024 * 1024

# Login roles own nothing: the migrator logs in and takes the owner's role, which cannot log in.
_BOOTSTRAP = f"""
create role {OWNER} nologin createrole;
create role {MIGRATOR} login noinherit password '{{migrator}}' in role {OWNER};
create role {APP} login noinherit password '{{app}}';
create database {DATABASE} owner {OWNER};
revoke all on database {DATABASE} from public;
grant connect on database {DATABASE} to {MIGRATOR}, {APP};
"""

_HBA = "# Local socket only, passwords for everybody.\nlocal all all scram-sha-256\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The paths of one data directory and who owns what in it."""

    data_dir: Path
    bin_dir: Path
    user: OsUser
    passwords: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    @property
    def pgdata(self) -> Path:
        return self.data_dir / "pgdata"

    @property
    def log(self) -> Path:
        return self.data_dir / "postgres.log"

    @property
    def socket_dir(self) -> Path:
        folder = self.data_dir / "socket"
        if len(os.fsencode(folder)) + _SOCKET_NAME_BYTES <= _MAX_SOCKET_PATH_BYTES:
            return folder
        digest = hashlib.sha256(os.fsencode(self.data_dir)).hexdigest()[:16]
        return Path(f"/tmp/everwhen-{self.user.uid}-{digest}")  # noqa: S108 - its owner and mode are verified

    def conninfo(self, role: str, *, database: str = DATABASE) -> str:
        """How to connect as a role of ours."""
        password = self.passwords[role]
        return make_conninfo(host=str(self.socket_dir), port=5432, user=role, password=password, dbname=database)

    def log_tail(self) -> str:
        """The end of the server's log, for an error message."""
        with contextlib.suppress(OSError):
            return self.log.read_text(errors="replace")[-2000:]
        return ""


def open_cluster(data_dir: Path, *, bin_dir: Path, user: OsUser) -> Cluster:
    """Make the folders, refuse what the server's user cannot reach, and read or draw the passwords."""
    if not (bin_dir / "postgres").exists():
        raise EmbeddedServerError(f"{bin_dir} holds no PostgreSQL server; name the folder of `postgres` and `initdb`")
    for path, above in ((data_dir, data_dir.parent), (bin_dir, bin_dir)):
        if not user.reaches(above):
            raise EmbeddedServerError(
                f"the server runs as user {user.name} and cannot reach {path}: make every folder above it traversable"
                " (chmod o+x), name another folder, or run as an ordinary user"
            )
    data_dir.mkdir(parents=True, exist_ok=True, mode=0o711)
    if user.switch:
        data_dir.chmod(data_dir.stat().st_mode | 0o111)
    return Cluster(data_dir=data_dir, bin_dir=bin_dir, user=user, passwords=_passwords(data_dir / "secrets"))


def running_cluster(data_dir: Path, *, user: OsUser) -> Cluster:
    """The cluster that another process runs in this data directory, for connecting to it; refuse if none does."""
    folder = data_dir / "secrets"
    cluster = Cluster(data_dir=data_dir, bin_dir=data_dir, user=user)
    if not (cluster.socket_dir / ".s.PGSQL.5432").exists():
        raise EmbeddedServerError(f"no embedded PostgreSQL runs in {data_dir}: start it with `everwhen up`")
    return replace(cluster, passwords={role: (folder / role).read_text() for role in (SUPERUSER, MIGRATOR, APP)})


def lock(cluster: Cluster) -> int:
    """Take the data directory for this process; return the descriptor that holds it until it is closed."""
    path = cluster.data_dir / "everwhen.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(descriptor, 32).decode().strip() or "unknown"
        os.close(descriptor)
        raise DataDirectoryInUseError(
            f"{cluster.data_dir} is in use by process {holder}, which runs its database:"
            f" stop that one (kill {holder}), or choose another data directory"
        ) from None
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    return descriptor


def prepare(cluster: Cluster, *, settings: Mapping[str, str], fast_and_unsafe: bool) -> None:
    """Make the cluster if there is none, stop what a crash left behind, and write the settings. Call with the lock."""
    stop_orphans(cluster)
    if not cluster.pgdata.exists():
        _make(cluster, sync=not fast_and_unsafe)
    _refuse_other_version(cluster)
    _prepare_socket_dir(cluster)
    lines = {**settings, "listen_addresses": "", "unix_socket_directories": str(cluster.socket_dir)}
    text = "".join(f"{name} = '{_quoted(value)}'\n" for name, value in lines.items())
    _write(cluster, cluster.pgdata / "everwhen.conf", "# Written at every start.\n" + text)
    if cluster.log.exists() and cluster.log.stat().st_size > _MAX_LOG_BYTES:
        cluster.log.replace(cluster.log.with_suffix(".log.1"))


def stop_orphans(cluster: Cluster) -> None:
    """Stop every server process that a dead starter left on this data directory, then clear its pid file."""
    pid_file = cluster.pgdata / "postmaster.pid"
    for number, seconds in _ORPHAN_STEPS:
        orphans = processes_on(cluster.pgdata)
        if not orphans:
            break
        # The postmaster first and alone: it stops its children in order. Without one the children are all there is.
        postmaster = _recorded_pid(pid_file)
        _signal([postmaster] if postmaster in orphans and number != signal.SIGKILL else orphans, number)
        _wait_until_gone(cluster.pgdata, seconds)
    else:
        if left := processes_on(cluster.pgdata):
            raise EmbeddedServerError(f"processes {left} still use {cluster.pgdata} and cannot be stopped: stop them")
    if os.path.isdir("/proc/self/cwd"):  # noqa: PTH112 - where there is no /proc the server itself judges the pid file
        pid_file.unlink(missing_ok=True)


def processes_on(pgdata: Path) -> list[int]:
    """Living processes whose working directory is `pgdata`; zombies have none and never count."""
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (entry / "cwd").readlink() == pgdata and (entry / "exe").readlink().name.startswith("postgres"):
                found.append(int(entry.name))
    return found


def _recorded_pid(pid_file: Path) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(pid_file.read_text().split()[0])
    return 0


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _wait_until_gone(pgdata: Path, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while processes_on(pgdata) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


def _passwords(folder: Path) -> dict[str, str]:
    folder.mkdir(exist_ok=True, mode=0o700)
    return {role: _password(folder / role) for role in (SUPERUSER, MIGRATOR, APP)}


def _password(path: Path) -> str:
    """Read a password, drawing it once; a half-written one cannot exist because it is linked into place complete."""
    if not path.exists():
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        partial.write_text(secrets.token_urlsafe(24))
        partial.chmod(0o600)
        with contextlib.suppress(FileExistsError):
            os.link(partial, path)
        partial.unlink()
    return path.read_text()


def _make(cluster: Cluster, *, sync: bool) -> None:
    for abandoned in cluster.data_dir.glob("pgdata.partial.*"):
        shutil.rmtree(abandoned, ignore_errors=True)
    partial = cluster.data_dir / f"pgdata.partial.{os.getpid()}"  # no late child of a killed maker can write into it
    partial.mkdir(mode=0o700)
    cluster.user.own(partial)
    _initdb(cluster, partial, sync=sync)
    _write(cluster, partial / "pg_hba.conf", _HBA)
    with (partial / "postgresql.conf").open("a") as conf:
        conf.write("\ninclude_if_exists 'everwhen.conf'\n")
    script = _BOOTSTRAP.format(migrator=cluster.passwords[MIGRATOR], app=cluster.passwords[APP])
    single_user = ["postgres", "--single", "-D", str(partial), "-c", "exit_on_error=on", "-j", SUPERUSER]
    _run(cluster, single_user, script.replace(";\n", ";\n\n"))  # -j: a statement ends at an empty line
    partial.rename(cluster.pgdata)


def _initdb(cluster: Cluster, partial: Path, *, sync: bool) -> None:
    password_file = cluster.data_dir / "initdb.password"
    password_file.unlink(missing_ok=True)
    descriptor = os.open(password_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(cluster.passwords[SUPERUSER])
    cluster.user.own(password_file)
    words = ["initdb", "-D", str(partial), "-U", SUPERUSER, "--encoding=UTF8", "--locale=C.UTF-8"]
    words += ["--auth=scram-sha-256", f"--pwfile={password_file}", "--data-checksums", *([] if sync else ["--no-sync"])]
    try:
        _run(cluster, words)
    finally:
        password_file.unlink(missing_ok=True)


def _run(cluster: Cluster, words: list[str], script: str = "") -> None:
    done = subprocess.run(  # noqa: S603 - fixed programs of our own installation
        [str(cluster.bin_dir / words[0]), *words[1:]],
        check=False,
        input=script,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=cluster.user.becoming(signal.SIGKILL),
        cwd="/",
        env=server_environment(),
    )
    if done.returncode:
        raise EmbeddedServerError(f"{words[0]} failed on {cluster.data_dir}:\n{done.stdout[-2000:]}")


def server_environment() -> dict[str, str]:
    """What the server's programs see of our environment: nothing that changes how they behave."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8", "TZ": "UTC"}


def _refuse_other_version(cluster: Cluster) -> None:
    version = (cluster.pgdata / "PG_VERSION").read_text().strip()
    done = subprocess.run([str(cluster.bin_dir / "postgres"), "-V"], check=True, capture_output=True, text=True)  # noqa: S603
    program = done.stdout.split()[2].split(".")[0]
    if version != program:
        raise EmbeddedServerError(
            f"{cluster.pgdata} was made by PostgreSQL {version}, but {cluster.bin_dir} is PostgreSQL {program}:"
            " use a server of that version, or dump with the old one and restore with the new one"
        )


def _prepare_socket_dir(cluster: Cluster) -> None:
    folder = cluster.socket_dir
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
        cluster.user.own(folder)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != cluster.user.uid or stat.S_IMODE(status.st_mode) != 0o700:
        raise EmbeddedServerError(
            f"{folder} must be a folder of user {cluster.user.name} with mode 0700: remove it and start again"
        )


def _write(cluster: Cluster, path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    path.write_text(text)
    path.chmod(0o600)
    cluster.user.own(path)


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "''")
