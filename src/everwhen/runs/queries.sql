-- Look-ups by key stand behind OFFSET 0, so that no statistics can turn them into walks: see dispatch/queries.sql.

-- name: ensure_week
-- Make the partitions for the week around an instant, if they are not there.
select everwhen.ensure_week(%(instant)s) as made;

-- name: insert_planned
-- Runs that schedules intend: the intention, the place in the line, and the event, or none of the three. A run that is
-- there already (another scheduler, a replayed transaction) is left as it is: its id is its identity. The definition is
-- joined here, since the caller holds the schedule's watermark and nobody can change it meanwhile.
with intended as (
  select i.*, s.revision, s.task, s.input, t.queue, coalesce(s.priority, t.priority) as priority,
         i.due_at + make_interval(secs => least(t.start_deadline_seconds, t.total_deadline_seconds)) as expires_at
  from unnest(%(tenant_ids)s::uuid[], %(schedule_uids)s::uuid[], %(run_ids)s::uuid[], %(nominal_ats)s::timestamptz[],
              %(due_ats)s::timestamptz[], %(utc_offsets)s::int[])
         as i (tenant_id, schedule_uid, run_id, nominal_at, due_at, utc_offset_seconds)
  cross join lateral (
    select s.revision, s.task, s.input, s.priority
    from everwhen.schedules s
    where s.tenant_id = i.tenant_id and s.uid = i.schedule_uid
    offset 0) s
  cross join lateral (
    select t.queue, t.priority, t.start_deadline_seconds, t.total_deadline_seconds
    from everwhen.tasks t
    where t.tenant_id = i.tenant_id and t.name = s.task
    offset 0) t
), planned as (
  insert into everwhen.runs
    (tenant_id, run_id, schedule_uid, schedule_revision, source, task, queue, priority, nominal_at, utc_offset_seconds,
     due_at, planned_at, expires_at, input, tz_version)
  select tenant_id, run_id, schedule_uid, revision, 'schedule', task, queue, priority, nominal_at, utc_offset_seconds,
         due_at, %(now)s, expires_at, input, %(tz_version)s
  from intended
  on conflict do nothing
  returning tenant_id, run_id, queue, priority, due_at, task, expires_at, schedule_uid, nominal_at
), placed as (
  select p.*, s.is_followed, s.is_gated, s.is_strict
  from planned p
  cross join lateral (
    select s.is_followed, s.is_gated, s.spec #>> '{overlap,policy}' = 'strict_sequential' as is_strict
    from everwhen.schedules s
    where s.tenant_id = p.tenant_id and s.uid = p.schedule_uid
    offset 0) s
), lined_up as (
  insert into everwhen.waiting (tenant_id, queue, priority, available_at, run_id, task, expires_at, is_followed)
  select tenant_id, queue, priority, due_at, run_id, task, expires_at, is_followed from placed where not is_gated
), held as (
  -- Behind the schedule's gate: its gatekeeper decides when they are due (see overlap/service.py).
  insert into everwhen.held
    (tenant_id, schedule_uid, line_at, run_id, due_at, look_at, queue, priority, task, expires_at, is_planned)
  select tenant_id, schedule_uid, case when is_strict then nominal_at else due_at end, run_id, due_at, due_at, queue,
         priority, task, expires_at, true
  from placed
  where is_gated
)
insert into everwhen.events (tenant_id, run_id, at, kind)
select tenant_id, run_id, %(now)s, 'planned' from planned;

-- name: insert_rolled
-- Which calendar moved a run, for those that have just been planned; apart, so that the others pay nothing for it.
insert into everwhen.events (tenant_id, run_id, at, kind, reason, detail)
select i.tenant_id, i.run_id, %(now)s, 'rolled', 'calendar.rolled', i.detail::jsonb
from unnest(%(tenant_ids)s::uuid[], %(run_ids)s::uuid[], %(details)s::text[]) as i (tenant_id, run_id, detail)
cross join lateral (
  select r.planned_at
  from everwhen.runs r
  where r.tenant_id = i.tenant_id and r.run_id = i.run_id
  offset 0) r
where r.planned_at = %(now)s;

-- name: insert_verdicts
-- Instants that a policy or an outage kept from running: a row and an end each, so that nothing is an absence.
with intended as (
  select i.*, s.revision, s.task, s.input, t.queue, coalesce(s.priority, t.priority) as priority
  from unnest(%(tenant_ids)s::uuid[], %(schedule_uids)s::uuid[], %(run_ids)s::uuid[], %(nominal_ats)s::timestamptz[],
              %(due_ats)s::timestamptz[], %(utc_offsets)s::int[], %(states)s::text[], %(reasons)s::text[],
              %(details)s::text[])
         as i (tenant_id, schedule_uid, run_id, nominal_at, due_at, utc_offset_seconds, state, reason, detail)
  cross join lateral (
    select s.revision, s.task, s.input, s.priority
    from everwhen.schedules s
    where s.tenant_id = i.tenant_id and s.uid = i.schedule_uid
    offset 0) s
  cross join lateral (
    select t.queue, t.priority
    from everwhen.tasks t
    where t.tenant_id = i.tenant_id and t.name = s.task
    offset 0) t
), planned as (
  insert into everwhen.runs
    (tenant_id, run_id, schedule_uid, schedule_revision, source, task, queue, priority, nominal_at, utc_offset_seconds,
     due_at, planned_at, input, tz_version)
  select tenant_id, run_id, schedule_uid, revision, 'schedule', task, queue, priority, nominal_at,
         utc_offset_seconds, due_at, %(now)s, input, %(tz_version)s
  from intended
  on conflict do nothing
  returning tenant_id, run_id
), ended as (
  insert into everwhen.run_ends (tenant_id, run_id, state, reason, attempts, finished_at)
  select tenant_id, run_id, i.state, i.reason, 0, %(now)s from planned join intended i using (tenant_id, run_id)
)
insert into everwhen.events (tenant_id, run_id, at, kind, reason, detail)
select tenant_id, run_id, %(now)s, i.state, i.reason, i.detail::jsonb
from planned join intended i using (tenant_id, run_id);

