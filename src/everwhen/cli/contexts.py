"""Contexts: named servers and tenants that the command line goes to, and where the token of each comes from.

They are in one file of the user's own, `$XDG_CONFIG_HOME/everwhen/contexts.json`, mode 0600. It holds no token, but
says where one is: in a variable, in a file, or in what a command prints. Whoever may write it could have that command
run, so a file that others may read or write is refused rather than trusted.

A context's token goes to that context's server and to no other one: whoever overrides the address brings another token.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlsplit

import click

VARIABLE: Final = "EVERWHEN_CONTEXT"
MOST_TOKEN_BYTES: Final = 65_536
COMMAND_SECONDS: Final = 60.0

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_CHOSEN: Final = "everwhen.cli.context"
_TOKENS: Final = "everwhen.cli.tokens"


class NoToken(click.ClickException):
    """The place that a context names holds no token."""

    exit_code = 4


class BadFile(click.ClickException):
    """The file of contexts cannot be used as it is."""

    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSource:
    """Where a token is: in a variable, in a file, or in what a command prints. At most one of them is named."""

    env: str | None = None
    file: str | None = None
    command: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """What may be shown of it: of a command only the program, since its arguments may be secret."""
        if self.env is not None:
            return f"variable {self.env}" + ("" if os.environ.get(self.env) else " (not set)")
        if self.file is not None:
            return f"file {self.file}" + ("" if Path(self.file).expanduser().is_file() else " (not there)")
        return f"command {self.command[0]}" if self.command else "EVERWHEN_TOKEN"

    def read(self, *, context: str) -> str | None:
        """Return the token, None where no place is named; raise NoToken when it is not where it should be."""
        if self.env is not None:
            found = os.environ.get(self.env, "")
        elif self.file is not None:
            found = _first_bytes(Path(self.file).expanduser(), context)
        elif self.command:
            found = _printed_by(self.command, context)
        else:
            return None
        if not (token := found.strip()):
            raise NoToken(f"context {context}: there is no token in its {self.sentence}")
        return token


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A server, a tenant and the source of a token. In a protected one, what destroys asks for the tenant's name."""

    url: str
    tenant: str | None = None
    token: TokenSource = TokenSource()
    protected: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Contexts:
    """All contexts by name, and the one in use where none is named."""

    current: str | None = None
    profiles: Mapping[str, Profile] = field(default_factory=dict[str, Profile])

    def get(self, name: str) -> Profile:
        """Return a context; raise UsageError that names those there are."""
        found = self.profiles.get(name)
        if found is None:
            known = f"there are {', '.join(sorted(self.profiles))}" if self.profiles else "there are none yet"
            raise click.UsageError(f"no context is named {name}: {known}; make it with everwhen context set {name}")
        return found


def choose(name: str | None) -> None:
    """Note the context that the command line names."""
    if name is not None:
        click.get_current_context().find_root().meta[_CHOSEN] = name


def named_on_command_line() -> str | None:
    """Return the context that the command line names."""
    running = click.get_current_context(silent=True)
    return None if running is None else running.find_root().meta.get(_CHOSEN)


def chosen(contexts: Contexts, *, is_local: bool, is_needed: bool) -> str | None:
    """Return the name of the context in force, None without one.

    Named by `-c` or the variable; else, outside of a folder with a server of its own (`is_local`), the one in use or
    the only one. Of several with none in use a person is asked, where one is needed; raises UsageError where nobody is
    there.
    """
    named = named_on_command_line() or os.environ.get(VARIABLE)
    if named:
        return named
    if is_local or not contexts.profiles:
        return None
    if contexts.current is not None:
        return contexts.current
    if len(contexts.profiles) == 1:
        return next(iter(contexts.profiles))
    return _asked(contexts) if is_needed else None


def token_of(name: str, profile: Profile) -> str | None:
    """Return a context's token; a command is asked once in the life of ours."""
    running = click.get_current_context(silent=True)
    if running is None:
        return profile.token.read(context=name)
    known: dict[str, str | None] = running.find_root().meta.setdefault(_TOKENS, {})
    if name not in known:
        known[name] = profile.token.read(context=name)
    return known[name]


def file_of_contexts() -> Path:
    """Return where the user's contexts are."""
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "everwhen" / "contexts.json"


