"""The caller: goes round the endpoints, and posts what is due at those that do not rest.

Each tick looks at the next `batch` endpoints in the order of their key and begins what there is room for; after the
last it begins anew. So a look is bounded however many endpoints there are, and none is passed over because another
one has more to do. It polls, and sleeps until the next run that it saw becomes due; a changed endpoint wakes it.

Safe in any number of copies: runs are claimed, a probe and a test are taken by a guarded update. What is under way
when it stops has a moment to end; the rest is left to the reaper, as after a crash.
"""

import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import structlog

from everwhen.core import endpoints
from everwhen.core.endpoints import Health, Verdict
from everwhen.egress.standard_webhooks import read_key
from everwhen.endpoints import store
from everwhen.endpoints.calling import GRACE_SECONDS, Calls, Key
from everwhen.endpoints.model import EndpointSeen
from everwhen.endpoints.service import place
from everwhen.endpoints.writing import Signing
from everwhen.errors import EverwhenError
from everwhen.postgres.pool import Connection, Database
from everwhen.roles import Tick
from everwhen.sealing.service import Sealer

FIRST: Final = (UUID(int=0), "")
PATIENCE_SECONDS: Final = 0.25
"""How long a tick waits for a request to end when there is more to post than room."""

CLOSE_SECONDS: Final = 5.0
BROKEN: Final = Verdict(meaning=endpoints.Meaning.NOT_NOW, rest=timedelta(minutes=1))
"""What an endpoint is whose secrets cannot be opened: its runs wait until somebody mends that."""

log = structlog.get_logger("everwhen.endpoints")

Asked = tuple[UUID | None, tuple[str, ...], tuple[str, ...] | None]


@dataclass(slots=True)
class _Place:
    """Where the next tick goes on, when the earliest run seen on this round is due, and whose runs were asked for."""

    after: Key = FIRST
    next_at: datetime | None = None
    asked: dict[Key, None] = field(default_factory=dict[Key, None])


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The role. `batch` bounds how many endpoints one tick looks at."""

    database: Database
    sealer: Sealer
    calls: Calls
    batch: int = 200
    name: str = "caller"
    interval: timedelta = timedelta(milliseconds=250)
    place: _Place = field(default_factory=_Place)

    async def tick(self, now: datetime) -> Tick:
        """Look at the next endpoints, and begin what can be posted."""
        tenant_id, queue = self.place.after
        async with self.database.system() as conn:
            looked = await store.look_at_endpoints(conn, after_tenant_id=tenant_id, after_queue=queue, limit=self.batch)
        if self.place.after == FIRST:
            self.place.next_at = None
        begun, wanting = 0, False
        for seen in looked:
            done, wants_room = await self._serve(seen, now=now)
            begun, wanting = begun + done, wanting or wants_room
        is_round_over = len(looked) < self.batch
        self.place.after = FIRST if is_round_over else (looked[-1].tenant_id, looked[-1].queue)
        if wanting and not begun:  # go on as soon as a request ends
            await self.calls.wait(PATIENCE_SECONDS)
        return Tick(done=begun, more=wanting or not is_round_over or begun > 0, next_at=self.place.next_at)

    async def close(self) -> None:
        """End what is under way."""
        await self.calls.close(seconds=CLOSE_SECONDS)

    def seen(self) -> list[Asked]:
        """Return whose runs were asked for since the last call: see `explaining/sightings.py`."""
        asked: list[Asked] = [(tenant_id, (queue,), None) for tenant_id, queue in self.place.asked]
        self.place.asked.clear()
        return asked

    async def _serve(self, seen: EndpointSeen, *, now: datetime) -> tuple[int, bool]:
        """Begin what one endpoint has; return how many runs, and whether there is more than room."""
        key = (seen.tenant_id, seen.queue)
        health = Health(failures=seen.failures, rests_until=seen.rests_until)
        is_due = seen.next_at is not None and seen.next_at <= now
        self.place.asked[key] = None
        if health.is_resting(now) or not is_due:
            self._sleep_until(seen.next_at if not is_due else seen.rests_until, now=now)
        if not seen.has_test and (health.is_resting(now) or not is_due):
            return 0, False
        room = self.calls.room_for(key)
        if room <= 0:
            return 0, True
        signing = await self._signing(seen, now=now)
        if signing is None:
            return 0, False
        if seen.has_test:
            await self._begin_test(seen, signing)
        if health.is_resting(now) or not is_due:
            return 0, False
        most = 1 if health.is_on_probation(now) else room
        if most < room and not await self._may_probe(seen, health, now=now):
            return 0, False
        begun = await self.calls.begin(seen, signing, most=most)
        return begun, begun == room

    def _sleep_until(self, at: datetime | None, *, now: datetime) -> None:
        if at is not None and at > now and (self.place.next_at is None or at < self.place.next_at):
            self.place.next_at = at

    async def _begin_test(self, seen: EndpointSeen, signing: Signing) -> None:
        async with self.database.system() as conn:
            taken = await store.take_test(conn, tenant_id=seen.tenant_id, queue=seen.queue, now=conn.now)
            now = conn.now
        if taken:
            self.calls.begin_test(seen, signing, now=now)

    async def _may_probe(self, seen: EndpointSeen, health: Health, *, now: datetime) -> bool:
        until = endpoints.probing(health, now=now, seconds=seen.answer_seconds + GRACE_SECONDS).rests_until
        assert until is not None
        async with self.database.system() as conn:
            taken = await store.take_probe(
                conn,
                tenant_id=seen.tenant_id,
                queue=seen.queue,
                failures=health.failures,
                rests_until=health.rests_until,
                until=until,
            )
        return taken > 0

    async def _signing(self, seen: EndpointSeen, *, now: datetime) -> Signing | None:
        """Open what signs; an endpoint whose secrets cannot be opened rests, and holds nobody else up."""
        async with self.database.system() as conn:
            try:
                return await self._opened(conn, seen)
            except EverwhenError as error:
                rested = endpoints.after(Health(), BROKEN, now=now, jitter=0.0)
                await store.note_health(
                    conn,
                    tenant_id=seen.tenant_id,
                    queue=seen.queue,
                    failures=seen.failures,
                    rests_until=rested.rests_until,
                    error=f"its secrets cannot be opened: {error.detail}",
                    now=conn.now,
                )
                log.warning("endpoint.secrets_closed", tenant_id=str(seen.tenant_id), queue=seen.queue)
                return None

    async def _opened(self, conn: Connection, seen: EndpointSeen) -> Signing:
        rows = await store.list_secrets(conn, tenant_id=seen.tenant_id, queues=[seen.queue])
        opened = await self.sealer.open(conn, seen.tenant_id, {place(seen.queue, row.name): row.sealed for row in rows})
        secrets = {where.rpartition("/")[2]: text for where, text in opened.items()}
        keys = [read_key(secrets[name]) for name in ("secret", "secret_previous") if name in secrets]
        return Signing(
            keys=tuple(key for key in keys if key is not None),
            headers=json.loads(seen.headers),
            authorization=secrets.get("authorization"),
        )