-- name: insert_caught_up
-- Runs for instants that were missed: like insert_planned, but for the revision that intended them, with a priority and a
-- turn of their own. Deadlines count from the turn, since they would be over before anybody could start them.
with intended as (
  select i.*, s.task, s.input, t.queue,
         least(9, greatest(0, coalesce(i.priority, coalesce(s.priority, t.priority) + i.priority_offset))) as own_priority,
         i.available_at + make_interval(secs => least(t.start_deadline_seconds, t.total_deadline_seconds)) as expires_at
  from unnest(%(tenant_ids)s::uuid[], %(schedule_uids)s::uuid[], %(revisions)s::int[], %(run_ids)s::uuid[],
              %(nominal_ats)s::timestamptz[], %(due_ats)s::timestamptz[], %(available_ats)s::timestamptz[],
              %(utc_offsets)s::int[], %(priorities)s::smallint[], %(priority_offsets)s::smallint[],
              %(stands_fors)s::text[], %(reasons)s::text[], %(details)s::text[])
         as i (tenant_id, schedule_uid, revision, run_id, nominal_at, due_at, available_at, utc_offset_seconds, priority,
               priority_offset, stands_for, reason, detail)
  cross join lateral (
    select s.task, s.input, s.priority
    from everwhen.schedule_revisions s
    where s.tenant_id = i.tenant_id and s.uid = i.schedule_uid and s.revision = i.revision
    offset 0) s
  cross join lateral (
    select t.queue, t.priority, t.start_deadline_seconds, t.total_deadline_seconds
    from everwhen.tasks t
    where t.tenant_id = i.tenant_id and t.name = s.task
    offset 0) t
), planned as (
  insert into everwhen.runs
    (tenant_id, run_id, schedule_uid, schedule_revision, source, task, queue, priority, nominal_at, utc_offset_seconds,
     due_at, planned_at, expires_at, input, tz_version, stands_for)
  select tenant_id, run_id, schedule_uid, revision, 'schedule', task, queue, own_priority, nominal_at,
         utc_offset_seconds, due_at, %(now)s, expires_at, input, %(tz_version)s, stands_for::jsonb
  from intended
  on conflict do nothing
  returning tenant_id, run_id
), placed as (
  select i.*, s.is_followed, s.is_gated, s.is_strict
  from planned p
  join intended i using (tenant_id, run_id)
  cross join lateral (
    select s.is_followed, s.is_gated, s.spec #>> '{overlap,policy}' = 'strict_sequential' as is_strict
    from everwhen.schedules s
    where s.tenant_id = i.tenant_id and s.uid = i.schedule_uid
    offset 0) s
), lined_up as (
  insert into everwhen.waiting (tenant_id, queue, priority, available_at, run_id, task, expires_at, is_followed)
  select tenant_id, queue, own_priority, available_at, run_id, task, expires_at, is_followed
  from placed
  where not is_gated
), held as (
  -- Behind the schedule's gate, which looks when the run's turn has come. What was missed waits for room whatever the
  -- policy does: how many of them run was decided already.
  insert into everwhen.held
    (tenant_id, schedule_uid, line_at, run_id, due_at, look_at, queue, priority, task, expires_at, is_planned, is_patient)
  select tenant_id, schedule_uid, case when is_strict then nominal_at else available_at end, run_id, available_at,
         available_at, queue, own_priority, task, expires_at, true, detail is not null
  from placed
  where is_gated
)
insert into everwhen.events (tenant_id, run_id, at, kind, reason, detail)
select tenant_id, run_id, %(now)s, 'planned', reason,
       case when available_at > %(now)s then -- its turn is nowhere else, once it was claimed
         coalesce(detail::jsonb, '{}') || jsonb_build_object('available_at', available_at) else detail::jsonb end
from placed;

