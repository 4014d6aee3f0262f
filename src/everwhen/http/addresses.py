"""Which address a request is from, as far as it can be believed.

The peer of the connection is certain. Behind proxies it is the proxy, and who is behind it stands in X-Forwarded-For:
each proxy appends the address that it was called from. So the list is read from its end, and only as long as whoever
wrote the entry is a proxy of ours (the setting `trusted_proxies`): the first address that is none of them is the
client's. What stands before it anybody may have made up.
"""

import functools
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

from starlette.types import Scope

FORWARDED: Final = b"x-forwarded-for"
UNKNOWN: Final = "unknown"
"""The address of a peer that has none, such as one on a Unix socket."""

MOST_HOPS: Final = 20
NEIGHBOURS_BITS: Final = 64
"""How much of an IPv6 address names its network: one household, or one server, has all that lie below."""

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address


def client_address(scope: Scope, trusted: Sequence[Network]) -> str:
    """Return the address of whoever sent a request."""
    peer = scope.get("client")
    host = peer[0] if peer else UNKNOWN
    if not trusted:
        return host
    at = _read(host)
    if at is None or not _is_trusted(at, trusted):
        return host
    for text in reversed(_forwarded(scope)[-MOST_HOPS:]):
        before = _read(text)
        if before is None:
            break
        at = before
        if not _is_trusted(at, trusted):
            break
    return str(at)


@functools.lru_cache(maxsize=1_000)
def network_of(address: str) -> str:
    """Return what stands for an address where its neighbours are to count as one: its network, in IPv6."""
    found = _read(address)
    if not isinstance(found, IPv6Address):
        return address if found is None else str(found)
    return str(IPv6Network((found, NEIGHBOURS_BITS), strict=False))


def _forwarded(scope: Scope) -> list[str]:
    lines = [value.decode("latin-1") for name, value in scope["headers"] if name == FORWARDED]
    return [text.strip() for line in lines for text in line.split(",")]


def _read(text: str) -> Address | None:
    """Read an address; one with a port, as some proxies write it, too."""
    bare = text[1:].partition("]")[0] if text.startswith("[") else text
    if bare.count(":") == 1:
        bare = bare.partition(":")[0]
    try:
        found = ip_address(bare.partition("%")[0])
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, IPv6Address) else found


def _is_trusted(address: Address, trusted: Sequence[Network]) -> bool:
    return any(address in network for network in trusted)
