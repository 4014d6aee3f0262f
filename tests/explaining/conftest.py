"""A scene on a real database, and the power to put a change of a schedule into the past."""

from datetime import datetime

import psycopg
import pytest

from everwhen.core.retry import Jitter, RetryPolicy
from tests.explaining.scene import make_scene

PATIENT = RetryPolicy(max_attempts=3, jitter=Jitter.NONE)


@pytest.fixture
def rewrite(server, work_database):
    async def revisions_of_this_hour(at: datetime) -> None:
        with psycopg.connect(server.superuser(work_database), autocommit=True) as conn:
            conn.execute(
                "update everwhen.schedule_revisions set changed_at = %s where changed_at > now() - interval '1 hour'",
                (at,),
            )

    return revisions_of_this_hour


@pytest.fixture
async def scene(database, rewrite):
    return await make_scene(database, rewrite, retry=PATIENT)
