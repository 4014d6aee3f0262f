-- The first statements each return what is amiss of one kind: tenant, subject, since when, and numbers. The longest first,
-- so that of too many the same ones are seen each time. Look-ups by key stand behind OFFSET 0 (see dispatch/queries.sql).

-- name: lock_sentinel
-- One sentinel works at a time, so that what one closes another does not open again. Zero rows: another one is at it.
select only_one from everwhen.sentinels for update skip locked;

-- name: overdue_schedules
-- The watermark stands still: it had to move by now, and nothing says that the schedule cannot be planned.
select w.tenant_id, s.name as subject, w.next_at as since,
       jsonb_build_object('schedule_uid', w.schedule_uid, 'decided_until', w.decided_until, 'next_at', w.next_at)::text as detail
from everwhen.watermarks w
cross join lateral (
  select s.name from everwhen.schedules s where s.tenant_id = w.tenant_id and s.uid = w.schedule_uid offset 0) s
where w.next_at < %(before)s and w.failures = 0
order by w.next_at
limit %(limit)s;

-- name: schedules_put_off
select w.tenant_id, s.name as subject, w.decided_until as since,
       jsonb_build_object('schedule_uid', w.schedule_uid, 'failures', w.failures, 'error', w.last_error,
                          'next_look_at', w.next_at)::text as detail
from everwhen.watermarks w
cross join lateral (
  select s.name from everwhen.schedules s where s.tenant_id = w.tenant_id and s.uid = w.schedule_uid offset 0) s
where w.failures > 0
order by w.tenant_id, w.schedule_uid
limit %(limit)s;

-- name: lines_that_wait
-- Lines whose oldest due run waits for longer than the objective: one probe of the line's key for each priority. Whether
-- anybody asks for its runs is what the observer wrote down last; where nobody has, a line without leases has no worker.
-- A line that somebody has paused waits because it was told to. That of workflows is the conductor's, who is looked after
-- below, unless its limit holds it.
select l.tenant_id, l.queue as subject, d.since,
       jsonb_strip_nulls(jsonb_build_object('oldest_due_at', d.since, 'in_flight', o.in_flight,
                                            'max_in_flight', l.max_in_flight, 'reasons', b.reasons))::text as detail,
       coalesce(b.reasons && array['worker.none_registered', 'worker.none_live', 'worker.cordoned', 'worker.draining'], o.in_flight = 0) as is_unattended
from everwhen.lanes l
cross join lateral (
  select min(w.available_at) as since
  from generate_series(0, 9) p
  cross join lateral (
    select w.available_at from everwhen.waiting w
    where w.tenant_id = l.tenant_id and w.queue = l.queue and w.priority = p and w.available_at < %(before)s
    order by w.available_at limit 1) w) d
cross join lateral (
  select count(*) as in_flight from everwhen.leases o
  where o.tenant_id = l.tenant_id and o.queue = l.queue and o.lease_token > 0) o
cross join lateral (
  select array_agg(distinct b.reason) as reasons from everwhen.line_states b
  where b.tenant_id = l.tenant_id and b.queue = l.queue and b.until is null) b
where d.since is not null
  and not exists (select from everwhen.pauses p where p.tenant_id = l.tenant_id and p.queue in ('', l.queue))
  and (l.queue <> 'everwhen:workflows' or o.in_flight >= l.max_in_flight)
order by d.since
limit %(limit)s;

-- name: leases_unreaped
select l.tenant_id, l.queue as subject, min(l.lease_until) as since,
       jsonb_build_object('leases', count(*), 'oldest_run_id', min(l.run_id::text))::text as detail
from everwhen.leases l
where l.lease_until < %(before)s
group by l.tenant_id, l.queue
order by since
limit %(limit)s;

-- name: runs_unexpired
select w.tenant_id, w.queue as subject, min(w.expires_at) as since,
       jsonb_build_object('runs', count(*), 'oldest_run_id', min(w.run_id::text))::text as detail
from everwhen.waiting w
where w.expires_at < %(before)s
group by w.tenant_id, w.queue
order by since
limit %(limit)s;

-- name: gates_standing_still
-- Runs that are held behind their schedules' gates, and that nobody has looked at.
select h.tenant_id, s.name as subject, h.since,
       jsonb_build_object('schedule_uid', h.schedule_uid, 'runs', h.runs, 'oldest_run_id', h.oldest_run_id)::text as detail
