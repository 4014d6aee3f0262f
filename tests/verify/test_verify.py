"""Each promise is broken once, by hand, and exactly that promise must be reported."""

import json
import uuid
from pathlib import Path
from typing import Any

import psycopg
import pytest

from everwhen.core.zones import tz_version
from everwhen.postgres.pool import Database
from everwhen.verify.model import Scope
from everwhen.verify.promises import PROMISES, QUIESCENT
from everwhen.verify.service import check

TENANT = uuid.UUID(int=7)
RUN = uuid.UUID("01a2290b-f820-8c7f-a512-430466578e05")
TWIN = uuid.UUID("01a2290b-f820-8c7f-a512-430466578e06")
SCHEDULE = uuid.UUID(int=70)
FLOW_IDS = {name: uuid.UUID(f"01a2290b-f820-8c7f-a512-430466578e{number:02x}") for number, name in enumerate("fab", 16)}

SPEC = json.dumps({
    "trigger": {"kind": "cron", "expr": "0 0 * * *"},
    "timezone": "UTC",
    "gap": None,
    "fold": None,
    "catch_up": {"policy": "replay", "grace_seconds": 60, "window_seconds": None},
})  # fmt: skip

# Daily since the 18th: ten days of a pause, which lie in a span, then one run of two attempts.
SOUND = """
    insert into everwhen.tenants values ('{t}', 'acme', now());
    insert into everwhen.tasks values ('{t}', 'report', 'default', 5, '{{}}', null, null, now(), now());
    insert into everwhen.schedules values
      ('{t}', '{s}', 'nightly', 'active', null, 3, 'report', '{spec}', '{{}}', null, '2026-11-18 12:00Z', now());
    insert into everwhen.schedule_revisions
      select '{t}', '{s}', r, a, 'report', '{spec}', '{{}}', null, 'ann', null, at, '{release}'
      from (values (1, 'created', '2026-11-18 12:00Z'::timestamptz), (2, 'paused', '2026-11-18 13:00Z'),
                   (3, 'resumed', '2026-11-28 12:00Z')) as v (r, a, at);
    insert into everwhen.watermarks (tenant_id, schedule_uid, decided_until, tz_version)
      values ('{t}', '{s}', '2026-11-29 12:00Z', '{release}');
    insert into everwhen.spans values
      ('{t}', '{s}', '2026-11-19Z', '2026-11-28Z', 10, 'skipped', 'schedule.paused', '2026-11-28 12:00Z');
    insert into everwhen.arrears
      (tenant_id, schedule_uid, cause, revision, rule, skip_reason, since, until, as_of, late_before, rest_after,
       rest_until, begun, skipped, finished_at)
      values ('{t}', '{s}', 'resume', 3, '{{"policy": "skip"}}', 'schedule.paused', '2026-11-18 13:00Z', '2026-11-28Z',
              '2026-11-28 12:00Z', '2026-11-28 12:00Z', '2026-11-28Z', '2026-11-28Z', true, 10, '2026-11-28 12:00Z');
    select everwhen.ensure_week('2026-11-29Z');
    insert into everwhen.runs values
      ('{t}', '{r}', '{s}', 3, 'schedule', 'report', 'default', 5, '2026-11-29Z', 0, '2026-11-29Z', '2026-11-29Z', null,
       '{{}}', '{release}');
    insert into everwhen.attempts values
      ('{t}', '{r}', 1, 10, 'w1', '2026-11-29 00:01Z', null, '2026-11-29 00:02Z', 'lost', 'lease.expired'),
      ('{t}', '{r}', 2, 20, 'w2', '2026-11-29 00:03Z', null, '2026-11-29 00:04Z', 'succeeded', null);
    insert into everwhen.run_ends values ('{t}', '{r}', 'succeeded', null, 2, '2026-11-29 00:04Z');
    insert into everwhen.events (tenant_id, run_id, at, kind, attempt, detail) values
      ('{t}', '{r}', '2026-11-29Z', 'planned', null, null), ('{t}', '{r}', '2026-11-29 00:01Z', 'claimed', 1, null),
      ('{t}', '{r}', '2026-11-29 00:02Z', 'retrying', 1, null), ('{t}', '{r}', '2026-11-29 00:03Z', 'claimed', 2, null),
      ('{t}', '{r}', '2026-11-29 00:04Z', 'succeeded', 2, null);
    insert into everwhen.events (tenant_id, run_id, at, kind, reason, detail) values
      ('{t}', '{r}', '2026-11-29 00:05Z', 'refused', 'lease.lost', '{{"lease_token": "10"}}');
"""
# A message that was delivered at its first try.
ALERT = """
    insert into everwhen.alert_deliveries
      (tenant_id, delivery_id, channel, recipient, state, subscriptions, total, counts, shown, window_from, window_to,
       created_at, due_at, look_at, tries, finished_at, response)
      values ('{t}', '{w}', 'ops', '', 'delivered', '[]', 1, '{{"run.dead": 1}}', '[{{}}]', now(), now(), now(), now(),
              null, 1, now(), 'ok');
    insert into everwhen.alert_told values ('{t}', 'ops', '', '{w}', '{w}', 'run.dead');
    insert into everwhen.alert_tries values ('{t}', '{w}', 1, now(), now(), 'delivered', 'ok', 1);
"""
# A run of its own, asked for and not by a schedule, in each of the three places.
ASKED = """
    insert into everwhen.runs values
      ('{t}', '{w}', null, null, 'api', 'report', 'default', 5, null, null, '2026-11-29Z', '2026-11-29Z', null, '{{}}');
    insert into everwhen.events (tenant_id, run_id, at, kind) values ('{t}', '{w}', '2026-11-29Z', 'planned');
"""
ASKED_WAITS = ASKED + "insert into everwhen.waiting values ('{t}', 'default', 5, '2030-01-01Z', '{w}', 'report');"
ASKED_IS_LEASED = (
    ASKED
    + """
    insert into everwhen.leases values
      ('{t}', '{w}', 'default', 'report', 'w1', 1, 0, 5, null, 99, '2030-01-01Z', '2026-11-29 00:01Z');
    insert into everwhen.events (tenant_id, run_id, at, kind, attempt) values
      ('{t}', '{w}', '2026-11-29 00:01Z', 'claimed', 1);
"""
)
HELD = (
    ASKED
    + """
    insert into everwhen.gates (tenant_id, schedule_uid, policy, on_failure, decided_at) values
      ('{t}', '{s}', 'skip', 'continue', '2026-11-29Z');
    insert into everwhen.held (tenant_id, schedule_uid, line_at, run_id, due_at, queue, priority, task, is_planned)
    values
      ('{t}', '{s}', '2030-01-01Z', '{w}', '2030-01-01Z', 'default', 5, 'report', false);
"""
)
LET_IN = (
    ASKED_WAITS
    + """
    update everwhen.runs set schedule_uid = '{s}' where run_id = '{w}';
    insert into everwhen.admitted (tenant_id, schedule_uid, run_id, admitted_at) values
      ('{t}', '{s}', '{w}', '2026-11-29 00:05Z');
    insert into everwhen.events (tenant_id, run_id, at, kind, detail) values
      ('{t}', '{w}', '2026-11-29 00:05Z', 'admitted', '{{"most_running": 1}}');
"""
)
# A run of a workflow of two nodes, one after the other, that has ended well.
FLOW = """
    insert into everwhen.workflows values ('{t}', 'etl', 1, now(), now());
    insert into everwhen.workflow_versions values
      ('{t}', 'etl', 1, '{{"name": "etl", "nodes": [{{"id": "a", "task": "report"}},
        {{"id": "b", "task": "report", "needs": ["a"]}}]}}', 'ann', null, now());
    insert into everwhen.runs
      (tenant_id, run_id, source, task, queue, priority, due_at, planned_at, input, origin_run_id)
      select '{t}', id, source, task, 'q', 5, '2026-11-29Z', '2026-11-29Z', '{{}}', origin from (values
        ('{f}'::uuid, 'api', 'workflow:etl', null), ('{a}', 'workflow', 'report', '{f}'::uuid),
        ('{b}', 'workflow', 'report', '{f}')) as v (id, source, task, origin);
    insert into everwhen.attempts select '{t}', id::uuid, 1, token, 'w1', '2026-11-29 00:01Z', null, at::timestamptz,
        'succeeded', null from (values ('{f}', 31, '2026-11-29 00:06Z'), ('{a}', 32, '2026-11-29 00:02Z'),
        ('{b}', 33, '2026-11-29 00:05Z')) as v (id, token, at);
    insert into everwhen.run_ends select '{t}', id::uuid, 'succeeded', null, 1, at::timestamptz
      from (values ('{f}', '2026-11-29 00:06Z'), ('{a}', '2026-11-29 00:02Z'),
                   ('{b}', '2026-11-29 00:05Z')) as v (id, at);
    insert into everwhen.events (tenant_id, run_id, at, kind, attempt)
      select '{t}', id::uuid, at::timestamptz, kind, attempt from (values
        ('{f}', '2026-11-29Z', 'planned', null), ('{a}', '2026-11-29Z', 'planned', null),
        ('{b}', '2026-11-29Z', 'planned', null),
        ('{f}', '2026-11-29 00:01Z', 'claimed', 1), ('{a}', '2026-11-29 00:01Z', 'claimed', 1),
        ('{b}', '2026-11-29 00:01Z', 'claimed', 1), ('{a}', '2026-11-29 00:02Z', 'succeeded', 1),
        ('{b}', '2026-11-29 00:05Z', 'succeeded', 1),
        ('{f}', '2026-11-29 00:06Z', 'succeeded', 1)) as v (id, at, kind, attempt);
    insert into everwhen.workflow_runs
      (tenant_id, run_id, workflow, version, root_run_id, generation, nesting, lease_token, started_at, ordinary,
       leaves, ended_at)
      values ('{t}', '{f}', 'etl', 1, '{f}', 1, 0, 31, '2026-11-29 00:01Z', '{{2,0,0,0,0}}', '{{1,0,0,0,0}}',
              '2026-11-29 00:06Z');
    insert into everwhen.workflow_nodes
      (tenant_id, run_id, node, state, tally, node_run_id, decided_at, ended_at) values
      ('{t}', '{f}', 'a', 'succeeded', '{{0,0,0,0,0}}', '{a}', '2026-11-29Z', '2026-11-29 00:02Z'),
      ('{t}', '{f}', 'b', 'succeeded', '{{1,0,0,0,0}}', '{b}', '2026-11-29Z', '2026-11-29 00:05Z');
"""
# The same while its first node runs.
FLOW_GOES_ON = (
    FLOW
    + """
    delete from everwhen.attempts where run_id in ('{f}', '{a}', '{b}'); delete from everwhen.runs where run_id = '{b}';
    delete from everwhen.run_ends where run_id in ('{f}', '{a}', '{b}');
    delete from everwhen.events where run_id = '{b}';
    delete from everwhen.events where run_id in ('{f}', '{a}') and kind = 'succeeded';
    insert into everwhen.leases
      (tenant_id, run_id, queue, task, worker, attempt, failures, priority,
       lease_token, lease_until, claimed_at)
      select '{t}', id::uuid, 'q', 'report', 'w1', 1, 0, 5, token, '2030-01-01Z', '2026-11-29 00:01Z'
      from (values ('{f}', 31), ('{a}', 32)) as v (id, token);
    update everwhen.workflow_runs set ordinary = '{{0,0,0,0,0}}', leaves = '{{0,0,0,0,0}}', live = 1, ended_at = null;
    update everwhen.workflow_nodes set state = 'waiting', ended_at = null where node = 'a';
    update everwhen.workflow_nodes set state = 'blocked', ended_at = null, decided_at = null, node_run_id = null,
      tally = '{{0,0,0,0,0}}' where node = 'b';
"""
)
WAITS = "insert into everwhen.waiting values ('{t}', 'default', 5, '2030-01-01Z', '{r}', 'report')"
TWIN_ENDS = """
    insert into everwhen.runs select tenant_id, '{w}', schedule_uid, 3, source, task, queue, 5, nominal_at, 0, due_at,
      planned_at, null, '{{}}', tz_version from everwhen.runs;
    insert into everwhen.run_ends values ('{t}', '{w}', 'skipped', 'catchup.skip', 0, '2026-11-29Z');
    insert into everwhen.events (tenant_id, run_id, at, kind, reason) values
      ('{t}', '{w}', '2026-11-29Z', 'skipped', 'catchup.skip')
"""
SEEDS = {
    "instants_without_an_answer": "delete from everwhen.spans",
    "runs_nobody_intended": TWIN_ENDS + "; update everwhen.runs set nominal_at = '2026-11-28 18:00Z',"
    " due_at = '2026-11-28 18:00Z' where run_id = '{w}'",
    "spans_that_miscount": "update everwhen.spans set instants = 9",
    "instants_answered_twice": "insert into everwhen.spans values"
    " ('{t}', '{s}', '2026-11-18 18:00Z', '2026-11-20 18:00Z', 2, 'skipped', 'schedule.paused', now())",
    "occurrences_with_several_runs": TWIN_ENDS,
    "claims_before_due": "update everwhen.runs set due_at = '2026-11-29 00:02Z'",
    "runs_behind_the_watermark": "update everwhen.watermarks set decided_until = '2026-11-28 12:00Z'",
    "runs_of_a_pause": "update everwhen.schedule_revisions set changed_at = '2026-11-29 00:06Z' where revision = 3;"
    " update everwhen.runs set schedule_revision = 1",
    "more_running_than_allowed": LET_IN
    + """
    insert into everwhen.events (tenant_id, run_id, event_id, at, kind, detail) values
      ('{t}', '{r}', -4, '2026-11-29 00:00Z', 'admitted', '{{"most_running": 1}}');
    update everwhen.events set event_id = -5 where run_id = '{r}' and kind = 'planned';
    update everwhen.events set at = '2026-11-29 00:03Z' where run_id = '{w}' and kind = 'admitted'""",
    "slots_that_do_not_fit": LET_IN + "delete from everwhen.admitted",
    "attempts_that_history_does_not_tell": "update everwhen.events set at = '2026-11-29 00:02:01Z'"
    " where kind = 'retrying'",
    "ends_that_history_does_not_tell": "update everwhen.run_ends set reason = 'retry.exhausted'",
    "plans_that_history_does_not_tell": "update everwhen.events set at = '2026-11-28 23:00Z' where kind = 'planned'",
    "claims_that_history_does_not_tell": "update everwhen.events set at = '2026-11-29 00:01:01Z'"
    " where kind = 'claimed' and attempt = 1",
    "successes_without_a_winner": "update everwhen.attempts set outcome = 'failed' where attempt = 2",
    "tokens_that_do_not_grow": "update everwhen.attempts set lease_token = 9 where attempt = 2",
    "tokens_used_twice": ASKED_IS_LEASED + "update everwhen.leases set lease_token = 20",
    "overlapping_leases": "update everwhen.attempts set claimed_at = '2026-11-29 00:01:30Z' where attempt = 2;"
    " update everwhen.events set at = '2026-11-29 00:01:30Z' where kind = 'claimed' and attempt = 2",
    "refusals_of_a_held_lease": ASKED_IS_LEASED + "insert into everwhen.events"
    " (tenant_id, run_id, at, kind, reason, detail) values"
    " ('{t}', '{w}', now(), 'refused', 'lease.lost', '{{\"lease_token\": \"99\"}}')",
    "attempts_with_gaps": "update everwhen.run_ends set attempts = 3",
    "attempts_without_a_cause": "update everwhen.attempts set outcome = 'cancelled' where attempt = 1",
    "leases_nobody_reaped": ASKED_IS_LEASED + "update everwhen.leases set lease_until = now() - interval '6 minutes'",
    "late_runs_nobody_expired": ASKED_WAITS + "update everwhen.waiting set expires_at = now() - interval '6 minutes'",
    "impossible_edges": "update everwhen.events set kind = 'cancelled' where kind = 'succeeded';"
    " update everwhen.run_ends set state = 'cancelled';"
    " update everwhen.attempts set outcome = 'released' where attempt = 2;"
    " insert into everwhen.events (tenant_id, run_id, event_id, at, kind) select tenant_id, run_id, -1, at, 'released'"
    " from everwhen.events where kind = 'planned'; update everwhen.runs set planned_at = planned_at",
    "events_after_the_end": "insert into everwhen.events (tenant_id, run_id, at, kind, attempt) values"
    " ('{t}', '{r}', '2026-11-29 00:04Z', 'succeeded', 2)",
    "times_out_of_order": "update everwhen.attempts set finished_at = '2026-11-29 00:00:30Z' where attempt = 1;"
    " update everwhen.events set at = '2026-11-29 00:00:30Z' where kind = 'retrying'",
    "claims_after_a_cancel": "update everwhen.events set kind = 'cancel_requested', event_id = 1"
    " where kind = 'refused'; update everwhen.events set event_id = event_id + 10 where event_id > 1",
    "runs_in_several_places": WAITS,
    "runs_in_no_place": ASKED,
    "states_that_history_does_not_tell": "update everwhen.run_ends set state = 'dead';"
    " update everwhen.attempts set outcome = 'failed' where attempt = 2",
    "failures_that_history_does_not_tell": ASKED_WAITS + "update everwhen.waiting set failures = 1",
    "schedules_that_revisions_do_not_tell": "update everwhen.schedules set input = '{{\"a\": 1}}'",
    "tags_that_differ": "insert into everwhen.tagged values ('{t}', 'schedule', 'nightly', 'gone')",
    "redrives_without_a_dead_origin": ASKED_WAITS + "update everwhen.runs set source = 'redrive',"
    " origin_run_id = '{r}' where run_id = '{w}'; insert into everwhen.dead_letters values"
    " ('{t}', '{r}', 'redriven', 1, '{w}', 'ann', null, now())",
    "letters_that_miscount": "insert into everwhen.dead_letters values"
    " ('{t}', '{r}', 'redriven', 2, null, 'ann', null, now())",
    "operations_that_miscount": "insert into everwhen.operations (tenant_id, id, kind, state, request, requested_by,"
    " reason, created_at, changed_by, changed_at, moved_at, total, done, canary_passed, listed, listed_count,"
    " rate_at, seen_seq) values ('{t}', '{w}', 'redrive', 'running', '{{}}', 'ann', 'why', now(), 'ann', now(), now(),"
    " 1, 1, true, '', 0, now(), 0); insert into everwhen.operation_items values ('{t}', '{w}', 1, '{r}')",
    "catch_up_that_does_not_add_up": "update everwhen.arrears set skipped = 11",
    "catch_up_beyond_its_rule": 'update everwhen.arrears set rule = \'{{"policy": "coalesce"}}\', coalesced = 10,'
    " skipped = 0; update everwhen.spans set verdict = 'coalesced', reason = 'catchup.coalesced'",
    "arrears_that_overlap": "insert into everwhen.arrears select tenant_id, schedule_uid, arrears_id + 1, cause,"
    " revision, rule, skip_reason, since, until, as_of, late_before, rest_after, rest_until, begun, null, null, null,"
    " null, 0, 0, skipped, 0, 0, null, null, finished_at from everwhen.arrears",
    "node_runs_without_a_node": FLOW + "update everwhen.workflow_nodes set node_run_id = null where node = 'a'",
    "nodes_that_differ_from_their_runs": FLOW + "update everwhen.workflow_nodes set ended_at = now() where node = 'b'",
    "tallies_that_miscount": FLOW + "update everwhen.workflow_nodes set tally = '{{2,0,0,0,0}}' where node = 'b'",
    "nodes_decided_too_early": FLOW_GOES_ON
    + "update everwhen.workflow_nodes set state = 'waiting', is_held = true where node = 'b'",
    "nodes_nobody_decided": FLOW_GOES_ON
    + "update everwhen.workflow_nodes set tally = '{{1,0,0,0,0}}' where node = 'b'",
    "workflows_that_miscount": FLOW_GOES_ON + "update everwhen.workflow_runs set live = 2",
    "workflows_ended_otherwise": FLOW_GOES_ON + "update everwhen.workflow_runs set ended_at = now()",
    "orphans": "insert into everwhen.events (tenant_id, run_id, at, kind) values ('{t}', '{w}', now(), 'planned')",
    "live_runs": ASKED_IS_LEASED,
}
SEEDS |= {
    "alerts_that_miscount": ALERT + "update everwhen.alert_deliveries set total = 2, counts = '{{\"run.dead\": 2}}';",
    "alerts_without_an_outcome": ALERT + "update everwhen.alert_tries set outcome = 'failed';",
    "alerts_nobody_sends": """
        insert into everwhen.alert_signals (tenant_id, kind, at) values ('{t}', 'run.dead', '2026-11-29Z');
    """,
}

