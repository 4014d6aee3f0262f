"""Each promise is broken once, by hand, and exactly that promise must be reported."""

import uuid

import psycopg
import pytest

from everwhen.postgres.pool import Database
from everwhen.verify.service import PROMISES, verify

TENANT = uuid.UUID(int=7)
RUN = uuid.UUID("01a2290b-f820-8c7f-a512-430466578e05")
TWIN = uuid.UUID("01a2290b-f820-8c7f-a512-430466578e06")
SCHEDULE = uuid.UUID(int=70)

SOUND = """
    insert into everwhen.tenants values ('{t}', 'acme', now());
    insert into everwhen.tasks values ('{t}', 'report', 'default', 5, '{{}}', null, null, now(), now());
    insert into everwhen.schedules values
      ('{t}', '{s}', 'nightly', 'active', null, 1, 'report', '{{}}', '{{}}', null, now(), now());
    insert into everwhen.watermarks (tenant_id, schedule_uid, decided_until) values ('{t}', '{s}', '2026-12-01Z');
    select everwhen.ensure_week('2026-11-29Z');
    insert into everwhen.runs values
      ('{t}', '{r}', '{s}', 1, 'schedule', 'report', 'default', 5, '2026-11-29Z', 0, '2026-11-29Z', '2026-11-29Z', null,
       '{{}}');
    insert into everwhen.attempts values
      ('{t}', '{r}', 1, 10, 'w1', '2026-11-29 00:01Z', null, '2026-11-29 00:02Z', 'lost', 'lease.expired'),
      ('{t}', '{r}', 2, 20, 'w2', '2026-11-29 00:03Z', null, '2026-11-29 00:04Z', 'succeeded', null);
    insert into everwhen.run_ends values ('{t}', '{r}', 'succeeded', null, 2, '2026-11-29 00:04Z');
    insert into everwhen.events (tenant_id, run_id, at, kind, attempt) values
      ('{t}', '{r}', '2026-11-29Z', 'planned', null), ('{t}', '{r}', '2026-11-29 00:01Z', 'claimed', 1),
      ('{t}', '{r}', '2026-11-29 00:02Z', 'retrying', 1), ('{t}', '{r}', '2026-11-29 00:03Z', 'claimed', 2),
      ('{t}', '{r}', '2026-11-29 00:04Z', 'succeeded', 2);
"""
WAITS = "insert into everwhen.waiting values ('{t}', 'default', 5, '2026-11-29Z', '{r}', 'report')"
TWIN_ENDS = """
    insert into everwhen.runs select tenant_id, '{w}', schedule_uid, 1, source, task, queue, 5, nominal_at, 0, due_at,
      planned_at, null, '{{}}' from everwhen.runs;
    insert into everwhen.run_ends values ('{t}', '{w}', 'skipped', 'catchup.skip', 0, now());
    insert into everwhen.events (tenant_id, run_id, at, kind) values ('{t}', '{w}', now(), 'skipped')
"""
SEEDS = {
    "occurrences_with_several_runs": TWIN_ENDS,
    "runs_in_several_places": WAITS,
    "runs_in_no_place": TWIN_ENDS + "; update everwhen.runs set nominal_at = '2026-11-28Z' where run_id = '{w}';"
    " delete from everwhen.run_ends where run_id = '{w}'",
    "overlapping_leases": "update everwhen.attempts set claimed_at = '2026-11-29 00:01:30Z' where attempt = 2",
    "tokens_that_do_not_grow": "update everwhen.attempts set lease_token = 10 where attempt = 2",
    "attempts_with_gaps": "update everwhen.run_ends set attempts = 3",
    "claims_before_due": "update everwhen.attempts set claimed_at = '2026-11-28Z' where attempt = 1",
    "successes_without_a_winner": "update everwhen.attempts set outcome = 'succeeded' where attempt = 1",
    "states_that_history_does_not_tell": "update everwhen.events set kind = 'dead' where kind = 'succeeded'",
    "claims_that_history_does_not_tell": "delete from everwhen.events where kind = 'claimed' and attempt = 1",
    "orphans": "insert into everwhen.events (tenant_id, run_id, at, kind) values ('{t}', '{w}', now(), 'refused')",
    "runs_behind_the_watermark": "update everwhen.watermarks set decided_until = '2026-11-28Z'",
}
# What a seed breaks besides, because the same fact breaks two promises.
ALSO = {
    "runs_in_no_place": {"states_that_history_does_not_tell"},
}


@pytest.fixture
def seed(server, work_database):
    """Run SQL as the superuser, whom no grant keeps from damaging the history."""
    names = {"t": TENANT, "r": RUN, "w": TWIN, "s": SCHEDULE}

    def run(sql: str) -> None:
        with psycopg.connect(server.superuser(work_database), autocommit=True) as conn:
            conn.execute(sql.format(**names))

    return run


async def test_a_sound_database_breaks_no_promise(database: Database, seed) -> None:
    seed(SOUND)

    assert await verify(database) == {}


def test_every_promise_has_a_seeded_violation() -> None:
    assert {promise.__name__ for promise in PROMISES} == set(SEEDS)


@pytest.mark.parametrize("promise", SEEDS)
async def test_a_broken_promise_is_found_and_no_other_is_blamed(promise: str, database: Database, seed) -> None:
    seed(SOUND)

    seed(SEEDS[promise])

    assert set(await verify(database)) == {promise} | ALSO.get(promise, set())
