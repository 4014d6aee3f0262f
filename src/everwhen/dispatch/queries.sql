-- These statements are planned once and kept, often while the tables are empty, and must stay right when there are a
-- hundred thousand rows. So no plan is left to the statistics: rows are found by = any(…) on the key, or behind OFFSET 0,
-- which the planner cannot turn around. A plain join is turned around, since row-level security makes every row of the
-- tenant look like one: 7,000 microseconds a report instead of 20. tests/contracts/test_plans.py holds them to it.

-- name: lock_limited_lanes
-- The lines of one tenant that have a limit, or tasks with limits, or that a pause has shut, of the queue or of the whole
-- tenant. Whoever holds
-- the row counts and takes: no other claim comes between, so the limit is exact. In the order of the key, so that two
-- claims never wait for each other. A pause is looked for in a table that is nearly always empty. To a worker that is
-- drained, cordoned or about to stop, every line is shut. Before anything else the claim passes the tenant's fence, which
-- costs no write: whoever sets a limit stands there until all who knew of none are through (claim_limits/service.py).
select l.tenant_id, l.queue, l.weight, l.virtual_time, l.max_in_flight, l.is_limited, l.has_tenant_limit, p.is_paused
from everwhen.lanes l
cross join lateral (
  select exists (
    select from everwhen.pauses p
    where p.tenant_id = l.tenant_id and p.queue = any(array[l.queue, ''])
      and (p.paused_until is null or p.paused_until > %(now)s))
    or (select exists (
      select from everwhen.workers k
      where k.tenant_id = %(tenant_id)s and k.instance = %(instance)s and (k.wish <> 'active' or k.is_stopping))) as is_paused
  offset 0) p
where l.tenant_id = %(tenant_id)s and l.queue = any(%(queues)s::text[])
  and (l.max_in_flight is not null or l.is_limited or l.has_tenant_limit or p.is_paused)
  and (select pg_advisory_xact_lock_shared(hashtextextended('everwhen.claims ' || %(tenant_id)s::uuid, 0))::text) is not null
order by l.queue
for no key update of l;