from (
  select h.tenant_id, h.schedule_uid, min(h.look_at) as since, count(*) as runs, min(h.run_id::text) as oldest_run_id
  from everwhen.held h
  where h.look_at < %(before)s
  group by h.tenant_id, h.schedule_uid
  order by since
  limit %(limit)s) h
cross join lateral (
  select s.name from everwhen.schedules s where s.tenant_id = h.tenant_id and s.uid = h.schedule_uid offset 0) s
order by h.since;

-- name: arrears_standing_still
-- What a schedule has to catch up on and nobody works off, or nobody can.
select a.tenant_id, s.name as subject, a.since,
       jsonb_strip_nulls(jsonb_build_object('schedule_uid', a.schedule_uid, 'failures', a.failures, 'error', a.error))::text
         as detail
from (
  select a.tenant_id, a.schedule_uid, min(a.look_at) as since, max(a.failures) as failures, max(a.last_error) as error
  from everwhen.arrears a
  where a.look_at is not null and (a.look_at < %(before)s or a.failures > 0)
  group by a.tenant_id, a.schedule_uid
  order by since
  limit %(limit)s) a
cross join lateral (
  select s.name from everwhen.schedules s where s.tenant_id = a.tenant_id and s.uid = a.schedule_uid offset 0) s
order by a.since;

-- name: operations_standing_still
select o.tenant_id, o.id::text as subject, o.next_at as since,
       jsonb_build_object('kind', o.kind, 'state', o.state, 'done', o.done, 'total', o.total)::text as detail
from everwhen.operations o
where o.next_at < %(before)s
order by o.next_at
limit %(limit)s;

-- name: workflows_standing_still
-- Workflows whose runs the conductor has to move on and does not: start them, look at them, halt them because somebody
-- asked for it, or give a key that is free to the node that waits for it. The last part is for runs that nothing moves on
-- any more: no node is under way, none waits for a key or for room, and nobody is to look at it.
with due as (
  select w.tenant_id, w.task, w.run_id, w.available_at as since, 'start' as waits_for
  from everwhen.waiting w
  where w.queue = 'everwhen:workflows' and w.available_at < %(before)s
    and not exists (select from everwhen.pauses p where p.tenant_id = w.tenant_id and p.queue in ('', w.queue))
    and not exists (
      select from everwhen.lanes l
      where l.tenant_id = w.tenant_id and l.queue = w.queue
        and l.max_in_flight <= (
          select count(*) from everwhen.leases o
          where o.tenant_id = l.tenant_id and o.queue = l.queue and o.lease_token > 0))
  order by w.available_at
  limit %(limit)s
), unlooked as (
  select r.tenant_id, 'workflow:' || r.workflow as task, r.run_id, r.look_at as since, 'look' as waits_for
  from everwhen.workflow_runs r
  where r.look_at < %(before)s
  order by r.look_at
  limit %(limit)s
), keyless as (
  select n.tenant_id, r.task, n.run_id, greatest(n.decided_at, f.freed_at) as since, 'key' as waits_for
  from everwhen.workflow_nodes n
  cross join lateral (
    select 'workflow:' || r.workflow as task from everwhen.workflow_runs r
    where r.tenant_id = n.tenant_id and r.run_id = n.run_id
    offset 0) r
  cross join lateral (
    select max(f.ended_at) as freed_at
    from everwhen.workflow_nodes f
    where f.tenant_id = n.tenant_id and f.concurrency_key = n.concurrency_key and f.ended_at is not null) f
  where n.is_held and n.concurrency_key is not null and greatest(n.decided_at, f.freed_at) < %(before)s
    and not exists (
      select from everwhen.workflow_keys k where k.tenant_id = n.tenant_id and k.key = n.concurrency_key)
  order by n.decided_at
  limit %(limit)s
), stuck as (
  select r.tenant_id, 'workflow:' || r.workflow as task, r.run_id,
         coalesce(l.cancel_requested_at, d.since) as since,
         case when l.cancel_requested_at is null then 'nothing' else 'halt' end as waits_for
  from everwhen.lanes a
  cross join lateral (
    select l.run_id, l.cancel_requested_at
    from everwhen.leases l
    where l.tenant_id = a.tenant_id and l.queue = a.queue and l.lease_token > 0
    limit 10000) l
  cross join lateral (
    select r.tenant_id, r.workflow, r.run_id, r.started_at, r.halt, r.live, r.look_at
    from everwhen.workflow_runs r
    where r.tenant_id = a.tenant_id and r.run_id = l.run_id and r.ended_at is null
    offset 0) r
  cross join lateral (
    select greatest(max(n.ended_at), r.started_at) as since, coalesce(bool_or(n.is_held), false) as is_held
    from everwhen.workflow_nodes n
    where r.live = 0 and n.tenant_id = r.tenant_id and n.run_id = r.run_id) d
  where a.queue = 'everwhen:workflows'
    and (l.cancel_requested_at < %(before)s and (r.halt is null or r.halt = 'fail_fast')
         or r.live = 0 and not d.is_held and d.since < %(before)s and (r.look_at is null or r.look_at > now()))
  limit %(limit)s
), still as (
  select * from due union all select * from unlooked union all select * from keyless union all select * from stuck
)
select s.tenant_id, substr(s.task, 10) as subject, min(s.since) as since,
       jsonb_build_object('runs', count(distinct s.run_id), 'oldest_run_id', min(s.run_id::text),
                          'wait_for', array_agg(distinct s.waits_for order by s.waits_for))::text as detail
