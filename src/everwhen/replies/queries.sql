-- Answers that are kept under callers' keys.

-- name: take_key
-- Holds the key until the transaction ends, and looks what is kept under it. The look may be older than the lock, so a
-- reply that was committed between the two is missed: keep_reply then finds it in its way.
select pg_try_advisory_xact_lock(
         hashtextextended(concat_ws(E'\x1f', %(tenant_id)s::uuid, %(principal)s::text, %(operation)s::text, %(key)s::text), 0)) as is_free,
       r.fingerprint, r.status, r.headers, r.body
from (values (1)) as one (row)
left join lateral (
  select r.fingerprint, r.status, r.headers::text as headers, r.body
  from everwhen.replies r
  where r.tenant_id = %(tenant_id)s and r.principal = %(principal)s and r.operation = %(operation)s and r.key = %(key)s
    and r.expires_at > %(now)s
  offset 0) r on true;

-- name: keep_reply
-- In the transaction of what is answered. One that has expired and was not swept yet is in nobody's way; zero rows mean
-- that another request with this key was answered meanwhile.
insert into everwhen.replies as r
  (tenant_id, principal, operation, key, fingerprint, status, headers, body, expires_at)
values
  (%(tenant_id)s, %(principal)s, %(operation)s, %(key)s, %(fingerprint)s, %(status)s, %(headers)s::jsonb, %(body)s,
   %(expires_at)s)
on conflict (tenant_id, principal, operation, key) do update
set fingerprint = excluded.fingerprint, status = excluded.status, headers = excluded.headers, body = excluded.body,
    expires_at = excluded.expires_at
where r.expires_at <= %(now)s;

-- name: drop_expired
-- A batch of those whose time is over, over all tenants.
with over as materialized (
  select r.ctid as place from everwhen.replies r
  where r.expires_at <= %(now)s
  order by r.expires_at
  limit %(limit)s
  for update skip locked
)
delete from everwhen.replies r using over where r.ctid = over.place;
