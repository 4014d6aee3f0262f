-- Service tokens, members, revocations and sessions. What a request is let in by is looked up for all tenants, since nobody
-- knows yet whose it is; everything else names the tenant.

-- name: insert_service_token
insert into everwhen.service_tokens
  (tenant_id, token_id, name, roles, queues, tasks, secret_hash, created_by, created_at, issued_at, expires_at)
values (%(tenant_id)s, %(token_id)s, %(name)s, %(roles)s::text[], %(queues)s::text[], %(tasks)s::text[],
        %(secret_hash)s, %(created_by)s, %(now)s, %(now)s, %(expires_at)s)
on conflict (tenant_id, name) where revoked_at is null do nothing
returning token_id, name, roles, queues, tasks, created_by, created_at, issued_at, expires_at, revoked_at, revoked_by,
          last_used_at;

-- name: count_live_tokens
select count(*) from everwhen.service_tokens
where tenant_id = %(tenant_id)s and revoked_at is null and expires_at > %(now)s;

-- name: sweep_service_tokens
-- What has been of no use for long; a few at a time, by whoever makes the next one.
delete from everwhen.service_tokens
where tenant_id = %(tenant_id)s and token_id in (
  select token_id from everwhen.service_tokens
  where tenant_id = %(tenant_id)s and coalesce(revoked_at, expires_at) < %(before)s
  limit 100);

-- name: list_service_tokens
select token_id, name, roles, queues, tasks, created_by, created_at, issued_at, expires_at, revoked_at, revoked_by,
       last_used_at
from everwhen.service_tokens
where tenant_id = %(tenant_id)s and token_id < %(before)s
order by token_id desc
limit %(limit)s;

-- name: get_service_token
select token_id, name, roles, queues, tasks, created_by, created_at, issued_at, expires_at, revoked_at, revoked_by,
       last_used_at
from everwhen.service_tokens
where tenant_id = %(tenant_id)s and token_id = %(token_id)s;

-- name: renew_service_token
-- The secret that it had goes on for a while, so that nothing stands still between the renewal and its arrival.
update everwhen.service_tokens
set previous_hash = secret_hash, previous_until = least(%(previous_until)s::timestamptz, expires_at),
    secret_hash = %(secret_hash)s, issued_at = %(now)s, expires_at = %(expires_at)s
where tenant_id = %(tenant_id)s and token_id = %(token_id)s and revoked_at is null
returning token_id, name, roles, queues, tasks, created_by, created_at, issued_at, expires_at, revoked_at, revoked_by,
          last_used_at;

-- name: revoke_service_token
update everwhen.service_tokens
set revoked_at = %(now)s, revoked_by = %(revoked_by)s
where tenant_id = %(tenant_id)s and token_id = %(token_id)s and revoked_at is null;

-- name: find_service_token
-- By the hash of its secret, or of the one before. That it was used is written down once a minute, whoever asks, and by
-- nobody who would have to wait for another.
with found as materialized (
  select tenant_id, token_id, last_used_at from everwhen.service_tokens
  where secret_hash = %(secret_hash)s and revoked_at is null and expires_at > %(now)s
  union all
  select tenant_id, token_id, last_used_at from everwhen.service_tokens
  where previous_hash = %(secret_hash)s and revoked_at is null and previous_until > %(now)s
  limit 1
), free as materialized (
  select t.tenant_id, t.token_id from everwhen.service_tokens t
  where (t.tenant_id, t.token_id) = (select f.tenant_id, f.token_id from found f)
    and coalesce(t.last_used_at, '-infinity') < %(now)s - interval '1 minute'
  for no key update skip locked
), used as (
  update everwhen.service_tokens t set last_used_at = %(now)s
  from free where t.tenant_id = free.tenant_id and t.token_id = free.token_id
)
select t.tenant_id, t.token_id, t.name, t.roles, t.queues, t.tasks, t.issued_at, t.expires_at
from everwhen.service_tokens t
where (t.tenant_id, t.token_id) = (select f.tenant_id, f.token_id from found f);

-- name: find_dead_token
-- Whose it was, for the audit of an attempt with it. A secret that was replaced lately is of one that lives.
select t.tenant_id, t.token_id, t.name, t.roles, t.queues, t.tasks, t.issued_at, t.expires_at
from everwhen.service_tokens t
where t.secret_hash = %(secret_hash)s and (t.revoked_at is not null or t.expires_at <= %(now)s)
limit 1;

