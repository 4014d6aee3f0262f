"""Which addresses a tenant may make this server connect to: ordinary public ones, and what the installation allows.

The table is written out, although `ipaddress` has an opinion of its own: that opinion changed between releases of
Python, and it calls addresses global that carry another one inside (NAT64, 6to4) or that lead to a cloud's controls.
Both are asked, and either one refuses.

What is checked is an address that was resolved, never the text that somebody wrote: resolvers read `2130706433`,
`0x7f000001` and `127.1` as loopback, and this module would not.
"""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

FORBIDDEN: Final[tuple[tuple[Network, str], ...]] = tuple(
    (ip_network(network), what)
    for network, what in (
        ("0.0.0.0/8", "this host"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "a carrier's own network"),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "a cloud's controls"),
        ("169.254.0.0/16", "link-local, where clouds keep credentials"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved for protocols"),
        ("192.0.2.0/24", "documentation"),
        ("192.88.99.0/24", "a relay to IPv6"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "benchmarks"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
        ("::/96", "this host, or an IPv4 address inside"),
        ("64:ff9b::/96", "an IPv4 address inside (NAT64)"),
        ("64:ff9b:1::/48", "an IPv4 address inside (local NAT64)"),
        ("100::/16", "discarded"),
        ("2001::/23", "reserved for protocols, Teredo among them"),
        ("2001:db8::/32", "documentation"),
        ("2002::/16", "an IPv4 address inside (6to4)"),
        ("3fff::/20", "documentation"),
        ("5f00::/16", "segment routing"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "private, of old"),
        ("ff00::/8", "multicast"),
        ("::/3", "not a global address"),  # what is global begins with 2 or 3; the three rows are the rest
        ("4000::/2", "not a global address"),
        ("8000::/1", "not a global address"),
    )
)

NEVER: Final[tuple[Network, ...]] = tuple(
    ip_network(network)
    for network in (
        "0.0.0.0/8",
        "100.100.100.200/32",
        "168.63.129.16/32",
        "169.254.0.0/16",
        "192.0.0.192/32",
        "224.0.0.0/4",
        "240.0.0.0/4",
        "::/128",
        "fd00:ec2::/32",
        "fd20:ce::254/128",
        "fe80::/10",
        "ff00::/8",
    )
)
"""What no setting allows: where clouds answer anybody with credentials, and what is no single host."""


def refusal(text: str, *, allowed: Iterable[Network] = ()) -> str | None:
    """Return why this address is not to be connected to, or None when it may be."""
    try:
        address = unwrapped(ip_address(text))
    except ValueError:
        return "not an address"
    if getattr(address, "scope_id", None):
        return "bound to an interface of this host"
    if _within(address, NEVER):
        return next((what for network, what in FORBIDDEN if _inside(address, network)), "reserved")
    if _within(address, allowed):
        return None
    for network, what in FORBIDDEN:
        if _inside(address, network):
            return what
    return None if address.is_global and not address.is_multicast else "not a global address"


def unwrapped(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 one only wraps (`::ffff:127.0.0.1`), or the address as it is."""
    return getattr(address, "ipv4_mapped", None) or address


def _within(address: Address, networks: Iterable[Network]) -> bool:
    return any(_inside(address, network) for network in networks)


def _inside(address: Address, network: Network) -> bool:
    return address.version == network.version and address in network
