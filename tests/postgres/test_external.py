"""The recipe of docs/operate/postgres.md, followed to the letter on a server that knows nothing of Everwhen."""

import asyncio
import re
from pathlib import Path
from uuid import UUID

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from everwhen.postgres.cluster import APP, MIGRATOR, OWNER, SUPERUSER
from everwhen.postgres.embedded import EmbeddedPostgres
from everwhen.postgres.migrate import migrate
from everwhen.postgres.pool import Database, PoolLimits
from tests.database import chosen_bin_dir, public_folder

DEADLINE_SECONDS = 20.0
RECIPE = Path(__file__).parents[2] / "docs" / "operate" / "postgres.md"


@pytest.fixture
def bare():
    """A server without any role or database of ours."""
    with (
        public_folder() as folder,
        EmbeddedPostgres.start(folder / "data", bin_dir=chosen_bin_dir(), fast_and_unsafe=True) as running,
    ):
        with psycopg.connect(running.conninfo(SUPERUSER, database="postgres"), autocommit=True) as conn:
            conn.execute("drop database everwhen")
            conn.execute(f"drop role {OWNER}, {MIGRATOR}, {APP}")
        yield running


async def test_the_recipe_for_an_external_server_works(bare):
    block = re.search(r"```sql\n(.*?)```", RECIPE.read_text(encoding="utf-8"), re.DOTALL)
    with psycopg.connect(bare.conninfo(SUPERUSER, database="postgres"), autocommit=True) as conn:
        for statement in filter(str.strip, block[1].split(";\n")):
            conn.execute(statement)
    migrator = make_conninfo(bare.conninfo(MIGRATOR), password="…", options=f"-c role={OWNER}")

    assert migrate(migrator)[0].startswith("0001_")
    assert migrate(migrator) == []
    async with (
        await Database.open(make_conninfo(bare.app_conninfo, password="…")) as db,
        db.tenant(UUID(int=1)) as conn,
    ):
        assert await (await conn.execute("select count(*) from everwhen.runs")).fetchone() == (0,)


async def test_the_pools_come_back_when_the_server_does():
    async def works(db):
        try:
            async with db.system() as conn:
                return await (await conn.execute("select 1")).fetchone() == (1,)
        except psycopg.OperationalError:
            return False

    with public_folder() as folder:
        server = EmbeddedPostgres.start(folder / "data", bin_dir=chosen_bin_dir(), fast_and_unsafe=True)
        migrate(server.owner_conninfo)
        limits = PoolLimits(min_size=1, max_size=2, borrow_seconds=0.5)
        async with await Database.open(server.app_conninfo, limits=limits) as db:
            assert await works(db)
            server.stop()
            assert not await works(db)

            with EmbeddedPostgres.start(folder / "data", bin_dir=chosen_bin_dir(), fast_and_unsafe=True):
                async with asyncio.timeout(DEADLINE_SECONDS):
                    while not await works(db):
                        pass