# A chain of one event, by somebody who has taken the triggers away that keep it as it is.
AUDIT = """
    set session_replication_role = replica;
    select everwhen.ensure_audit_week('2026-11-29Z');
    insert into everwhen.audit_events values
      ('{t}', '{w}', '2026-11-29 12:00Z', 'ann', 'pause_schedule', 'schedules/nightly', 'done', '', '{{}}');
    insert into everwhen.audit_links values ('{t}', '{w}', 1, '{s}', sha256(
      sha256('everwhen audit'::bytea || uuid_send('{t}')) || int8send(1) || uuid_send('{s}') || int4send(2) || '{{}}'));
    insert into everwhen.audit_heads (tenant_id, seq, hash, epoch)
      select tenant_id, seq, hash, epoch from everwhen.audit_links;
"""
SEEDS |= {
    "audit_links_that_do_not_hold": AUDIT + "update everwhen.audit_events set record = '{{ }}';",
    "audit_chains_that_miscount": AUDIT + "update everwhen.audit_heads set seq = 2;",
    "audit_events_without_a_place": AUDIT
    + "insert into everwhen.audit_unsealed select tenant_id, event_id, now() from everwhen.audit_events;",
    "audit_events_nobody_sealed": AUDIT + "delete from everwhen.audit_links; delete from everwhen.audit_heads;"
    " insert into everwhen.audit_unsealed select tenant_id, event_id, at from everwhen.audit_events;",
    "revisions_that_the_audit_does_not_tell": AUDIT
    + "update everwhen.audit_events set at = '2026-11-18 12:00Z' where tenant_id = '{t}';",
    "days_that_miscount": "insert into everwhen.run_counts values ('{t}', (now() at time zone 'UTC')::date, 3, 1)",
}