-- name: insert_caught_up_verdicts
-- Missed instants that do not run: like insert_verdicts, for the revision that intended them.
with intended as (
  select i.*, s.task, s.input, t.queue, coalesce(s.priority, t.priority) as priority
  from unnest(%(tenant_ids)s::uuid[], %(schedule_uids)s::uuid[], %(revisions)s::int[], %(run_ids)s::uuid[],
              %(nominal_ats)s::timestamptz[], %(utc_offsets)s::int[], %(states)s::text[], %(reasons)s::text[],
              %(details)s::text[])
         as i (tenant_id, schedule_uid, revision, run_id, nominal_at, utc_offset_seconds, state, reason, detail)
  cross join lateral (
    select s.task, s.input, s.priority
    from everwhen.schedule_revisions s
    where s.tenant_id = i.tenant_id and s.uid = i.schedule_uid and s.revision = i.revision
    offset 0) s
  cross join lateral (
    select t.queue, t.priority
    from everwhen.tasks t
    where t.tenant_id = i.tenant_id and t.name = s.task
    offset 0) t
), planned as (
  insert into everwhen.runs
    (tenant_id, run_id, schedule_uid, schedule_revision, source, task, queue, priority, nominal_at, utc_offset_seconds,
     due_at, planned_at, input, tz_version)
  select tenant_id, run_id, schedule_uid, revision, 'schedule', task, queue, priority, nominal_at,
         utc_offset_seconds, nominal_at, %(now)s, input, %(tz_version)s
  from intended
  on conflict do nothing
  returning tenant_id, run_id
), ended as (
  insert into everwhen.run_ends (tenant_id, run_id, state, reason, attempts, finished_at)
  select tenant_id, run_id, i.state, i.reason, 0, %(now)s from planned join intended i using (tenant_id, run_id)
)
insert into everwhen.events (tenant_id, run_id, at, kind, reason, detail)
select tenant_id, run_id, %(now)s, i.state, i.reason, i.detail::jsonb
from planned join intended i using (tenant_id, run_id);

-- name: insert_spans
insert into everwhen.spans
  (tenant_id, schedule_uid, first_at, last_at, instants, verdict, reason, recorded_at, detail)
select tenant_id, schedule_uid, first_at, last_at, instants, verdict, reason, %(now)s, detail::jsonb
from unnest(%(tenant_ids)s::uuid[], %(schedule_uids)s::uuid[], %(first_ats)s::timestamptz[], %(last_ats)s::timestamptz[],
            %(instants)s::bigint[], %(verdicts)s::text[], %(reasons)s::text[], %(details)s::text[])
       as s (tenant_id, schedule_uid, first_at, last_at, instants, verdict, reason, detail)
on conflict do nothing;

-- name: insert_requested
-- A run that somebody asked for, now or at an instant.
with planned as (
  insert into everwhen.runs
    (tenant_id, run_id, schedule_uid, schedule_revision, source, task, queue, priority, due_at, planned_at, expires_at,
     input)
  select t.tenant_id, %(run_id)s, %(schedule_uid)s, %(schedule_revision)s, 'api', t.name, t.queue,
         coalesce(%(priority)s::smallint, t.priority), %(due_at)s, %(now)s,
         %(due_at)s::timestamptz + make_interval(secs => least(t.start_deadline_seconds, t.total_deadline_seconds)),
         %(input)s::jsonb
  from everwhen.tasks t
  where t.tenant_id = %(tenant_id)s and t.name = %(task)s
  returning tenant_id, run_id, queue, priority, due_at, task, expires_at
), lined_up as (
  insert into everwhen.waiting (tenant_id, queue, priority, available_at, run_id, task, expires_at, is_followed)
  select tenant_id, queue, priority, due_at, run_id, task, expires_at, %(is_followed)s from planned
), logged as (
  insert into everwhen.events (tenant_id, run_id, at, kind)
  select tenant_id, run_id, %(now)s, 'planned' from planned
)
select run_id, queue from planned;

-- name: insert_redriven
-- Runs made from dead ones: the same task and input, or another input; due now. Queue and start deadline are the task's
-- of today. An id that is there already is left as it is.
with intended as (
  select a.run_id, r.run_id as origin_run_id, r.schedule_uid, r.schedule_revision, r.task, t.queue,
         coalesce(%(priority)s::smallint, r.priority) as priority, r.nominal_at, r.utc_offset_seconds,
         %(now)s::timestamptz + make_interval(secs => least(t.start_deadline_seconds, t.total_deadline_seconds)) as expires_at,
         coalesce(%(input)s::jsonb, r.input) as input, r.tz_version,
         coalesce((select s.is_followed from everwhen.schedules s
                   where s.tenant_id = r.tenant_id and s.uid = r.schedule_uid), false) as is_followed
  from unnest(%(origin_run_ids)s::uuid[], %(run_ids)s::uuid[]) as a (origin_run_id, run_id)
  cross join lateral (
    select r.* from everwhen.runs r where r.tenant_id = %(tenant_id)s and r.run_id = a.origin_run_id offset 0) r
  cross join lateral (
    select t.queue, t.start_deadline_seconds, t.total_deadline_seconds
    from everwhen.tasks t where t.tenant_id = r.tenant_id and t.name = r.task
    offset 0) t
), planned as (
  insert into everwhen.runs
    (tenant_id, run_id, schedule_uid, schedule_revision, source, task, queue, priority, nominal_at, utc_offset_seconds,
     due_at, planned_at, expires_at, input, tz_version, origin_run_id, operation_id)
  select %(tenant_id)s, run_id, schedule_uid, schedule_revision, 'redrive', task, queue, priority, nominal_at,
         utc_offset_seconds, %(now)s, %(now)s, expires_at, input, tz_version, origin_run_id, %(operation_id)s
  from intended
  on conflict do nothing
  returning tenant_id, run_id, queue, priority, due_at, task, expires_at, schedule_uid, nominal_at, origin_run_id
), placed as (
  select p.*, coalesce(s.is_gated, false) and not %(is_free)s as is_gated, s.is_strict
  from planned p
  left join lateral (
    select s.is_gated, s.spec #>> '{overlap,policy}' = 'strict_sequential' as is_strict
    from everwhen.schedules s
    where s.tenant_id = p.tenant_id and s.uid = p.schedule_uid
    offset 0) s on true
), lined_up as (
  insert into everwhen.waiting (tenant_id, queue, priority, available_at, run_id, task, expires_at, is_followed)
  select tenant_id, queue, priority, due_at, run_id, task, expires_at,
         coalesce(schedule_uid = any(array(select schedule_uid from intended where is_followed)), false)
  from placed
  where not is_gated
), held as (
  -- Behind the gate of a schedule that has one. Patient ones wait for room, whatever the policy does.
  insert into everwhen.held
    (tenant_id, schedule_uid, line_at, run_id, due_at, look_at, queue, priority, task, expires_at, is_planned, is_patient,
     origin_run_id)
  select tenant_id, schedule_uid, case when is_strict then coalesce(nominal_at, due_at) else due_at end, run_id, due_at,
         due_at, queue, priority, task, expires_at, false, %(is_patient)s, origin_run_id
  from placed
  where is_gated
), logged as (
  insert into everwhen.events (tenant_id, run_id, at, kind, detail)
  select tenant_id, run_id, %(now)s, 'planned',
         %(detail)s::jsonb || jsonb_build_object('origin_run_id', origin_run_id)
  from planned
)
select run_id, queue from planned;

