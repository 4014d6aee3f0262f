"""The recipe of docs/operate/postgres.md, followed to the letter on a server that knows nothing of Everwhen."""

import re
from pathlib import Path
from uuid import UUID

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from everwhen.postgres.cluster import APP, MIGRATOR, OWNER, SUPERUSER
from everwhen.postgres.embedded import EmbeddedPostgres
from everwhen.postgres.migrate import migrate
from everwhen.postgres.pool import Database
from tests.database import chosen_bin_dir, public_folder

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