# What a seed breaks besides, because the same fact breaks two promises.
SEEDS |= {
    "leases_that_count_for_nothing": ASKED_IS_LEASED + "insert into everwhen.task_limits"
    " (tenant_id, task, queue, max_in_flight, key_version) values ('{t}', 'report', 'default', 5, 1)",
    "more_in_flight_than_allowed": ASKED_IS_LEASED + "update everwhen.leases set limit_key = '1:a';"
    " update everwhen.tasks set updated_at = '2026-11-28Z', concurrency = '{{\"max_in_flight\": 0}}'",
    "more_begun_than_rates_allow": "update everwhen.tasks set updated_at = '2026-11-28Z' where name = 'report';"
    " insert into everwhen.task_limits (tenant_id, task, queue, rate_tokens, rate_seconds, rate_burst, key_version)"
    " values ('{t}', 'report', 'default', 1, 3600, 1, 1)",
    "runs_parked_for_nothing": ASKED_WAITS + "update everwhen.waiting set priority = -6, limit_group = 'parked task'",
}
ALSO = {
    "instants_without_an_answer": {"catch_up_that_does_not_add_up"},
    "spans_that_miscount": {"catch_up_that_does_not_add_up"},
    "instants_answered_twice": {"catch_up_that_does_not_add_up"},
    "runs_in_several_places": {"failures_that_history_does_not_tell"},
    "runs_in_no_place": {"states_that_history_does_not_tell"},
    "runs_behind_the_watermark": set(),
    "nodes_nobody_decided": {"tallies_that_miscount"},
}


