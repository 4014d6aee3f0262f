-- name: ensure_usage
insert into everwhen.payload_usage (tenant_id) values (%(tenant_id)s) on conflict (tenant_id) do nothing;

-- name: lock_usage
-- One upload of a tenant after the other is let in: what is counted next cannot change meanwhile.
select size_bytes, payloads from everwhen.payload_usage where tenant_id = %(tenant_id)s for update;

-- name: read_usage
select size_bytes, payloads from everwhen.payload_usage where tenant_id = %(tenant_id)s;

-- name: count_arriving
select count(*) as objects from everwhen.payload_objects where tenant_id = %(tenant_id)s and state = 'arriving';

-- name: insert_object
insert into everwhen.payload_objects (tenant_id, id, state, opened_by, opened_at, look_at)
values (%(tenant_id)s, %(object_id)s, 'arriving', %(by)s, %(now)s, %(until)s);

-- name: hold_object
-- Zero rows: its time has run out, and the porter has taken it.
update everwhen.payload_objects set look_at = %(until)s
where tenant_id = %(tenant_id)s and id = %(object_id)s and state = 'arriving';

-- name: keep_object
-- Zero rows: as above; what has arrived is not there any more.
update everwhen.payload_objects set state = 'kept', look_at = null
where tenant_id = %(tenant_id)s and id = %(object_id)s and state = 'arriving';

-- name: abandon_object
-- What was kept stays, so that somebody whose commit had an unknown outcome can call it, too.
update everwhen.payload_objects set state = 'doomed', look_at = %(now)s, doomed_at = %(now)s
where tenant_id = %(tenant_id)s and id = %(object_id)s and state = 'arriving';

-- name: doom_object
update everwhen.payload_objects set state = 'doomed', look_at = %(now)s, doomed_at = %(now)s
where tenant_id = %(tenant_id)s and id = %(object_id)s and state = 'kept';

-- name: doom_objects
update everwhen.payload_objects o set state = 'doomed', look_at = %(now)s, doomed_at = %(now)s
from unnest(%(tenant_ids)s::uuid[], %(object_ids)s::uuid[]) as d (tenant_id, id)
where o.tenant_id = d.tenant_id and o.id = d.id and o.state = 'kept';

-- name: insert_payload
-- Of two uploads of the same bytes the second waits here for the first one's commit, and then finds it: no row.
insert into everwhen.payloads
  (tenant_id, digest, object_id, size_bytes, pieces, name, media_type, look_at, created_by, created_at)
values
  (%(tenant_id)s, %(digest)s, %(object_id)s, %(size_bytes)s, %(pieces)s, %(name)s, %(media_type)s, %(look_at)s,
   %(by)s, %(now)s)
on conflict (tenant_id, digest) do nothing
returning digest, object_id, size_bytes, pieces, name, media_type, look_at, created_by, created_at;

-- name: add_usage
-- The quota, in the transaction that uses it: zero rows mean that it does not fit.
update everwhen.payload_usage set size_bytes = size_bytes + %(size_bytes)s, payloads = payloads + 1
where tenant_id = %(tenant_id)s and size_bytes + %(size_bytes)s <= %(quota)s;

-- name: drop_usage
update everwhen.payload_usage set size_bytes = size_bytes - %(size_bytes)s, payloads = payloads - 1
where tenant_id = %(tenant_id)s;

-- name: get_payload
select digest, object_id, size_bytes, pieces, name, media_type, look_at, created_by, created_at
from everwhen.payloads
where tenant_id = %(tenant_id)s and digest = %(digest)s;

-- name: list_payloads
select digest, object_id, size_bytes, pieces, name, media_type, look_at, created_by, created_at
from everwhen.payloads
where tenant_id = %(tenant_id)s and digest > %(after)s
order by digest
limit %(limit)s;

-- name: lock_payload
-- Whoever is about to refer to it waits until it is gone, or stays.
select digest, object_id, size_bytes, pieces, name, media_type, look_at, created_by, created_at
from everwhen.payloads
where tenant_id = %(tenant_id)s and digest = %(digest)s
for update;

-- name: lasts_from_now_on
update everwhen.payloads set look_at = null where tenant_id = %(tenant_id)s and digest = %(digest)s;

-- name: look_again
update everwhen.payloads set look_at = %(look_at)s
where tenant_id = %(tenant_id)s and digest = any(%(digests)s::text[]) and look_at is not null;

-- name: delete_payload
delete from everwhen.payloads where tenant_id = %(tenant_id)s and digest = %(digest)s;

-- name: share_payloads
-- What is found stays until the caller's transaction ends. In the order of the key.
select digest from everwhen.payloads
where tenant_id = %(tenant_id)s and digest = any(%(digests)s::text[])
order by digest
for key share;

-- name: insert_users
insert into everwhen.payload_users (tenant_id, digest, schedule_uid)
select %(tenant_id)s, digest, %(schedule_uid)s from unnest(%(digests)s::text[]) as d (digest)
on conflict do nothing;

-- name: delete_users
delete from everwhen.payload_users
where tenant_id = %(tenant_id)s and schedule_uid = %(schedule_uid)s and not (digest = any(%(kept)s::text[]))
returning digest;

-- name: find_users
select s.name
from everwhen.payload_users u
join everwhen.schedules s on s.tenant_id = u.tenant_id and s.uid = u.schedule_uid
where u.tenant_id = %(tenant_id)s and u.digest = %(digest)s
order by s.name
limit %(limit)s;

-- name: take_doomed
-- What is doomed, and what arrived for too long, is this caller's until `until`; another copy passes by.
with taken as (
  select ctid from everwhen.payload_objects
  where look_at <= %(now)s
  order by look_at
  limit %(limit)s
  for update skip locked
)
update everwhen.payload_objects o
set state = 'doomed', doomed_at = coalesce(o.doomed_at, %(now)s), look_at = %(until)s
from taken
where o.ctid = taken.ctid
returning o.tenant_id, o.id, o.doomed_at;

-- name: look_at_object
update everwhen.payload_objects set look_at = %(look_at)s
where tenant_id = %(tenant_id)s and id = %(object_id)s and state = 'doomed';

-- name: forget_object
delete from everwhen.payload_objects where tenant_id = %(tenant_id)s and id = %(object_id)s and state = 'doomed';

-- name: find_loose
select tenant_id, digest from everwhen.payloads where look_at <= %(now)s order by look_at limit %(limit)s;

-- name: next_look
select min(look_at) as look_at from (
  (select look_at from everwhen.payload_objects where look_at is not null order by look_at limit 1)
  union all
  (select look_at from everwhen.payloads where look_at is not null order by look_at limit 1)
) n;
