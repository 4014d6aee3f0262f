"""One transaction for all that a request does, however many its use-cases open.

    async with joined(database) as whole:      `whole` is a Database
        await service.do(whole, …)             its `async with db.tenant(…)` blocks share one transaction
    # committed here; when the block raises, nothing of it is kept

What a request answers can then be written with what it did, and a request can be tried and undone. Where a block inside
raises and somebody swallows that, half of the request would be kept: the whole refuses to commit. Each scope (a tenant,
or the system) has its own transaction; they are committed one after the other.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from uuid import UUID

from everwhen.postgres.pool import Connection, Database

OnBegin = Callable[[Connection, UUID], Awaitable[None]]
"""Called at the start of a tenant's transaction: (connection, tenant)."""


class Joined(Database):
    """A Database whose blocks take part in one transaction; made by `joined`."""

    def __init__(self, database: Database, stack: AsyncExitStack, on_begin: OnBegin | None) -> None:
        self._database = database
        self._stack = stack
        self._on_begin = on_begin
        self._open: dict[UUID | None, Connection] = {}
        self.is_spoilt = False

    @property
    def tenants(self) -> dict[UUID, Connection]:
        """The transactions of tenants that are under way."""
        return {tenant_id: conn for tenant_id, conn in self._open.items() if tenant_id is not None}

    @contextmanager
    def tolerant(self) -> Generator[None]:
        """Forgive what raises within, as far as no statement has failed: of reads that may find nothing."""
        was_spoilt = self.is_spoilt
        try:
            yield
        finally:
            self.is_spoilt = was_spoilt

    @asynccontextmanager
    async def tenant(self, tenant_id: UUID) -> AsyncGenerator[Connection]:
        async with self._part(tenant_id) as conn:
            yield conn

    @asynccontextmanager
    async def system(self) -> AsyncGenerator[Connection]:
        async with self._part(None) as conn:
            yield conn

    @asynccontextmanager
    async def _part(self, tenant_id: UUID | None) -> AsyncGenerator[Connection]:
        conn = self._open.get(tenant_id) or await self._begin(tenant_id)
        try:
            yield conn
        except BaseException:
            self.is_spoilt = True
            raise

    async def _begin(self, tenant_id: UUID | None) -> Connection:
        scope = self._database.system() if tenant_id is None else self._database.tenant(tenant_id)
        conn = await self._stack.enter_async_context(scope)
        self._open[tenant_id] = conn
        if tenant_id is not None and self._on_begin is not None:
            await self._on_begin(conn, tenant_id)
        return conn


@asynccontextmanager
async def joined(database: Database, *, on_begin: OnBegin | None = None) -> AsyncGenerator[Joined]:
    """Open a whole; commit it when the block ends, undo it when the block raises."""
    async with AsyncExitStack() as stack:
        whole = Joined(database, stack, on_begin)
        yield whole
        if whole.is_spoilt:
            raise RuntimeError("a part of the request failed, and that was swallowed: nothing is committed")
