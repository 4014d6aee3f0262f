-- name: insert_task
-- A deleted one comes back under its name, and its revisions go on counting; zero rows mean that the name is taken.
insert into everwhen.tasks as t
  (tenant_id, name, queue, priority, retry, timeout_seconds, start_deadline_seconds, total_deadline_seconds,
   heartbeat_timeout_seconds, max_in_flight, rate, concurrency, requires, tags, owner, created_at, updated_at)
values
  (%(tenant_id)s, %(name)s, %(queue)s, %(priority)s, %(retry)s::jsonb, %(timeout_seconds)s, %(start_deadline_seconds)s,
   %(total_deadline_seconds)s, %(heartbeat_timeout_seconds)s, %(max_in_flight)s, %(rate)s::jsonb, %(concurrency)s::jsonb,
   %(requires)s::jsonb, %(tags)s, %(owner)s, %(now)s, %(now)s)
on conflict (tenant_id, name) do update
set queue = excluded.queue, priority = excluded.priority, retry = excluded.retry,
    timeout_seconds = excluded.timeout_seconds, start_deadline_seconds = excluded.start_deadline_seconds,
    total_deadline_seconds = excluded.total_deadline_seconds,
    heartbeat_timeout_seconds = excluded.heartbeat_timeout_seconds, max_in_flight = excluded.max_in_flight,
    rate = excluded.rate, concurrency = excluded.concurrency, requires = excluded.requires, tags = excluded.tags, owner = excluded.owner,
    revision = t.revision + 1, created_at = excluded.created_at, updated_at = excluded.updated_at, deleted_at = null
where t.deleted_at is not null
returning name, queue, priority, retry::text as retry, timeout_seconds, start_deadline_seconds,
  total_deadline_seconds, heartbeat_timeout_seconds,
  max_in_flight, rate::text as rate, concurrency::text as concurrency, requires::text as requires,
  tags, owner, revision, created_at, updated_at;

-- name: count_tasks
-- Workflows stand among them, and are none.
select count(*) as tasks from everwhen.tasks
where tenant_id = %(tenant_id)s and queue <> 'everwhen:workflows' and deleted_at is null;

-- name: open_lane
-- The line at a queue exists before anything can wait in it.
insert into everwhen.lanes (tenant_id, queue)
values (%(tenant_id)s, %(queue)s)
on conflict (tenant_id, queue) do nothing;

-- name: update_task
-- Zero rows: it is another revision than the caller means.
update everwhen.tasks
set queue = %(queue)s, priority = %(priority)s, retry = %(retry)s::jsonb, timeout_seconds = %(timeout_seconds)s,
    start_deadline_seconds = %(start_deadline_seconds)s, total_deadline_seconds = %(total_deadline_seconds)s,
    heartbeat_timeout_seconds = %(heartbeat_timeout_seconds)s, max_in_flight = %(max_in_flight)s, rate = %(rate)s::jsonb,
    concurrency = %(concurrency)s::jsonb, requires = %(requires)s::jsonb, tags = %(tags)s, owner = %(owner)s,
    revision = revision + 1, updated_at = %(now)s
where tenant_id = %(tenant_id)s and name = %(name)s and deleted_at is null
  and (%(among)s::int[] is null or revision = any(%(among)s::int[]))
returning name, queue, priority, retry::text as retry, timeout_seconds, start_deadline_seconds,
  total_deadline_seconds, heartbeat_timeout_seconds,
  max_in_flight, rate::text as rate, concurrency::text as concurrency, requires::text as requires,
  tags, owner, revision, created_at, updated_at;

-- name: get_task
select name, queue, priority, retry::text as retry, timeout_seconds, start_deadline_seconds,
  total_deadline_seconds, heartbeat_timeout_seconds,
  max_in_flight, rate::text as rate, concurrency::text as concurrency, requires::text as requires,
  tags, owner, revision, created_at, updated_at
from everwhen.tasks
where tenant_id = %(tenant_id)s and name = %(name)s and deleted_at is null;

-- name: lock_task
-- A partial change reads what it keeps: two of them at once must not undo each other.
select name, queue, priority, retry::text as retry, timeout_seconds, start_deadline_seconds,
  total_deadline_seconds, heartbeat_timeout_seconds,
  max_in_flight, rate::text as rate, concurrency::text as concurrency, requires::text as requires,
  tags, owner, revision, created_at, updated_at
from everwhen.tasks
where tenant_id = %(tenant_id)s and name = %(name)s and deleted_at is null
for no key update;

-- name: delete_task
-- Zero rows: it is another revision than the caller means, or there is none.
update everwhen.tasks
set deleted_at = %(now)s, updated_at = %(now)s, max_in_flight = null, rate = null, concurrency = null, requires = null
where tenant_id = %(tenant_id)s and name = %(name)s and deleted_at is null
  and (%(among)s::int[] is null or revision = any(%(among)s::int[]));

-- name: list_tasks
select name, queue, priority, retry::text as retry, timeout_seconds, start_deadline_seconds,
  total_deadline_seconds, heartbeat_timeout_seconds,
  max_in_flight, rate::text as rate, concurrency::text as concurrency, requires::text as requires,
  tags, owner, revision, created_at, updated_at
from everwhen.tasks
where tenant_id = %(tenant_id)s and name > %(after)s and deleted_at is null
  and queue <> 'everwhen:workflows' -- workflows stand among them
order by name
limit %(limit)s;

-- name: list_tasks_tagged
-- The same of those with a tag, along its key.
select t.*
from (
  select t.name from everwhen.tagged t
  where t.tenant_id = %(tenant_id)s and t.kind = 'task' and t.tag = %(tag)s and t.name > %(after)s
  order by t.name
  limit %(limit)s) n
cross join lateral (
  select name, queue, priority, retry::text as retry, timeout_seconds, start_deadline_seconds,
    total_deadline_seconds, heartbeat_timeout_seconds,
  max_in_flight, rate::text as rate, concurrency::text as concurrency, requires::text as requires,
  tags, owner, revision, created_at, updated_at
  from everwhen.tasks t
  where t.tenant_id = %(tenant_id)s and t.name = n.name and t.deleted_at is null
  offset 0) t
order by t.name;

-- name: list_tasks_named
-- Those of these names.
select t.*
from unnest(%(names)s::text[]) n (name)
cross join lateral (
  select name, queue, priority, retry::text as retry, timeout_seconds, start_deadline_seconds,
    total_deadline_seconds, heartbeat_timeout_seconds,
  max_in_flight, rate::text as rate, concurrency::text as concurrency, requires::text as requires,
  tags, owner, revision, created_at, updated_at
  from everwhen.tasks t
  where t.tenant_id = %(tenant_id)s and t.name = n.name and t.deleted_at is null
  offset 0) t
order by t.name;

-- name: list_tasks_of_owner
select name, queue, priority, retry::text as retry, timeout_seconds, start_deadline_seconds,
  total_deadline_seconds, heartbeat_timeout_seconds,
  max_in_flight, rate::text as rate, concurrency::text as concurrency, requires::text as requires,
  tags, owner, revision, created_at, updated_at
from everwhen.tasks
where tenant_id = %(tenant_id)s and owner = %(owner)s and name > %(after)s and deleted_at is null
order by name
limit %(limit)s;