from still s
group by s.tenant_id, s.task
order by since
limit %(limit)s;

-- name: alerts_standing_still
-- Of a channel; what was not matched yet stands under the name of the role that matches.
select a.tenant_id, a.subject, min(a.since) as since, jsonb_build_object('waiting', sum(a.waiting))::text as detail
from (
  select d.tenant_id, d.channel as subject, min(d.look_at) as since, count(*) as waiting
  from everwhen.alert_deliveries d
  where d.look_at < %(before)s
  group by d.tenant_id, d.channel
  union all
  select l.tenant_id, 'notifier', s.at, 1
  from everwhen.alert_listeners l
  cross join lateral (
    select s.at from everwhen.alert_signals s where s.tenant_id = l.tenant_id order by s.signal_id limit 1) s
  where s.at < %(before)s) a
group by a.tenant_id, a.subject
order by since
limit %(limit)s;

-- name: channels_disabled
-- By what they refused, not by a person.
select c.tenant_id, c.name as subject, coalesce(c.last_failure_at, c.updated_at) as since,
       jsonb_build_object('reason', c.state_reason, 'error', c.last_error)::text as detail
from everwhen.alert_channels c
where c.state = 'disabled' and c.refusals > 0
order by since
limit %(limit)s;

-- name: record_facts
-- What is amiss now: a finding that is open is seen again, others open, each with its event.
with facts as (
  select tenant_id, subject, since, detail::jsonb as detail
  from unnest(%(tenant_ids)s::uuid[], %(subjects)s::text[], %(sinces)s::timestamptz[], %(details)s::text[])
         as f (tenant_id, subject, since, detail)
), seen as (
  update everwhen.findings f
  set seen_at = %(now)s, detail = n.detail
  from facts n
  where f.tenant_id = n.tenant_id and f.kind = %(kind)s and f.subject = n.subject and f.closed_at is null
  returning f.tenant_id, f.subject
), opened as (
  insert into everwhen.findings (tenant_id, kind, subject, since, opened_at, seen_at, detail)
  select tenant_id, %(kind)s, subject, least(since, %(now)s), %(now)s, %(now)s, detail
  from facts n
  where not exists (select from seen s where s.tenant_id = n.tenant_id and s.subject = n.subject)
  returning *
)
insert into everwhen.finding_events (tenant_id, finding_id, at, change, kind, subject, detail)
select tenant_id, finding_id, %(now)s, 'opened', kind, subject, detail from opened;

-- name: close_unseen
-- What is over: open findings of a kind that this look, which saw all there is, did not see.
with over as (
  select ctid as place from everwhen.findings
  where kind = %(kind)s and closed_at is null and seen_at < %(now)s
  limit %(limit)s
), closed as (
  update everwhen.findings f
  set closed_at = %(now)s
  from over where f.ctid = over.place
  returning f.*
)
insert into everwhen.finding_events (tenant_id, finding_id, at, change, kind, subject, detail)
select tenant_id, finding_id, %(now)s, 'closed', kind, subject, detail from closed;

