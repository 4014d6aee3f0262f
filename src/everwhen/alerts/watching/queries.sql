-- Looks at what is live, of those tenants only that listen for it, and leaves a signal once.

-- name: signal_late
-- Runs that were due for longer than their schedule's objective before anybody began them: those that wait, the oldest of
-- each line and priority, and those that were claimed a moment ago. A run is told as late once; what begins and ends
-- between two looks is told by whoever closes its first attempt (the trigger `signal_attempts`).
with listener as materialized (
  select distinct k.tenant_id from everwhen.subscription_kinds k where k.kind = 'run.late'
), candidate as materialized (
  select w.tenant_id, w.run_id, %(now)s::timestamptz as begun_at
  from listener n
  cross join lateral (select l.queue from everwhen.lanes l where l.tenant_id = n.tenant_id offset 0) l
  cross join generate_series(-10, 9) p -- below 0 are those that a limit has parked
  cross join lateral (
    select w.tenant_id, w.run_id from (
      select w.tenant_id, w.run_id, w.attempts from everwhen.waiting w
      where w.tenant_id = n.tenant_id and w.queue = l.queue and w.priority = p and w.available_at <= %(now)s
      order by w.available_at
      limit %(depth)s) w
    where w.attempts = 0 and not exists (
      select from everwhen.alert_watched a
      where a.tenant_id = w.tenant_id and a.kind = 'run.late' and a.run_id = w.run_id and a.attempt = 0)
    limit %(limit)s) w
  union all
  select o.tenant_id, o.run_id, o.claimed_at
  from listener n
  cross join lateral (
    select o.tenant_id, o.run_id, o.claimed_at from everwhen.leases o
    where o.tenant_id = n.tenant_id and o.attempt = 1 and o.claimed_at > %(claimed_after)s
    limit %(limit)s) o
), late as (
  select c.tenant_id, c.run_id, r.due_at + r.objective as since
  from candidate c
  cross join lateral (
    select greatest(r.due_at, r.planned_at) as due_at,
           make_interval(secs => coalesce((
             select m.objective_seconds from everwhen.measured m
             where m.tenant_id = r.tenant_id and m.schedule_uid = r.schedule_uid), %(objective)s)) as objective
    from everwhen.runs r where r.tenant_id = c.tenant_id and r.run_id = c.run_id offset 0) r
  where c.begun_at > r.due_at + r.objective
), told as (
  insert into everwhen.alert_watched (tenant_id, kind, run_id, since, told_at)
  select tenant_id, 'run.late', run_id, since, %(now)s from late
  order by tenant_id, run_id -- as the trigger does, or the two could wait for each other
  on conflict do nothing
  returning tenant_id, run_id, since
)
insert into everwhen.alert_signals (tenant_id, kind, at, run_id)
select tenant_id, 'run.late', since, run_id from told;

-- name: find_suspects
-- Attempts that hold their lease for three times as long as the longest of the latest twenty successes of their schedule
-- took, and for a minute at least. Fewer than five successes say nothing. Those of which their executor says that they do
-- nothing need no comparison.
select o.tenant_id, o.run_id, o.attempt,
       case when o.details ->> 'zombie' = 'true' then interval '0' else p.patience end as patience,
       case when o.details is null or o.details ->> 'zombie' = 'true' then o.claimed_at else %(now)s end as since,
       md5(coalesce(o.details::text, '')) as progress
from (select distinct k.tenant_id from everwhen.subscription_kinds k where k.kind = 'run.zombie') n
cross join lateral (
  select o.* from everwhen.leases o
  where o.tenant_id = n.tenant_id and o.lease_until > %(now)s and o.claimed_at < %(now)s - interval '1 minute'
    and o.queue not like 'everwhen:%%'
  limit %(depth)s) o
cross join lateral (
  select r.schedule_uid from everwhen.runs r
  where r.tenant_id = o.tenant_id and r.run_id = o.run_id and r.schedule_uid is not null offset 0) r
cross join lateral (
  select greatest(3 * max(a.finished_at - a.claimed_at), interval '1 minute') as patience, count(*) as successes
  from (
    select a.finished_at, a.claimed_at
    from (
      select h.run_id from everwhen.runs h
      where h.tenant_id = o.tenant_id and h.schedule_uid is not null and h.schedule_uid = r.schedule_uid
        and h.run_id < o.run_id
      order by h.run_id desc
      limit 100) h
    cross join lateral (
      select a.finished_at, a.claimed_at from everwhen.attempts a
      where a.tenant_id = o.tenant_id and a.run_id = h.run_id and a.outcome = 'succeeded' offset 0) a
    order by h.run_id desc
    limit 20) a) p
where p.successes >= 5 and o.claimed_at + p.patience < %(now)s or o.details ->> 'zombie' = 'true';

-- name: see_suspects
-- Since when each has reported the same: since now, if it has reported something else than at the last look.
insert into everwhen.alert_watched as a (tenant_id, kind, run_id, attempt, progress, since)
select tenant_id, 'run.zombie', run_id, attempt, progress, since
from unnest(%(tenant_ids)s::uuid[], %(run_ids)s::uuid[], %(attempts)s::int[], %(progresses)s::text[], %(sinces)s::timestamptz[])
       as s (tenant_id, run_id, attempt, progress, since)
on conflict (tenant_id, kind, run_id, attempt) do update
set progress = excluded.progress, since = case when a.progress = excluded.progress then a.since else %(now)s end
where a.told_at is null;

