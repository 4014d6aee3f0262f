"""Reads where a tenant wants something sent: one strict reader for URLs and for names of hosts.

What it makes are parts, and the request is made of the same parts: no second reader ever sees the text, so no two can
disagree about which host it names. What is unusual is refused instead of being mended: credentials, fragments, zones of
addresses, backslashes, control characters, numbers that are addresses only to a resolver, look-alike digits and dots.
"""

import re
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Final
from urllib.parse import urlsplit

import idna

from everwhen.egress.policy import EgressPolicy

URL_CHARACTERS: Final = 2048
_HOST_CHARACTERS: Final = 253
_PRINTABLE: Final = re.compile(r"[^\x00-\x20\x7f-\xa0\\\ud800-\udfff]+")
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_OTHER_DOTS: Final = frozenset("\u3002\uff0e\uff61")  # the standard for names takes them for dots
_DEFAULT_PORTS: Final = {"https": 443, "http": 80}


class TargetRefused(ValueError):  # noqa: N818  # a verdict, not an accident
    """The target may not be reached; the text says why, and holds nothing of what was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a request goes. `host` is a name in ASCII or a canonical address; `path` includes the query."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """What the header Host says."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


def read_url(text: str, *, policy: EgressPolicy) -> Target:
    """Return the parts of a URL; raise TargetRefused for what the installation does not let anybody reach."""
    if len(text) > URL_CHARACTERS:
        raise TargetRefused(f"a URL has at most {URL_CHARACTERS} characters")
    if not _PRINTABLE.fullmatch(text):
        raise TargetRefused("a URL has no blanks, backslashes or control characters")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise TargetRefused("this is not a URL") from None
    if parts.scheme not in ({"https", "http"} if policy.plain_http else {"https"}):
        raise TargetRefused("a URL begins with https://")
    if "@" in parts.netloc:
        raise TargetRefused("a URL holds no user name and no password")
    if "#" in text or parts.netloc.endswith(":"):
        raise TargetRefused("a URL ends with its path or query, and a port has a number")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not path.isascii():
        raise TargetRefused("what is not ASCII in a URL's path is written with %")
    chosen = _DEFAULT_PORTS[parts.scheme] if port is None else port
    if chosen not in policy.ports and not (policy.plain_http and chosen == 80):
        raise TargetRefused(f"port {chosen} is not among those that may be reached")
    return Target(scheme=parts.scheme, host=read_host(_bare(parts.netloc)), port=chosen, path=path)


def read_host(text: str) -> str:
    """Return a host's name in ASCII and lower case, or an address in its canonical form; or raise TargetRefused."""
    if "%" in text:
        raise TargetRefused("the zone of an address is not for others to choose")
    try:
        return str(ip_address(text))
    except ValueError:
        name = _ascii(text).removesuffix(".").lower()
    labels = name.split(".")
    if len(name) > _HOST_CHARACTERS or not all(_LABEL.fullmatch(label) for label in labels):
        raise TargetRefused("this is not the name of a host")
    if _NUMBER.fullmatch(labels[-1]):
        raise TargetRefused("an address is written as four decimal numbers, or as IPv6")
    return name


def is_address(host: str) -> bool:
    """Tell an address from a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _bare(netloc: str) -> str:
    """Take the host out of the text between the slashes; not by `hostname`, which mends what it reads."""
    if netloc.startswith("["):
        inside, bracket, rest = netloc[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")) or not _is_ipv6(inside):
            raise TargetRefused("this is not the name of a host")
        return inside
    return netloc.rpartition(":")[0] if ":" in netloc else netloc


def _is_ipv6(text: str) -> bool:
    if "%" in text:
        raise TargetRefused("the zone of an address is not for others to choose")
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True


def _ascii(name: str) -> str:
    if name.isascii():
        return name
    if not _OTHER_DOTS.isdisjoint(name):
        raise TargetRefused("this is not the name of a host")
    try:
        return idna.encode(name).decode("ascii")
    except (idna.IDNAError, UnicodeError):
        raise TargetRefused("this is not the name of a host") from None
