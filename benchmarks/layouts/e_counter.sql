-- Layout E (i): the lane row carries what is in flight; claim and completion both update it.

-- name: claim
with ready as materialized (
  select s.* from (
    select tenant_id, queue, virtual_time from lanes
    where queue = %(queue)s and (%(tenant)s::uuid is null or tenant_id = %(tenant)s) and in_flight < coalesce(max_in_flight, 2147483647)
    order by virtual_time offset 0) s
  -- not `exists`: that becomes a semi-join, which may read the whole line for every lane
  cross join lateral (
    select 1 from waiting w where w.tenant_id = s.tenant_id and w.queue = s.queue and w.available_at <= now()
      and w.priority = any ('{9,8,7,6,5,4,3,2,1,0}'::smallint[]) limit 1) w
  limit %(lanes)s),
locked as materialized (
  select l.tenant_id, l.queue, l.virtual_time, l.weight, coalesce(l.max_in_flight, 2147483647) - l.in_flight as room
  from ready r join lanes l on l.queue = r.queue and l.tenant_id = r.tenant_id
  where l.in_flight < coalesce(l.max_in_flight, 2147483647)
  for update of l skip locked),
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
  update lanes l set in_flight = l.in_flight + t.n,
    virtual_time = greatest(l.virtual_time, (select max(virtual_time) from lanes where queue = %(queue)s) - %(credit)s) + t.n / l.weight
  from (select tenant_id, queue, count(*) as n from taken group by tenant_id, queue) t
  where l.queue = t.queue and l.tenant_id = t.tenant_id),
leased as (
  insert into leases (tenant_id, run_id, attempt, queue, priority, worker, claimed_at, lease_until)
  select tenant_id, run_id, attempt, queue, priority, %(worker)s, now(), now() + interval '30 s' from taken),
logged as (
  insert into events (tenant_id, run_id, kind, attempt, detail)
  select tenant_id, run_id, 'claimed', attempt, jsonb_build_object('worker', %(worker)s::text) from taken)
select t.tenant_id, t.run_id, t.attempt, r.task, r.due_at, r.input::text
from taken t join runs r on r.tenant_id = t.tenant_id and r.run_id = t.run_id

-- name: complete
with gone as (
  delete from leases l
  using unnest(%(tenants)b::uuid[], %(runs)b::uuid[], %(tokens)b::smallint[], %(states)b::text[]) d (tenant_id, run_id, attempt, state)
  where l.tenant_id = d.tenant_id and l.run_id = d.run_id and l.attempt = d.attempt
  returning l.tenant_id, l.run_id, l.attempt, l.queue, l.worker, l.claimed_at, d.state),
freed as materialized (
  -- in one order, so that two completions cannot wait for each other
  select l.tenant_id, l.queue, g.n from (select tenant_id, queue, count(*) as n from gone group by tenant_id, queue) g
  join lanes l on l.queue = g.queue and l.tenant_id = g.tenant_id order by l.queue, l.tenant_id for update of l),
credited as (
  update lanes l set in_flight = l.in_flight - f.n from freed f where l.queue = f.queue and l.tenant_id = f.tenant_id),
tried as (
  insert into attempts (tenant_id, run_id, attempt, worker, claimed_at, finished_at, outcome)
  select tenant_id, run_id, attempt, worker, claimed_at, now(), state from gone),
ended as (
  insert into run_ends (tenant_id, run_id, state, finished_at, attempt) select tenant_id, run_id, state, now(), attempt from gone),
logged as (insert into events (tenant_id, run_id, kind, attempt) select tenant_id, run_id, state, attempt from gone)
select run_id from gone
