-- The gates: see service.py for what is locked in which order. Rows are found by = any(…) on the key, or behind OFFSET 0,
-- as everywhere (see dispatch/queries.sql).

-- name: save_gate
-- The policy of a schedule, for those who decide under its gate. The caller holds the schedule, so nobody else changes it.
insert into everwhen.gates
  (tenant_id, schedule_uid, policy, max_running, max_buffered, on_failure, is_paused, decided_at)
values
  (%(tenant_id)s, %(schedule_uid)s, %(policy)s, %(max_running)s, %(max_buffered)s, %(on_failure)s, %(is_paused)s,
   %(now)s)
on conflict (tenant_id, schedule_uid) do update
set policy = excluded.policy, max_running = excluded.max_running, max_buffered = excluded.max_buffered,
    on_failure = excluded.on_failure, is_paused = excluded.is_paused,
    held_up_by = case when excluded.on_failure = 'hold' then gates.held_up_by end;

-- name: pause_gate
-- Zero rows: the schedule has no gate.
update everwhen.gates
set is_paused = %(is_paused)s
where tenant_id = %(tenant_id)s and schedule_uid = %(schedule_uid)s;

-- name: release_gate
-- A dead run holds the line up no longer. Zero rows: none did.
update everwhen.gates
set held_up_by = null
where tenant_id = %(tenant_id)s and schedule_uid = %(schedule_uid)s and held_up_by is not null;

-- name: lock_gates
-- In the order of the key, like every batch that waits for locks. Counting comes after, in statements of their own.
select tenant_id, schedule_uid, policy, max_running, max_buffered, on_failure, is_paused, held_up_by, decided_at
from everwhen.gates
where tenant_id = any(%(tenant_ids)s::uuid[]) and schedule_uid = any(%(schedule_uids)s::uuid[])
order by tenant_id, schedule_uid
for no key update;

-- name: lock_free_gates
-- The gatekeeper waits for nobody: whoever holds a gate decides about its line, or the next look finds it.
select tenant_id, schedule_uid, policy, max_running, max_buffered, on_failure, is_paused, held_up_by, decided_at
from everwhen.gates
where tenant_id = any(%(tenant_ids)s::uuid[]) and schedule_uid = any(%(schedule_uids)s::uuid[])
order by tenant_id, schedule_uid
for no key update skip locked;

-- name: mark_decided
update everwhen.gates g
set decided_at = greatest(g.decided_at, %(at)s),
    held_up_by = (%(held_up_by)s::uuid[])[array_position(%(schedule_uids)s::uuid[], g.schedule_uid)]
where g.tenant_id = any(%(tenant_ids)s::uuid[]) and g.schedule_uid = any(%(schedule_uids)s::uuid[]);

-- name: find_due
-- Runs that have become due, or too late, in whoever's line. It locks nothing: the gates are locked by their keys.
select tenant_id, schedule_uid, run_id
from everwhen.held
where look_at <= %(now)s
order by look_at
limit %(limit)s;

-- name: next_look
-- When the gatekeeper has to look again.
select look_at from everwhen.held where look_at is not null order by look_at limit 1;

-- name: read_slots
-- What these gates have let in, the oldest first.
select a.tenant_id, a.schedule_uid, a.run_id, a.is_stopping
from unnest(%(tenant_ids)s::uuid[], %(schedule_uids)s::uuid[]) as g (tenant_id, schedule_uid)
cross join lateral (
  select a.tenant_id, a.schedule_uid, a.run_id, a.admitted_at, a.stop_asked_at is not null as is_stopping
  from everwhen.admitted a
  where a.tenant_id = g.tenant_id and a.schedule_uid = g.schedule_uid
  offset 0) a
order by a.tenant_id, a.schedule_uid, a.admitted_at, a.run_id;

