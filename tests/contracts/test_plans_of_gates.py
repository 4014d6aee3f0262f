"""What gates and arrears ask costs the same however long the history and whoever else has rows: see test_plans."""

import uuid
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from everwhen.overlap import store as overlap
from everwhen.schedules.arrears import store as arrears
from tests.contracts.test_plans import (  # noqa: F401  # fixtures
    BATCH,
    DEFINE,
    MOST_PAGES_A_ROW,
    NOW,
    TENANT,
    Watched,
    run_as_superuser,
    system,
)

MINE = uuid.UUID(int=70)
"""A schedule with two runs behind its gate, two beyond it, 3,000 arrears that are finished and two that are not."""

MOST_PAGES_OF_ONE = 60

BEGIN = """
    insert into everwhen.schedules
    values ('{tenant}', '00000000-0000-0000-0000-000000000046', 's', 'active', null, 1, 'report', '{{}}', '{{}}', null,
            now(), now());
    insert into everwhen.schedule_revisions
      (tenant_id, uid, revision, action, task, spec, input, priority, changed_by, reason, changed_at, tz_version)
    select tenant_id, uid, 1, 'created', task, spec, input, priority, 'x', null, now(), 'x' from everwhen.schedules;
"""
# An id of now, which says whose run it is.
RUN = """
    (substr(everwhen.first_run_id('{now}')::text, 1, 14) || '8' || substr(md5(uid::text || n), 1, 3) || '-8' ||
     substr(md5(uid::text || n), 4, 3) || '-' || substr(md5(uid::text || n), 7, 12))::uuid
"""
FILL = """
    insert into everwhen.schedules
    select '{tenant}', lpad(to_hex(n + 1000), 32, '0')::uuid, 's' || n, 'active', null, 1, 'report', '{{}}', '{{}}',
           null, now(), now()
    from generate_series({first}, {last}) n;
    insert into everwhen.schedule_revisions
      (tenant_id, uid, revision, action, task, spec, input, priority, changed_by, reason, changed_at, tz_version)
    select tenant_id, uid, 1, 'created', task, spec, input, priority, 'x', null, now(), 'x' from everwhen.schedules
    on conflict do nothing;
    insert into everwhen.gates (tenant_id, schedule_uid, policy, on_failure, decided_at)
    select tenant_id, uid, 'skip', 'continue', now() from everwhen.schedules;
    insert into everwhen.held
      (tenant_id, schedule_uid, line_at, run_id, due_at, look_at, queue, priority, task, is_planned)
    select tenant_id, uid, '{now}', {{run}}, '{now}', '{now}', 'line', 5, 'report', true
    from everwhen.schedules, generate_series(1, 2) n;
    insert into everwhen.admitted (tenant_id, schedule_uid, run_id, admitted_at)
    select tenant_id, uid, {{run}}, '{now}' from everwhen.schedules, generate_series(3, 4) n;
    insert into everwhen.arrears
      (tenant_id, schedule_uid, cause, revision, skip_reason, since, until, as_of, late_before, rest_after, rest_until,
       paced_until, look_at, finished_at)
    select '{tenant}', '00000000-0000-0000-0000-000000000046', 'outage', 1, 'catchup.skip', at, at + interval '1 s', at,
           at, at, at, at, null, at
    from (select timestamptz '{now}' - make_interval(hours => n) as at from generate_series(1, 3000) n) a;
    insert into everwhen.arrears
      (tenant_id, schedule_uid, cause, revision, skip_reason, since, until, as_of, late_before, rest_after, rest_until,
       look_at)
    select tenant_id, uid, 'outage', 1, 'catchup.skip', '{now}', timestamptz '{now}' + make_interval(secs => n),
           '{now}', '{now}', '{now}', '{now}', '{now}'
    from everwhen.schedules, generate_series(1, 2) n;
""".replace("{{run}}", RUN)


