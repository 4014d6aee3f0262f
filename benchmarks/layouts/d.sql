-- Layout D: as C, with one narrow row per live run, updated in place.

-- name: ddl
alter table runs drop column state, drop column reason, drop column finished_at;
create table live_runs (
  tenant_id uuid not null, run_id uuid not null, state text not null, queue text not null, priority smallint not null,
  available_at timestamptz not null, attempt smallint not null, worker text, claimed_at timestamptz, lease_until timestamptz,
  cancel_requested boolean not null default false,
  primary key (tenant_id, run_id)
) with (fillfactor = 50);
create index live_ready on live_runs (tenant_id, queue, priority, available_at, run_id) where claimed_at is null;

-- name: plan
with given as (
  select * from /*source*/ unnest(%(tenants)b::uuid[], %(runs)b::uuid[], %(schedules)b::uuid[], %(queues)b::text[],
                       %(priorities)b::smallint[], %(dues)b::timestamptz[], %(inputs)b::text[])
    as g (tenant_id, run_id, schedule_id, queue, priority, due_at, input) /*end*/),
made as (
  insert into runs (tenant_id, run_id, schedule_id, task, queue, source, priority, nominal_at, due_at, input)
  select tenant_id, run_id, schedule_id, 'report.build', queue, 'schedule', priority, due_at, due_at, input::jsonb from given
  on conflict (tenant_id, run_id) do nothing
  returning tenant_id, run_id, queue, priority, due_at),
queued as (
  insert into live_runs (tenant_id, queue, priority, available_at, run_id, attempt, state)
  select tenant_id, queue, priority, due_at, run_id, 0, 'waiting' from made)
insert into events (tenant_id, run_id, kind) select tenant_id, run_id, 'planned' from made returning run_id

-- name: claim
with picked as (
  select w.at from generate_series(9, 0, -1) p cross join lateral (
    select ctid as at from live_runs
    where tenant_id = %(tenant)s and queue = %(queue)s and priority = p::smallint and claimed_at is null and available_at <= now()
    order by available_at, run_id limit %(n)s for update skip locked) w
  limit %(n)s),
taken as (
  update live_runs l set state = 'running', attempt = l.attempt + 1, worker = %(worker)s, claimed_at = now(),
                         lease_until = now() + interval '30 s'
  where l.ctid = any (array(select at from picked))
  returning l.tenant_id, l.run_id, l.attempt),
logged as (
  insert into events (tenant_id, run_id, kind, attempt, detail)
  select tenant_id, run_id, 'claimed', attempt, jsonb_build_object('worker', %(worker)s::text) from taken)
select t.tenant_id, t.run_id, t.attempt, r.task, r.due_at, r.input::text
from taken t join runs r on r.tenant_id = t.tenant_id and r.run_id = t.run_id

-- name: heartbeat
update live_runs l set lease_until = now() + interval '30 s'
from unnest(%(tenants)b::uuid[], %(runs)b::uuid[], %(tokens)b::smallint[]) d (tenant_id, run_id, attempt)
where l.tenant_id = d.tenant_id and l.run_id = d.run_id and l.attempt = d.attempt and l.state = 'running'
returning l.run_id, l.cancel_requested

-- name: complete
with gone as (
  delete from live_runs l
  using unnest(%(tenants)b::uuid[], %(runs)b::uuid[], %(tokens)b::smallint[], %(states)b::text[]) d (tenant_id, run_id, attempt, state)
  where l.tenant_id = d.tenant_id and l.run_id = d.run_id and l.attempt = d.attempt and l.state = 'running'
  returning l.tenant_id, l.run_id, l.attempt, l.queue, l.worker, l.claimed_at, d.state),
tried as (
  insert into attempts (tenant_id, run_id, attempt, worker, claimed_at, finished_at, outcome)
  select tenant_id, run_id, attempt, worker, claimed_at, now(), state from gone),
ended as (
  insert into run_ends (tenant_id, run_id, state, finished_at, attempt) select tenant_id, run_id, state, now(), attempt from gone),
logged as (insert into events (tenant_id, run_id, kind, attempt) select tenant_id, run_id, state, attempt from gone)
select run_id from gone
