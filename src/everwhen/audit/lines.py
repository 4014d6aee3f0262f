"""An export of the audit: NDJSON, one chain after the other, each link with its event, and last where the chain ends.

    {"kind":"link","tenant":…,"seq":1,"epoch":…,"hash":…,"record":"{…}"}
    {"kind":"head","tenant":…,"seq":1,"epoch":…,"hash":…}    the end of this chain

The record is what is hashed; null: the event is gone. It is text and not an object, so that nobody who writes JSON in
another way changes the bytes that are hashed. A head by itself is an anchor: noted where nobody can change it, it holds
the chain up to its place.
"""

import json
from collections.abc import Iterable, Iterator
from typing import IO, Any, Final
from uuid import UUID

from everwhen.audit.signing import PublicKeys, Signer
from everwhen.core.audit_chain import HASH_BYTES, canonical
from everwhen.core.audit_checking import Anchor, Link

MOST_BYTES: Final = 1 << 20
MOST_ANCHORS: Final = 100_000
LAST_SEQ: Final = (1 << 63) - 1
_HEAD: Final = {"kind", "tenant", "seq", "epoch", "hash"}
_FIELDS: Final = {"link": [_HEAD | {"record"}], "head": [_HEAD, _HEAD | {"key", "signature"}]}


class UnreadableLine(Exception):  # noqa: N818  # a value that travels, not a failure
    """A line that no export writes."""


def link_line(tenant_id: UUID, found: Link) -> str:
    """Spell a link, without the line's end."""
    place = _place(tenant_id, found.seq, found.epoch, found.hash)
    return canonical({"kind": "link", **place, "record": found.record})


def head_line(head: Anchor, *, signer: Signer | None = None) -> str:
    """Spell where a chain ends, signed or not, without the line's end."""
    said = {"kind": "head", **_place(head.tenant_id, head.seq, head.epoch, head.hash)}
    return canonical(said if signer is None else signer.sign(said))


def read_lines(stream: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Return the numbered lines; one that is too long comes in pieces, none of which can be read."""
    number = 0
    while line := stream.readline(MOST_BYTES):
        number += 1
        if line.strip():
            yield number, line


def read_line(line: bytes, *, source: str, keys: PublicKeys | None = None) -> tuple[UUID, Link | Anchor]:
    """Read a line: a link of a tenant, or the head of its chain, said by `source`. Raises UnreadableLine.

    With `keys` a head that none of them has signed is one with a fault.
    """
    try:
        said = json.loads(line)
        if set(said) not in _FIELDS[said["kind"]]:
            raise UnreadableLine("it has other fields than an export has")
        tenant_id, seq, epoch, digest = UUID(said["tenant"]), said["seq"], UUID(said["epoch"]), said["hash"]
        record = said.get("record")
        is_text = record is None or (isinstance(record, str) and bool(record.encode()))  # no half of a character
        place: dict[str, Any] = {"seq": seq, "epoch": epoch, "hash": bytes.fromhex(digest)}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UnreadableLine("it is neither a link nor a head") from error
    if type(seq) is not int or not 0 < seq <= LAST_SEQ or len(place["hash"]) != HASH_BYTES:
        raise UnreadableLine("its place or its hash cannot be one")
    if said["kind"] == "head":
        fault = None if keys is None else keys.fault_of(said)
        return tenant_id, Anchor(tenant_id=tenant_id, source=source, fault=fault, **place)
    if not is_text:
        raise UnreadableLine("its record is no text of an event")
    return tenant_id, Link(record=record, **place)


def read_anchors(
    lines: Iterable[tuple[int, bytes]], *, source: str, keys: PublicKeys | None = None
) -> dict[UUID, list[Anchor]]:
    """Return the heads in a file by tenant, so an older export is one as well. Raises UnreadableLine."""
    found: dict[UUID, list[Anchor]] = {}
    count = 0
    for number, line in lines:
        try:
            tenant_id, said = read_line(line, source=f"{source}:{number}", keys=keys)
        except UnreadableLine as error:
            raise UnreadableLine(f"line {number}: {error}") from error
        if isinstance(said, Anchor):
            count += 1
            found.setdefault(tenant_id, []).append(said)
        if count > MOST_ANCHORS:
            raise UnreadableLine(f"it holds more than {MOST_ANCHORS} heads; give a part of them")
    if not found:
        raise UnreadableLine("it holds no head of a chain")
    return found


def _place(tenant_id: UUID, seq: int, epoch: UUID | None, digest: bytes) -> dict[str, Any]:
    return {"tenant": str(tenant_id), "seq": seq, "epoch": str(epoch), "hash": digest.hex()}