def load() -> Contexts:
    """Read the contexts, none where there is no file; raise BadFile with what to do about it."""
    path = file_of_contexts()
    try:
        with path.open(encoding="utf-8") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            if mode & 0o077:
                raise BadFile(f"{path} may be read or written by others: chmod 600 {shlex.quote(str(path))}")
            return _read(json.load(opened))
    except (FileNotFoundError, NotADirectoryError):
        return Contexts()
    except (OSError, ValueError, LookupError, TypeError, AttributeError, click.UsageError) as error:
        raise BadFile(f"{path} cannot be read ({error}): mend it, or remove it") from error


def save(contexts: Contexts) -> None:
    """Write the contexts: whole or not at all, and for their owner only from the first byte on."""
    path = file_of_contexts()
    draft = path.with_suffix(".new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
            json.dump(_written(contexts), opened, indent=2)
            opened.write("\n")
        draft.rename(path)
    except OSError as error:
        raise BadFile(f"{path} cannot be written: {error}") from error


def checked_name(name: str) -> str:
    """Return a context's name; raise UsageError when it cannot be one."""
    if not _NAME.fullmatch(name):
        raise click.UsageError(f"{name!r} cannot name a context: letters, digits, '.', '_' and '-', at most 64")
    return name


def checked_url(url: str) -> str:
    """Return a server's address; raise UsageError when it is none, or holds a password."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise click.UsageError(f"{url} is no address of a server, such as https://everwhen.example")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise click.UsageError("an address has no user, password, query or fragment; a token has a source of its own")
    return url.rstrip("/")


def can_ask() -> bool:
    """Tell whether somebody is there who could answer."""
    return sys.stdin.isatty()


def _asked(contexts: Contexts) -> str:
    names = sorted(contexts.profiles)
    if not can_ask():
        raise click.UsageError(f"name a context with -c or {VARIABLE}, or use one: {', '.join(names)}")
    return click.prompt("Which context?", type=click.Choice(names), err=True)


def _first_bytes(path: Path, context: str) -> str:
    try:
        with path.open("rb") as opened:
            return opened.read(MOST_TOKEN_BYTES).decode("ascii")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not plain text"
        raise NoToken(f"context {context}: the file of its token, {path}, cannot be read: {reason}") from error


def _printed_by(command: tuple[str, ...], context: str) -> str:
    """Return what a command prints. What it says about itself goes to the terminal, which it may ask, too."""
    import subprocess

    told = f"context {context}: the command of its token, {command[0]},"
    try:
        done = subprocess.run(list(command), stdout=subprocess.PIPE, check=False, timeout=COMMAND_SECONDS)  # noqa: S603  # the user's own, without a shell
    except subprocess.TimeoutExpired as error:
        raise NoToken(f"{told} did not end within {COMMAND_SECONDS:.0f} s") from error
    except OSError as error:
        raise NoToken(f"{told} cannot be run: {error.strerror}") from error
    if done.returncode != 0:
        raise NoToken(f"{told} failed with exit code {done.returncode}")
    with contextlib.suppress(UnicodeDecodeError):
        return done.stdout[:MOST_TOKEN_BYTES].decode("ascii")
    raise NoToken(f"{told} printed what is no token")


def _read(data: Any) -> Contexts:
    profiles = {checked_name(name): _profile(each) for name, each in data["contexts"].items()}
    current = data.get("current")
    return Contexts(current=current if current in profiles else None, profiles=profiles)


def _profile(data: Mapping[str, Any]) -> Profile:
    source = cast("Mapping[str, Any]", data.get("token") or {})
    return Profile(
        url=checked_url(data["url"]),
        tenant=data.get("tenant"),
        token=TokenSource(
            env=source.get("env"), file=source.get("file"), command=tuple(map(str, source.get("command", ())))
        ),
        protected=data.get("protected") is True,
    )


def _written(contexts: Contexts) -> dict[str, Any]:
    return {
        "current": contexts.current,
        "contexts": {name: _profile_data(contexts.profiles[name]) for name in sorted(contexts.profiles)},
    }


def _profile_data(profile: Profile) -> dict[str, Any]:
    source = profile.token
    said = {"env": source.env, "file": source.file, "command": list(source.command) or None}
    return {
        "url": profile.url,
        "tenant": profile.tenant,
        "token": {kind: value for kind, value in said.items() if value is not None},
        "protected": profile.protected,
    }