-- name: read_line
-- The head of each line, as much of it as there may be verdicts for, and the runs that are to be looked at wherever they
-- stand. Not locked: what is written is guarded by the row's being there.
select h.tenant_id, h.schedule_uid, h.run_id, h.due_at, h.look_at, h.expires_at, h.is_planned, h.is_patient,
       h.origin_run_id, h.reason,
       h.expires_at <= %(now)s and exists (
         select from everwhen.tasks t
         where t.tenant_id = h.tenant_id and t.name = h.task
           and h.expires_at = h.due_at + make_interval(secs => t.total_deadline_seconds)) as is_over
from (
  select h.*
  from unnest(%(tenant_ids)s::uuid[], %(schedule_uids)s::uuid[], %(limits)s::int[]) as g (tenant_id, schedule_uid, most)
  cross join lateral (
    select h.*
    from everwhen.held h
    where h.tenant_id = g.tenant_id and h.schedule_uid = g.schedule_uid and h.due_at <= %(now)s
    order by h.line_at, h.run_id
    limit g.most) h
  union
  select h.*
  from unnest(%(looked)s::uuid[]) as l (run_id)
  cross join lateral (
    select h.*
    from everwhen.held h
    where h.run_id = l.run_id and h.tenant_id = any(%(tenant_ids)s::uuid[])
      and h.schedule_uid = any(%(schedule_uids)s::uuid[]) and h.due_at <= %(now)s
    offset 0) h) h
order by h.tenant_id, h.schedule_uid, h.line_at, h.run_id;

-- name: admit_runs
-- From the line of the gate into the line of the queue, with a slot; whatever is not returned has been cancelled meanwhile.
with taken as (
  delete from everwhen.held h
  where h.run_id = any(%(run_ids)s::uuid[]) and h.tenant_id = any(%(tenant_ids)s::uuid[])
  returning h.*
), counted as (
  insert into everwhen.admitted (tenant_id, schedule_uid, run_id, admitted_at)
  select tenant_id, schedule_uid, run_id, %(at)s from taken
), lined_up as (
  insert into everwhen.waiting (tenant_id, queue, priority, available_at, run_id, task, expires_at, is_followed)
  select tenant_id, queue, priority, greatest(due_at, %(now)s), run_id, task, expires_at, true from taken
), logged as (
  -- With how many the policy allowed: the history can be checked by what held then.
  insert into everwhen.events (tenant_id, run_id, at, kind, detail)
  select tenant_id, run_id, %(at)s, 'admitted',
         (%(details)s::jsonb[])[array_position(%(run_ids)s::uuid[], run_id)]
  from taken
)
select tenant_id, run_id, queue from taken;

-- name: turn_away
-- Runs that end before they were let in. The first run of `detail` is the one that was in their way.
with taken as (
  delete from everwhen.held h
  where h.run_id = any(%(run_ids)s::uuid[]) and h.tenant_id = any(%(tenant_ids)s::uuid[])
  returning h.tenant_id, h.run_id, array_position(%(run_ids)s::uuid[], h.run_id) as i
), ended as (
  insert into everwhen.run_ends (tenant_id, run_id, state, reason, attempts, finished_at)
  select tenant_id, run_id, (%(states)s::text[])[i], (%(reasons)s::text[])[i], 0, %(at)s from taken
), logged as (
  insert into everwhen.events (tenant_id, run_id, at, kind, reason, detail)
  select tenant_id, run_id, %(at)s, (%(states)s::text[])[i], (%(reasons)s::text[])[i], (%(details)s::jsonb[])[i]
  from taken
)
select tenant_id, run_id from taken;

-- name: keep_waiting
-- Why these runs wait, and since when: written when it changes. From now on only a start deadline is to be looked at.
with kept as (
  update everwhen.held h
  set reason = (%(reasons)s::text[])[array_position(%(run_ids)s::uuid[], h.run_id)],
      blocked_by = array(select jsonb_array_elements_text(
        (%(details)s::jsonb[])[array_position(%(run_ids)s::uuid[], h.run_id)] -> 'blocked_by')::uuid),
      waits_since = %(at)s, look_at = h.expires_at
  where h.run_id = any(%(run_ids)s::uuid[]) and h.tenant_id = any(%(tenant_ids)s::uuid[])
  returning h.tenant_id, h.run_id, h.reason, array_position(%(run_ids)s::uuid[], h.run_id) as i
)
insert into everwhen.events (tenant_id, run_id, at, kind, reason, detail)
select tenant_id, run_id, %(at)s, 'held', reason, (%(details)s::jsonb[])[i] from kept;