-- name: lock_lanes_with_work
-- The lines of all tenants at shared queues that have something due, the one furthest behind first. The walk steps from
-- tenant to tenant along waiting_lanes, a descent for each that has anything waiting there: whoever has nothing costs
-- nothing. It begins behind `after`, goes round once, and looks at `most` lines: where there are more, `following` says
-- where the next claim begins. SKIP LOCKED sends a second claimer to other tenants instead of making it wait. A line that
-- is full or paused is passed over, or those with the lowest virtual times would fill the limit and keep everybody else
-- waiting; the count that is exact comes after the lock. So is a line in which nothing is due that the worker knows, and in
-- which no run waits for a token that is there by now; one whose queue has no token; and one whose tenant is at its limit.
with recursive found as (
  select q.queue, w.tenant_id, w.available_at, w.is_round
  from unnest(%(queues)s::text[]) as q (queue)
  cross join lateral (
    (select w.tenant_id, w.available_at, false as is_round
     from everwhen.waiting w
     where w.queue = q.queue and w.tenant_id > %(after)s and w.priority >= 0
     order by w.tenant_id, w.available_at
     limit 1)
    union all
    (select w.tenant_id, w.available_at, true
     from everwhen.waiting w
     where w.queue = q.queue and w.tenant_id <= %(after)s and w.priority >= 0
     order by w.tenant_id, w.available_at
     limit 1)
    limit 1) w
  union all
  select f.queue, w.tenant_id, w.available_at, w.is_round
  from found f
  cross join lateral (
    (select w.tenant_id, w.available_at, f.is_round
     from everwhen.waiting w
     where w.queue = f.queue and w.tenant_id > f.tenant_id and (not f.is_round or w.tenant_id <= %(after)s) and w.priority >= 0
     order by w.tenant_id, w.available_at
     limit 1)
    union all
    (select w.tenant_id, w.available_at, true
     from everwhen.waiting w
     where not f.is_round and w.queue = f.queue and w.tenant_id <= %(after)s and w.priority >= 0
     order by w.tenant_id, w.available_at
     limit 1)
    limit 1) w
), seen as materialized (
  select queue, tenant_id, available_at from found limit %(most)s
), released as materialized (
  select t.queue, t.tenant_id
  from everwhen.task_limits t
  where t.queue = any(%(queues)s::text[]) and t.release_at <= %(now)s
  limit %(most)s
), fitting as materialized (
  -- Where runs were set aside that did not fit another worker, and fit this one.
  select w.queue, t.tenant_id
  from everwhen.task_limits t
  cross join unnest(%(queues)s::text[]) as w (queue)
  where t.has_unfit and (%(tasks)s::text[] is null or t.task = any(%(tasks)s::text[]))
    and everwhen.fits(t.requires, %(labels)s::jsonb, %(free)s::jsonb)
    and exists (
      select from everwhen.waiting p
      where p.tenant_id = t.tenant_id and p.task = t.task and p.limit_group = 'parked fit' and p.queue = w.queue)
  limit %(most)s
)
select o.following, l.tenant_id, l.queue, l.weight, l.virtual_time, l.max_in_flight, l.is_limited, l.has_tenant_limit
from (select (select s.tenant_id from seen s offset %(most)s - 1) as following) o
left join lateral (
  select l.*
  from (
    select d.tenant_id, d.queue
    from (
      select s.tenant_id, s.queue from seen s where s.available_at <= %(now)s
      union
      select r.tenant_id, r.queue from released r
      union
      select f.tenant_id, f.queue from fitting f) d
    cross join lateral (
      select l.virtual_time from everwhen.lanes l where l.tenant_id = d.tenant_id and l.queue = d.queue offset 0) v
    order by v.virtual_time
    offset 0) d
  cross join lateral (
    select l.tenant_id, l.queue, l.weight, l.virtual_time, l.max_in_flight, l.is_limited, l.has_tenant_limit
    from everwhen.lanes l
    where l.tenant_id = d.tenant_id and l.queue = d.queue
      and not exists (
        select from everwhen.pauses p
        where p.tenant_id = l.tenant_id and p.queue = any(array[l.queue, ''])
          and (p.paused_until is null or p.paused_until > %(now)s))
      and not (select exists (
        select from everwhen.workers k
        where k.tenant_id = '00000000-0000-0000-0000-000000000000' and k.instance = %(instance)s
          and (k.wish <> 'active' or k.is_stopping)))
      and (l.max_in_flight is null or l.max_in_flight > (
        select count(*) from everwhen.leases o
        where o.tenant_id = l.tenant_id and o.queue = l.queue and o.lease_token > 0))
      and (not l.has_tenant_limit or coalesce((
        select t.in_flight > (
          select count(*) from everwhen.leases o
          where o.tenant_id = l.tenant_id and o.lease_token > 0 and o.queue not like 'everwhen:%%')
        from everwhen.tenant_limits t where t.tenant_id = l.tenant_id), true))
      and (not l.is_limited or not exists (
        select from everwhen.queues q
        cross join lateral (
          select k.full_at from everwhen.key_rates k
          where k.tenant_id = q.tenant_id and k.task = '' and k.limit_key = q.name offset 0) k
        where q.tenant_id = l.tenant_id and q.name = l.queue and q.rate_tokens is not null
          and k.full_at > %(now)s::timestamptz + make_interval(secs => (q.rate_burst - 1) * q.rate_seconds / q.rate_tokens)))
      and (%(tasks)s::text[] is null or exists (
          select from generate_series(0, 9) p
          cross join lateral (
            select from everwhen.waiting w
            where w.tenant_id = l.tenant_id and w.queue = l.queue and w.priority = p and w.available_at <= %(now)s
              and w.task = any(%(tasks)s::text[])
            limit 1) due)
        or (l.is_limited and exists (
          select from everwhen.task_limits t
          where t.tenant_id = l.tenant_id and t.queue = l.queue and t.release_at <= %(now)s))
        or (l.is_limited and exists (
          select from fitting f where f.tenant_id = l.tenant_id and f.queue = l.queue)))
    for no key update skip locked) l
  limit %(limit)s) l on true;

-- name: is_held_back
-- Whether a worker is given nothing: asked when nothing was found for it.
select exists (
  select from everwhen.workers k
  where k.tenant_id = %(tenant_id)s and k.instance = %(instance)s and (k.wish <> 'active' or k.is_stopping)) as is_held_back;

-- name: count_in_flight
-- Run after the lanes are locked, so that its snapshot sees every lease that an earlier claim has committed.
select q.tenant_id, q.queue, l.in_flight
from unnest(%(tenant_ids)s::uuid[], %(queues)s::text[]) as q (tenant_id, queue)
cross join lateral (
  select count(*) as in_flight
  from everwhen.leases l
  where l.tenant_id = q.tenant_id and l.queue = q.queue and l.lease_token > 0 -- the predicate of leases_lane
  offset 0) l;

