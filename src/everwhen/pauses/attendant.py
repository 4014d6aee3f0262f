"""The attendant: ends the pauses whose time has come, and pauses the schedules that fail.

    a queue or a tenant, paused until now     its row goes, and its workers are woken; the pause has ended by itself
    already a schedule, paused until now              resumed, as a person would resume it a schedule with too many
    failures         paused, as a person would pause it, with the runs named in the reason

It sleeps until the next of these instants. Safe in any number of copies: each schedule is locked before it is decided
about, and what is no longer so by then is left alone. If it dies before a commit, the next look finds the same. A
schedule that cannot be changed now (it is catching up) is put off, and stops no other.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import structlog

from everwhen.errors import EverwhenError
from everwhen.pauses import store
from everwhen.pauses.service import wake
from everwhen.postgres.pool import Connection, Database
from everwhen.roles import Tick
from everwhen.schedules import standing
from everwhen.schedules.model import TimedChange

BY: Final = "everwhen"
REASON: Final = "its time had come"
PUT_OFF: Final = timedelta(seconds=5)

log = structlog.get_logger("everwhen.pauses")

_Change = Callable[[Connection, TimedChange, datetime], Awaitable[bool]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attendant:
    """The role. `batch` bounds what one tick does of each kind."""

    database: Database
    batch: int = 100
    name: str = "attendant"
    interval: timedelta = timedelta(seconds=1)

    async def tick(self, now: datetime) -> Tick:
        """Do what is due by `now`."""
        async with self.database.system() as conn:
            ended = await store.end_pauses(conn, now=now, by=BY, reason=REASON, limit=self.batch)
            for pause in ended:
                await wake(conn, pause.tenant_id, pause.queue)
            next_at = [await store.next_end(conn)]
            to_resume, to_pause = await standing.find_wanted(conn, limit=self.batch)
        done = len(ended)
        for changes, change in ((to_resume, standing.resume_in_time), (to_pause, standing.pause_failing)):
            due = [each for each in changes if each.at <= now]
            done += await self._change(due, change, now=now)
            next_at += [each.at for each in changes if each.at > now][:1]
        full = self.batch in {len(ended), len(to_resume), len(to_pause)} and done > 0
        return Tick(done=done, more=full, next_at=min((at for at in next_at if at is not None), default=None))

    async def _change(self, due: Sequence[TimedChange], change: _Change, *, now: datetime) -> int:
        """Make these changes, each in a transaction of its own; return how many were made."""
        made = 0
        for each in due:
            try:
                async with self.database.system() as conn:
                    made += await change(conn, each, now)
            except EverwhenError as error:
                log.warning("schedule.put_off", schedule_uid=str(each.schedule_uid), error=str(error))
                async with self.database.system() as conn:
                    await standing.put_off(conn, each, until=now + PUT_OFF, now=now)
        return made