-- name: look_again
-- The first due run of each of these lines brings the gatekeeper back.
with first as materialized (
  select f.place
  from unnest(%(tenant_ids)s::uuid[], %(schedule_uids)s::uuid[]) as g (tenant_id, schedule_uid)
  cross join lateral (
    select f.ctid as place
    from everwhen.held f
    where f.tenant_id = g.tenant_id and f.schedule_uid = g.schedule_uid and f.due_at <= %(now)s
    order by f.line_at, f.run_id
    limit 1
    for no key update) f
)
update everwhen.held h
set look_at = least(h.look_at, %(at)s)
from first
where h.ctid = first.place;

-- name: look_at_all
-- After a change of the schedule: everything that is due in this line is decided anew.
update everwhen.held
set look_at = greatest(due_at, %(now)s)
where tenant_id = %(tenant_id)s and schedule_uid = %(schedule_uid)s;

-- name: reorder_line
-- After a change of the policy, the line may be in another order.
update everwhen.held h
set line_at = case when not %(is_strict)s then h.due_at else coalesce((
      select r.nominal_at from everwhen.runs r where r.tenant_id = h.tenant_id and r.run_id = h.run_id), h.due_at) end
where h.tenant_id = %(tenant_id)s and h.schedule_uid = %(schedule_uid)s;

-- name: find_slots
-- Which gates these runs have slots of; runs without one are not in the answer.
select tenant_id, schedule_uid, run_id, stop_asked_at is not null as is_stopping
from everwhen.admitted
where run_id = any(%(run_ids)s::uuid[]) and tenant_id = any(%(tenant_ids)s::uuid[]);

-- name: free_slots
delete from everwhen.admitted
where run_id = any(%(run_ids)s::uuid[]) and tenant_id = any(%(tenant_ids)s::uuid[]);

-- name: mark_stopping
update everwhen.admitted
set stop_asked_at = %(at)s
where run_id = any(%(run_ids)s::uuid[]) and tenant_id = any(%(tenant_ids)s::uuid[]);

-- name: cancel_lined_up
-- Active runs that no worker holds, in favour of a later one. Those that a claim is taking at this moment are passed
-- over: to wait for it, with the gate locked, could be to wait for each other.
with found as materialized (
  select w.ctid as place
  from everwhen.waiting w
  where w.tenant_id = any(%(tenant_ids)s::uuid[]) and w.run_id = any(%(run_ids)s::uuid[])
  for update skip locked
), taken as (
  delete from everwhen.waiting w using found where w.ctid = found.place
  returning w.tenant_id, w.run_id, w.attempts
), ended as (
  insert into everwhen.run_ends (tenant_id, run_id, state, reason, attempts, finished_at)
  select tenant_id, run_id, 'cancelled', %(reason)s, attempts, %(at)s from taken
), logged as (
  insert into everwhen.events (tenant_id, run_id, at, kind, reason, detail)
  select tenant_id, run_id, %(at)s, 'cancelled', %(reason)s,
         (%(details)s::jsonb[])[array_position(%(run_ids)s::uuid[], run_id)]
  from taken
)
select tenant_id, run_id from taken;