-- name: list_findings
-- The newest first. What is open has an index of its own: it is not searched for among all that ever was.
select f.finding_id, t.name as tenant, f.kind, f.subject, f.since, f.opened_at, f.seen_at, f.closed_at, f.detail::text as detail
from (
  (select * from everwhen.findings
   where %(is_open)s and tenant_id = %(tenant_id)s and closed_at is null and finding_id < %(before)s
   order by finding_id desc
   limit %(limit)s)
  union all
  (select * from everwhen.findings
   where not %(is_open)s and tenant_id = %(tenant_id)s and finding_id < %(before)s
   order by finding_id desc
   limit %(limit)s)) f
cross join lateral (select t.name from everwhen.tenants t where t.id = f.tenant_id offset 0) t
order by f.finding_id desc
limit %(limit)s;

-- name: list_all_findings
-- The same of every tenant, along indexes that do not begin with one.
select f.finding_id, t.name as tenant, f.kind, f.subject, f.since, f.opened_at, f.seen_at, f.closed_at, f.detail::text as detail
from (
  (select * from everwhen.findings
   where %(is_open)s and closed_at is null and finding_id < %(before)s
   order by finding_id desc
   limit %(limit)s)
  union all
  (select * from everwhen.findings
   where not %(is_open)s and finding_id < %(before)s
   order by finding_id desc
   limit %(limit)s)) f
cross join lateral (select t.name from everwhen.tenants t where t.id = f.tenant_id offset 0) t
order by f.finding_id desc
limit %(limit)s;

-- name: look_at_lags
-- Since when planning and claiming are late: the schedule that had to be looked at first, and the run that waits longest.
select (select min(w.next_at) from everwhen.watermarks w where w.next_at is not null) as next_look_at,
       (select min(d.due_at)
        from everwhen.lanes l
        cross join generate_series(0, 9) p
        cross join lateral (
          select w.available_at as due_at from everwhen.waiting w
          where w.tenant_id = l.tenant_id and w.queue = l.queue and w.priority = p and w.available_at <= %(now)s
          order by w.available_at limit 1) d) as oldest_due_at;

-- name: count_open
select kind, count(*) as findings from everwhen.findings where closed_at is null group by kind;

-- name: page_measured
-- A page of schedules, with how far their punctuality is counted. One that is new begins where it was made. What it has
-- to catch up on is not decided yet.
select w.tenant_id, w.schedule_uid, least(w.decided_until, a.rest_after) as decided_until,
       coalesce(m.measured_until, s.created_at) as measured_until,
       coalesce(m.objective_seconds, %(default_objective)s) as objective_seconds
from (
  select tenant_id, schedule_uid, decided_until
  from everwhen.watermarks
  where (tenant_id, schedule_uid) > (%(after_tenant_id)s, %(after_uid)s)
  order by tenant_id, schedule_uid
  limit %(limit)s) w
cross join lateral (
  select s.created_at from everwhen.schedules s where s.tenant_id = w.tenant_id and s.uid = w.schedule_uid offset 0) s
cross join lateral (
  select min(a.rest_after) as rest_after from everwhen.arrears a
  where a.tenant_id = w.tenant_id and a.schedule_uid = w.schedule_uid and a.finished_at is null) a
left join lateral (
  select m.measured_until, m.objective_seconds from everwhen.measured m
  where m.tenant_id = w.tenant_id and m.schedule_uid = w.schedule_uid offset 0) m on true
order by w.tenant_id, w.schedule_uid;

-- name: read_starts
-- Runs of schedules that became due in (after, until], by schedule in order, at most so many of each: when they were due
-- and first claimed. Ids are ordered by time, so a stretch of time is a stretch of the schedule's index; that of a run
-- which a calendar moved to a later day is made of its nominal instant, and such a run is not found.
select q.tenant_id, q.schedule_uid, r.due_at, r.started_at, r.counts
from unnest(%(tenant_ids)s::uuid[], %(uids)s::uuid[], %(afters)s::timestamptz[], %(untils)s::timestamptz[])
       as q (tenant_id, schedule_uid, after, until)