@pytest.fixture
def seed(server, work_database):
    """Run SQL as the superuser, whom no grant keeps from damaging the history."""
    names = {"t": TENANT, "r": RUN, "w": TWIN, "s": SCHEDULE, "spec": SPEC, "release": tz_version(), **FLOW_IDS}

    def run(sql: Any) -> None:
        with psycopg.connect(server.superuser(work_database), autocommit=True) as conn:
            conn.execute(sql.format(**names).encode())

    return run


async def broken(database: Database) -> set[str]:
    """Every promise, those about the present by a clock of today and the schedule's whole life."""
    found = await check(database, Scope(days=36_500, quiescent=True))
    return {checked.name for checked in found if checked.count}


async def test_a_sound_database_breaks_no_promise(database: Database, seed) -> None:
    seed(SOUND)

    assert await broken(database) == set()


@pytest.mark.parametrize(
    "more", [ASKED_WAITS, HELD, LET_IN, FLOW, AUDIT], ids=["waits", "held", "let in", "workflow", "audit"]
)
async def test_a_sound_run_in_a_line_breaks_no_promise(more: str, database: Database, seed) -> None:
    seed(SOUND + more)

    assert await broken(database) == set()


def test_every_promise_has_a_seeded_violation() -> None:
    assert {promise.name for promise in (*PROMISES, QUIESCENT)} == set(SEEDS)