-- name: ask_to_stop
-- Active runs that a worker holds: it is told by its next heartbeat. One that was asked already counts as asked.
with found as materialized (
  select l.ctid as place, l.tenant_id, l.run_id, l.cancel_requested_at is null as is_new
  from everwhen.leases l
  where l.tenant_id = any(%(tenant_ids)s::uuid[]) and l.run_id = any(%(run_ids)s::uuid[])
  for no key update skip locked
), asked as (
  update everwhen.leases l
  set cancel_requested_at = %(at)s
  from found
  where l.ctid = found.place and found.is_new
  returning l.tenant_id, l.run_id, l.attempt
), logged as (
  insert into everwhen.events (tenant_id, run_id, at, kind, attempt, reason, detail)
  select tenant_id, run_id, %(at)s, 'cancel_requested', attempt, %(reason)s,
         (%(details)s::jsonb[])[array_position(%(run_ids)s::uuid[], run_id)]
  from asked
)
select tenant_id, run_id from found;

-- name: find_workflow_runs
-- Those of these runs that the conductor performs.
select l.run_id
from everwhen.leases l
where l.tenant_id = any(%(tenant_ids)s::uuid[]) and l.run_id = any(%(run_ids)s::uuid[]) and l.queue = 'everwhen:workflows';

-- name: lock_leases_to_revoke
-- Never waits: a lease that is locked is being reported on, or beats; its end, or another look, brings us back.
select l.tenant_id, l.run_id, l.lease_token, l.failures, l.claimed_at
from everwhen.leases l
where l.tenant_id = any(%(tenant_ids)s::uuid[]) and l.run_id = any(%(run_ids)s::uuid[])
order by l.tenant_id, l.run_id
for no key update skip locked;

-- name: find_left_behind
-- What a deleted schedule planned, is due, and was not let in.
select run_id
from everwhen.held
where tenant_id = %(tenant_id)s and schedule_uid = %(schedule_uid)s and is_planned and due_at <= %(now)s
order by line_at, run_id
limit %(limit)s;

-- name: adopt_lined_up
-- Runs of a schedule that were lined up before it had a gate: followed from now on. Found among what is live, not in the
-- schedule's history. A row that is being claimed is waited for, and found among the leases then.
with mine as materialized (
  select w.ctid as place
  from everwhen.waiting w
  where w.tenant_id = %(tenant_id)s
    and exists (
      select from everwhen.runs r
      where r.tenant_id = w.tenant_id and r.run_id = w.run_id and r.schedule_uid = %(schedule_uid)s offset 0)
    and not exists (
      select from everwhen.admitted a where a.run_id = w.run_id and a.tenant_id = w.tenant_id offset 0)
  order by w.run_id
  for update of w
)
update everwhen.waiting w set is_followed = true from mine where w.ctid = mine.place
returning w.run_id;

-- name: adopt_leased
-- The same for those that workers hold.
with mine as materialized (
  select l.ctid as place
  from everwhen.leases l
  where l.tenant_id = %(tenant_id)s
    and exists (
      select from everwhen.runs r
      where r.tenant_id = l.tenant_id and r.run_id = l.run_id and r.schedule_uid = %(schedule_uid)s offset 0)
    and not exists (
      select from everwhen.admitted a where a.run_id = l.run_id and a.tenant_id = l.tenant_id offset 0)
  order by l.run_id
  for no key update of l
)
update everwhen.leases l set is_followed = true from mine where l.ctid = mine.place
returning l.run_id;

-- name: take_slots
-- For runs that the gate has not let in itself: they were lined up before there was one. Their histories say since when
-- they count.
with taken as (
  insert into everwhen.admitted (tenant_id, schedule_uid, run_id, admitted_at)
  select %(tenant_id)s, %(schedule_uid)s, run_id, %(at)s from unnest(%(run_ids)s::uuid[]) as r (run_id)
  on conflict do nothing
  returning tenant_id, run_id
)
insert into everwhen.events (tenant_id, run_id, at, kind)
select tenant_id, run_id, %(at)s, 'adopted' from taken;

-- name: put_off
-- Runs of a line that cannot be decided: out of the gatekeeper's way for a while.
update everwhen.held
set look_at = %(until)s
where run_id = any(%(run_ids)s::uuid[]) and tenant_id = %(tenant_id)s;
