-- name: insert_endpoint
insert into everwhen.endpoints
  (tenant_id, queue, url, headers, answer_seconds, accept_seconds, changed_by, created_at, updated_at)
values (%(tenant_id)s, %(queue)s, %(url)s, %(headers)s::jsonb, %(answer_seconds)s, %(accept_seconds)s, %(by)s, %(now)s, %(now)s)
on conflict do nothing;

-- name: insert_state
-- Beside the endpoint from its beginning, so that whoever notes how it does finds a row to lock.
insert into everwhen.endpoint_states (tenant_id, queue) values (%(tenant_id)s, %(queue)s) on conflict do nothing;

-- name: lock_endpoint
select revision from everwhen.endpoints
where tenant_id = %(tenant_id)s and queue = %(queue)s
for no key update;

-- name: update_endpoint
-- Guarded by the revision that the caller means, whatever was read before.
update everwhen.endpoints
set url = %(url)s, headers = %(headers)s::jsonb, answer_seconds = %(answer_seconds)s, accept_seconds = %(accept_seconds)s,
    changed_by = %(by)s, updated_at = %(now)s, revision = revision + 1
where tenant_id = %(tenant_id)s and queue = %(queue)s and (%(among)s::int[] is null or revision = any(%(among)s::int[]));

-- name: delete_endpoint
delete from everwhen.endpoints
where tenant_id = %(tenant_id)s and queue = %(queue)s and (%(among)s::int[] is null or revision = any(%(among)s::int[]));

-- name: get_endpoint
select e.queue, e.url, e.headers::text as headers, e.answer_seconds, e.accept_seconds, e.revision, e.changed_by,
       e.created_at, e.updated_at, s.failures, s.rests_until, s.failing_since, s.last_failure_at, s.last_error,
       s.test_wanted_at, s.tested_at, s.test_answer
from everwhen.endpoints e
join everwhen.endpoint_states s on s.tenant_id = e.tenant_id and s.queue = e.queue
where e.tenant_id = %(tenant_id)s and e.queue = %(queue)s;

-- name: put_secret
insert into everwhen.endpoint_secrets (tenant_id, queue, name, sealed)
values (%(tenant_id)s, %(queue)s, %(name)s, %(sealed)s)
on conflict (tenant_id, queue, name) do update set sealed = excluded.sealed;

-- name: delete_secret
delete from everwhen.endpoint_secrets where tenant_id = %(tenant_id)s and queue = %(queue)s and name = %(name)s;

-- name: list_secrets
select tenant_id, queue, name, sealed from everwhen.endpoint_secrets
where tenant_id = %(tenant_id)s and queue = any(%(queues)s::text[])
order by queue, name;

-- name: forget_health
-- A changed endpoint is another one: what the old one did says nothing of it.
update everwhen.endpoint_states
set failures = 0, rests_until = null, failing_since = null
where tenant_id = %(tenant_id)s and queue = %(queue)s;

-- name: ask_for_test
-- Zero rows: one was asked for or sent a moment ago.
update everwhen.endpoint_states
set test_wanted_at = %(now)s
where tenant_id = %(tenant_id)s and queue = %(queue)s
  and (test_wanted_at is null or test_wanted_at < %(before)s) and (tested_at is null or tested_at < %(before)s);

-- name: look_at_endpoints
-- The next endpoints in the order of their key, each with when its queue's earliest run is due: one probe of the line's
-- key for each priority. So a look costs the same whatever waits.
select e.tenant_id, t.name as tenant, e.queue, e.url, e.headers, e.answer_seconds, e.accept_seconds,
       s.failures, s.rests_until, s.test_wanted_at is not null as has_test, d.next_at
from (
  select e.tenant_id, e.queue, e.url, e.headers::text as headers, e.answer_seconds, e.accept_seconds
  from everwhen.endpoints e
  where (e.tenant_id, e.queue) > (%(after_tenant_id)s, %(after_queue)s)
  order by e.tenant_id, e.queue
  limit %(limit)s) e
cross join lateral (
  select s.failures, s.rests_until, s.test_wanted_at
  from everwhen.endpoint_states s where s.tenant_id = e.tenant_id and s.queue = e.queue offset 0) s
cross join lateral (select t.name from everwhen.tenants t where t.id = e.tenant_id offset 0) t
cross join lateral (
  select min(w.available_at) as next_at
  from generate_series(0, 9) p
  cross join lateral (
    select w.available_at
    from everwhen.waiting w
    where w.tenant_id = e.tenant_id and w.queue = e.queue and w.priority = p
    order by w.available_at
    limit 1) w
  offset 0) d
order by e.tenant_id, e.queue;

-- name: lock_health
select failures, rests_until from everwhen.endpoint_states
where tenant_id = %(tenant_id)s and queue = %(queue)s
for no key update;

-- name: note_health
-- `error` null: it answers again.
update everwhen.endpoint_states
set failures = %(failures)s, rests_until = %(rests_until)s,
    failing_since = case when %(error)s::text is null then null else coalesce(failing_since, %(now)s) end,
    last_failure_at = case when %(error)s::text is null then last_failure_at else %(now)s end,
    last_error = coalesce(%(error)s::text, last_error)
where tenant_id = %(tenant_id)s and queue = %(queue)s;

-- name: take_probe
-- Of several callers whose endpoint's rest is over one gets the row, and probes it.
update everwhen.endpoint_states
set rests_until = %(until)s
where tenant_id = %(tenant_id)s and queue = %(queue)s and failures = %(failures)s
  and rests_until is not distinct from %(rests_until)s::timestamptz;

-- name: take_test
-- Of several callers who see that a test is wanted one sends it.
update everwhen.endpoint_states
set test_wanted_at = null, tested_at = %(now)s, test_answer = null
where tenant_id = %(tenant_id)s and queue = %(queue)s and test_wanted_at is not null;

-- name: note_test
update everwhen.endpoint_states
set test_answer = %(answer)s
where tenant_id = %(tenant_id)s and queue = %(queue)s and tested_at = %(tested_at)s;
