-- The statements of layout E (ii) in a form that no stale plan can turn: run with enable_seqscan = off.
--
-- A generic plan outlives the moment it was made in. Made on an empty table, `leases join unnest(...)` reads every lease for
-- every batch, whichever way the join is written. Here no statement joins a hot table to a list: a list is an array condition
-- on the key, or the outer side of a LATERAL.

-- name: claim
with seen as materialized (
  select tenant_id, queue, virtual_time, max_in_flight from lanes
  where queue = %(queue)s and (%(tenant)s::uuid is null or tenant_id = %(tenant)s)
  order by virtual_time),
ready as materialized (
  select s.*, h.room from seen s
  cross join lateral (
    select case when s.max_in_flight is null then %(n)s::bigint
                else s.max_in_flight - (select count(*) from leases h where h.tenant_id = s.tenant_id and h.queue = s.queue) end as room
    offset 0) h
  -- not `exists`: that becomes a semi-join, which may read the whole line for every lane
  cross join lateral (
    select 1 from waiting w where w.tenant_id = s.tenant_id and w.queue = s.queue and w.available_at <= now()
      and w.priority = any ('{9,8,7,6,5,4,3,2,1,0}'::smallint[]) limit 1) w
  where h.room > 0
  limit %(lanes)s),
locked as materialized (
  select r.tenant_id, r.queue, r.virtual_time, l.weight, r.room
  from ready r cross join lateral (
    select weight from lanes
    where queue = r.queue and tenant_id = r.tenant_id and virtual_time = r.virtual_time
    for update skip locked) l),
picked as materialized (
  select w.at from (select * from locked order by virtual_time) l cross join lateral (
    select q.at from generate_series(9, 0, -1) p cross join lateral (
      select ctid as at from waiting
      where tenant_id = l.tenant_id and queue = l.queue and priority = p::smallint and available_at <= now()
      order by available_at, run_id limit %(n)s) q
    limit least(l.room, %(n)s)) w
  limit %(n)s),
taken as (
  delete from waiting w where w.ctid = any (array(select at from picked))
  returning w.tenant_id, w.queue, w.priority, w.run_id, w.attempt),
charged as (
  -- A lane that was idle may catch up by `credit` at most: it never hoards the past.
  update lanes l set virtual_time = greatest(l.virtual_time, (select max(virtual_time) from seen) - %(credit)s) + t.n / l.weight
  from (select tenant_id, queue, count(*) as n from taken group by tenant_id, queue) t
  where l.queue = t.queue and l.tenant_id = t.tenant_id),
leased as (
  insert into leases (tenant_id, run_id, attempt, queue, priority, worker, claimed_at, lease_until)
  select tenant_id, run_id, attempt, queue, priority, %(worker)s, now(), now() + interval '30 s' from taken),
logged as (
  insert into events (tenant_id, run_id, kind, attempt, detail)
  select tenant_id, run_id, 'claimed', attempt, jsonb_build_object('worker', %(worker)s::text) from taken)
select t.tenant_id, t.run_id, t.attempt, r.task, r.due_at, r.input::text
from taken t cross join lateral (
  select task, due_at, input from runs where tenant_id = t.tenant_id and run_id = t.run_id offset 0) r

-- name: heartbeat
update leases l set lease_until = now() + interval '30 s'
where l.tenant_id = any (%(tenants)b::uuid[]) and l.run_id = any (%(runs)b::uuid[])
  and l.attempt = (%(tokens)b::smallint[])[array_position(%(runs)b::uuid[], l.run_id)]
returning l.run_id, l.cancel_requested

-- name: complete
with gone as (
  delete from leases l
  where l.tenant_id = any (%(tenants)b::uuid[]) and l.run_id = any (%(runs)b::uuid[])
    and l.attempt = (%(tokens)b::smallint[])[array_position(%(runs)b::uuid[], l.run_id)]
  returning l.tenant_id, l.run_id, l.attempt, l.queue, l.worker, l.claimed_at,
            (%(states)b::text[])[array_position(%(runs)b::uuid[], l.run_id)] as state),
tried as (
  insert into attempts (tenant_id, run_id, attempt, worker, claimed_at, finished_at, outcome)
  select tenant_id, run_id, attempt, worker, claimed_at, now(), state from gone),
ended as (
  insert into run_ends (tenant_id, run_id, state, finished_at, attempt) select tenant_id, run_id, state, now(), attempt from gone),
logged as (insert into events (tenant_id, run_id, kind, attempt) select tenant_id, run_id, state, attempt from gone)
select run_id from gone