-- name: lock_tenants
-- Claims of a tenant that has a limit count and take one after the other, at all of its lines together. In the order of the
-- array. Who holds lines of several tenants waits for nobody, and leaves out whoever is counted just now.
select t.tenant_id,
       case when %(waits)s::boolean then pg_advisory_xact_lock(k.key)::text is not null else pg_try_advisory_xact_lock(k.key) end as is_held
from unnest(%(tenant_ids)s::uuid[]) as t (tenant_id)
cross join lateral (select hashtextextended('everwhen.in_flight ' || t.tenant_id, 0) as key offset 0) k;

-- name: count_in_flight_of_tenants
-- Run after they are locked. What the server itself has under way is nobody's.
select q.tenant_id, t.in_flight as most, l.in_flight
from unnest(%(tenant_ids)s::uuid[]) as q (tenant_id)
cross join lateral (
  select (select t.in_flight from everwhen.tenant_limits t where t.tenant_id = q.tenant_id) as in_flight offset 0) t
cross join lateral (
  select count(*) as in_flight
  from everwhen.leases l
  where l.tenant_id = q.tenant_id and l.lease_token > 0 and l.queue not like 'everwhen:%%' -- leases_lane
  offset 0) l;

-- name: find_lines_in_want
-- Lines of tenants with a limit in which something is due: what ends at one of them makes room for all.
select l.tenant_id, l.queue
from unnest(%(tenant_ids)s::uuid[]) as t (tenant_id)
cross join lateral (
  select l.tenant_id, l.queue
  from everwhen.lanes l
  cross join lateral (
    select from everwhen.waiting w
    where w.queue = l.queue and w.tenant_id = l.tenant_id and w.priority >= 0 and w.available_at <= %(now)s
    limit 1) due
  where l.tenant_id = t.tenant_id and l.has_tenant_limit
  limit %(limit)s) l;