cross join lateral (
  select r.due_at, coalesce(a.claimed_at, l.claimed_at) as started_at,
         a.claimed_at is not null or l.claimed_at is not null
           or coalesce(e.state, 'waiting') not in ('skipped', 'coalesced', 'cancelled') as counts
  from (
    select r.tenant_id, r.run_id, r.due_at
    from everwhen.runs r
    where r.tenant_id = q.tenant_id and r.schedule_uid = q.schedule_uid and r.source = 'schedule'
      and r.run_id >= everwhen.first_run_id(q.after) and r.run_id < everwhen.first_run_id(q.until + interval '1 ms')
      and greatest(r.due_at, r.nominal_at) > q.after and greatest(r.due_at, r.nominal_at) <= q.until
    order by r.run_id
    limit %(limit)s) r
  left join lateral (
    select a.claimed_at from everwhen.attempts a
    where a.tenant_id = r.tenant_id and a.run_id = r.run_id and a.attempt = 1 offset 0) a on true
  left join lateral (
    select l.claimed_at from everwhen.leases l
    where l.tenant_id = r.tenant_id and l.run_id = r.run_id and l.attempt = 1 offset 0) l on true
  left join lateral (
    select e.state from everwhen.run_ends e where e.tenant_id = r.tenant_id and e.run_id = r.run_id offset 0) e on true
  ) r
order by q.tenant_id, q.schedule_uid, r.due_at;

-- name: read_missed
-- Spans of missed instants that began in (after, until]: none of them started.
select q.tenant_id, q.schedule_uid, p.first_at, p.instants
from unnest(%(tenant_ids)s::uuid[], %(uids)s::uuid[], %(afters)s::timestamptz[], %(untils)s::timestamptz[])
       as q (tenant_id, schedule_uid, after, until)
cross join lateral (
  select p.first_at, p.instants
  from everwhen.spans p
  where p.tenant_id = q.tenant_id and p.schedule_uid = q.schedule_uid and p.first_at > q.after and p.first_at <= q.until
    and p.verdict = 'missed'
  offset 0) p;

-- name: add_days
-- Counts add up; the lists of buckets, too, place by place.
insert into everwhen.punctuality as p (tenant_id, schedule_uid, day, on_time, late, buckets)
select tenant_id, schedule_uid, day, on_time, late, (select array_agg(b::bigint) from jsonb_array_elements_text(buckets::jsonb) b)
from unnest(%(tenant_ids)s::uuid[], %(uids)s::uuid[], %(days)s::date[], %(on_times)s::bigint[], %(lates)s::bigint[],
            %(bucket_lists)s::text[]) as d (tenant_id, schedule_uid, day, on_time, late, buckets)
on conflict (tenant_id, schedule_uid, day) do update
set on_time = p.on_time + excluded.on_time, late = p.late + excluded.late,
    buckets = (select array_agg(a + b order by n) from unnest(p.buckets, excluded.buckets) with ordinality as u (a, b, n));

-- name: set_measured
insert into everwhen.measured (tenant_id, schedule_uid, measured_until)
select * from unnest(%(tenant_ids)s::uuid[], %(uids)s::uuid[], %(untils)s::timestamptz[])
on conflict (tenant_id, schedule_uid) do update set measured_until = excluded.measured_until;

-- name: set_objective
-- How late a start of this schedule may be. What was counted stays as it was judged. Zero rows: it is another revision
-- than the caller means; before the first objective it is 0.
insert into everwhen.measured as m (tenant_id, schedule_uid, measured_until, objective_seconds, revision)
select s.tenant_id, s.uid, s.created_at, %(objective_seconds)s, 1
from everwhen.schedules s
where s.tenant_id = %(tenant_id)s and s.uid = %(schedule_uid)s
  and (%(among)s::int[] is null or 0 = any(%(among)s::int[]) or exists (
    select from everwhen.measured h where h.tenant_id = s.tenant_id and h.schedule_uid = s.uid))
on conflict (tenant_id, schedule_uid) do update
set objective_seconds = excluded.objective_seconds, revision = m.revision + 1
where %(among)s::int[] is null or m.revision = any(%(among)s::int[]);

-- name: get_objective
select m.objective_seconds, m.measured_until, m.revision from everwhen.measured m
where m.tenant_id = %(tenant_id)s and m.schedule_uid = %(schedule_uid)s;

-- name: read_punctuality
select p.day, p.on_time, p.late, p.buckets
from everwhen.punctuality p
where p.tenant_id = %(tenant_id)s and p.schedule_uid = %(schedule_uid)s and p.day > %(after)s
order by p.day;
