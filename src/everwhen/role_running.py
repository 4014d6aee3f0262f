"""Runs a role in this process: by the database's clock, woken by its topics, and closed in the end."""

import asyncio
from datetime import datetime

from everwhen import roles
from everwhen.postgres.pool import Database
from everwhen.postgres.wakeups import ChangingWaiter, Wakeups, role_topic
from everwhen.roles import Attentive, Closing, Loop, Role


async def run_role(role: Role, database: Database, wakeups: Wakeups, stop: asyncio.Event) -> None:
    """Tick until told to stop."""

    def topics() -> frozenset[str]:
        own = frozenset({role_topic(role.name)})
        return own | role.topics if isinstance(role, Attentive) else own

    with ChangingWaiter(wakeups, topics) as waiter:

        async def wait_for_wakeup(seconds: float) -> None:
            await waiter.wait(seconds)

        async def database_clock() -> datetime:
            async with database.system() as conn:
                return conn.now

        try:
            await roles.run(role, Loop(clock=database_clock, wait_for_wakeup=wait_for_wakeup, stop=stop))
        finally:
            if isinstance(role, Closing):
                await role.close()