@pytest.mark.parametrize("promise", SEEDS)
async def test_a_broken_promise_is_found_and_no_other_is_blamed(promise: str, database: Database, seed) -> None:
    seed(SOUND)

    seed(SEEDS[promise])

    is_live = ASKED_IS_LEASED in SEEDS[promise] or FLOW_GOES_ON in SEEDS[promise]
    leased = {"live_runs"} if is_live else set()
    assert await broken(database) == {promise} | ALSO.get(promise, set()) | leased


async def test_what_a_gate_adopted_counts_like_what_it_let_in(database: Database, seed) -> None:
    adopted = SEEDS["more_running_than_allowed"].replace(
        """'admitted', '{{"most_running": 1}}');
    update""",
        """'adopted', null);
    update""",
    )
    assert adopted != SEEDS["more_running_than_allowed"]
    seed(SOUND)

    seed(adopted)

    assert await broken(database) == {"more_running_than_allowed"}


async def test_what_was_never_let_in_runs_beside_the_gate_and_does_not_count(database: Database, seed) -> None:
    beside = (
        LET_IN
        + """
    insert into everwhen.events (tenant_id, run_id, event_id, at, kind) values
      ('{t}', '{r}', -4, '2026-11-29 00:00Z', 'refused');
    update everwhen.events set event_id = -5 where run_id = '{r}' and kind = 'planned';
    update everwhen.events set at = '2026-11-29 00:03Z' where run_id = '{w}' and kind = 'admitted'"""
    )
    seed(SOUND)

    seed(beside)

    assert "more_running_than_allowed" not in await broken(database)


def test_every_promise_is_on_its_page_with_its_sentence() -> None:
    page = (Path(__file__).parents[2] / "docs/operate/verify.md").read_text(encoding="utf-8")

    for promise in (*PROMISES, QUIESCENT):
        assert f"| `{promise.name}` | {' '.join(promise.invariants)} | {promise.sentence} |" in page