-- fragment: lease_candidates
-- Lease what stands at the places of `candidate`, with what each counts for. Rows are deleted by their place (ctid), and
-- tasks and runs are looked up behind OFFSET 0, once each: whatever the statistics say, no plan of this scans a table.
), taken as (
  delete from everwhen.waiting w
  using candidate c
  where w.ctid = c.place
  returning w.*, c.limit_key
), given as materialized (
  select w.tenant_id, w.run_id, w.queue, w.task, w.attempts + 1 as attempt, w.failures, w.priority, w.expires_at,
         everwhen.new_lease_token() as lease_token,
         least(%(now)s::timestamptz + make_interval(secs => least(%(lease_seconds)s::float8, t.heartbeat_timeout_seconds)),
               t.deadline_at + make_interval(secs => %(deadline_grace_seconds)s)) as lease_until,
         t.deadline_at, t.heartbeat_timeout_seconds, t.total_deadline_seconds, w.is_followed, w.policy, w.limit_key, t.is_limited,
         t.resources,
         -- A policy that cannot be read allows one attempt (see reports.py), and must not keep its line from moving.
         case when t.most_attempts ~ '^[1-9][0-9]{0,3}$' then t.most_attempts::int else 1 end as max_attempts
  from taken w
  cross join lateral (
    select t.heartbeat_timeout_seconds, t.total_deadline_seconds, t.most_attempts, t.is_limited, t.resources,
           least(%(now)s::timestamptz + make_interval(secs => t.timeout_seconds),
                 case when t.total_deadline_seconds is not null then -- only then is the run looked at; a missed one counts anew
                   (select greatest(r.due_at, r.planned_at) from everwhen.runs r where r.tenant_id = w.tenant_id and r.run_id = w.run_id)
                   + make_interval(secs => t.total_deadline_seconds) end) as deadline_at
    from (
      -- What the run's own policy says, a workflow's node's, holds over what its task says.
      select coalesce((w.policy ->> 'heartbeat_timeout_seconds')::float8, t.heartbeat_timeout_seconds) as heartbeat_timeout_seconds,
             coalesce((w.policy ->> 'total_deadline_seconds')::float8, t.total_deadline_seconds) as total_deadline_seconds,
             coalesce((w.policy ->> 'timeout_seconds')::float8, t.timeout_seconds) as timeout_seconds,
             coalesce(w.policy #>> '{retry,max_attempts}', t.retry ->> 'max_attempts') as most_attempts,
             num_nonnulls(t.max_in_flight, t.rate, t.concurrency, t.requires) > 0 as is_limited,
             t.requires #> '{resources}' as resources
      from everwhen.tasks t
      where t.tenant_id = w.tenant_id and t.name = w.task) t
    offset 0) t
), leased as (
  insert into everwhen.leases
    (tenant_id, run_id, queue, task, worker, attempt, failures, priority, expires_at, lease_token, lease_until,
     claimed_at, deadline_at, heartbeat_seconds, is_followed, policy, is_capped, limit_key)
  select tenant_id, run_id, queue, task, %(worker)s, attempt, failures, priority, expires_at, lease_token, lease_until,
         %(now)s, deadline_at, heartbeat_timeout_seconds, is_followed, policy, queue = any(%(capped)s::text[]), limit_key
  from given
), logged as (
  insert into everwhen.events (tenant_id, run_id, at, kind, attempt)
  select tenant_id, run_id, %(now)s, 'claimed', attempt from given
)
select g.tenant_id, g.run_id, g.task, g.queue, g.priority, g.attempt, g.lease_token, g.lease_until,
       %(now)s::timestamptz as claimed_at, g.deadline_at, r.nominal_at, r.due_at, r.input, r.stands_for, r.schedule,
       g.max_attempts, greatest(r.due_at, r.planned_at) + make_interval(secs => g.total_deadline_seconds) as total_deadline_at,
       g.is_limited, g.resources::text as resources,
       -- A limit that this claim did not know of when it looked at the lines: it begins anew. Asked once.
       (select exists (
          select from everwhen.lanes l
          where l.tenant_id = any(%(open_tenants)s::uuid[]) and l.queue = any(%(open_queues)s::text[])
            and (l.max_in_flight is not null or l.is_limited or l.has_tenant_limit))
        or exists (
          select from everwhen.tenant_limits t
          where t.tenant_id = any(%(free_tenants)s::uuid[]) and t.in_flight is not null)) as is_stale

-- fragment: any_old
-- Whether anything in these lines has grown old: one look at the oldest run of each. Asked once.
       , (select exists (
          select from everwhen.lanes l
          cross join lateral (
            select w.available_at
            from everwhen.waiting w
            where w.queue = l.queue and w.tenant_id = l.tenant_id and w.priority >= 0 -- the predicate of waiting_lanes
            order by w.available_at
            limit 1) w
          where l.tenant_id = any(%(tenant_ids)s::uuid[]) and l.queue = any(%(queues)s::text[])
            and w.available_at <= %(now)s::timestamptz - make_interval(secs => l.ageing_seconds))) as has_old

-- fragment: leased_runs
from given g
cross join lateral (
  select r.nominal_at, r.due_at, r.planned_at, r.input::text as input, r.stands_for::text as stands_for,
         (select s.name from everwhen.schedules s where s.tenant_id = r.tenant_id and s.uid = r.schedule_uid) as schedule
  from everwhen.runs r
  where r.tenant_id = g.tenant_id and r.run_id = g.run_id
  offset 0) r;

-- name: claim_runs
-- Take due runs from the given lanes by priority, then by due time. One probe of the line's key for each priority walks
-- straight to the due rows, past those planned ahead. This is the claim that nearly all are: where something has grown
-- old, which it tells, claim_aged has to take its place (dispatch/taking.py).
with candidate as materialized (
  select w.place, null::text as limit_key
  from unnest(%(tenant_ids)s::uuid[], %(queues)s::text[], %(quotas)s::int[]) as lane (tenant_id, queue, quota)
  cross join lateral (
    select w.place
    from generate_series(9, 0, -1) p
    cross join lateral (
      select w.ctid as place
      from everwhen.waiting w
      where w.tenant_id = lane.tenant_id and w.queue = lane.queue and w.priority = p and w.available_at <= %(now)s
        and (w.expires_at is null or w.expires_at > %(now)s)
        and (%(tasks)s::text[] is null or w.task = any(%(tasks)s::text[]))
      order by w.available_at
      limit lane.quota
      for update skip locked) w
    limit lane.quota) w
  limit %(limit)s
-- include: lease_candidates
-- include: any_old
-- include: leased_runs

-- name: claim_aged
-- The same: first those that have waited longer than their lane's ageing for each step that their priority lies below the
-- highest, oldest first; then the others. What another claim has just taken of the old is passed over, and this one goes
-- on by priority.
with candidate as materialized (
  select w.place, null::text as limit_key
  from unnest(%(tenant_ids)s::uuid[], %(queues)s::text[], %(quotas)s::int[]) as lane (tenant_id, queue, quota)
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
        order by w.available_at
        limit lane.quota) w
      order by w.available_at
      limit lane.quota) old
    cross join lateral (
      select w.ctid as place from everwhen.waiting w where w.ctid = old.place for update skip locked) w) old
  cross join lateral (
    select w.place
    from (
      select unnest(old.places) as place
      union all
      select w.place
      from generate_series(9, 0, -1) p
      cross join lateral (
        select w.ctid as place
        from everwhen.waiting w
        where w.tenant_id = lane.tenant_id and w.queue = lane.queue and w.priority = p and w.available_at <= %(now)s
          and (w.expires_at is null or w.expires_at > %(now)s)
          and (%(tasks)s::text[] is null or w.task = any(%(tasks)s::text[]))
          and w.ctid <> all(old.places)
        order by w.available_at
        limit lane.quota
        for update skip locked) w) w
    limit lane.quota) w
  limit %(limit)s
