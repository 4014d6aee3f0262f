"""The notary: notes outside of the database where each chain ends, so that nobody who owns it can hash a chain anew.

    claimed      a chain that has gone on, or was noted a day ago, is this copy's for HOLD
    followed     its new links are hashed again: what does not follow from what was noted last is never noted, but told
    noted        the heads, signed where there is a key, at every place; any of them may be noted twice
    written      how far that is

* **A crash** before it is written leaves the hold, which runs out; then the chain is noted again, under another name.
* **A place that is away** is the same, sooner: nothing is written, and all of it is noted again, everywhere.
* **Any number of copies**: the hold sends each to other chains; without one they would only note twice.
* **A broken chain** keeps its last note and stops no other one. It is looked at again whenever its hold runs out.

It checks what is new only; `everwhen audit verify` checks all there is, against all that was noted. A chain whose last
note was changed with it, in the database, passes here, and is found there.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import structlog

from everwhen import clock, failpoints, metrics
from everwhen.audit import store
from everwhen.audit.checking import read_chain
from everwhen.audit.lines import head_line
from everwhen.audit.model import Unanchored
from everwhen.audit.places import Place, name_of
from everwhen.audit.signing import Signer
from everwhen.core.audit_checking import Anchor, Check, Link
from everwhen.errors import Unavailable
from everwhen.postgres.pool import Database
from everwhen.roles import Tick

HOLD: Final = timedelta(minutes=5)
AWAY: Final = timedelta(seconds=15)
"""How long what could not be noted is left alone."""

REPEATED: Final = timedelta(days=1)
MOST_CHAINS: Final = 50
MOST_LINKS: Final = 5_000
MOST_FAULT: Final = 200

log = structlog.get_logger("everwhen.audit")


@dataclass(frozen=True, slots=True)
class Followed:
    """How far a chain follows from what was noted of it last, and whether that is to its end; or its fault."""

    anchor: Anchor
    is_whole: bool = True
    fault: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Notary:
    """The role. Without a place it has nothing to do. `chains` and `links` bound what one tick follows."""

    database: Database
    places: Sequence[Place] = ()
    signer: Signer | None = None
    period: timedelta = timedelta(minutes=1)
    chains: int = MOST_CHAINS
    links: int = MOST_LINKS
    name: str = "notary"
    interval: timedelta = timedelta(seconds=5)

    async def tick(self, now: datetime) -> Tick:
        """Note a batch of chains that have gone on."""
        if not self.places:
            return Tick()
        async with self.database.system() as conn:
            claimed = await store.claim_unanchored(
                conn,
                noted_before=now - self.period,
                repeat_before=now - REPEATED,
                now=now,
                held_until=now + HOLD,
                limit=self.chains,
            )
        followed = [await self._follow(chain) for chain in claimed]
        sound = [each for each in followed if each.fault is None]
        await self._tell_broken([each for each in followed if each.fault is not None])
        if not sound:
            return Tick()
        if not await self._note(sound, now):
            await self._try_later(sound, now)
            return Tick()
        failpoints.hit("notary.after_note")
        await self._write(sound, now)
        more = len(claimed) == self.chains or not all(each.is_whole for each in sound)
        return Tick(done=len(sound), more=more)

    async def _follow(self, chain: Unanchored) -> Followed:
        """Hash again what has come to a chain since it was noted."""
        noted = _noted(chain)
        head = Anchor(
            tenant_id=chain.tenant_id, seq=chain.seq, epoch=chain.epoch, hash=chain.hash, source="the chain's head"
        )
        check, reached, left = Check(chain.tenant_id, since=noted), noted, self.links
        async with aclosing(self._links(chain)) as links:
            async for found in links:
                check.take(found)
                reached = Anchor(
                    tenant_id=chain.tenant_id, seq=found.seq, epoch=found.epoch, hash=found.hash, source="a link"
                )
                left -= 1
                if left == 0 and found.seq < chain.seq:
                    break
        is_whole = left > 0 or reached is None or reached.seq >= chain.seq
        report = check.end(head, is_growing=False) if is_whole else check.report
        fault = None if report.is_sound else f"{report.findings[0].kind} at {report.findings[0].seq}"
        return Followed(head if is_whole or reached is None else reached, is_whole, fault)

    async def _links(self, chain: Unanchored) -> AsyncGenerator[Link]:
        """Yield the links behind the last note, up to the head that was claimed."""
        async with aclosing(read_chain(self.database, chain.tenant_id, first=chain.anchored + 1)) as links:
            async for found in links:
                if found.seq > chain.seq:
                    return
                yield found

    async def _note(self, sound: Sequence[Followed], now: datetime) -> bool:
        """Note at every place; return whether all of them have it."""
        lines = "".join(f"{head_line(each.anchor, signer=self.signer)}\n" for each in sound)
        name = name_of(now, clock.new_id(now).hex)
        for place in self.places:
            try:
                await place.note(name, lines.encode())
            except Unavailable as error:
                log.warning("audit.place_away", place=place.name, detail=error.detail)
                metrics.AUDIT_NOTES.labels("away").inc()
                return False
        metrics.AUDIT_NOTES.labels("noted").inc()
        return True

    async def _write(self, sound: Sequence[Followed], now: datetime) -> None:
        async with self.database.system() as conn:
            await store.mark_anchored(
                conn,
                tenant_ids=[each.anchor.tenant_id for each in sound],
                seqs=[each.anchor.seq for each in sound],
                hashes=[each.anchor.hash for each in sound],
                whole=[each.is_whole for each in sound],
                now=now,
            )

    async def _try_later(self, sound: Sequence[Followed], now: datetime) -> None:
        async with self.database.system() as conn:
            tenant_ids = [each.anchor.tenant_id for each in sound]
            await store.hold_chains(conn, tenant_ids=tenant_ids, held_until=now + AWAY)

    async def _tell_broken(self, broken: Sequence[Followed]) -> None:
        for each in broken:
            log.error("audit.broken", tenant_id=str(each.anchor.tenant_id), fault=each.fault)
        if broken:
            async with self.database.system() as conn:
                await store.mark_broken(
                    conn,
                    tenant_ids=[each.anchor.tenant_id for each in broken],
                    faults=[(each.fault or "")[:MOST_FAULT] for each in broken],
                )


def _noted(chain: Unanchored) -> Anchor | None:
    """Return where a chain was noted last. Of which epoch that was nobody has to know: it is in the hash."""
    if chain.anchored_hash is None:
        return None
    epoch = chain.epoch if chain.anchored == chain.seq else None
    return Anchor(
        tenant_id=chain.tenant_id, seq=chain.anchored, epoch=epoch, hash=chain.anchored_hash, source="the last note"
    )