-- name: signal_zombies
-- Those that have reported nothing new for as long as they may.
with told as (
  update everwhen.alert_watched a
  set told_at = %(now)s
  from unnest(%(tenant_ids)s::uuid[], %(run_ids)s::uuid[], %(attempts)s::int[], %(patiences)s::interval[])
         as s (tenant_id, run_id, attempt, patience)
  where a.tenant_id = s.tenant_id and a.kind = 'run.zombie' and a.run_id = s.run_id and a.attempt = s.attempt
    and a.told_at is null and a.since + s.patience < %(now)s
  returning a.tenant_id, a.run_id, a.attempt
)
insert into everwhen.alert_signals (tenant_id, kind, at, run_id, attempt)
select tenant_id, 'run.zombie', %(now)s, run_id, attempt from told;

-- name: find_with_deadline
-- Workflows' runs under way that have a deadline and were not told of, of tenants that listen: the nearest deadlines.
select w.tenant_id, w.run_id
from (select distinct k.tenant_id from everwhen.subscription_kinds k where k.kind = 'run.overdue') n
cross join lateral (
  select o.run_id from everwhen.leases o
  where o.tenant_id = n.tenant_id and o.queue = %(queue)s and o.lease_token > 0
  limit %(depth)s) o
cross join lateral (
  select w.tenant_id, w.run_id, w.deadline_at from everwhen.workflow_runs w
  where w.tenant_id = n.tenant_id and w.run_id = o.run_id and w.deadline_at is not null and w.ended_at is null offset 0) w
where not exists (
  select from everwhen.alert_watched a
  where a.tenant_id = w.tenant_id and a.kind = 'run.overdue' and a.run_id = w.run_id and a.attempt = 0)
order by w.deadline_at
limit %(limit)s;

-- name: signal_overdue_runs
-- Runs of tasks with a total deadline that will miss it: if they take, from their claim or from now, as long as half of the
-- latest twenty successes of their schedule did. Fewer than five say nothing. A workflow's run is foreseen by its nodes.
with listener as materialized (
  select distinct k.tenant_id from everwhen.subscription_kinds k where k.kind = 'run.overdue'
), candidate as materialized (
  select o.tenant_id, o.run_id, o.task, o.policy, o.claimed_at as begun_at
  from listener n
  cross join lateral (
    select o.* from everwhen.leases o
    where o.tenant_id = n.tenant_id and o.queue not like 'everwhen:%%'
    limit %(depth)s) o
  union all
  select w.tenant_id, w.run_id, w.task, w.policy, %(now)s
  from listener n
  cross join lateral (
    select l.queue from everwhen.lanes l where l.tenant_id = n.tenant_id and l.queue not like 'everwhen:%%' offset 0) l
  cross join generate_series(-10, 9) p -- below 0 are those that a limit has parked
  cross join lateral (
    select w.tenant_id, w.run_id, w.task, w.policy from everwhen.waiting w
    where w.tenant_id = n.tenant_id and w.queue = l.queue and w.priority = p and w.available_at <= %(now)s
    order by w.available_at
    limit %(depth)s) w
), bounded as materialized (
  select c.tenant_id, c.run_id, c.begun_at, r.schedule_uid, r.due_at + make_interval(secs => t.seconds) as deadline_at
  from candidate c
  cross join lateral (
    select coalesce((c.policy ->> 'total_deadline_seconds')::float8, t.total_deadline_seconds) as seconds
    from everwhen.tasks t where t.tenant_id = c.tenant_id and t.name = c.task offset 0) t
  cross join lateral (
    select greatest(r.due_at, r.planned_at) as due_at, r.schedule_uid from everwhen.runs r
    where t.seconds is not null and r.tenant_id = c.tenant_id and r.run_id = c.run_id and r.schedule_uid is not null
    offset 0) r
  where not exists (
    select from everwhen.alert_watched a
    where a.tenant_id = c.tenant_id and a.kind = 'run.overdue' and a.run_id = c.run_id and a.attempt = 0)
), told as (
  insert into everwhen.alert_watched (tenant_id, kind, run_id, since, told_at)
  select b.tenant_id, 'run.overdue', b.run_id, %(now)s, %(now)s
  from bounded b
  cross join lateral (
    select percentile_cont(0.5) within group (order by extract(epoch from a.took)) as seconds, count(*) as successes
    from (
      select a.finished_at - a.claimed_at as took
      from (
        select h.run_id from everwhen.runs h
        where h.tenant_id = b.tenant_id and h.schedule_uid is not null and h.schedule_uid = b.schedule_uid
          and h.run_id < b.run_id
        order by h.run_id desc
        limit 100) h
      cross join lateral (
        select a.finished_at, a.claimed_at from everwhen.attempts a
        where a.tenant_id = b.tenant_id and a.run_id = h.run_id and a.outcome = 'succeeded' offset 0) a
      order by h.run_id desc
      limit 20) a) p
  where p.successes >= 5 and b.deadline_at > %(now)s
    and greatest(b.begun_at + make_interval(secs => p.seconds), %(now)s) > b.deadline_at
  order by b.tenant_id, b.run_id
  limit %(limit)s
  on conflict do nothing
  returning tenant_id, run_id
)
insert into everwhen.alert_signals (tenant_id, kind, at, run_id)
select tenant_id, 'run.overdue', %(now)s, run_id from told;

-- name: signal_overdue
with told as (
  insert into everwhen.alert_watched (tenant_id, kind, run_id, since, told_at)
  values (%(tenant_id)s, 'run.overdue', %(run_id)s, %(now)s, %(now)s)
  on conflict do nothing
  returning tenant_id, run_id
)
insert into everwhen.alert_signals (tenant_id, kind, at, run_id)
select tenant_id, 'run.overdue', %(now)s, run_id from told;

-- name: forget
-- What was watched long ago; so many at a time.
with old as materialized (
  select a.ctid as place from everwhen.alert_watched a where a.since < %(before)s limit %(limit)s for update skip locked
)
delete from everwhen.alert_watched a using old where a.ctid = old.place;
