-- What layouts B, C and E share: narrow rows for what waits and for what is leased.

-- name: ddl
-- No two indexes of a hot table begin with the same column: a plan made while the table was empty finds them equally cheap
-- and may keep the wrong one for as long as the connection lives.
create table waiting (
  tenant_id uuid not null, queue text not null, priority smallint not null, available_at timestamptz not null, run_id uuid not null,
  attempt smallint not null,
  primary key (tenant_id, queue, priority, available_at, run_id), unique (run_id, tenant_id)
);
create table leases (
  tenant_id uuid not null, run_id uuid not null, attempt smallint not null, queue text not null, priority smallint not null,
  worker text not null, claimed_at timestamptz not null, lease_until timestamptz not null, cancel_requested boolean not null default false,
  primary key (tenant_id, run_id)
) with (fillfactor = 50);

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
  insert into waiting (tenant_id, queue, priority, available_at, run_id, attempt)
  select tenant_id, queue, priority, due_at, run_id, 1 from made)
insert into events (tenant_id, run_id, kind) select tenant_id, run_id, 'planned' from made returning run_id

-- name: claim
with picked as (
  select w.at from generate_series(9, 0, -1) p cross join lateral (
    select ctid as at from waiting
    where tenant_id = %(tenant)s and queue = %(queue)s and priority = p::smallint and available_at <= now()
    order by available_at, run_id limit %(n)s for update skip locked) w
  limit %(n)s),
taken as (
  -- by ctid: the rows are locked, and no statistics can turn this into a scan of the table
  delete from waiting w where w.ctid = any (array(select at from picked))
  returning w.tenant_id, w.queue, w.priority, w.run_id, w.attempt),
leased as (
  insert into leases (tenant_id, run_id, attempt, queue, priority, worker, claimed_at, lease_until)
  select tenant_id, run_id, attempt, queue, priority, %(worker)s, now(), now() + interval '30 s' from taken),
logged as (
  insert into events (tenant_id, run_id, kind, attempt, detail)
  select tenant_id, run_id, 'claimed', attempt, jsonb_build_object('worker', %(worker)s::text) from taken)
select t.tenant_id, t.run_id, t.attempt, r.task, r.due_at, r.input::text
from taken t join runs r on r.tenant_id = t.tenant_id and r.run_id = t.run_id

-- name: claim_by_pk
with picked as (
  select w.* from generate_series(9, 0, -1) p cross join lateral (
    select tenant_id, queue, priority, available_at, run_id from waiting
    where tenant_id = %(tenant)s and queue = %(queue)s and priority = p::smallint and available_at <= now()
    order by available_at, run_id limit %(n)s for update skip locked) w
  limit %(n)s),
taken as (
  delete from waiting w using picked p
  where w.tenant_id = p.tenant_id and w.run_id = p.run_id
  returning w.tenant_id, w.queue, w.priority, w.run_id, w.attempt),
leased as (
  insert into leases (tenant_id, run_id, attempt, queue, priority, worker, claimed_at, lease_until)
  select tenant_id, run_id, attempt, queue, priority, %(worker)s, now(), now() + interval '30 s' from taken),
logged as (
  insert into events (tenant_id, run_id, kind, attempt, detail)
  select tenant_id, run_id, 'claimed', attempt, jsonb_build_object('worker', %(worker)s::text) from taken)
select t.tenant_id, t.run_id, t.attempt, r.task, r.due_at, r.input::text
from taken t join runs r on r.tenant_id = t.tenant_id and r.run_id = t.run_id

-- name: claim_by_sort
with picked as (
  select ctid as at from waiting
  where tenant_id = %(tenant)s and queue = %(queue)s and available_at <= now()
  order by priority desc, available_at, run_id limit %(n)s for update skip locked),
taken as (
  delete from waiting w where w.ctid = any (array(select at from picked))
  returning w.tenant_id, w.queue, w.priority, w.run_id, w.attempt),
leased as (
  insert into leases (tenant_id, run_id, attempt, queue, priority, worker, claimed_at, lease_until)
  select tenant_id, run_id, attempt, queue, priority, %(worker)s, now(), now() + interval '30 s' from taken),
logged as (
  insert into events (tenant_id, run_id, kind, attempt, detail)
  select tenant_id, run_id, 'claimed', attempt, jsonb_build_object('worker', %(worker)s::text) from taken)
select t.tenant_id, t.run_id, t.attempt, r.task, r.due_at, r.input::text
from taken t join runs r on r.tenant_id = t.tenant_id and r.run_id = t.run_id

-- name: heartbeat
update leases l set lease_until = now() + interval '30 s'
from unnest(%(tenants)b::uuid[], %(runs)b::uuid[], %(tokens)b::smallint[]) d (tenant_id, run_id, attempt)
where l.tenant_id = d.tenant_id and l.run_id = d.run_id and l.attempt = d.attempt
returning l.run_id, l.cancel_requested
