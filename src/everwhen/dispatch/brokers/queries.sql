-- Statements that are planned once and kept, like those of dispatch/queries.sql; the same rules hold: what is looked up by
-- a key stands behind OFFSET 0 or is found by = any(…).

-- name: read_lines
-- The next lines in the order of their key whose queue is delivered by one of these brokers, each with how many of its
-- runs are told of and with when its next one becomes due. A paused line is told of nothing: nobody could take it.
select q.tenant_id, q.name as queue, q.delivery as broker, q.room as window, o.told, p.is_paused, d.next_due
from (
  select q.tenant_id, q.name, q.delivery, coalesce((q.delivery_settings ->> 'window')::int, %(window)s::int) as room
  from everwhen.queues q
  where q.delivery = any(%(brokers)s::text[]) and q.deleted_at is null
    and (q.tenant_id, q.name) > (%(after_tenant_id)s, %(after_queue)s)
  order by q.tenant_id, q.name
  limit %(limit)s) q
cross join lateral (
  select count(*)::int as told
  from (select from everwhen.outbox o where o.tenant_id = q.tenant_id and o.queue = q.name limit q.room) o
  offset 0) o
cross join lateral (
  select exists (
    select from everwhen.pauses p
    where p.tenant_id = q.tenant_id and p.queue = any(array[q.name, ''])
      and (p.paused_until is null or p.paused_until > %(now)s)) as is_paused
  offset 0) p
cross join lateral (
  select min(w.available_at) as next_due
  from generate_series(0, 9) p
  cross join lateral (
    select w.available_at
    from everwhen.waiting w
    where w.tenant_id = q.tenant_id and w.queue = q.name and w.priority = p and w.available_at > %(now)s
    order by w.available_at
    limit 1) w
  offset 0) d
order by q.tenant_id, q.name;

-- name: tell_new
-- What is due in these lines and was not told of, by priority, then by due time, as far as each line's window has room:
-- one row each, which is this relay's to publish until `look_at`. Nothing in the line is locked or changed, so a claim
-- never waits for this. Another relay that tells of the same run meets the key, and one of the two gets no row. A row of
-- an earlier attempt is replaced. In the order of the key, so that two relays never wait for each other.
insert into everwhen.outbox as o (tenant_id, run_id, queue, broker, attempt, told_at, look_at)
select n.tenant_id, n.run_id, n.queue, n.broker, n.attempt, %(now)s, %(look_at)s
from (
  select l.tenant_id, w.run_id, l.queue, l.broker, w.attempt
  from unnest(%(tenant_ids)s::uuid[], %(queues)s::text[], %(brokers)s::text[], %(rooms)s::int[])
         as l (tenant_id, queue, broker, room)
  cross join lateral (
    select w.run_id, w.attempt
    from generate_series(9, 0, -1) p
    cross join lateral (
      select w.run_id, w.attempts + 1 as attempt
      from everwhen.waiting w
      left join lateral (
        select t.attempt from everwhen.outbox t where t.tenant_id = w.tenant_id and t.run_id = w.run_id offset 0) t on true
      where w.tenant_id = l.tenant_id and w.queue = l.queue and w.priority = p and w.available_at <= %(now)s
        and (w.expires_at is null or w.expires_at > %(now)s)
        and t.attempt is distinct from w.attempts + 1
      order by w.available_at
      limit l.room) w
    limit l.room) w
  limit %(limit)s) n
order by n.tenant_id, n.run_id
on conflict (tenant_id, run_id) do update
set queue = excluded.queue, broker = excluded.broker, attempt = excluded.attempt, told_at = excluded.told_at,
    published_at = null, look_at = excluded.look_at, tellings = 1
where o.attempt <> excluded.attempt
returning o.tenant_id, o.run_id, o.queue, o.broker, o.attempt, o.told_at;

