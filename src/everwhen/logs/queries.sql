-- Logs of attempts: where the bytes are that an attempt printed.

-- name: lock_log
-- One piece of an attempt after the other.
select object_id, size_bytes, pieces, slots, is_capped
from everwhen.attempt_logs
where tenant_id = %(tenant_id)s and run_id = %(run_id)s and attempt = %(attempt)s
for update;

-- name: insert_log
-- Zero rows: another piece of the attempt was first.
insert into everwhen.attempt_logs (tenant_id, run_id, attempt, object_id, opened_at)
values (%(tenant_id)s, %(run_id)s, %(attempt)s, %(object_id)s, %(now)s)
on conflict (tenant_id, run_id, attempt) do nothing;

-- name: take_slot
-- A place in the object that nobody has written to: so nothing that is there is ever overwritten, by whatever comes late.
update everwhen.attempt_logs set slots = slots + 1
where tenant_id = %(tenant_id)s and run_id = %(run_id)s and attempt = %(attempt)s;

-- name: append_piece
-- Zero rows: the piece is there already, or the log has ended. What was written to the slot is nobody's then, and goes
-- with the object. Its bytes are counted in one of the tenant's shards; that the log ends for the tenant's sake is an event.
with grown as (
  update everwhen.attempt_logs
  set pieces = pieces + 1, size_bytes = size_bytes + %(size_bytes)s, is_capped = %(is_capped)s
  where tenant_id = %(tenant_id)s and run_id = %(run_id)s and attempt = %(attempt)s
    and pieces = %(piece)s and not is_capped
  returning tenant_id, run_id, attempt, object_id, size_bytes - %(size_bytes)s as starts_at
), counted as (
  insert into everwhen.log_bytes as b (tenant_id, shard, size_bytes)
  select tenant_id, 1 + pg_backend_pid() %% 15, %(size_bytes)s from grown
  on conflict (tenant_id, shard) do update set size_bytes = b.size_bytes + excluded.size_bytes
), told as (
  insert into everwhen.events (tenant_id, run_id, at, kind, attempt, reason)
  select tenant_id, run_id, %(now)s, 'log_ended', attempt, %(reason)s::text from grown where %(reason)s::text is not null
)
insert into everwhen.log_pieces (tenant_id, object_id, starts_at, size_bytes, slot)
select tenant_id, object_id, starts_at, %(size_bytes)s, %(slot)s from grown;

-- name: read_bytes
select coalesce(sum(size_bytes), 0)::bigint as size_bytes from everwhen.log_bytes where tenant_id = %(tenant_id)s;

-- name: find_log
-- An attempt, the latest if none is named, and its log, if it has printed anything.
select a.attempt, a.is_open, l.object_id, coalesce(l.size_bytes, 0) as size_bytes, coalesce(l.is_capped, false) as is_capped
from (
  (select e.attempt, true as is_open
   from everwhen.leases e
   where e.tenant_id = %(tenant_id)s and e.run_id = %(run_id)s
     and (%(attempt)s::int is null or e.attempt = %(attempt)s))
  union all
  (select t.attempt, false as is_open
   from everwhen.attempts t
   where t.tenant_id = %(tenant_id)s and t.run_id = %(run_id)s
     and (%(attempt)s::int is null or t.attempt = %(attempt)s)
   order by t.attempt desc
   limit 1)) a
left join everwhen.attempt_logs l
  on l.tenant_id = %(tenant_id)s and l.run_id = %(run_id)s and l.attempt = a.attempt
order by a.attempt desc
limit 1;

-- name: list_pieces
-- From the piece on that the byte `offset` lies in.
select starts_at, size_bytes, slot
from everwhen.log_pieces
where tenant_id = %(tenant_id)s and object_id = %(object_id)s
  and starts_at >= coalesce((
    select p.starts_at from everwhen.log_pieces p
    where p.tenant_id = %(tenant_id)s and p.object_id = %(object_id)s and p.starts_at <= %(offset)s
    order by p.starts_at desc
    limit 1), 0)
order by starts_at
limit %(limit)s;

-- name: drop_old
-- Logs past their time whose attempts have ended, over all tenants: their rows go, and their objects are left to the
-- porter. No more than `most_pieces` rows at once, or one log.
with old as materialized (
  select l.tenant_id, l.run_id, l.attempt, l.object_id, l.pieces, l.size_bytes, l.opened_at
  from everwhen.attempt_logs l
  where l.opened_at <= %(before)s
    and not exists (
      select from everwhen.leases e
      where e.tenant_id = l.tenant_id and e.run_id = l.run_id and e.attempt = l.attempt)
  order by l.opened_at
  limit %(limit)s
  for update skip locked
), chosen as materialized (
  select o.tenant_id, o.run_id, o.attempt, o.object_id, o.size_bytes
  from (select *, sum(pieces) over (order by opened_at, object_id) - pieces as before from old) o
  where o.before < %(most_pieces)s
), emptied as (
  delete from everwhen.log_pieces p using chosen s where p.tenant_id = s.tenant_id and p.object_id = s.object_id
), gone as (
  delete from everwhen.attempt_logs l using chosen s
  where l.tenant_id = s.tenant_id and l.run_id = s.run_id and l.attempt = s.attempt
), freed as (
  insert into everwhen.log_bytes as b (tenant_id, shard, size_bytes)
  select s.tenant_id, 0, -sum(s.size_bytes) from chosen s group by s.tenant_id order by s.tenant_id
  on conflict (tenant_id, shard) do update set size_bytes = b.size_bytes + excluded.size_bytes
)
select tenant_id, object_id from chosen;