-- name: share_schedules
-- Before runs of these schedules are written: a change of a schedule, which may give it a gate, waits until they are, and
-- adopts them then; and if the change came first, the next statement finds the gate. In the order of the key.
select s.uid
from everwhen.schedules s
where s.tenant_id = %(tenant_id)s and s.uid = any(%(schedule_uids)s::uuid[])
order by s.uid
for share of s;

-- name: share_schedules_of
-- The same for those whose runs these are.
select s.uid
from everwhen.schedules s
where s.tenant_id = %(tenant_id)s and s.uid = any(array(
  select r.schedule_uid from everwhen.runs r where r.tenant_id = %(tenant_id)s and r.run_id = any(%(run_ids)s::uuid[])))
order by s.uid
for share of s;

-- name: insert_backfilled
-- Runs of a schedule for instants that have passed, under its present revision; due now. An id that is there already was
-- made by the same backfill before, and is left as it is.
with intended as (
  select i.run_id, i.nominal_at, i.utc_offset_seconds, s.revision, s.task, s.input, s.is_followed, t.queue,
         %(now)s::timestamptz + make_interval(secs => least(t.start_deadline_seconds, t.total_deadline_seconds)) as expires_at
  from unnest(%(run_ids)s::uuid[], %(nominal_ats)s::timestamptz[], %(utc_offsets)s::int[])
         as i (run_id, nominal_at, utc_offset_seconds)
  cross join lateral (
    select s.revision, s.task, s.input, s.is_followed
    from everwhen.schedules s
    where s.tenant_id = %(tenant_id)s and s.uid = %(schedule_uid)s
    offset 0) s
  cross join lateral (
    select t.queue, t.start_deadline_seconds, t.total_deadline_seconds
    from everwhen.tasks t where t.tenant_id = %(tenant_id)s and t.name = s.task
    offset 0) t
), planned as (
  insert into everwhen.runs
    (tenant_id, run_id, schedule_uid, schedule_revision, source, task, queue, priority, nominal_at, utc_offset_seconds,
     due_at, planned_at, expires_at, input, tz_version, operation_id)
  select %(tenant_id)s, run_id, %(schedule_uid)s, revision, 'backfill', task, queue, %(priority)s, nominal_at,
         utc_offset_seconds, %(now)s, %(now)s, expires_at, input, %(tz_version)s, %(operation_id)s
  from intended
  on conflict do nothing
  returning tenant_id, run_id, queue, priority, due_at, task, expires_at, schedule_uid, nominal_at
), placed as (
  select p.*, coalesce(s.is_gated, false) and not %(is_free)s as is_gated, s.is_strict
  from planned p
  left join lateral (
    select s.is_gated, s.spec #>> '{overlap,policy}' = 'strict_sequential' as is_strict
    from everwhen.schedules s
    where s.tenant_id = p.tenant_id and s.uid = p.schedule_uid
    offset 0) s on true
), lined_up as (
  insert into everwhen.waiting (tenant_id, queue, priority, available_at, run_id, task, expires_at, is_followed)
  select tenant_id, queue, priority, due_at, run_id, task, expires_at,
         exists (select from intended where is_followed)
  from placed
  where not is_gated
), held as (
  -- Behind the gate of a schedule that has one. Patient ones wait for room, whatever the policy does.
  insert into everwhen.held
    (tenant_id, schedule_uid, line_at, run_id, due_at, look_at, queue, priority, task, expires_at, is_planned, is_patient)
  select tenant_id, schedule_uid, case when is_strict then coalesce(nominal_at, due_at) else due_at end, run_id, due_at,
         due_at, queue, priority, task, expires_at, false, %(is_patient)s
  from placed
  where is_gated
), logged as (
  insert into everwhen.events (tenant_id, run_id, at, kind, detail)
  select tenant_id, run_id, %(now)s, 'planned', %(detail)s::jsonb from planned
)
select run_id, queue from planned;