-- include: lease_candidates
-- include: any_old
-- include: leased_runs

-- name: claim_chosen
-- Lease those at places that the same transaction has locked and chosen, by their limits or because they were named.
with candidate as materialized (
  select chosen.place::tid as place, chosen.limit_key
  from unnest(%(places)s::text[], %(limit_keys)s::text[]) as chosen (place, limit_key)
  limit %(limit)s
-- include: lease_candidates
       , false as has_old
-- include: leased_runs

-- name: look_at_named
-- Where runs stand that a claim named and did not get. `queue` null: not in any line.
select n.run_id, w.queue, w.task, w.available_at, w.expires_at, coalesce(w.priority < 0, false) as is_parked,
       exists (
         select from everwhen.leases l
         where l.tenant_id = %(tenant_id)s and l.run_id = n.run_id and l.queue = any(%(queues)s::text[])) as is_held,
       exists (
         select from everwhen.pauses p
         where p.tenant_id = %(tenant_id)s and p.queue = any(array[w.queue, ''])
           and (p.paused_until is null or p.paused_until > %(now)s)) as is_paused
from unnest(%(run_ids)s::uuid[]) as n (run_id)
left join lateral (
  select w.queue, w.task, w.available_at, w.expires_at, w.priority
  from everwhen.waiting w
  where w.tenant_id = %(tenant_id)s and w.run_id = n.run_id
  offset 0) w on true;

-- name: forget_told
-- Runs that are no longer to be announced: see dispatch/brokers. In the order of the key, as all that touch it are.
delete from everwhen.outbox
where tenant_id = %(tenant_id)s and run_id = any(%(run_ids)s::uuid[]) and queue = any(%(queues)s::text[]);

-- name: tell_later
update everwhen.outbox o
set look_at = %(look_at)s
where o.tenant_id = %(tenant_id)s and o.run_id = any(%(run_ids)s::uuid[]) and o.queue = any(%(queues)s::text[]);

-- name: charge_lanes
update everwhen.lanes l
set virtual_time = c.virtual_time
from unnest(%(tenant_ids)s::uuid[], %(queues)s::text[], %(virtual_times)s::float8[]) as c (tenant_id, queue, virtual_time)
where l.tenant_id = c.tenant_id and l.queue = c.queue;

-- name: next_due
-- When the earliest run of these lines that is not due yet will be, or the next token is there for one that waits for it:
-- a waiting claim sleeps until then.
select least(min(due.available_at), (
         select min(t.release_at)
         from everwhen.task_limits t
         where t.tenant_id = %(tenant_id)s and t.queue = any(%(queues)s::text[]) and t.release_at is not null)) as next_at
from unnest(%(queues)s::text[]) as q (queue)
cross join generate_series(0, 9) p
cross join lateral (
  select w.available_at
  from everwhen.waiting w
  where w.tenant_id = %(tenant_id)s and w.queue = q.queue and w.priority = p and w.available_at > %(now)s
  order by w.available_at
  limit 1) due;

-- name: renew_leases
-- Guarded by the fencing token: a lease that another attempt has taken over is not renewed, not even when a worker that
-- lost a run and got it again names both attempts. Never beyond the time-out of the attempt, so that a hung worker that
-- still beats is found out, and never for longer than the task's heartbeat time-out, whatever the worker asks for.
update everwhen.leases l
set lease_until = least(%(now)s::timestamptz + make_interval(secs => least(%(lease_seconds)s::float8, l.heartbeat_seconds)),
                        l.deadline_at + make_interval(secs => %(deadline_grace_seconds)s)),
    started_at = coalesce(l.started_at, (%(started_ats)s::timestamptz[])[array_position(%(tokens)s::bigint[], l.lease_token)]),
    details = coalesce((%(details)s::jsonb[])[array_position(%(tokens)s::bigint[], l.lease_token)], l.details)
where l.tenant_id = any(%(tenant_ids)s::uuid[]) and l.run_id = any(%(run_ids)s::uuid[])
  and l.run_id = (%(run_ids)s::uuid[])[array_position(%(tokens)s::bigint[], l.lease_token)]
  and (%(allowed)s::text[] is null or l.queue = any(%(allowed)s::text[])) -- the queues that the worker's token names
returning l.run_id, l.lease_token, l.lease_until, l.cancel_requested_at is not null as cancel_requested;

-- name: record_zombies
-- Attempts that do nothing, as their executors say: once for each attempt, however often it is said.
insert into everwhen.events (tenant_id, run_id, at, kind, attempt, reason)
select l.tenant_id, l.run_id, %(now)s, 'zombie', l.attempt, 'executor.zombie'
from unnest(%(tenant_ids)s::uuid[], %(run_ids)s::uuid[], %(tokens)s::bigint[]) as z (tenant_id, run_id, token)
join everwhen.leases l on l.tenant_id = z.tenant_id and l.run_id = z.run_id and l.lease_token = z.token
where not exists (
  select from everwhen.events e
  where e.tenant_id = l.tenant_id and e.run_id = l.run_id and e.kind = 'zombie' and e.attempt = l.attempt);

-- name: find_held_input
-- The input of a run, for whoever holds it now.
select r.input::text as input
from everwhen.leases l
cross join lateral (
  select r.input from everwhen.runs r where r.tenant_id = l.tenant_id and r.run_id = l.run_id offset 0) r
where l.tenant_id = %(tenant_id)s and l.run_id = %(run_id)s and l.lease_token = %(token)s and l.lease_until > %(now)s
  and (%(allowed)s::text[] is null or l.queue = any(%(allowed)s::text[]));

-- name: find_held_attempt
-- Which attempt of a run this is, for whoever holds it now.
select l.attempt
from everwhen.leases l
where l.tenant_id = %(tenant_id)s and l.run_id = %(run_id)s and l.lease_token = %(token)s and l.lease_until > %(now)s
  and (%(allowed)s::text[] is null or l.queue = any(%(allowed)s::text[]));

-- name: lock_leases
-- What the reports are about. The lock keeps a wish to cancel, a heartbeat and the reaper away until the decision is
-- written; in the order of the key, so that two batches never wait for each other. The task's policy is read only for
-- those runs that are `judged` by it, and when the run was due only where the task limits by it.
select l.tenant_id, l.run_id, l.lease_token, l.attempt, l.failures,
       l.cancel_requested_at is not null as cancel_requested, t.retry, t.total_deadline_seconds, t.due_at
from everwhen.leases l
left join lateral (
  select p.retry::text as retry, p.total_deadline_seconds,
         case when p.total_deadline_seconds is not null or jsonb_typeof(p.retry -> 'max_age_seconds') = 'number' then
           (select greatest(r.due_at, r.planned_at) from everwhen.runs r where r.tenant_id = l.tenant_id and r.run_id = l.run_id) end as due_at
  from (
    select case when l.policy ? 'retry' then t.retry || (l.policy -> 'retry') else t.retry end as retry,
           coalesce((l.policy ->> 'total_deadline_seconds')::float8, t.total_deadline_seconds) as total_deadline_seconds
    from everwhen.tasks t
    where t.tenant_id = l.tenant_id and t.name = l.task and l.run_id = any(%(judged)s::uuid[])) p
  offset 0) t on true
where l.tenant_id = any(%(tenant_ids)s::uuid[]) and l.run_id = any(%(run_ids)s::uuid[])
  and (%(allowed)s::text[] is null or l.queue = any(%(allowed)s::text[]))
order by l.tenant_id, l.run_id
for no key update of l;

-- name: lock_expired_leases
-- Leases that ran out, over all tenants. SKIP LOCKED lets any number of reapers share them. There is no index on
-- lease_until, so that a heartbeat updates its row in place; the open leases are few enough to be walked through.
select l.tenant_id, l.run_id, l.lease_token, l.attempt, l.failures,
       l.cancel_requested_at is not null as cancel_requested, t.retry, t.total_deadline_seconds, t.due_at,
       coalesce(l.deadline_at <= %(now)s, false) as timed_out, l.started_at
from everwhen.leases l
left join lateral (
  select p.retry::text as retry, p.total_deadline_seconds,
         case when p.total_deadline_seconds is not null or jsonb_typeof(p.retry -> 'max_age_seconds') = 'number' then
           (select greatest(r.due_at, r.planned_at) from everwhen.runs r where r.tenant_id = l.tenant_id and r.run_id = l.run_id) end as due_at
  from (
    select case when l.policy ? 'retry' then t.retry || (l.policy -> 'retry') else t.retry end as retry,
           coalesce((l.policy ->> 'total_deadline_seconds')::float8, t.total_deadline_seconds) as total_deadline_seconds
    from everwhen.tasks t
    where t.tenant_id = l.tenant_id and t.name = l.task) p
  offset 0) t on true
where l.lease_until <= %(now)s
order by l.tenant_id, l.run_id
limit %(limit)s
for no key update of l skip locked;

-- name: close_attempts
-- Close attempts and move their runs: the lease goes, the attempt becomes history, and the run ends or rests again. The
-- token is the guard; an attempt that is not returned was somebody else's by then, and nothing of it was touched. `i` is
-- the attempt's place in the arrays: `run_ids` ascend, so width_bucket finds it by halves, where array_position would
-- compare each with each. States, kinds, reasons and outcomes are few: `verdicts` says for each attempt which of them. An
-- array in which nothing would stand is null. A run that dies without an error of its own last attempt keeps the
-- fingerprint of the last one that there was.
with gone as (
  delete from everwhen.leases l
  where l.tenant_id = any(%(tenant_ids)s::uuid[]) and l.run_id = any(%(run_ids)s::uuid[])
    and l.lease_token = (%(tokens)s::bigint[])[width_bucket(l.run_id, %(run_ids)s::uuid[])]
  returning l.*, width_bucket(l.run_id, %(run_ids)s::uuid[]) as i
), closed as materialized (
  select g.*, (%(states)s::text[])[v] as state, (%(kinds)s::text[])[v] as kind, (%(reasons)s::text[])[v] as reason,
         (%(available_ats)s::timestamptz[])[i] as available_at
  from (select g.*, (%(verdicts)s::smallint[])[i] as v from gone g) g
), attempted as (
  insert into everwhen.attempts
    (tenant_id, run_id, attempt, lease_token, worker, claimed_at, started_at, finished_at, outcome, reason, error, result,
     fingerprint)
  select tenant_id, run_id, attempt, lease_token, worker, claimed_at,
         coalesce((%(started_ats)s::timestamptz[])[i], started_at), %(now)s,
         (%(outcomes)s::text[])[v], reason, (%(errors)s::jsonb[])[i], (%(results)s::jsonb[])[i], (%(fingerprints)s::text[])[i]
  from closed
), ended as (
  insert into everwhen.run_ends (tenant_id, run_id, state, reason, attempts, finished_at, fingerprint)
  select tenant_id, run_id, state, reason, attempt, %(now)s,
         case when state = 'dead' then coalesce((%(fingerprints)s::text[])[i], (
           select a.fingerprint
           from everwhen.attempts a
           where a.tenant_id = c.tenant_id and a.run_id = c.run_id and a.fingerprint is not null
           order by a.attempt desc
           limit 1)) end
  from closed c where available_at is null
), lined_up as (
  insert into everwhen.waiting
    (tenant_id, queue, priority, available_at, run_id, task, attempts, failures, expires_at, is_followed, policy)
  select tenant_id, queue, priority, available_at, run_id, task, attempt, (%(failures)s::smallint[])[i],
         least(expires_at, (%(expires_ats)s::timestamptz[])[i]), is_followed, policy
  from closed where available_at is not null
), logged as (
  -- The detail says when the back-off ends: an explanation needs it, once the next attempt has begun.
  insert into everwhen.events (tenant_id, run_id, at, kind, attempt, reason, detail)
  select tenant_id, run_id, %(now)s, kind, attempt, reason, (%(details)s::jsonb[])[i] from closed
)
select lease_token, case when is_followed and available_at is null then state end as followed_end,
       case when is_capped then queue end as freed_queue, case when limit_key is not null then task end as limited_task,
       limit_key
from closed;

-- name: record_refusals
-- A stale report changes nothing but is not forgotten: once for each lease that it names, so that repeating it writes
-- nothing. Only of runs that are there and that the worker may work on: a made-up id leaves no trace.
insert into everwhen.events (tenant_id, run_id, at, kind, reason, detail)
select distinct on (r.tenant_id, r.run_id, s.detail ->> 'lease_token')
       r.tenant_id, r.run_id, %(now)s, 'refused', s.reason, s.detail
from unnest(%(tenant_ids)s::uuid[], %(run_ids)s::uuid[], %(reasons)s::text[], %(details)s::jsonb[])
       as s (tenant_id, run_id, reason, detail)
cross join lateral (
  select r.tenant_id, r.run_id
  from everwhen.runs r
  where r.tenant_id = s.tenant_id and r.run_id = s.run_id
    and (%(allowed)s::text[] is null or r.queue = any(%(allowed)s::text[]))
    and not exists (
      select from everwhen.events e
      where e.tenant_id = r.tenant_id and e.run_id = r.run_id and e.kind = 'refused'
        and e.detail ->> 'lease_token' is not distinct from s.detail ->> 'lease_token')
  offset 0) r;

-- name: find_states
-- What the refused reports were about: the run's state, for the answer.
select r.run_id, coalesce(r.ended, case when r.leased then 'running' else 'waiting' end) as state
from unnest(%(tenant_ids)s::uuid[], %(run_ids)s::uuid[]) as s (tenant_id, run_id)
cross join lateral (
  select r.run_id,
         (select e.state from everwhen.run_ends e where e.tenant_id = r.tenant_id and e.run_id = r.run_id) as ended,
         exists (select from everwhen.leases l where l.tenant_id = r.tenant_id and l.run_id = r.run_id) as leased
  from everwhen.runs r
  where r.tenant_id = s.tenant_id and r.run_id = s.run_id
    and (%(allowed)s::text[] is null or r.queue = any(%(allowed)s::text[]))
  offset 0) r;

-- name: lock_overdue
-- Runs that nobody started in time, or whose retry comes too late: all that a decision on their end needs. SKIP LOCKED
-- lets any number of reapers share them.
select w.tenant_id, w.run_id, w.queue, w.task, w.available_at, w.failures, w.expires_at, w.limit_group, r.due_at, t.retry,
       t.total_deadline_seconds
from everwhen.waiting w
left join lateral (
  select greatest(r.due_at, r.planned_at) as due_at from everwhen.runs r where r.tenant_id = w.tenant_id and r.run_id = w.run_id offset 0) r on true
left join lateral (
  select case when w.policy ? 'retry' then t.retry || (w.policy -> 'retry') else t.retry end::text as retry,
         coalesce((w.policy ->> 'total_deadline_seconds')::float8, t.total_deadline_seconds) as total_deadline_seconds
  from everwhen.tasks t
  where t.tenant_id = w.tenant_id and t.name = w.task
  offset 0) t on true
where w.expires_at <= %(now)s
order by w.expires_at
limit %(limit)s
for update of w skip locked;

-- name: end_overdue
-- They are locked by the same transaction. `i` is the run's place in the arrays.
with taken as (
  delete from everwhen.waiting w
  where w.tenant_id = any(%(tenant_ids)s::uuid[]) and w.run_id = any(%(run_ids)s::uuid[])
  returning w.tenant_id, w.run_id, w.attempts, w.is_followed, array_position(%(run_ids)s::uuid[], w.run_id) as i
), overdue as materialized (
  select t.*, (%(states)s::text[])[i] as state, (%(reasons)s::text[])[i] as reason from taken t
), ended as (
  insert into everwhen.run_ends (tenant_id, run_id, state, reason, attempts, finished_at, fingerprint)
  select o.tenant_id, o.run_id, o.state, o.reason, o.attempts, %(now)s,
         case when o.state = 'dead' then (
           select a.fingerprint
           from everwhen.attempts a
           where a.tenant_id = o.tenant_id and a.run_id = o.run_id and a.fingerprint is not null
           order by a.attempt desc
           limit 1) end
  from overdue o
), logged as (
  insert into everwhen.events (tenant_id, run_id, at, kind, reason)
  select tenant_id, run_id, %(now)s, state, reason from overdue
)
select tenant_id, run_id, case when is_followed then state end as followed_end, reason from overdue;

-- name: put_off_lease
-- A lease that the reaper has locked and cannot close: out of its way for a while. Nobody can take the run meanwhile; a
-- person has to look at it.
update everwhen.leases
set lease_until = %(until)s
where tenant_id = %(tenant_id)s and run_id = %(run_id)s;
