"""From a name to a connection: resolve once, check every address, connect to one that was checked, look at the peer.

    name → addresses ─ any of them forbidden → refused, the name as a whole
                     └ all fine → connect to the first that answers → the peer is that address, or cut

The name is never resolved a second time, so a resolver that answers differently the next moment changes nothing; the
request and the certificate still speak of the name. One forbidden address refuses the name, because which one a
connection takes would otherwise be the attacker's to arrange.
"""

import asyncio
import errno
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final
from uuid import UUID

from everwhen.egress.addresses import Network, refusal, unwrapped
from everwhen.egress.targets import TargetRefused, is_address
from everwhen.egress.turns import Resolve

ADDRESSES: Final = 4
"""How many of a name's addresses are tried."""


class Unreachable(Exception):  # noqa: N818  # an outcome, not an accident
    """Nobody answers there now; the text says what happened."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A host, and the addresses of it that may be connected to: the proof that they were checked."""

    host: str
    port: int
    addresses: tuple[str, ...]


async def check(
    tenant_id: UUID, host: str, port: int, *, allowed: Sequence[Network] | None, resolve: Resolve
) -> Checked:
    """Resolve the host, once; raise TargetRefused if any address is forbidden, Unreachable if there is none.

    `allowed` are networks that are not public and may be reached; None lets every address pass, for what the
    installation itself names.
    """
    addresses = [host] if is_address(host) else await _resolved(tenant_id, host, port, resolve)
    for address in addresses:
        if allowed is not None and (why := refusal(address, allowed=allowed)):
            raise TargetRefused(f"{host} leads to an address that may not be reached: {why}")
    return Checked(host, port, tuple(addresses[:ADDRESSES]))


async def dial(checked: Checked, *, allowed: Sequence[Network] | None) -> socket.socket:
    """Connect to the first of the addresses that answers; raise Unreachable when none does."""
    last: OSError | None = None
    for address in checked.addresses:
        try:
            connected = await _connect(address, checked.port)
        except OSError as error:
            last = error
            continue
        try:
            assert_peer(connected.getpeername()[0], expected=address, allowed=allowed)
        except (OSError, TargetRefused):
            connected.close()
            raise
        return connected
    raise Unreachable(f"{checked.host} does not take the connection: {_told(last)}")


def assert_peer(peer: str, *, expected: str, allowed: Sequence[Network] | None) -> None:
    """Raise TargetRefused unless the other end is the address that was checked, and may still be reached."""
    elsewhere = unwrapped(ip_address(peer)) != unwrapped(ip_address(expected))
    if elsewhere or (allowed is not None and refusal(peer, allowed=allowed)):
        raise TargetRefused("the connection went to another address than the one that was checked")


async def _resolved(tenant_id: UUID, host: str, port: int, resolve: Resolve) -> Sequence[str]:
    try:
        found = await resolve(tenant_id, host, port)
    except (OSError, UnicodeError) as error:
        raise Unreachable(f"{host} has no address: {_told(error)}") from None
    if not found:
        raise Unreachable(f"{host} has no address")
    return found


async def _connect(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    connecting = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        connecting.setblocking(False)
        connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(connecting, (address, port))
    except BaseException:
        connecting.close()
        raise
    return connecting


def _told(error: Exception | None) -> str:
    if isinstance(error, socket.gaierror):
        return "its name is not known" if error.errno == socket.EAI_NONAME else "its name cannot be resolved now"
    number = getattr(error, "errno", None)
    return errno.errorcode.get(number, "no answer") if number else "no answer"