-- name: find_outcomes
-- What became of a schedule's instants, run by run. Their ids lie around the instants, by no more than a flex window or a
-- roll; a dead run that was redriven counts as one that ran.
select r.nominal_at,
       case when e.state is null then 'live'
            when e.state = 'dead' and d.state = 'redriven' then 'redriven'
            else e.state end as outcome
from everwhen.runs r
left join lateral (
  select e.state from everwhen.run_ends e where e.tenant_id = r.tenant_id and e.run_id = r.run_id offset 0) e on true
left join lateral (
  select d.state from everwhen.dead_letters d where d.tenant_id = r.tenant_id and d.run_id = r.run_id offset 0) d on true
where r.tenant_id = %(tenant_id)s and r.schedule_uid = %(schedule_uid)s
  and r.run_id >= everwhen.first_run_id(%(first_id_at)s) and r.run_id < everwhen.first_run_id(%(last_id_at)s)
  and r.nominal_at between %(first_at)s and %(last_at)s and r.source in ('schedule', 'backfill');

-- name: find_spans
select first_at, last_at, verdict
from everwhen.spans
where tenant_id = %(tenant_id)s and schedule_uid = %(schedule_uid)s and first_at <= %(last_at)s and last_at >= %(first_at)s
order by first_at;

-- name: insert_held
-- The same of a schedule that has a gate, which decides about it when it is due.
with planned as (
  insert into everwhen.runs
    (tenant_id, run_id, schedule_uid, schedule_revision, source, task, queue, priority, due_at, planned_at, expires_at,
     input)
  select t.tenant_id, %(run_id)s, %(schedule_uid)s, %(schedule_revision)s, 'api', t.name, t.queue,
         coalesce(%(priority)s::smallint, t.priority), %(due_at)s, %(now)s,
         %(due_at)s::timestamptz + make_interval(secs => least(t.start_deadline_seconds, t.total_deadline_seconds)),
         %(input)s::jsonb
  from everwhen.tasks t
  where t.tenant_id = %(tenant_id)s and t.name = %(task)s
  returning tenant_id, run_id, schedule_uid, queue, priority, due_at, task, expires_at
), held as (
  insert into everwhen.held
    (tenant_id, schedule_uid, line_at, run_id, due_at, look_at, queue, priority, task, expires_at, is_planned, is_patient)
  select tenant_id, schedule_uid, due_at, run_id, due_at, due_at, queue, priority, task, expires_at, false,
         %(is_patient)s
  from planned
), logged as (
  insert into everwhen.events (tenant_id, run_id, at, kind)
  select tenant_id, run_id, %(now)s, 'planned' from planned
)
select run_id, queue from planned;

-- name: find_in_need_of
-- A run that has not ended, or is dead and nobody has dealt with it yet, and whose input has this text in it. It reads
-- what is live of the tenant, and nothing of its history but open dead letters.
select l.run_id
from (
  select w.run_id from everwhen.waiting w where w.tenant_id = %(tenant_id)s
  union all
  select h.run_id from everwhen.held h where h.tenant_id = %(tenant_id)s
  union all
  select l.run_id from everwhen.leases l where l.tenant_id = %(tenant_id)s
  union all
  select e.run_id from everwhen.run_ends e
  where e.tenant_id = %(tenant_id)s and e.state = 'dead'
    and not exists (select from everwhen.dead_letters d
                    where d.tenant_id = e.tenant_id and d.run_id = e.run_id and d.state <> 'open')
) l
cross join lateral (
  select r.input from everwhen.runs r where r.tenant_id = %(tenant_id)s and r.run_id = l.run_id offset 0) r
where position(%(text)s::text in r.input::text) > 0
limit 1;

-- name: get_run
-- A run's state is where its row is: an end, a lease, or a place in the line.
select r.run_id, r.schedule_uid, s.name as schedule, r.schedule_revision, r.source, r.task, r.queue, r.priority,
       r.nominal_at, r.utc_offset_seconds, r.due_at, r.planned_at, r.expires_at, r.tz_version, r.input::text as input,
       r.origin_run_id, r.operation_id, d.redriven_as, d.state as letter, e.fingerprint,
       r.stands_for::text as stands_for,
       coalesce(w.available_at, h.due_at) as available_at, coalesce(w.failures, l.failures) as failures,
       l.worker, l.claimed_at, l.lease_until, l.cancel_requested_at,
       e.state as ended_state, coalesce(e.reason, h.reason, w.reason) as reason, e.finished_at,
       coalesce(e.attempts, l.attempt, w.attempts, 0) as attempts,
       h.run_id is not null as is_held, h.blocked_by, coalesce(h.waits_since, w.waits_since) as waits_since,
       case when e.state is null and h.run_id is null then w.reason_facts end::text as reason_facts
