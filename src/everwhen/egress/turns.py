"""Turns: how many connections each tenant may have open, so that one tenant's slow receivers hold up nobody else.

A tenant's turns exist while somebody holds or awaits one. Resolving a name blocks a thread that nothing can interrupt,
so it has threads of its own, and a tenant's turn at them ends when the thread is free, not when the caller gave up:
otherwise the names of one tenant, served by a resolver that never answers, would take all of them.
"""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final
from uuid import UUID
from weakref import WeakValueDictionary

RESOLVER_THREADS: Final = 16
RESOLVER_THREADS_PER_TENANT: Final = 3

Resolve = Callable[[UUID, str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a name as text; raises OSError when there are none."""


class Turns:
    """So many at once for each tenant."""

    def __init__(self, each: int) -> None:
        self._each = each
        self._semaphores = WeakValueDictionary[UUID, asyncio.Semaphore]()

    def of(self, tenant_id: UUID) -> asyncio.Semaphore:
        """Return the tenant's semaphore; keep it while it is used, since nobody else does."""
        found = self._semaphores.get(tenant_id)
        if found is None:
            found = self._semaphores[tenant_id] = asyncio.Semaphore(self._each)
        return found


class Resolver:
    """The system's own resolver, in threads of its own."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(RESOLVER_THREADS, thread_name_prefix="resolve")
        self._turns = Turns(RESOLVER_THREADS_PER_TENANT)

    async def __call__(self, tenant_id: UUID, host: str, port: int) -> Sequence[str]:
        """Return every address of this name, once, in the resolver's order."""
        loop, turn = asyncio.get_running_loop(), self._turns.of(tenant_id)
        await turn.acquire()

        def end_turn(_: object) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(turn.release)

        asked = self._threads.submit(_addresses, host, port)
        asked.add_done_callback(end_turn)
        return await asyncio.wrap_future(asked)


def _addresses(host: str, port: int) -> Sequence[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
