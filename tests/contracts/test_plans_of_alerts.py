"""The statements that watch, match and preview touch as many pages beside a long history as beside a short one."""

import uuid
from datetime import timedelta
from typing import Any

from everwhen.alerts.matching import store as matching
from everwhen.alerts.reading import store as reading
from everwhen.alerts.watching import store as watching
from tests.contracts.test_plans import (  # noqa: F401  # fixtures
    DEFINE,
    NOW,
    TENANT,
    Watched,
    run_as_superuser,
    system,
)

SCHEDULE = uuid.UUID(int=70)
FEW, MANY = 600, 6_000
BATCH = 20
BEGIN = """
    update everwhen.tasks set total_deadline_seconds = 3600;
    insert into everwhen.schedules
    values ('{tenant}', '00000000-0000-0000-0000-000000000046', 's', 'active', null, 1, 'report', '{{}}', '{{}}', null,
            now(), now());
    insert into everwhen.alert_listeners values ('{tenant}', now());
    insert into everwhen.alert_subscriptions
      (tenant_id, name, scope, kinds, filter, after_failures, pierces, is_enabled, created_by, created_at, updated_at)
    values ('{tenant}', 'all', 'tenant', '{{run.late}}', '', 1, false, true, 'x', now(), now());
    insert into everwhen.subscription_kinds
    select '{tenant}', kind, 'all' from unnest('{{run.late,run.zombie,run.overdue,run.dead}}'::text[]) kind;
"""
# Of three runs of one schedule, the first has succeeded, the second waits, the third has been under way for long.
FILL = """
    insert into everwhen.runs
      (tenant_id, run_id, schedule_uid, source, task, queue, priority, due_at, planned_at, input)
    select '{tenant}', (substr(everwhen.first_run_id('{now}')::text, 1, 14) || '8' ||
                        lpad(to_hex(n / 4096), 3, '0') || '-8' ||
                        lpad(to_hex(n % 4096), 3, '0') || '-' || substr(md5(n::text), 4, 12))::uuid,
           case when n % 2 = 0 then '00000000-0000-0000-0000-000000000046'::uuid end,
           'schedule', 'report', 'line', 5, '{now}'::timestamptz - interval '1 hour', '{now}', '{{}}'
    from generate_series({first}, {last}) n;
    insert into everwhen.attempts (tenant_id, run_id, attempt, lease_token, worker, claimed_at, finished_at, outcome)
    select tenant_id, run_id, 1, 1, 'w', '{now}'::timestamptz - interval '20 minutes', '{now}', 'succeeded'
    from everwhen.runs where hashtext(run_id::text) % 3 = 0 on conflict do nothing;
    insert into everwhen.run_ends (tenant_id, run_id, state, attempts, finished_at)
    select tenant_id, run_id, 'succeeded', 1, '{now}'
    from everwhen.runs where hashtext(run_id::text) % 3 = 0 on conflict do nothing;
    insert into everwhen.waiting
    select tenant_id, queue, priority, due_at, run_id, task
    from everwhen.runs where hashtext(run_id::text) % 3 in (1, -2) on conflict do nothing;
    insert into everwhen.leases (tenant_id, run_id, queue, task, worker, attempt, failures, priority, lease_token,
                                 lease_until, claimed_at)
    select tenant_id, run_id, queue, task, 'w', 1, 0, 5, row_number() over () + {last},
           '{now}'::timestamptz + interval '1 hour', '{now}'::timestamptz - interval '59 minutes'
    from everwhen.runs where hashtext(run_id::text) % 3 in (2, -1) on conflict do nothing;
    insert into everwhen.alert_signals (tenant_id, kind, at, run_id)
    select tenant_id, 'run.dead', '{now}', run_id from everwhen.runs order by run_id desc;
"""


class Statements:
    """Each statement as the notifier, or a preview, calls it."""

    def __init__(self, conn: Any) -> None:
        self.conn = conn
        self.asked: dict[str, Any] = {"tenant_ids": [], "run_ids": []}

    async def take_signals(self):
        taken = await matching.take_signals(self.conn, tenant_ids=[TENANT], limit=BATCH)
        self.asked = {"tenant_ids": [TENANT] * len(taken), "run_ids": [signal.run_id for signal in taken]}
        return taken

    async def read_runs(self):
        return await matching.read_runs(
            self.conn, **self.asked, attempts=[1] * len(self.asked["run_ids"]), most_error=80
        )

    async def read_past(self):
        uids = [SCHEDULE] * len(self.asked["run_ids"])
        return await matching.read_past(self.conn, **self.asked, schedule_uids=uids, walk=50, limit=10)

    async def read_past_of_tasks(self):
        tasks = ["report"] * len(self.asked["run_ids"])
        return await matching.read_past_of_tasks(self.conn, **self.asked, tasks=tasks, walk=50, limit=10)

    async def signal_late(self):
        after = NOW - timedelta(hours=2)
        told = await watching.signal_late(
            self.conn, claimed_after=after, objective=30, depth=4 * BATCH, limit=BATCH, now=NOW + timedelta(minutes=5)
        )
        return [None] * told

    async def find_suspects(self):
        return await watching.find_suspects(self.conn, depth=BATCH, now=NOW + timedelta(minutes=50))

    async def signal_overdue_runs(self):
        soon = NOW + timedelta(minutes=55)
        told = await watching.signal_overdue_runs(self.conn, depth=4 * BATCH, limit=5, now=soon)
        return [None] * told

    async def find_watched(self):
        words = ["run.late", "run.overdue", "run.zombie"]
        return await reading.find_watched(
            self.conn, tenant_id=TENANT, words=words, deadlines=["deadline.total"], objective=30,
            since=NOW - timedelta(hours=1), walk=50, limit=BATCH, now=NOW + timedelta(hours=1),
        )  # fmt: skip


async def test_an_alert_costs_the_same_however_much_there_is(system: Watched, run_as_superuser):  # noqa: F811
    statements = Statements(system.conn)
    names = [name for name in vars(Statements) if not name.startswith("_")]
    run_as_superuser(DEFINE)
    run_as_superuser(BEGIN)
    for name in names:  # plans are made now, with nothing in any table
        await getattr(statements, name)()

    run_as_superuser(FILL, first=1, last=FEW)
    beside_few = {name: await system.pages(getattr(statements, name)) for name in names}
    run_as_superuser(FILL, first=FEW + 1, last=MANY)
    beside_many = {name: await system.pages(getattr(statements, name)) for name in names}

    assert [name for name in names if not beside_few[name][1] or not beside_many[name][1]] == []
    grown = {
        name: (beside_few[name][0], beside_many[name][0])
        for name in names
        if beside_many[name][0] > 2 * beside_few[name][0] + 100
    }
    assert grown == {}