-- name: put_member
-- Zero rows: it is another revision than the caller means.
insert into everwhen.members (tenant_id, subject, roles, added_by, added_at, changed_by, changed_at)
values (%(tenant_id)s, %(subject)s, %(roles)s::text[], %(by)s, %(now)s, %(by)s, %(now)s)
on conflict (tenant_id, subject) do update
set roles = excluded.roles, changed_by = excluded.changed_by, changed_at = excluded.changed_at,
    revision = everwhen.members.revision + 1
where %(among)s::int[] is null or everwhen.members.revision = any(%(among)s::int[])
returning subject, roles, revision, added_by, added_at, changed_by, changed_at;

-- name: count_members
select count(*) from everwhen.members where tenant_id = %(tenant_id)s;

-- name: list_members
select subject, roles, revision, added_by, added_at, changed_by, changed_at
from everwhen.members
where tenant_id = %(tenant_id)s and subject > %(after)s
order by subject
limit %(limit)s;

-- name: get_member
select subject, roles, revision, added_by, added_at, changed_by, changed_at
from everwhen.members
where tenant_id = %(tenant_id)s and subject = %(subject)s;

-- name: delete_member
delete from everwhen.members
where tenant_id = %(tenant_id)s and subject = %(subject)s
  and (%(among)s::int[] is null or revision = any(%(among)s::int[]));

-- name: find_memberships
-- Of one person, in all tenants: by the system's role, before anybody knows where the request is to go.
select m.tenant_id, t.name as tenant, m.roles
from everwhen.members m
join everwhen.tenants t on t.id = m.tenant_id
where m.subject = %(subject)s
order by t.name
limit %(limit)s;

-- name: put_revocation
insert into everwhen.revocations
  (tenant_id, kind, value, issued_until, reason, revoked_by, revoked_at, expires_at)
values (%(tenant_id)s, %(kind)s, %(value)s, %(issued_until)s, %(reason)s, %(by)s, %(now)s, %(expires_at)s)
on conflict (tenant_id, kind, value) do update
set issued_until = greatest(everwhen.revocations.issued_until, excluded.issued_until), reason = excluded.reason,
    revoked_by = excluded.revoked_by, revoked_at = excluded.revoked_at, expires_at = excluded.expires_at
returning kind, value, issued_until, reason, revoked_by, revoked_at, expires_at;

-- name: count_revocations
select count(*) from everwhen.revocations where tenant_id = %(tenant_id)s and expires_at > %(now)s;

-- name: sweep_revocations
delete from everwhen.revocations
where (tenant_id, kind, value) in (
  select tenant_id, kind, value from everwhen.revocations
  where tenant_id = %(tenant_id)s and expires_at < %(now)s
  limit 100);

-- name: list_revocations
select kind, value, issued_until, reason, revoked_by, revoked_at, expires_at
from everwhen.revocations
where tenant_id = %(tenant_id)s and (kind, value) > (%(after_kind)s, %(after_value)s) and expires_at > %(now)s
order by kind, value
limit %(limit)s;

-- name: read_revocations
-- What every copy of the API keeps in memory; all of it at first, and then what is new.
select tenant_id, kind, value, issued_until, expires_at
from everwhen.revocations
where revoked_at >= %(since)s and expires_at > %(now)s;

-- name: insert_session
insert into everwhen.sessions (session_id, secret_hash, subject, principal, created_at, seen_at, expires_at)
values (%(session_id)s, %(secret_hash)s, %(subject)s, %(principal)s::jsonb, %(now)s, %(now)s, %(expires_at)s);

-- name: sweep_sessions
delete from everwhen.sessions
where session_id in (select session_id from everwhen.sessions where expires_at < %(now)s limit 100);

-- name: find_session
-- One that has not been idle for too long; that it was seen is written down once a minute.
with found as materialized (
  select session_id, seen_at from everwhen.sessions
  where secret_hash = %(secret_hash)s and expires_at > %(now)s and seen_at > %(idle_since)s
), free as materialized (
  select s.session_id from everwhen.sessions s
  where s.session_id = (select f.session_id from found f) and s.seen_at < %(now)s - interval '1 minute'
  for no key update skip locked
), used as (
  update everwhen.sessions s set seen_at = %(now)s from free where s.session_id = free.session_id
)
select s.session_id, s.principal::text as principal, s.created_at, s.expires_at
from everwhen.sessions s
where s.session_id = (select f.session_id from found f);

-- name: delete_session
delete from everwhen.sessions where session_id = %(session_id)s;
