-- Layout A: one wide table; every transition updates the 1 kB row.

-- name: ddl
drop table run_ends;
alter table runs add column available_at timestamptz, add column attempt smallint not null default 0,
  add column worker text, add column claimed_at timestamptz, add column lease_until timestamptz;
create index runs_ready on runs (tenant_id, queue, priority, available_at, run_id) where state = 'waiting';
-- The predicate names another column than the guard of `complete`: else stale statistics send the guard through this index.
create index runs_leased on runs (lease_until) where lease_until is not null;

-- name: plan
with given as (
  select * from /*source*/ unnest(%(tenants)b::uuid[], %(runs)b::uuid[], %(schedules)b::uuid[], %(queues)b::text[],
                       %(priorities)b::smallint[], %(dues)b::timestamptz[], %(inputs)b::text[])
    as g (tenant_id, run_id, schedule_id, queue, priority, due_at, input) /*end*/),
made as (
  insert into runs (tenant_id, run_id, schedule_id, task, queue, source, priority, nominal_at, due_at, available_at, input)
  select tenant_id, run_id, schedule_id, 'report.build', queue, 'schedule', priority, due_at, due_at, due_at, input::jsonb from given
  on conflict (tenant_id, run_id) do nothing
  returning tenant_id, run_id)
insert into events (tenant_id, run_id, kind) select tenant_id, run_id, 'planned' from made returning run_id

-- name: claim
with picked as (
  select w.tenant_id, w.run_id from generate_series(9, 0, -1) p cross join lateral (
    select tenant_id, run_id from runs
    where tenant_id = %(tenant)s and queue = %(queue)s and priority = p::smallint and state = 'waiting' and available_at <= now()
    order by available_at limit %(n)s for update skip locked) w
  limit %(n)s),
taken as (
  update runs r set state = 'running', attempt = r.attempt + 1, worker = %(worker)s, claimed_at = now(),
                    lease_until = now() + interval '30 s'
  from picked p where r.tenant_id = p.tenant_id and r.run_id = p.run_id
  returning r.tenant_id, r.run_id, r.attempt, r.task, r.due_at, r.input),
logged as (
  insert into events (tenant_id, run_id, kind, attempt, detail)
  select tenant_id, run_id, 'claimed', attempt, jsonb_build_object('worker', %(worker)s::text) from taken)
select tenant_id, run_id, attempt, task, due_at, input::text from taken

-- name: pick
-- With several connections the one-statement form of `claim` killed a backend of PostgreSQL 18.6 (general protection fault)
-- within a second, each time. The cause is not proven; the locking read over partitions, rechecked while the same statement
-- updates them, is the suspect. Picking in one statement and taking in a second one is safe.
select w.tenant_id, w.run_id from generate_series(9, 0, -1) p cross join lateral (
  select tenant_id, run_id from runs
  where tenant_id = %(tenant)s and queue = %(queue)s and priority = p::smallint and state = 'waiting' and available_at <= now()
  order by available_at limit %(n)s for update skip locked) w
limit %(n)s

-- name: take
with taken as (
  update runs r set state = 'running', attempt = r.attempt + 1, worker = %(worker)s, claimed_at = now(),
                    lease_until = now() + interval '30 s'
  from unnest(%(tenants)b::uuid[], %(runs)b::uuid[]) p (tenant_id, run_id)
  where r.tenant_id = p.tenant_id and r.run_id = p.run_id
  returning r.tenant_id, r.run_id, r.attempt, r.task, r.due_at, r.input),
logged as (
  insert into events (tenant_id, run_id, kind, attempt, detail)
  select tenant_id, run_id, 'claimed', attempt, jsonb_build_object('worker', %(worker)s::text) from taken)
select tenant_id, run_id, attempt, task, due_at, input::text from taken

-- name: heartbeat
update runs r set lease_until = now() + interval '30 s'
from unnest(%(tenants)b::uuid[], %(runs)b::uuid[], %(tokens)b::smallint[]) d (tenant_id, run_id, attempt)
where r.tenant_id = d.tenant_id and r.run_id = d.run_id and r.attempt = d.attempt and r.state = 'running'
returning r.run_id

-- name: complete
with gone as (
  update runs r set state = d.state, finished_at = now(), lease_until = null
  from unnest(%(tenants)b::uuid[], %(runs)b::uuid[], %(tokens)b::smallint[], %(states)b::text[]) d (tenant_id, run_id, attempt, state)
  where r.tenant_id = d.tenant_id and r.run_id = d.run_id and r.attempt = d.attempt and r.state = 'running'
  returning r.tenant_id, r.run_id, r.attempt, r.worker, r.claimed_at, r.state),
tried as (
  insert into attempts (tenant_id, run_id, attempt, worker, claimed_at, finished_at, outcome)
  select tenant_id, run_id, attempt, worker, claimed_at, now(), state from gone),
logged as (insert into events (tenant_id, run_id, kind, attempt) select tenant_id, run_id, state, attempt from gone)
select run_id from gone
