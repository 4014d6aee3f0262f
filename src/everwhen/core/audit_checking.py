"""Is a chain what it was? Pure: links go in, in order, one at a time; findings come out. Nothing of a link is kept.

    unreadable  a line of a file is not one that an export writes
    altered     a link's hash is not that of its record here: the event was changed, or stands in another's place
    gone        a link has no event any more
    missing     places are left out
    doubled     a place is there twice, or comes late
    forked      two events with the same number in different epochs: two servers went on from one place
    truncated   the chain's head, or an anchor, has seen more than there is
    rewritten   the head, or an anchor, has seen another hash at this place: everything was hashed anew
    unsigned    an anchor has no signature that holds, where one is asked for; it is not believed
    unchained   an event has no link and waits for none, or one that waits is gone

The hashes alone prove that nobody has changed a part of the chain and left the rest. Whoever can write to all of it can
hash all of it anew, or cut the end off and move the head; that is found by anchors only: heads that were noted where he
cannot change them. What comes after the last anchor is proven by nothing but the hashes.

After a finding the check goes on from what is stored, so that one altered event is one finding and not a thousand.
Behind a gap the first link cannot be judged, since the hash before it is not there.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final
from uuid import UUID

from everwhen.core.audit_chain import genesis, link

MOST_TOLD: Final = 20
"""So many findings of a kind are told; the others are counted."""


class Kind(StrEnum):
    """What can be wrong with a chain."""

    UNREADABLE = "unreadable"
    ALTERED = "altered"
    GONE = "gone"
    MISSING = "missing"
    DOUBLED = "doubled"
    FORKED = "forked"
    TRUNCATED = "truncated"
    REWRITTEN = "rewritten"
    UNSIGNED = "unsigned"
    UNCHAINED = "unchained"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong, at which place, and what that means."""

    kind: Kind
    seq: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A link as it is stored, with the record of its event; None: the event is not there.

    `agrees` is false when what else is stored of the event is not what its record says.
    """

    seq: int
    epoch: UUID
    hash: bytes
    record: str | None
    agrees: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """What somebody noted of a chain: a place, and its hash there. `source` says who, `fault` why not to believe it."""

    tenant_id: UUID
    seq: int
    epoch: UUID | None
    hash: bytes
    source: str
    fault: str | None = None


@dataclass(slots=True, kw_only=True)
class Report:
    """What a check came to. `anchored` is the last place that an anchor confirms; 0: none does."""

    tenant_id: UUID
    last: int = 0
    links: int = 0
    anchored: int = 0
    counts: Counter[Kind] = field(default_factory=Counter[Kind])
    findings: list[Finding] = field(default_factory=list[Finding])

    @property
    def is_sound(self) -> bool:
        """Whether nothing was found."""
        return not self.counts

    def find(self, kind: Kind, seq: int, text: str) -> None:
        """Count a finding, and keep it if there are not too many."""
        self.counts[kind] += 1
        if self.counts[kind] <= MOST_TOLD:
            self.findings.append(Finding(kind, seq, text))


class Check:
    """The check of one chain: `take` each link, in order, then `end`."""

    def __init__(
        self,
        tenant_id: UUID,
        anchors: Iterable[Anchor] = (),
        *,
        own: Anchor | None = None,
        since: Anchor | None = None,
    ) -> None:
        """Begin behind `since`, or at the chain's beginning.

        `own` is the chain's own head, as it was before the links were read.
        """
        self.report = Report(tenant_id=tenant_id, last=0 if since is None else since.seq)
        self._seq = self.report.last
        self._epoch: UUID | None = None if since is None else since.epoch
        self._hash: bytes | None = genesis(tenant_id) if since is None else since.hash
        self._own = own
        noted = [] if own is None else [own]
        for anchor in anchors:
            if anchor.fault is None:
                noted.append(anchor)
            else:
                self.report.find(Kind.UNSIGNED, anchor.seq, f"{anchor.source}: {anchor.fault}")
        self._anchors = sorted(noted, key=lambda anchor: anchor.seq, reverse=True)

    def take(self, found: Link) -> None:
        """Check the next link."""
        self.report.links += 1
        if found.seq <= self._seq:
            self._tell_repeated(found)
            return
        if found.seq > self._seq + 1:
            self._tell_gap(found.seq)
        self._judge(found)
        self._seq, self._epoch, self._hash = found.seq, found.epoch, found.hash
        self.report.last = found.seq
        while self._anchors and self._anchors[-1].seq <= found.seq:
            self._compare(self._anchors.pop(), found)

    def end(self, head: Anchor | None, *, is_growing: bool = False) -> Report:
        """Say what was found. `head` is where the chain says that it ends; that of a growing one may be further."""
        last = self._seq
        if head is None:
            self.report.find(Kind.TRUNCATED, last, "what says where the chain ends is not there")
        elif head.seq < last:
            self.report.find(Kind.ALTERED, last, f"{head.source} is at {head.seq}, and there are links behind it")
        elif head.seq > last and not is_growing:
            self.report.find(Kind.TRUNCATED, last, _ahead(head, last))
        elif head.seq == last and self._hash is not None and not self._is_last(head):
            kind = Kind.REWRITTEN if head.epoch == self._epoch else Kind.FORKED
            self.report.find(kind, last, f"{head.source} has another hash or epoch than the last link")
        if self._anchors:  # the furthest one comes first
            self.report.find(Kind.TRUNCATED, last, _ahead(self._anchors[0], last))
        return self.report

    def _is_last(self, head: Anchor) -> bool:
        return head == self._own or (head.hash, head.epoch) == (self._hash, self._epoch)

    def _tell_repeated(self, found: Link) -> None:
        if found.seq == self._seq and found.epoch != self._epoch:
            text = (
                f"two events have this number, in the epochs {self._epoch} and {found.epoch}: two servers went on from"
            )
            self.report.find(Kind.FORKED, found.seq, f"{text} one place")
        else:
            self.report.find(Kind.DOUBLED, found.seq, "the place is there twice, or comes late")

    def _tell_gap(self, seq: int) -> None:
        gap = f"{self._seq + 1}" if seq == self._seq + 2 else f"{self._seq + 1} to {seq - 1}"
        self.report.find(Kind.MISSING, self._seq + 1, f"there is no link at {gap}")
        self._hash = None

    def _judge(self, found: Link) -> None:
        if found.record is None:
            self.report.find(Kind.GONE, found.seq, "the event of this link is not there")
        elif self._hash is not None and found.hash != link(
            self._hash, seq=found.seq, epoch=found.epoch, record=found.record
        ):
            self.report.find(Kind.ALTERED, found.seq, "the hash is not that of this event at this place")
        elif not found.agrees:
            self.report.find(Kind.ALTERED, found.seq, "what else is stored of the event is not what its record says")

    def _compare(self, noted: Anchor, found: Link) -> None:
        if noted.seq != found.seq:
            return  # its place is missing, which was told
        if (noted.hash, noted.epoch) == (found.hash, found.epoch):
            if noted is not self._own:
                self.report.anchored = noted.seq
        elif noted.epoch != found.epoch:
            text = (
                f"{noted.source} saw another event here, in the epoch {noted.epoch}: two servers went on from one place"
            )
            self.report.find(Kind.FORKED, noted.seq, text)
        else:
            self.report.find(Kind.REWRITTEN, noted.seq, f"{noted.source} saw another hash at this place")


def _ahead(noted: Anchor, last: int) -> str:
    return f"{noted.source} has seen {noted.seq}, and {last} is the last place there is"