-- name: tell_again
-- What was told and is due for a look. If the run is no longer there to be taken, its row goes. Otherwise it is told
-- again, and the row is this relay's until the next look: under a new id where the broker had said that it has the
-- message (it is lost, or everybody who got it went away), under the same one where it had not.
with due as materialized (
  select o.ctid as place, o.tenant_id, o.run_id, o.queue, o.broker, o.attempt,
         case when o.published_at is null then o.told_at else %(now)s end as new_told_at
  from everwhen.outbox o
  where o.broker = %(broker)s and o.look_at <= %(now)s
  order by o.look_at
  limit %(limit)s
  for update skip locked
), looked as materialized (
  select d.*, w.run_id is not null as still_waits
  from due d
  left join lateral (
    select w.run_id from everwhen.waiting w
    where w.tenant_id = d.tenant_id and w.run_id = d.run_id and w.attempts + 1 = d.attempt and w.queue = d.queue
      and w.priority >= 0 and w.available_at <= %(now)s
    offset 0) w on true
), gone as (
  delete from everwhen.outbox o using looked l where o.ctid = l.place and not l.still_waits
), told as (
  update everwhen.outbox o
  set told_at = l.new_told_at, published_at = null, look_at = %(look_at)s, tellings = o.tellings + 1
  from looked l
  where o.ctid = l.place and l.still_waits
)
select tenant_id, run_id, queue, broker, attempt, new_told_at as told_at, still_waits from looked;

-- name: mark_published
-- What the broker has: nobody looks again for as long as it may take until somebody comes for it, longer each time.
-- Guarded by the telling: a relay that was held up finds that another has told it since.
update everwhen.outbox o
set published_at = %(now)s,
    look_at = %(now)s::timestamptz + make_interval(secs => %(again_seconds)s::float8 * power(2, least(o.tellings - 1, 6)))
from unnest(%(tenant_ids)s::uuid[], %(run_ids)s::uuid[], %(told_ats)s::timestamptz[]) as p (tenant_id, run_id, told_at)
where o.tenant_id = p.tenant_id and o.run_id = p.run_id and o.told_at = p.told_at and o.published_at is null;

-- name: mark_unpublished
-- What the broker did not take: told again before long, by whoever looks first.
update everwhen.outbox o
set look_at = %(look_at)s
from unnest(%(tenant_ids)s::uuid[], %(run_ids)s::uuid[], %(told_ats)s::timestamptz[]) as p (tenant_id, run_id, told_at)
where o.tenant_id = p.tenant_id and o.run_id = p.run_id and o.told_at = p.told_at and o.published_at is null;

-- name: look_now
-- A line whose mailbox had to be made anew: whatever lay in it is lost.
update everwhen.outbox o
set look_at = %(now)s
where o.tenant_id = %(tenant_id)s and o.queue = %(queue)s and o.look_at > %(now)s;

-- name: forget_taken
-- A line whose window is full: what is told there and no longer waits makes room.
delete from everwhen.outbox o
where o.ctid = any(array(
  select o.ctid
  from everwhen.outbox o
  left join lateral (
    select w.attempts from everwhen.waiting w where w.tenant_id = o.tenant_id and w.run_id = o.run_id offset 0) w on true
  where o.tenant_id = %(tenant_id)s and o.queue = %(queue)s and w.attempts + 1 is distinct from o.attempt
  limit %(limit)s
  for update of o skip locked));

-- name: forget_undelivered
-- What was told of queues that are no longer delivered by that broker.
delete from everwhen.outbox o
where o.ctid = any(array(
  select o.ctid
  from everwhen.outbox o
  left join lateral (
    select q.delivery from everwhen.queues q
    where q.tenant_id = o.tenant_id and q.name = o.queue and q.deleted_at is null
    offset 0) q on true
  where o.broker = %(broker)s and o.look_at <= %(now)s and q.delivery is distinct from o.broker
  order by o.look_at
  limit %(limit)s
  for update of o skip locked));

-- name: note_broker
-- How a broker is found. `since` moves only when that changes.
insert into everwhen.brokers as b (broker, is_away, since, detail, seen_at)
values (%(broker)s, %(is_away)s, %(now)s, %(detail)s, %(now)s)
on conflict (broker) do update
set is_away = excluded.is_away, detail = excluded.detail, seen_at = excluded.seen_at,
    since = case when b.is_away = excluded.is_away then b.since else excluded.since end;

-- name: find_mailboxes
-- The lines whose queue is delivered by a broker, of these queues: of one tenant, or of all.
select q.tenant_id, q.name as queue, q.delivery as broker
from everwhen.queues q
where (%(tenant_id)s::uuid is null or q.tenant_id = %(tenant_id)s) and q.name = any(%(queues)s::text[])
  and q.delivery = any(%(brokers)s::text[]) and q.deleted_at is null
order by q.name, q.tenant_id
limit %(limit)s;
