-- Cuts, and the events between them. What they are for is told in __init__.py.

-- name: lock_cuts
-- One at a time: the next one's snapshot has to hold what this one's does.
select true as locked from pg_advisory_xact_lock(hashtextextended('everwhen.cuts', 0));

-- name: take_cut
-- In a statement of its own after the lock, or its snapshot would be from before it. A transaction that has drawn its
-- number while the snapshot is taken is at or above `next`. On another server than the last cut's the numbers mean
-- nothing: what is there already lies before the first cut.
insert into everwhen.cuts (cut, oldest, next, in_flight, before_oldest, before_next, before_in_flight, server, above)
select greatest((extract(epoch from clock_timestamp()) * 1000000)::bigint, coalesce(l.cut + 1, 0)), s.oldest, s.next, s.in_flight,
       coalesce(l.oldest, s.oldest), coalesce(l.next, s.next), coalesce(l.in_flight, s.in_flight), s.server,
       coalesce(l.above, case when exists (select from everwhen.cuts) then (select last_value from everwhen.event_ids) else 0 end)
from (
  select pg_snapshot_xmin(now.snapshot)::text::bigint as oldest, pg_snapshot_xmax(now.snapshot)::text::bigint as next,
         array(select x::text::bigint from pg_snapshot_xip(now.snapshot) x) as in_flight,
         (select system_identifier from pg_control_system())::text as server
  from (select pg_current_snapshot() as snapshot) now) s
left join lateral (
  select c.cut, c.oldest, c.next, c.in_flight, c.above from everwhen.cuts c
  where c.server = s.server and c.next <= s.next order by c.cut desc limit 1) l on true
returning cut;

-- name: find_last_cut
-- The last cut of this server, how old it is, and whether one that somebody knows is there still. `settled`: nobody but
-- whoever took it has drawn a transaction's number since, and nobody wrote then.
select c.cut, extract(epoch from clock_timestamp())::double precision - c.cut / 1000000.0::double precision as age_seconds,
       c.in_flight = '{}' and pg_snapshot_xmax(pg_current_snapshot())::text::bigint <= c.next + 1 as settled,
       exists (select from everwhen.cuts k where k.cut = %(known)s and k.server = c.server) as knows
from everwhen.cuts c
where c.server = (select system_identifier from pg_control_system())::text
order by c.cut desc
limit 1;

-- name: is_cut
-- Whether a stream can go on behind this cut: it is there, and of this server.
select exists (
  select from everwhen.cuts c
  where c.cut = %(cut)s and c.server = (select system_identifier from pg_control_system())::text) as known;

-- name: find_news
-- The tenants, of those that somebody listens to, of which anything was committed after a cut.
select t.tenant_id
from everwhen.cuts c
cross join unnest(%(tenant_ids)s::uuid[]) as t (tenant_id)
where c.cut = %(cut)s and exists (
  select from everwhen.events e
  where e.tenant_id = t.tenant_id and e.written_by >= c.oldest and e.event_id > c.above
    and (e.written_by >= c.next or e.written_by = any (c.in_flight)));

-- name: read_stretches
-- What a tenant's history has after a place, up to a cut and in the order of streams: by cut, then by event. Each
-- stretch is looked up by itself, and no further than the page goes.
select p.cut, p.event_id, p.run_id, p.at, p.kind, p.attempt, p.reason, p.detail::text as detail, r.task, r.queue,
       s.name as schedule, r.due_at
from (
  select c.cut, e.event_id, e.run_id, e.at, e.kind, e.attempt, e.reason, e.detail
  from everwhen.cuts c
  cross join lateral (
    select e.event_id, e.run_id, e.at, e.kind, e.attempt, e.reason, e.detail
    from everwhen.events e
    where e.tenant_id = %(tenant_id)s and e.written_by >= c.before_oldest and e.written_by < c.next
      and (e.written_by >= c.before_next or e.written_by = any (c.before_in_flight))
      and not e.written_by = any (c.in_flight)
      and e.event_id > c.above and (c.cut > %(after_cut)s or e.event_id > %(after_event)s)
      and (%(run_id)s::uuid is null or e.run_id = %(run_id)s)
    order by e.event_id
    limit %(limit)s) e
  where c.cut >= %(after_cut)s and c.cut <= %(until)s
  order by c.cut, e.event_id
  limit %(limit)s) p
left join lateral (
  select r.task, r.queue, r.schedule_uid, r.due_at from everwhen.runs r
  where r.tenant_id = %(tenant_id)s and r.run_id = p.run_id offset 0) r on true
left join lateral (
  select s.name from everwhen.schedules s where s.tenant_id = %(tenant_id)s and s.uid = r.schedule_uid offset 0) s on true
order by p.cut, p.event_id;

-- name: read_history
-- A run's history from its beginning: what was committed at a cut, after an event, by the events' ids.
select c.cut, e.event_id, e.run_id, e.at, e.kind, e.attempt, e.reason, e.detail::text as detail, r.task, r.queue,
       s.name as schedule, r.due_at
from everwhen.cuts c
join everwhen.events e on e.tenant_id = %(tenant_id)s and e.run_id = %(run_id)s and e.event_id > %(after_event)s
left join lateral (
  select r.task, r.queue, r.schedule_uid, r.due_at from everwhen.runs r
  where r.tenant_id = e.tenant_id and r.run_id = e.run_id offset 0) r on true
left join lateral (
  select s.name from everwhen.schedules s where s.tenant_id = e.tenant_id and s.uid = r.schedule_uid offset 0) s on true
where c.cut = %(cut)s
  and (e.written_by is null or e.event_id <= c.above or (e.written_by < c.next and not e.written_by = any (c.in_flight)))
order by e.event_id
limit %(limit)s;

-- name: drop_cuts
-- Cuts before an instant, but never the last one.
delete from everwhen.cuts
where ctid = any (array(
  select c.ctid from everwhen.cuts c
  where c.cut < %(before)s and c.cut < (select max(l.cut) from everwhen.cuts l)
  order by c.cut limit %(limit)s));