from everwhen.runs r
left join lateral (
  select s.name from everwhen.schedules s where s.tenant_id = r.tenant_id and s.uid = r.schedule_uid offset 0) s on true
left join lateral (
  select w.available_at, w.failures, w.attempts, case when w.priority >= 0 or b.reason like '%%.paused' then b.since else w.parked_at end as waits_since,
         b.facts as reason_facts,
         case when w.priority >= 0 or b.reason like '%%.paused' then b.reason -- of the line; of a parked run see core/claim_limits.py
              when w.limit_group like 'parked fit%%' then 'worker.no_capability_match'
              when w.limit_group like '%%rate%%' then 'limit.rate'
              when w.limit_group like '%%key:%%' then 'limit.key' else 'limit.task' end as reason
  from everwhen.waiting w
  left join lateral (
    select b.reason, greatest(b.since, w.available_at) as since, b.facts
    from (
      select b.reason, b.since, b.facts
      from everwhen.line_states b
      where w.priority >= 0 and w.available_at <= now() and b.tenant_id = w.tenant_id and b.queue = w.queue
        and b.task = any(array['', w.task]) and b.until is null
      union all
      select case when p.queue = '' then 'tenant.paused' else 'queue.paused' end, p.paused_at, jsonb_build_object('queue', w.queue, 'why', p.reason)
      from everwhen.pauses p
      where w.available_at <= now() and p.tenant_id = w.tenant_id and p.queue = any(array['', w.queue])
        and (p.paused_until is null or p.paused_until > now())) b
    order by array_position(array[
      'tenant.paused', 'queue.paused', 'limit.tenant', 'limit.queue', 'limit.rate', 'worker.none_registered', 'worker.none_live',
      'worker.cordoned', 'worker.draining', 'worker.no_capability_match', 'worker.slots_full', 'broker.unreachable',
      'endpoint.rests', 'priority.behind'], b.reason)
    limit 1) b on true
  where w.tenant_id = r.tenant_id and w.run_id = r.run_id offset 0) w on true
left join lateral (
  select h.run_id, h.due_at, h.reason, h.blocked_by, h.waits_since from everwhen.held h where h.run_id = r.run_id and h.tenant_id = r.tenant_id offset 0) h on true
left join lateral (
  select l.worker, l.claimed_at, l.lease_until, l.cancel_requested_at, l.failures, l.attempt from everwhen.leases l where l.tenant_id = r.tenant_id and l.run_id = r.run_id offset 0) l on true
left join lateral (
  select e.state, e.reason, e.finished_at, e.attempts, e.fingerprint from everwhen.run_ends e where e.tenant_id = r.tenant_id and e.run_id = r.run_id offset 0) e on true
left join lateral (
  select d.state, d.redriven_as from everwhen.dead_letters d where d.tenant_id = r.tenant_id and d.run_id = r.run_id offset 0) d on true
where r.tenant_id = %(tenant_id)s and r.run_id = %(run_id)s;

-- name: list_attempts
-- The closed ones, then the open one.
select attempt, worker, claimed_at, started_at, finished_at, outcome, reason, error::text as error,
       result::text as result, fingerprint
from everwhen.attempts
where tenant_id = %(tenant_id)s and run_id = %(run_id)s
union all
select attempt, worker, claimed_at, started_at, null, null, null, null, null, null
from everwhen.leases
where tenant_id = %(tenant_id)s and run_id = %(run_id)s
order by attempt;

-- name: find_last_error
-- What a dead run died of. The error's text is cut: the whole of it is with the attempt.
select attempt, outcome, left(error ->> 'type', 200) as kind, left(error ->> 'message', 4000) as message, fingerprint
from everwhen.attempts
where tenant_id = %(tenant_id)s and run_id = %(run_id)s and outcome in ('failed', 'timed_out', 'lost')
order by attempt desc
limit 1;

-- name: list_events
select event_id, at, kind, attempt, reason, detail::text as detail
from everwhen.events
where tenant_id = %(tenant_id)s and run_id = %(run_id)s and event_id > %(after)s
order by event_id
limit %(limit)s;

-- name: withdraw_planned
-- Runs of a schedule that were planned ahead and are not due: their schedule changed, so they were never due. A worker
-- cannot have seen them. The event stays; the instant is decided anew under the new revision. A run that only a flex
-- window keeps from being due belongs to an instant that has passed: it was decided, and stays. So does one that a
-- calendar has moved to before its instant, once it is due. Those that wait and those behind the schedule's gate go in
-- one statement, so that the counters of two days are locked in the order of their keys.
with waited as (
  delete from everwhen.waiting w
  using everwhen.runs r
  where w.tenant_id = %(tenant_id)s and r.tenant_id = w.tenant_id and r.run_id = w.run_id
    and r.schedule_uid = %(schedule_uid)s and r.source = 'schedule'
    and r.run_id >= everwhen.first_run_id(%(now)s) and r.nominal_at > %(now)s and r.due_at > %(now)s and w.attempts = 0
  returning w.tenant_id, w.run_id
), gated as (
  delete from everwhen.held h
  where h.tenant_id = %(tenant_id)s and h.schedule_uid = %(schedule_uid)s and h.is_planned and h.due_at > %(now)s
    and (select r.nominal_at from everwhen.runs r where r.tenant_id = h.tenant_id and r.run_id = h.run_id) > %(now)s
  returning h.tenant_id, h.run_id
), withdrawn as (
  select tenant_id, run_id from waited union all select tenant_id, run_id from gated
), gone as (
  delete from everwhen.runs r using withdrawn w where r.tenant_id = w.tenant_id and r.run_id = w.run_id
  returning r.tenant_id, (r.due_at at time zone 'UTC')::date as day
), given_back as (
  insert into everwhen.run_counts as c (tenant_id, day, shard, runs)
  select g.tenant_id, g.day, 0, -count(*) from gone g group by g.tenant_id, g.day order by 2
  on conflict (tenant_id, day, shard) do update set runs = c.runs + excluded.runs
)
insert into everwhen.events (tenant_id, run_id, at, kind, reason)
select tenant_id, run_id, %(now)s, 'unplanned', %(reason)s from withdrawn
returning run_id;

