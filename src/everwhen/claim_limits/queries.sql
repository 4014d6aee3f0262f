-- Limits at the claim. As in dispatch/queries.sql no plan is left to the statistics: rows are found by = any(…) on the key,
-- or behind OFFSET 0; places in the line, which are locked, by ctid.

-- name: lock_candidates
-- Due runs of these lines, in the order in which claim_runs takes them, with what each counts for. They stay in the line until it is
-- decided what becomes of them: the lock keeps every other claim away meanwhile.
with candidate as materialized (
  select w.*
  from unnest(%(tenant_ids)s::uuid[], %(queues)s::text[], %(depths)s::int[]) as lane (tenant_id, queue, depth)
  cross join lateral (
    -- What has grown old, oldest first: one look at the oldest run of the line says whether there can be any.
    select coalesce(array_agg(w.place), '{}') as places
    from (
      select w.place
      from (
        select l.ageing_seconds from everwhen.lanes l where l.tenant_id = lane.tenant_id and l.queue = lane.queue offset 0) l
      cross join lateral (
        select from (
          select w.available_at
          from everwhen.waiting w
          where w.queue = lane.queue and w.tenant_id = lane.tenant_id and w.priority >= 0 -- the predicate of waiting_lanes
          order by w.available_at
          limit 1) w
        where w.available_at <= %(now)s::timestamptz - make_interval(secs => l.ageing_seconds)) any_old
      cross join generate_series(0, 9) p
      cross join lateral (
        select w.ctid as place, w.available_at
        from everwhen.waiting w
        where w.tenant_id = lane.tenant_id and w.queue = lane.queue and w.priority = p
          and w.available_at <= %(now)s::timestamptz - make_interval(secs => greatest(9 - p, 1) * l.ageing_seconds)
          and (w.expires_at is null or w.expires_at > %(now)s)
          and (%(tasks)s::text[] is null or w.task = any(%(tasks)s::text[]))
          and w.run_id <> all(%(passed)s::uuid[])
        order by w.available_at
        limit lane.depth) w
      order by w.available_at
      limit lane.depth) old
    cross join lateral (
      select w.ctid as place from everwhen.waiting w where w.ctid = old.place for update skip locked) w) old
  cross join lateral (
    select w.*
    from (
      select w.*, true as is_old
      from unnest(old.places) as o (place)
      cross join lateral (select w.tenant_id, w.queue, w.task, w.priority, w.available_at, w.run_id, w.limit_group, w.ctid as place from everwhen.waiting w where w.ctid = o.place) w
      union all
      select w.*, false
      from generate_series(9, 0, -1) p
      cross join lateral (
        select w.tenant_id, w.queue, w.task, w.priority, w.available_at, w.run_id, w.limit_group, w.ctid as place
        from everwhen.waiting w
        where w.tenant_id = lane.tenant_id and w.queue = lane.queue and w.priority = p and w.available_at <= %(now)s
          and (w.expires_at is null or w.expires_at > %(now)s)
          and (%(tasks)s::text[] is null or w.task = any(%(tasks)s::text[]))
          and w.run_id <> all(%(passed)s::uuid[])
          and w.ctid <> all(old.places)
        order by w.available_at
        limit lane.depth
        for update skip locked) w) w
    limit lane.depth) w
)
select c.tenant_id, c.queue, c.task, c.priority, c.available_at, c.run_id, c.limit_group, c.is_old, c.place::text as place, l.limit_key, l.requires
from candidate c
left join lateral (
  select case when t.key_paths is null then '' else (
           select t.key_version || ':' || left(encode(sha256(convert_to(
                    (select jsonb_agg(r.input #> array(select jsonb_array_elements_text(p.path)) order by p.n)
                     from jsonb_array_elements(t.key_paths) with ordinality as p (path, n))::text, 'UTF8')), 'hex'), 32)
           from everwhen.runs r
           where r.tenant_id = c.tenant_id and r.run_id = c.run_id) end as limit_key,
         t.requires::text as requires
  from everwhen.task_limits t
  where t.tenant_id = c.tenant_id and t.task = c.task
  offset 0) l on true;

-- name: lock_named
-- The same for runs that a claim names, found by their key: as far as they are due in these lines, and nobody else has
-- them in hand.
with candidate as materialized (
  select w.tenant_id, w.queue, w.task, w.priority, w.available_at, w.run_id, w.limit_group, w.ctid as place
  from everwhen.waiting w
  where w.tenant_id = %(tenant_id)s and w.run_id = any(%(run_ids)s::uuid[]) and w.queue = any(%(queues)s::text[])
    and w.priority >= 0 and w.available_at <= %(now)s and (w.expires_at is null or w.expires_at > %(now)s)
    and (%(tasks)s::text[] is null or w.task = any(%(tasks)s::text[]))
  for update skip locked
)
select c.tenant_id, c.queue, c.task, c.priority, c.available_at, c.run_id, c.limit_group, false as is_old, c.place::text as place, l.limit_key, l.requires
from candidate c
left join lateral (
  select case when t.key_paths is null then '' else (
           select t.key_version || ':' || left(encode(sha256(convert_to(
                    (select jsonb_agg(r.input #> array(select jsonb_array_elements_text(p.path)) order by p.n)
                     from jsonb_array_elements(t.key_paths) with ordinality as p (path, n))::text, 'UTF8')), 'hex'), 32)
           from everwhen.runs r
           where r.tenant_id = c.tenant_id and r.run_id = c.run_id) end as limit_key,
         t.requires::text as requires
  from everwhen.task_limits t
  where t.tenant_id = c.tenant_id and t.task = c.task
  offset 0) l on true;

-- name: lock_limits
-- Whoever holds the row of a task counts what is in flight of it, and takes, parks or lets go: nobody comes between. In the
-- order of the arrays, so that two never wait for each other.
select t.tenant_id, t.task, t.queue, t.max_in_flight, t.rate_tokens, t.rate_seconds, t.rate_burst, t.rate_full_at,
       t.key_paths is not null as has_keys, t.key_max_in_flight, t.key_rate_tokens, t.key_rate_seconds, t.key_rate_burst,
       t.key_version, t.has_parked, t.release_at, t.adopts_until, t.requires::text as requires
from unnest(%(tenant_ids)s::uuid[], %(tasks)s::text[]) as q (tenant_id, task)
cross join lateral (
  select t.* from everwhen.task_limits t
  where t.tenant_id = q.tenant_id and t.task = q.task
  for no key update) t;

-- name: lock_free_limits
-- The same without waiting, for whoever holds other rows already.
select t.tenant_id, t.task, t.queue, t.max_in_flight, t.rate_tokens, t.rate_seconds, t.rate_burst, t.rate_full_at,
       t.key_paths is not null as has_keys, t.key_max_in_flight, t.key_rate_tokens, t.key_rate_seconds, t.key_rate_burst,
       t.key_version, t.has_parked, t.release_at, t.adopts_until, t.requires::text as requires
from unnest(%(tenant_ids)s::uuid[], %(tasks)s::text[]) as q (tenant_id, task)
cross join lateral (
  select t.* from everwhen.task_limits t
  where t.tenant_id = q.tenant_id and t.task = q.task
  for no key update skip locked) t;

-- name: lock_parked_limits
-- The next tasks of which some runs are parked, for the backstop. Never waits.
select t.tenant_id, t.task, t.queue, t.max_in_flight, t.rate_tokens, t.rate_seconds, t.rate_burst, t.rate_full_at,
       t.key_paths is not null as has_keys, t.key_max_in_flight, t.key_rate_tokens, t.key_rate_seconds, t.key_rate_burst,
       t.key_version, t.has_parked, t.release_at, t.adopts_until, t.requires::text as requires
from everwhen.task_limits t
where t.has_parked and (t.tenant_id, t.task) > (%(after_tenant_id)s, %(after_task)s)
order by t.tenant_id, t.task
limit %(limit)s
for no key update skip locked;

-- name: find_due_releases
-- Tasks of these lines of which a run waits for a token that is there by now.
select t.tenant_id, t.task
from unnest(%(tenant_ids)s::uuid[], %(queues)s::text[]) as q (tenant_id, queue)
cross join lateral (
  select t.tenant_id, t.task
  from everwhen.task_limits t
  where t.tenant_id = q.tenant_id and t.queue = q.queue and t.release_at <= %(now)s
  order by t.release_at
  limit %(limit)s) t;

-- name: find_fitting
-- Tasks of which runs are parked that did not fit the worker that met them, and that fit this one.
select t.tenant_id, t.task, t.requires::text as requires
from everwhen.task_limits t
where t.tenant_id = any(%(tenant_ids)s::uuid[]) and t.has_unfit
  and (%(tasks)s::text[] is null or t.task = any(%(tasks)s::text[]))
  and everwhen.fits(t.requires, %(labels)s::jsonb, %(free)s::jsonb)
order by t.tenant_id, t.task
limit %(limit)s;

-- name: offer_fitting
-- Put those of them back into their line that are first in it, for the claim that does this to look at.
with chosen as materialized (
  select w.place
  from unnest(%(tenant_ids)s::uuid[], %(tasks)s::text[], %(rooms)s::int[]) as g (tenant_id, task, room)
  cross join lateral (
    select w.ctid as place
    from everwhen.waiting w
    where w.tenant_id = g.tenant_id and w.task = g.task and w.limit_group = 'parked fit'
      and w.queue = any(%(queues)s::text[])
    order by w.priority, w.available_at -- -1 - p stands there: the highest priority is the lowest number
    limit g.room
    for update skip locked) w
)
update everwhen.waiting w
set priority = -1 - w.priority, limit_group = 'offered fit'
from chosen c
where w.ctid = c.place;

-- name: mark_unfit
update everwhen.task_limits t
set has_unfit = m.has_unfit
from unnest(%(tenant_ids)s::uuid[], %(tasks)s::text[], %(has_unfit)s::boolean[]) as m (tenant_id, task, has_unfit)
where t.tenant_id = m.tenant_id and t.task = m.task and t.has_unfit <> m.has_unfit;

-- name: count_in_flight
-- Run after the rows of the tasks are locked, so that its snapshot sees every lease that an earlier claim has committed.
-- `limit_key` null: of the whole task. What is offered are runs that were let go and that nobody has taken yet.
select q.tenant_id, q.task, q.limit_key, l.in_flight, w.offered
from unnest(%(tenant_ids)s::uuid[], %(tasks)s::text[], %(limit_keys)s::text[]) as q (tenant_id, task, limit_key)
cross join lateral (
  select count(*) as in_flight
  from everwhen.leases l
  where q.limit_key is null and l.tenant_id = q.tenant_id and l.task = q.task and l.limit_key is not null
  union all
  select count(*)
  from everwhen.leases l
  where q.limit_key is not null and l.tenant_id = q.tenant_id and l.task = q.task and l.limit_key = q.limit_key
  order by 1 desc
  limit 1) l
cross join lateral (
  select count(*) as offered
  from everwhen.waiting w
  where %(with_offered)s::boolean and q.limit_key is null and w.tenant_id = q.tenant_id and w.task = q.task
    and w.limit_group >= 'offered ' and w.limit_group < 'offered!'
  union all
  select count(*)
  from everwhen.waiting w
  where %(with_offered)s::boolean and q.limit_key is not null and w.tenant_id = q.tenant_id and w.task = q.task
    and w.limit_group = any(array['offered key:' || q.limit_key, 'offered keyrate:' || q.limit_key])
  order by 1 desc
  limit 1) w;

-- name: adopt_leases
-- Leases that do not say yet what they count for: claimed before their task had a limit, or before it made its keys as it
-- does now. Those that somebody holds just now are passed over, and counted by the caller.
with found as materialized (
  select l.tenant_id, l.run_id
  from everwhen.lanes a
  cross join lateral (
    select l.tenant_id, l.run_id
    from everwhen.leases l
    where l.tenant_id = a.tenant_id and l.queue = a.queue and l.lease_token > 0 -- the predicate of leases_lane
      and l.task = %(task)s and (l.limit_key is null or left(l.limit_key, length(%(prefix)s)) <> %(prefix)s)
    for no key update skip locked) l
  where a.tenant_id = %(tenant_id)s
)
update everwhen.leases l
set limit_key = coalesce((
  select t.key_version || ':' || left(encode(sha256(convert_to(
           (select jsonb_agg(r.input #> array(select jsonb_array_elements_text(p.path)) order by p.n)
            from jsonb_array_elements(t.key_paths) with ordinality as p (path, n))::text, 'UTF8')), 'hex'), 32)
  from everwhen.task_limits t
  cross join lateral (
    select r.input from everwhen.runs r where r.tenant_id = l.tenant_id and r.run_id = l.run_id offset 0) r
  where t.tenant_id = l.tenant_id and t.task = %(task)s and t.key_paths is not null), '')
from found f
where l.tenant_id = f.tenant_id and l.run_id = f.run_id;

-- name: count_unadopted
select count(*) as leases
from everwhen.lanes a
cross join lateral (
  select from everwhen.leases l
  where l.tenant_id = a.tenant_id and l.queue = a.queue and l.lease_token > 0 -- the predicate of leases_lane
    and l.task = %(task)s and (l.limit_key is null or left(l.limit_key, length(%(prefix)s)) <> %(prefix)s)
  offset 0) l
where a.tenant_id = %(tenant_id)s;

-- name: end_adoption
update everwhen.task_limits set adopts_until = null where tenant_id = %(tenant_id)s and task = %(task)s;

-- name: read_key_rates
-- The buckets of these keys; one that is not there is full.
select k.tenant_id, k.task, k.limit_key, k.full_at
from unnest(%(tenant_ids)s::uuid[], %(tasks)s::text[], %(limit_keys)s::text[]) as q (tenant_id, task, limit_key)
cross join lateral (
  select k.*
  from everwhen.key_rates k
  where k.tenant_id = q.tenant_id and k.task = q.task and k.limit_key = q.limit_key
  offset 0) k;

-- name: park_runs
-- Out of the way of every claim, until what they wait for is there. The caller holds them. Places are read first: a cast
-- within the join would have to wait for row-level security, and each place would be looked for in the whole table.
with chosen as materialized (
  select p.place::tid as place, p.resource from unnest(%(places)s::text[], %(resources)s::text[]) as p (place, resource)
)
update everwhen.waiting w
set priority = -1 - w.priority, limit_group = 'parked ' || c.resource, parked_at = coalesce(w.parked_at, %(now)s)
from chosen c
where w.ctid = c.place;

-- name: park_behind
-- More of the same, where a claim has met so many runs of full tasks that it came to nothing else: whatever stands next in
-- these lines is looked at, so many at most, and parked if it is of one of these tasks. Nothing is decided about it anew.
with chosen as materialized (
  select w.place, f.resource
  from unnest(%(lane_tenant_ids)s::uuid[], %(queues)s::text[]) as lane (tenant_id, queue)
  cross join lateral (
    select w.place, w.task
    from generate_series(9, 0, -1) p
    cross join lateral (
      select w.ctid as place, w.task
      from everwhen.waiting w
      where w.tenant_id = lane.tenant_id and w.queue = lane.queue and w.priority = p and w.available_at <= %(now)s
      order by w.available_at
      limit %(most)s
      for update skip locked) w
    limit %(most)s) w
  cross join lateral (
    select f.resource
    from unnest(%(tenant_ids)s::uuid[], %(tasks)s::text[], %(resources)s::text[]) as f (tenant_id, task, resource)
    where f.tenant_id = lane.tenant_id and f.task = w.task
    limit 1) f
  limit %(most)s
)
update everwhen.waiting w
set priority = -1 - w.priority, limit_group = 'parked ' || c.resource, parked_at = coalesce(w.parked_at, %(now)s)
from chosen c
where w.ctid = c.place;

-- name: offer_runs
-- Let parked runs go, up to `rooms` of each group: those first that have grown old, as a claim would take them, oldest first;
-- then those that are first in the order of a line. They stand in their line again, and whoever claims them decides anew. One
-- that somebody ends just now is passed over.
with chosen as materialized (
  select w.place
  from unnest(%(tenant_ids)s::uuid[], %(tasks)s::text[], %(resources)s::text[], %(rooms)s::int[])
         as g (tenant_id, task, resource, room)
  left join lateral (
    select l.ageing_seconds
    from everwhen.task_limits t
    join everwhen.lanes l on l.tenant_id = t.tenant_id and l.queue = t.queue
    where t.tenant_id = g.tenant_id and t.task = g.task
    offset 0) a on true
  cross join lateral (
    select coalesce(array_agg(o.place), '{}') as places
    from (
      select w.place
      from generate_series(0, 9) p
      cross join lateral (
        select w.ctid as place, w.available_at
        from everwhen.waiting w
        where w.tenant_id = g.tenant_id and w.task = g.task and w.limit_group = 'parked ' || g.resource
          and w.priority = -1 - p
          and w.available_at <= %(now)s::timestamptz - make_interval(secs => greatest(9 - p, 1) * a.ageing_seconds)
        order by w.available_at
        limit g.room) w
      order by w.available_at
      limit g.room) o) old
  cross join lateral (
    select w.place
    from (
      select w.ctid as place
      from unnest(old.places) as o (place)
      cross join lateral (select w.ctid from everwhen.waiting w where w.ctid = o.place for update skip locked) w
      union all
      select w.place
      from (
        select w.ctid as place
        from everwhen.waiting w
        where w.tenant_id = g.tenant_id and w.task = g.task and w.limit_group = 'parked ' || g.resource
          and w.ctid <> all(old.places)
        order by w.priority, w.available_at, w.run_id
        limit g.room
        for update skip locked) w) w
    limit g.room) w
)
update everwhen.waiting w
set priority = -1 - w.priority, limit_group = 'offered ' || substr(w.limit_group, 8)
from chosen c
where w.ctid = c.place
returning w.tenant_id, w.queue, w.task, substr(w.limit_group, 9) as resource;

-- name: list_groups
-- What runs of a task are parked for, after one of them: a step from each group to the next, never through its runs.
with recursive step as (
  (select w.limit_group
   from everwhen.waiting w
   where w.tenant_id = %(tenant_id)s and w.task = %(task)s
     and w.limit_group > 'parked ' || %(after)s and w.limit_group < 'parked!'
   order by w.limit_group
   limit 1)
  union all
  select (
    select w.limit_group
    from everwhen.waiting w
    where w.tenant_id = %(tenant_id)s and w.task = %(task)s and w.limit_group > s.limit_group and w.limit_group < 'parked!'
    order by w.limit_group
    limit 1)
  from step s
  where s.limit_group is not null
)
select substr(limit_group, 8) as resource from step where limit_group is not null limit %(limit)s;

-- name: mark_parked
update everwhen.task_limits t
set has_parked = m.has_parked, release_at = m.release_at
from unnest(%(tenant_ids)s::uuid[], %(tasks)s::text[], %(has_parked)s::boolean[], %(release_ats)s::timestamptz[])
       as m (tenant_id, task, has_parked, release_at)
where t.tenant_id = m.tenant_id and t.task = m.task
  and (t.has_parked, t.release_at) is distinct from (m.has_parked, m.release_at);

-- name: charge_rates
update everwhen.task_limits t
set rate_full_at = c.full_at
from unnest(%(tenant_ids)s::uuid[], %(tasks)s::text[], %(full_ats)s::timestamptz[]) as c (tenant_id, task, full_at)
where t.tenant_id = c.tenant_id and t.task = c.task;

-- name: charge_key_rates
insert into everwhen.key_rates (tenant_id, task, limit_key, full_at)
select tenant_id, task, limit_key, full_at
from unnest(%(tenant_ids)s::uuid[], %(tasks)s::text[], %(limit_keys)s::text[], %(full_ats)s::timestamptz[])
       as c (tenant_id, task, limit_key, full_at)
order by 1, 2, 3
on conflict (tenant_id, task, limit_key) do update set full_at = excluded.full_at;

-- name: sweep_key_rates
-- Buckets that are full again say nothing.
delete from everwhen.key_rates
where ctid = any(array(
  select ctid from everwhen.key_rates where full_at < %(before)s order by full_at limit %(limit)s for update skip locked));

-- name: lock_lanes
-- The lines of these tenants at the queues of these tasks, before and after a change, in the order in which claims lock them.
select l.tenant_id, l.queue
from everwhen.lanes l
where l.tenant_id = any(%(tenant_ids)s::uuid[])
  and (l.queue in (select t.queue from everwhen.tasks t where t.tenant_id = l.tenant_id and t.name = any(%(tasks)s::text[]))
       or l.queue in (select t.queue from everwhen.task_limits t where t.tenant_id = l.tenant_id and t.task = any(%(tasks)s::text[])))
order by l.tenant_id, l.queue
for no key update;

-- name: mark_lanes
-- In which of these lines runs of tasks with limits may wait, or of tasks that had some and of which runs are parked still.
update everwhen.lanes l
set is_limited = m.is_limited
from (
  select l.tenant_id, l.queue, exists (
           select from everwhen.task_limits t
           where t.tenant_id = l.tenant_id and t.queue = l.queue)
           or exists (
           select from everwhen.queues q
           where q.tenant_id = l.tenant_id and q.name = l.queue and q.deleted_at is null and q.rate_tokens is not null) as is_limited
  from everwhen.lanes l
  where l.tenant_id = any(%(tenant_ids)s::uuid[]) and l.queue = any(%(queues)s::text[])) m
where l.tenant_id = m.tenant_id and l.queue = m.queue and l.is_limited is distinct from m.is_limited;

-- name: mark_lane
-- A line in which a run of a task with limits was met, whose own queue is another.
update everwhen.lanes set is_limited = true where tenant_id = %(tenant_id)s and queue = %(queue)s;

-- name: save_limits
-- What tasks say, as claims read it. The row of a task that has no limit any more stays until nothing of it is parked.
insert into everwhen.task_limits as l
  (tenant_id, task, queue, max_in_flight, rate_tokens, rate_seconds, rate_burst, key_paths, key_max_in_flight,
   key_rate_tokens, key_rate_seconds, key_rate_burst, key_version, adopts_until, requires)
select t.tenant_id, t.name, t.queue, t.max_in_flight, (t.rate ->> 'tokens')::int, (t.rate ->> 'seconds')::float8,
       (t.rate ->> 'burst')::int,
       (select jsonb_agg((
                 select jsonb_agg(replace(replace(s.step, '~1', '/'), '~0', '~') order by s.n)
                 from unnest(string_to_array(substr(k.pointer, 2), '/')) with ordinality as s (step, n)) order by k.n)
        from jsonb_array_elements_text(t.concurrency -> 'key') with ordinality as k (pointer, n)),
       (t.concurrency ->> 'max_in_flight')::int, (t.concurrency #>> '{rate,tokens}')::int,
       (t.concurrency #>> '{rate,seconds}')::float8, (t.concurrency #>> '{rate,burst}')::int, %(version)s,
       %(adopts_until)s, t.requires
from everwhen.tasks t
where t.tenant_id = any(%(tenant_ids)s::uuid[]) and t.name = any(%(tasks)s::text[])
  and (t.max_in_flight is not null or t.rate is not null or t.concurrency is not null or t.requires is not null
       or exists (select from everwhen.task_limits l where l.tenant_id = t.tenant_id and l.task = t.name))
order by t.tenant_id, t.name
on conflict (tenant_id, task) do update
set queue = excluded.queue, requires = excluded.requires, max_in_flight = excluded.max_in_flight, rate_tokens = excluded.rate_tokens,
    rate_seconds = excluded.rate_seconds, rate_burst = excluded.rate_burst, key_paths = excluded.key_paths,
    key_max_in_flight = excluded.key_max_in_flight, key_rate_tokens = excluded.key_rate_tokens,
    key_rate_seconds = excluded.key_rate_seconds, key_rate_burst = excluded.key_rate_burst,
    key_version = case when l.key_paths is distinct from excluded.key_paths
                       then greatest(l.key_version + 1, excluded.key_version) else l.key_version end,
    adopts_until = case when l.key_paths is distinct from excluded.key_paths then excluded.adopts_until else l.adopts_until end;

-- name: forget_limits
-- The rows of tasks without limits of which nothing is parked.
delete from everwhen.task_limits t
using unnest(%(tenant_ids)s::uuid[], %(tasks)s::text[]) as d (tenant_id, task)
where t.tenant_id = d.tenant_id and t.task = d.task and not t.has_parked and t.max_in_flight is null
  and t.rate_tokens is null and t.key_paths is null and t.requires is null;

-- name: find_parked
-- What a parked run waits for, with the limit and what is in flight by it.
select w.task, w.limit_group, w.parked_at, t.max_in_flight, t.key_max_in_flight, t.rate_tokens, t.rate_seconds,
       t.key_rate_tokens, t.key_rate_seconds, t.release_at, t.requires::text as requires,
       (select count(*) from everwhen.leases l
        where l.tenant_id = w.tenant_id and l.task = w.task and l.limit_key is not null) as in_flight,
       (select count(*) from everwhen.leases l
        where l.tenant_id = w.tenant_id and l.task = w.task and l.limit_key = split_part(w.limit_group, 'key:', 2)) as key_in_flight
from everwhen.waiting w
left join lateral (
  select t.* from everwhen.task_limits t where t.tenant_id = w.tenant_id and t.task = w.task offset 0) t on true
where w.tenant_id = %(tenant_id)s and w.run_id = %(run_id)s and w.priority < 0;

-- name: read_line_rates
-- How fast runs of these lines may begin, where their queues say so, with their buckets, which are no task's. The caller
-- holds the lines.
select q.tenant_id, q.name as queue, q.rate_tokens, q.rate_seconds, q.rate_burst, k.full_at
from unnest(%(tenant_ids)s::uuid[], %(queues)s::text[]) as l (tenant_id, queue)
cross join lateral (
  select q.* from everwhen.queues q
  where q.tenant_id = l.tenant_id and q.name = l.queue and q.deleted_at is null and q.rate_tokens is not null
  offset 0) q
left join lateral (
  select k.full_at from everwhen.key_rates k
  where k.tenant_id = q.tenant_id and k.task = '' and k.limit_key = q.name
  offset 0) k on true;

-- name: fence
-- Whoever sets a limit waits here until every claim of the tenant's workers that knew of none has ended, and none begins
-- until it commits. Before any lane is locked: claims hold the fence when they wait for lanes.
select pg_advisory_xact_lock(hashtextextended('everwhen.claims ' || %(tenant_id)s::uuid, 0))::text is not null as is_held;

-- name: mark_tenant_lanes
-- All lines of a tenant, in their order: whether it has a limit over all of them. The claim at a shared queue that holds one
-- of them is waited for.
with held as materialized (
  select l.tenant_id, l.queue from everwhen.lanes l
  where l.tenant_id = %(tenant_id)s and l.queue not like 'everwhen:%%'
  order by l.queue
  for no key update
)
update everwhen.lanes l
set has_tenant_limit = exists (
  select from everwhen.tenant_limits t where t.tenant_id = %(tenant_id)s and t.in_flight is not null)
from held h
where l.tenant_id = h.tenant_id and l.queue = h.queue;

-- name: mark_new_lane
-- A line that was opened after the limit of its tenant was set.
update everwhen.lanes l
set has_tenant_limit = true
where l.tenant_id = %(tenant_id)s and l.queue = %(queue)s
  and exists (select from everwhen.tenant_limits t where t.tenant_id = %(tenant_id)s and t.in_flight is not null);

-- name: cap_leases
-- Leases that were claimed before there was a limit: their end makes room, too, and wakes whoever waits for it.
with found as materialized (
  select l.place
  from (
    select a.queue from everwhen.lanes a
    where a.tenant_id = %(tenant_id)s and a.queue = any(%(queues)s::text[])
      and (a.max_in_flight is not null or a.has_tenant_limit)) a
  cross join lateral (
    select l.ctid as place from everwhen.leases l
    where l.tenant_id = %(tenant_id)s and l.queue = a.queue and l.lease_token > 0 and not l.is_capped
    limit %(limit)s
    for no key update skip locked) l
  limit %(limit)s
)
update everwhen.leases l set is_capped = true from found f where l.ctid = f.place;

-- name: list_lanes
select l.queue from everwhen.lanes l where l.tenant_id = %(tenant_id)s and l.queue not like 'everwhen:%%' order by l.queue;

-- name: count_tenant
select count(*) as in_flight
from everwhen.leases l
where l.tenant_id = %(tenant_id)s and l.lease_token > 0 and l.queue not like 'everwhen:%%';

-- name: read_line_limits
-- What limits lines of a tenant, and how much of it is used: for whoever asks why runs wait. What the tenant has in flight
-- is counted once.
select l.queue, l.max_in_flight, f.in_flight, t.tenant_limit, case when t.tenant_limit is not null then (
         select count(*) from everwhen.leases o
         where o.tenant_id = %(tenant_id)s and o.lease_token > 0 and o.queue not like 'everwhen:%%') end as tenant_in_flight,
       r.rate_tokens, r.rate_seconds, r.rate_burst, r.full_at
from everwhen.lanes l
cross join lateral (
  select count(*) as in_flight from everwhen.leases o
  where o.tenant_id = l.tenant_id and o.queue = l.queue and o.lease_token > 0 and l.max_in_flight is not null
  offset 0) f
left join lateral (
  select t.in_flight as tenant_limit from everwhen.tenant_limits t where l.has_tenant_limit and t.tenant_id = l.tenant_id
  offset 0) t on true
left join lateral (
  select q.rate_tokens, q.rate_seconds, q.rate_burst, (
           select k.full_at from everwhen.key_rates k
           where k.tenant_id = q.tenant_id and k.task = '' and k.limit_key = q.name) as full_at
  from everwhen.queues q
  where l.is_limited and q.tenant_id = l.tenant_id and q.name = l.queue and q.deleted_at is null
  offset 0) r on true
where l.tenant_id = %(tenant_id)s and l.queue = any(%(queues)s::text[]);

-- name: find_full_lines
-- Which of these lines are shut by a limit: of their tenant, their own, or by their rate. Of several the first is told.
select q.tenant_id, q.queue, r.reason
from unnest(%(tenant_ids)s::uuid[], %(queues)s::text[]) as q (tenant_id, queue)
cross join lateral (
  select l.tenant_id, l.queue, l.max_in_flight, l.has_tenant_limit, l.is_limited from everwhen.lanes l
  where l.tenant_id = q.tenant_id and l.queue = q.queue and (l.max_in_flight is not null or l.has_tenant_limit or l.is_limited)
  offset 0) l
cross join lateral (
  select case
    when l.has_tenant_limit and (
      select t.in_flight <= (
        select count(*) from everwhen.leases o
        where o.tenant_id = l.tenant_id and o.lease_token > 0 and o.queue not like 'everwhen:%%')
      from everwhen.tenant_limits t where t.tenant_id = l.tenant_id) then 'limit.tenant'
    when l.max_in_flight <= (
      select count(*) from everwhen.leases o
      where o.tenant_id = l.tenant_id and o.queue = l.queue and o.lease_token > 0) then 'limit.queue'
    when l.is_limited and exists (
      select from everwhen.queues d
      cross join lateral (
        select k.full_at from everwhen.key_rates k
        where k.tenant_id = d.tenant_id and k.task = '' and k.limit_key = d.name offset 0) k
      where d.tenant_id = l.tenant_id and d.name = l.queue and d.rate_tokens is not null
        and k.full_at > %(now)s::timestamptz + make_interval(secs => (d.rate_burst - 1) * d.rate_seconds / d.rate_tokens))
      then 'limit.rate' end as reason
  offset 0) r
where r.reason is not null;
