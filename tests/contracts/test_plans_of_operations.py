"""The statements of operations touch few pages for an item, whatever the statistics say: see test_plans."""

import uuid
from typing import Any

from everwhen.core.ids import derived_run_id
from everwhen.dead_letters import store as dead_letters
from everwhen.lists import FIRST_ID, LAST_ID
from everwhen.operations import store as operations
from everwhen.runs import store as runs
from everwhen.runs.listing import store as listing
from tests.contracts.test_plans import (  # noqa: F401  # fixtures
    BATCH,
    DEFINE,
    MOST_PAGES_A_CALL,
    MOST_PAGES_A_ROW,
    NOW,
    TENANT,
    Watched,
    run_as_superuser,
    system,
)

OPERATION = uuid.UUID(int=9)
SCHEDULE = uuid.UUID(int=70)
# Half of the dead have letters; every item but the last third has been done.
FILL = """
    insert into everwhen.runs (tenant_id, run_id, source, task, queue, priority, due_at, planned_at, input)
    select '{tenant}', (substr(everwhen.first_run_id('{now}')::text, 1, 14) || '8' || lpad(to_hex(n), 3, '0') || '-8' ||
                        substr(md5(n::text), 1, 3) || '-' || substr(md5(n::text), 4, 12))::uuid,
           'api', 'report', 'line', 5, '{now}', '{now}', '{{}}'
    from generate_series({first}, {last}) n;
    insert into everwhen.run_ends (tenant_id, run_id, state, reason, attempts, finished_at, fingerprint)
    select tenant_id, run_id, 'dead', 'retry.exhausted', 1, '{now}', 'f' || right(run_id::text, 1)
    from everwhen.runs on conflict do nothing;
    insert into everwhen.operation_items (tenant_id, operation_id, seq, run_id, state, made_run_id)
    select tenant_id, '00000000-0000-0000-0000-000000000009', n, run_id,
           case when n % 3 = 0 then 'left' else 'done' end, run_id
    from (select *, row_number() over (order by run_id) as n from everwhen.runs) r
    on conflict do nothing;
"""
BEGIN = """
    insert into everwhen.schedules
    values ('{tenant}', '00000000-0000-0000-0000-000000000046', 's', 'active', null, 1, 'report', '{{}}', '{{}}', null,
            now(), now());
    insert into everwhen.operations
      (tenant_id, id, kind, state, request, requested_by, reason, created_at, changed_by, changed_at, moved_at, total,
       canary_passed, listed, listed_count, rate_at, seen_seq, next_at)
    values ('{tenant}', '00000000-0000-0000-0000-000000000009', 'redrive', 'running', '{{}}', 'a', 'b', now(), 'a',
            now(), now(), 9000, true, '', 0, now(), 0, now());
"""


class Statements:
    """Each statement as the operator calls it, for a batch."""

    def __init__(self, conn: Any) -> None:
        self.conn = conn
        self.key = {"tenant_id": TENANT, "operation_id": OPERATION}
        self.page = {"tenant_id": TENANT, "before": LAST_ID, "since": FIRST_ID, "limit": BATCH, "walk": 1_000}
        self.run = {"any_run": False, "schedule_uid": None, "task": "report", "source": "api"}
        self.ended = {"ended_from": None, "ended_before": NOW.replace(year=2030), "letter": "open", "reason": None}

    async def take_items(self):
        return await operations.take_items(self.conn, **self.key, limit=BATCH)

    async def see_ends(self):
        seen = await operations.see_ends(self.conn, **self.key, after=0, limit=BATCH)
        return [None] * seen.dead

    async def settle_items(self):
        items = await self.take_items()
        nothing = [None] * len(items)
        seqs = [item.seq for item in items]
        states = ["skipped"] * len(items)
        count = await operations.settle_items(
            self.conn, **self.key, seqs=seqs, states=states, reasons=nothing, details=nothing, made_run_ids=nothing
        )
        return [None] * count

    async def list_done(self):
        return await operations.list_done(self.conn, **self.key, after=0, limit=BATCH)

    async def page_ended(self):
        return await listing.page_ended(self.conn, **self.page, **self.run, **self.ended, state="dead")

    async def page_dead(self):
        return await listing.page_dead(self.conn, **self.page, **self.run, **self.ended, fingerprint="f0")

    async def redrive(self):
        dead = [place.run_id for place in await self.page_ended()]
        pairs = [(run_id, derived_run_id(TENANT, run_id, by="x", at=NOW)) for run_id in dead]
        taken = await dead_letters.mark_redriven(
            self.conn,
            tenant_id=TENANT,
            run_ids=dead,
            made_run_ids=[made for _, made in pairs],
            again=False,
            dismissed=False,
            changed_by="x",
            reason=None,
            now=NOW,
        )
        assert len(taken) == len(dead)
        return await runs.insert_redriven(
            self.conn,
            tenant_id=TENANT,
            origin_run_ids=dead,
            run_ids=[made for _, made in pairs],
            priority=None,
            input=None,
            operation_id=OPERATION,
            detail="{}",
            is_free=False,
            is_patient=True,
            now=NOW,
        )

    async def insert_backfilled(self):
        made = [derived_run_id(TENANT, uuid.UUID(int=n), by="y", at=NOW) for n in range(BATCH)]
        return await runs.insert_backfilled(
            self.conn,
            tenant_id=TENANT,
            schedule_uid=SCHEDULE,
            run_ids=made,
            nominal_ats=[NOW] * BATCH,
            utc_offsets=[0] * BATCH,
            priority=0,
            operation_id=OPERATION,
            tz_version="2026f",
            detail="{}",
            is_free=False,
            is_patient=True,
            now=NOW,
        )

    async def list_groups(self):
        return await dead_letters.list_groups(
            self.conn, tenant_id=TENANT, after="", first=True, letter="open", most_counted=20, limit=10
        )

    async def page_operation_runs(self):
        return await listing.page_operation_runs(self.conn, **self.page, operation_id=OPERATION, state=None)


async def test_an_operation_touches_few_pages_whatever_the_statistics_say(system: Watched, run_as_superuser):  # noqa: F811
    statements = Statements(system.conn)
    names = [name for name in vars(Statements) if not name.startswith("_")]
    run_as_superuser(DEFINE)
    run_as_superuser(BEGIN)
    for name in names:  # plans are made now, with nothing in any table
        if name != "insert_backfilled":
            await getattr(statements, name)()
    run_as_superuser(FILL, first=1, last=3_000)

    costs = {name: await system.pages(getattr(statements, name)) for name in names}

    found = {name: len(result) for name, (_, result) in costs.items() if name != "list_groups"}
    assert set(found.values()) == {BATCH}, found
    most = {name: MOST_PAGES_A_ROW * BATCH * (3 if name == "redrive" else 1) for name in names}  # three statements
    assert {name: pages for name, (pages, _) in costs.items() if pages > most[name]} == {}
    one = (await statements.take_items())[0].run_id
    assert one is not None
    single = {
        "next_due": lambda: operations.next_due(system.conn),
        "get_operation": lambda: operations.get_operation(system.conn, tenant_id=TENANT, operation_id=OPERATION),
        "get_letter": lambda: dead_letters.get_letter(system.conn, tenant_id=TENANT, run_id=one),
    }
    pages = {name: (await system.pages(call))[0] for name, call in single.items()}
    assert {name: touched for name, touched in pages.items() if touched > MOST_PAGES_A_CALL} == {}