class Batches:
    """Each statement of the gatekeeper and of the scheduler as they call it, for a batch of gates or of runs."""

    def __init__(self, conn: Any) -> None:
        self.conn = conn
        self.later = NOW + timedelta(seconds=1)
        self.due: list[Any] = []

    def gates(self) -> dict[str, Any]:
        keys = sorted({(each.tenant_id, each.schedule_uid) for each in self.due})
        return {"tenant_ids": [tenant for tenant, _ in keys], "schedule_uids": [uid for _, uid in keys]}

    def runs(self) -> dict[str, Any]:
        return {"tenant_ids": [TENANT], "run_ids": [each.run_id for each in self.due]}

    async def find_due(self) -> int:
        self.due = list(await overlap.find_due(self.conn, now=self.later, limit=BATCH))
        return len(self.due)

    async def lock_gates(self) -> int:
        return len(await overlap.lock_gates(self.conn, **self.gates()))

    async def lock_free_gates(self) -> int:
        return len(await overlap.lock_free_gates(self.conn, **self.gates()))

    async def read_slots(self) -> int:
        return len(await overlap.read_slots(self.conn, **self.gates()))

    async def read_line(self) -> int:
        gates = self.gates()
        limits = [50 for _ in gates["tenant_ids"]]
        looked = self.runs()["run_ids"]
        return len(await overlap.read_line(self.conn, **gates, limits=limits, looked=looked, now=self.later))

    async def look_again(self) -> int:
        return await overlap.look_again(self.conn, **self.gates(), at=NOW, now=self.later)

    async def mark_decided(self) -> int:
        gates = self.gates()
        return await overlap.mark_decided(self.conn, **gates, held_up_by=[None for _ in gates["tenant_ids"]], at=NOW)

    async def keep_waiting(self) -> int:
        words = {"reasons": ["overlap.waiting" for _ in self.due], "details": ["{}" for _ in self.due]}
        return await overlap.keep_waiting(self.conn, **self.runs(), **words, at=NOW)

    async def admit_runs(self) -> int:
        details = [None for _ in self.due]
        return len(await overlap.admit_runs(self.conn, **self.runs(), details=details, at=NOW, now=NOW))

    async def find_slots(self) -> int:
        return len(await overlap.find_slots(self.conn, **self.runs()))

    async def mark_stopping(self) -> int:
        return await overlap.mark_stopping(self.conn, **self.runs(), at=NOW)

    async def cancel_lined_up(self) -> int:
        words = {"reason": "overlap.cancelled_other", "details": ["{}" for _ in self.due]}
        return len(await overlap.cancel_lined_up(self.conn, **self.runs(), **words, at=NOW))

    async def ask_to_stop(self) -> int:
        words = {"reason": "overlap.cancelled_other", "details": ["{}" for _ in self.due]}
        return len(await overlap.ask_to_stop(self.conn, **self.runs(), **words, at=NOW))

    async def lock_leases_to_revoke(self) -> int:
        return len(await overlap.lock_leases_to_revoke(self.conn, **self.runs()))

    async def free_slots(self) -> int:
        return await overlap.free_slots(self.conn, **self.runs())

    async def turn_away(self) -> int:
        await self.find_due()
        words = {name: [word for _ in self.due] for name, word in WORDS.items()}
        return len(await overlap.turn_away(self.conn, **self.runs(), **words, at=NOW))

    async def lock_arrears(self) -> int:
        return len(await arrears.lock_arrears(self.conn, now=self.later, limit=BATCH))


WORDS = {"states": "skipped", "reasons": "overlap.skip", "details": "{}"}


def singles(conn: Any) -> dict[str, Callable[[], Awaitable[Any]]]:
    """What is asked about one schedule."""
    mine = {"tenant_id": TENANT, "schedule_uid": MINE}
    return {
        "next_look": lambda: overlap.next_look(conn),
        "find_left_behind": lambda: overlap.find_left_behind(conn, **mine, now=NOW, limit=BATCH),
        "pause_gate": lambda: overlap.pause_gate(conn, **mine, is_paused=False),
        "release_gate": lambda: overlap.release_gate(conn, **mine),
        "look_at_all": lambda: overlap.look_at_all(conn, **mine, now=NOW),
        "reorder_line": lambda: overlap.reorder_line(conn, **mine, is_strict=True),
        "list_arrears": lambda: arrears.list_arrears(conn, **mine, before=1 << 60, limit=20),
        "list_unfinished": lambda: arrears.list_unfinished(conn, **mine, limit=20),
        "release_arrears": lambda: arrears.release_arrears(conn, **mine, rule="{}", now=NOW),
        "drop_arrears": lambda: arrears.drop_arrears(conn, **mine, reason="schedule.deleted", now=NOW),
        "hold_arrears": lambda: arrears.hold_arrears(conn, **mine),
        "next_arrears": lambda: arrears.next_look(conn),
    }


async def test_gates_and_arrears_touch_few_pages_whatever_the_statistics_say(
    system: Watched,  # noqa: F811
    run_as_superuser,  # noqa: F811
):
    batches = Batches(system.conn)
    names = [name for name in vars(Batches) if not name.startswith("_") and name not in {"gates", "runs"}]
    run_as_superuser(DEFINE)
    run_as_superuser(BEGIN)
    for call in [*(getattr(batches, name) for name in names), *singles(system.conn).values()]:
        await call()  # plans are made now, with nothing in any table
    run_as_superuser(FILL, first=1, last=1_500)

    pages = {name: (await system.pages(call))[0] for name, call in singles(system.conn).items() if name[:4] == "next"}
    costs = {name: await system.pages(getattr(batches, name)) for name in names}

    nothing = {"ask_to_stop", "lock_leases_to_revoke"}  # the runs are in their line by then, not leased
    assert {name for name, (_, found) in costs.items() if not found} == nothing
    assert {name: touched for name, (touched, _) in costs.items() if touched > MOST_PAGES_A_ROW * BATCH} == {}
    pages |= {name: (await system.pages(call))[0] for name, call in singles(system.conn).items()}
    assert {name: touched for name, touched in pages.items() if touched > MOST_PAGES_OF_ONE} == {}