-- name: list_planned_ahead
-- What these schedules have planned that is not due yet, instant by instant. What somebody has cancelled has ended.
select r.schedule_uid, r.run_id, e.run_id is not null as is_ended
from everwhen.runs r
left join lateral (
  select e.run_id from everwhen.run_ends e where e.tenant_id = r.tenant_id and e.run_id = r.run_id offset 0) e on true
where r.tenant_id = any(%(tenant_ids)s::uuid[]) and r.schedule_uid = any(%(schedule_uids)s::uuid[])
  and r.source = 'schedule' and r.run_id >= everwhen.first_run_id(%(now)s) and r.nominal_at > %(now)s
  and r.due_at > %(now)s;

-- name: list_answered
-- At which instants of a stretch a schedule has runs already.
select r.nominal_at
from everwhen.runs r
where r.tenant_id = %(tenant_id)s and r.schedule_uid = %(schedule_uid)s and r.source = 'schedule'
  and r.run_id >= everwhen.first_run_id(%(after)s) and r.nominal_at > %(after)s and r.nominal_at <= %(until)s
order by r.nominal_at;

-- name: find_nominal
-- The run of a schedule's instant whose due instant a flex window has moved: the ids of a range of time are one range.
select run_id
from everwhen.runs
where tenant_id = %(tenant_id)s and schedule_uid = %(schedule_uid)s and source = 'schedule'
  and run_id >= everwhen.first_run_id(%(nominal_at)s) and run_id < everwhen.first_run_id(%(last_due_at)s)
  and nominal_at = %(nominal_at)s
limit 1;

-- name: cancel_waiting
-- Zero rows: the run is not in the line; it runs, has ended, or is not there.
with taken as (
  delete from everwhen.waiting
  where tenant_id = %(tenant_id)s and run_id = %(run_id)s
  returning tenant_id, run_id, attempts, is_followed
), ended as (
  insert into everwhen.run_ends (tenant_id, run_id, state, reason, attempts, finished_at)
  select tenant_id, run_id, 'cancelled', %(reason)s, attempts, %(now)s from taken
), logged as (
  insert into everwhen.events (tenant_id, run_id, at, kind, reason, detail)
  select tenant_id, run_id, %(now)s, 'cancelled', %(reason)s, %(detail)s::jsonb from taken
)
select is_followed from taken;

-- name: cancel_held
-- A run that its schedule's gate has not let in. Whoever decides under the gate finds it gone.
with taken as (
  delete from everwhen.held
  where run_id = %(run_id)s and tenant_id = %(tenant_id)s
  returning tenant_id, run_id
), ended as (
  insert into everwhen.run_ends (tenant_id, run_id, state, reason, attempts, finished_at)
  select tenant_id, run_id, 'cancelled', %(reason)s, 0, %(now)s from taken
), logged as (
  insert into everwhen.events (tenant_id, run_id, at, kind, reason, detail)
  select tenant_id, run_id, %(now)s, 'cancelled', %(reason)s, %(detail)s::jsonb from taken
)
select true as is_followed from taken;

-- name: request_cancel
-- The holder is told by its next heartbeat. Asking twice changes nothing.
with asked as (
  update everwhen.leases
  set cancel_requested_at = %(now)s
  where tenant_id = %(tenant_id)s and run_id = %(run_id)s and cancel_requested_at is null
  returning tenant_id, run_id, attempt
)
insert into everwhen.events (tenant_id, run_id, at, kind, attempt, reason, detail)
select tenant_id, run_id, %(now)s, 'cancel_requested', attempt, %(reason)s, %(detail)s::jsonb from asked;

-- name: find_schedule_target
-- What running a schedule by hand means: its task and its input, under its present revision.
select uid, revision, task, input::text as input, priority, is_followed, is_gated
from everwhen.schedules
where tenant_id = %(tenant_id)s and name = %(name)s and state <> 'deleted';

-- name: share_schedule_target
-- The same for whoever writes a run of it: a change of the schedule, which may give it a gate, waits until it is written.
select uid, revision, task, input::text as input, priority, is_followed, is_gated
from everwhen.schedules
where tenant_id = %(tenant_id)s and name = %(name)s and state <> 'deleted'
for share;

