"""Reads crontabs: each line becomes an entry, a refusal with its reason, or nothing. Pure: text in, values out.

What cron itself does is kept: an environment line holds for the lines below it, the first unescaped `%` of a command
starts its standard input and each further one is a line break, and in the system format a user stands before the
command. `CRON_TZ` sets the zone of the lines below it. Fields that cron would misread are refused, never guessed at.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from everwhen.core.triggers import Cron, Timing, TriggerError

_LONGEST_LINE = 8192

_ENVIRONMENT = re.compile(r"""\s*(?P<quote>["']?)(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P=quote)\s*=(?P<value>.*)""")
_ACCOUNT = re.compile(r"[a-z_][a-z0-9_.-]*\$?", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")  # surrogates stand for bytes that are no UTF-8
_SYSTEM_ACCOUNTS = frozenset(
    {
        "root",
        "daemon",
        "bin",
        "sys",
        "man",
        "lp",
        "mail",
        "news",
        "uucp",
        "proxy",
        "www-data",
        "backup",
        "list",
        "irc",
        "nobody",
        "postgres",
        "mysql",
        "smmsp",
        "logcheck",
        "munin",
        "nagios",
        "zabbix",
        "nginx",
        "apache",
        "http",
        "git",
        "redis",
        "mailman",
        "debian-spamd",
        "amavis",
        "debian-tor",
    }
)


class CrontabFormat(StrEnum):
    """Whether a user stands before each command."""

    USER = "user"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True, kw_only=True)
class CrontabEntry:
    """One line that becomes a schedule; `line` counts from 1. `timezone` is None where the crontab names none."""

    line: int
    name: str
    expr: str
    timezone: str | None
    command: str
    stdin: str | None
    user: str | None
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CrontabRefusal:
    """One line that cannot become a schedule."""

    line: int
    text: str
    code: str
    reason: str


@dataclass(slots=True)
class _State:
    """What the lines above have set, and the names given away."""

    form: CrontabFormat
    timezone: str | None = None
    environment: dict[str, str] = field(default_factory=dict[str, str])
    names: set[str] = field(default_factory=set[str])


def parse_crontab(text: str, *, form: CrontabFormat | None = None) -> list[CrontabEntry | CrontabRefusal]:
    """Return what each schedule line becomes, in the order of the file; without a format it is detected."""
    lines = text.replace("\r\n", "\n").split("\n")
    state = _State(form or detect_format(text))
    found: list[CrontabEntry | CrontabRefusal] = []
    for number, line in enumerate(lines, start=1):
        try:
            entry = _read_line(line, number, state)
        except TriggerError as error:
            found.append(CrontabRefusal(line=number, text=line, code=error.code, reason=error.message))
            continue
        if entry is not None:
            found.append(replace(entry, name=_unused(entry.name, state.names)))
    return found


def detect_format(text: str) -> CrontabFormat:
    """Tell the system format by its users: all could be accounts, and one is an account that systems have."""
    accounts: list[str] = []
    for line in text.splitlines():
        if not _is_schedule(line):
            continue
        words = line.split(None, 2 if line.lstrip().startswith("@") else 6)
        rest = words[1:] if words[0].startswith("@") else words[5:]
        if len(rest) < 2 or not _ACCOUNT.fullmatch(rest[0]):
            return CrontabFormat.USER
        accounts.append(rest[0])
    return CrontabFormat.SYSTEM if _SYSTEM_ACCOUNTS.intersection(accounts) else CrontabFormat.USER


def _is_schedule(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#") and not _ENVIRONMENT.fullmatch(line)


def _read_line(line: str, number: int, state: _State) -> CrontabEntry | None:
    if not line.strip() or line.lstrip().startswith("#"):
        return None
    if len(line) > _LONGEST_LINE:
        raise TriggerError("crontab.length", f"a line has at most {_LONGEST_LINE} characters", field="line")
    if _CONTROL.search(line):
        raise TriggerError(
            "crontab.character", "the line contains a control character, or bytes that are not UTF-8", field="line"
        )
    assignment = _ENVIRONMENT.fullmatch(line)
    if assignment:
        _assign(assignment["name"], _unquoted(assignment["value"].strip()), state)
        return None
    return _entry(line.strip(), number, state)


def _assign(name: str, value: str, state: _State) -> None:
    if name == "CRON_TZ":
        # Set before it is checked: lines under a zone that nobody knows are refused, not run in another one.
        state.timezone = value or None
        if value:
            Timing(Cron("@daily"), value)
    else:
        state.environment[name] = value


def _entry(text: str, number: int, state: _State) -> CrontabEntry:
    expr, rest = _split_expression(text)
    Timing(Cron(expr), state.timezone or "UTC")
    user = None
    if state.form is CrontabFormat.SYSTEM:
        user, rest = _first_word(rest)
        if not _ACCOUNT.fullmatch(user):
            raise TriggerError("crontab.user", "the system format needs a user before the command", field="user")
    command, stdin = split_stdin(rest)
    if not command.strip():
        raise TriggerError("crontab.command", "the line has no command", field="command")
    return CrontabEntry(
        line=number,
        name=_name(user, expr, state.timezone, rest),
        expr=expr,
        timezone=state.timezone,
        command=command,
        stdin=stdin,
        user=user,
        environment=dict(state.environment),
    )


def _split_expression(text: str) -> tuple[str, str]:
    fields = 1 if text.startswith("@") else 5
    words = text.split(None, fields)
    rest = words[fields] if len(words) > fields else ""
    return " ".join(words[:fields]), rest


def _first_word(text: str) -> tuple[str, str]:
    words = [*text.split(None, 1), "", ""]
    return words[0], words[1]


def split_stdin(command: str) -> tuple[str, str | None]:
    """Split at the first unescaped `%`; return the command and its standard input, None if there is no `%`."""
    first, *lines = (part.replace(r"\%", "%") for part in re.split(r"(?<!\\)%", command))
    return first, "\n".join(lines) + "\n" if lines else None


def _unquoted(value: str) -> str:
    quoted = len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if quoted else value


def _name(user: str | None, expr: str, timezone: str | None, command: str) -> str:
    """Return a name that a person recognises and that stays the same while the line does."""
    digest = hashlib.sha256("\0".join([user or "", expr, timezone or "", command]).encode("utf-8", "replace"))
    words = re.sub(r"[^a-z0-9]+", "-", command.split(None, 1)[0].rpartition("/")[2].lower()) if command.strip() else ""
    return "-".join(part for part in ("crontab", words.strip("-")[:32], digest.hexdigest()[:8]) if part)


def _unused(name: str, taken: set[str]) -> str:
    candidates: Iterator[str] = (name if i == 1 else f"{name}-{i}" for i in range(1, len(taken) + 2))
    chosen = next(candidate for candidate in candidates if candidate not in taken)
    taken.add(chosen)
    return chosen
