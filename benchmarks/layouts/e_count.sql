-- Layout E (ii): the lane row is locked by a claim only; what is in flight is counted, completions never touch the lane.
--
-- The count is exact although it is read by the statement's snapshot. Whoever adds a lease to a lane also moves the lane's
-- virtual_time. `locked` compares the newest version of the lane (a locking read rechecks its conditions on it) with the one
-- that the snapshot saw: when they are equal, nobody has added a lease since the snapshot. When they differ, the lane
-- is passed over this time. Leases that ended since are still counted: the error is to the safe side.

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
  select l.tenant_id, l.queue, r.virtual_time, l.weight, r.room
  from ready r join lanes l on l.queue = r.queue and l.tenant_id = r.tenant_id and l.virtual_time = r.virtual_time
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
from taken t join runs r on r.tenant_id = t.tenant_id and r.run_id = t.run_id