-- name: admit_run
-- Asked before a run is written, so that an unknown task costs no insert: the task's queue, and whether the tenant may have
-- one more run on that day, which is counted here.
select t.queue, r.granted, r.most
from everwhen.tasks t
cross join lateral everwhen.use_runs(array[t.tenant_id], array[%(day)s::date], array[1], %(usual)s::bigint) r
where t.tenant_id = %(tenant_id)s and t.name = %(task)s and t.deleted_at is null;

-- name: read_runs
-- The runs of a page of ids. Joined id by id, so that each look-up prunes to its own partition.
select r.run_id, r.schedule_uid, s.name as schedule, r.schedule_revision, r.source, r.task, r.queue, r.priority,
       r.nominal_at, r.utc_offset_seconds, r.due_at, r.planned_at, r.expires_at, r.tz_version, r.input::text as input,
       r.origin_run_id, r.operation_id, d.redriven_as, d.state as letter, e.fingerprint,
       r.stands_for::text as stands_for,
       coalesce(w.available_at, h.due_at) as available_at, coalesce(w.failures, l.failures) as failures,
       l.worker, l.claimed_at, l.lease_until, l.cancel_requested_at,
       e.state as ended_state, coalesce(e.reason, h.reason, w.reason) as reason, e.finished_at,
       coalesce(e.attempts, l.attempt, w.attempts, 0) as attempts,
       h.run_id is not null as is_held, h.blocked_by, coalesce(h.waits_since, w.waits_since) as waits_since,
       case when e.state is null and h.run_id is null then w.reason_facts end::text as reason_facts
from unnest(%(run_ids)s::uuid[]) as p (run_id)
cross join lateral (
  select r.* from everwhen.runs r where r.tenant_id = %(tenant_id)s and r.run_id = p.run_id offset 0) r
left join lateral (
  select s.name from everwhen.schedules s where s.tenant_id = r.tenant_id and s.uid = r.schedule_uid offset 0) s on true
left join lateral (
  select w.available_at, w.failures, w.attempts, case when w.priority >= 0 or b.reason like '%%.paused' then b.since else w.parked_at end as waits_since,
         b.facts as reason_facts,
         case when w.priority >= 0 or b.reason like '%%.paused' then b.reason -- of the line; of a parked run see core/claim_limits.py
              when w.limit_group like 'parked fit%%' then 'worker.no_capability_match'
              when w.limit_group like '%%rate%%' then 'limit.rate'
              when w.limit_group like '%%key:%%' then 'limit.key' else 'limit.task' end as reason
  from everwhen.waiting w
  left join lateral (
    select b.reason, greatest(b.since, w.available_at) as since, b.facts
    from (
      select b.reason, b.since, b.facts
      from everwhen.line_states b
      where w.priority >= 0 and w.available_at <= now() and b.tenant_id = w.tenant_id and b.queue = w.queue
        and b.task = any(array['', w.task]) and b.until is null
      union all
      select case when p.queue = '' then 'tenant.paused' else 'queue.paused' end, p.paused_at, jsonb_build_object('queue', w.queue, 'why', p.reason)
      from everwhen.pauses p
      where w.available_at <= now() and p.tenant_id = w.tenant_id and p.queue = any(array['', w.queue])
        and (p.paused_until is null or p.paused_until > now())) b
    order by array_position(array[
      'tenant.paused', 'queue.paused', 'limit.tenant', 'limit.queue', 'limit.rate', 'worker.none_registered', 'worker.none_live',
      'worker.cordoned', 'worker.draining', 'worker.no_capability_match', 'worker.slots_full', 'broker.unreachable',
      'endpoint.rests', 'priority.behind'], b.reason)
    limit 1) b on true
  where w.tenant_id = r.tenant_id and w.run_id = r.run_id offset 0) w on true
left join lateral (
  select h.run_id, h.due_at, h.reason, h.blocked_by, h.waits_since from everwhen.held h where h.run_id = r.run_id and h.tenant_id = r.tenant_id offset 0) h on true
left join lateral (
  select l.worker, l.claimed_at, l.lease_until, l.cancel_requested_at, l.failures, l.attempt from everwhen.leases l where l.tenant_id = r.tenant_id and l.run_id = r.run_id offset 0) l on true
left join lateral (
  select e.state, e.reason, e.finished_at, e.attempts, e.fingerprint from everwhen.run_ends e where e.tenant_id = r.tenant_id and e.run_id = r.run_id offset 0) e on true
left join lateral (
  select d.state, d.redriven_as from everwhen.dead_letters d where d.tenant_id = r.tenant_id and d.run_id = r.run_id offset 0) d on true
order by r.run_id desc;

-- name: tail_events
-- A tenant's history as it grows, of runs due since a while ago: what `everwhen up` shows.
select e.event_id, e.at, e.kind, e.attempt, e.reason, r.run_id, r.task, s.name as schedule, r.due_at
from everwhen.events e
cross join lateral (
  select r.* from everwhen.runs r where r.tenant_id = e.tenant_id and r.run_id = e.run_id offset 0) r
left join lateral (
  select s.name from everwhen.schedules s where s.tenant_id = r.tenant_id and s.uid = r.schedule_uid offset 0) s on true
where e.tenant_id = %(tenant_id)s and e.run_id >= everwhen.first_run_id(%(since)s) and e.event_id > %(after)s
order by e.event_id
limit %(limit)s;
