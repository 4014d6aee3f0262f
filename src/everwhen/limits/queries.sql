-- Limits of tenants, what is counted against them, and the buckets of rates that copies of the API share.

-- name: draw_allowances
-- Locks in the order of the key. A bucket that has no row is full. A tenant's own limit stands for what is usual.
insert into everwhen.rate_buckets as b (key, full_at, granted, quota, seconds, owed, wanted)
select w.key, d.full_at, d.granted, q.quota, w.seconds, w.owed, w.wanted
from unnest(%(keys)s::bytea[], %(tenant_ids)s::uuid[], %(quotas)s::int[], %(seconds)s::float8[], %(owed)s::int[],
            %(wanted)s::int[])
       as w (key, tenant_id, quota, seconds, owed, wanted)
left join lateral (
  select l.requests_per_minute from everwhen.tenant_limits l where l.tenant_id = w.tenant_id offset 0) l on true
cross join lateral (
  select case when l.requests_per_minute is null then w.quota
              else greatest(1, least(1e9, l.requests_per_minute * w.seconds / 60))::int end as quota) q
cross join lateral everwhen.draw_from(%(now)s, %(now)s, q.quota, w.seconds, w.owed, w.wanted) d
order by w.key
on conflict (key) do update
set (full_at, granted, quota, seconds, owed, wanted) = (
  select d.full_at, d.granted, excluded.quota, excluded.seconds, excluded.owed, excluded.wanted
  from everwhen.draw_from(%(now)s, greatest(b.full_at, %(now)s), excluded.quota, excluded.seconds, excluded.owed,
                          excluded.wanted) d)
returning b.key, b.granted, extract(epoch from b.full_at - %(now)s)::float8 as full_in, b.quota, b.seconds;

-- name: drop_full
-- A bucket that is full needs no row. A batch of them, over all tenants.
delete from everwhen.rate_buckets b
where b.key = any(array(
  select f.key from everwhen.rate_buckets f where f.full_at <= %(now)s limit %(limit)s for update skip locked));

-- name: hold_limits
-- One that counts what a tenant has after the other: whoever asks for the tenant's limits with this holds them until its
-- transaction ends, and counts in its next statement.
select l.revision, l.attempts, l.calendars, l.channels, l.in_flight, l.log_bytes, l.members, l.minimum_interval_seconds,
       l.payload_bytes, l.queues, l.requests_per_minute, l.runs_per_day, l.schedules, l.subscriptions, l.tasks, l.tokens, l.workflows,
       l.changed_by, l.changed_at
from (select pg_advisory_xact_lock(hashtextextended('everwhen.limits ' || %(tenant_id)s::uuid, 0))) as held
left join everwhen.tenant_limits l on l.tenant_id = %(tenant_id)s;

-- name: read_limits
select l.revision, l.attempts, l.calendars, l.channels, l.in_flight, l.log_bytes, l.members, l.minimum_interval_seconds,
       l.payload_bytes, l.queues, l.requests_per_minute, l.runs_per_day, l.schedules, l.subscriptions, l.tasks, l.tokens, l.workflows,
       l.changed_by, l.changed_at
from (values (1)) as one (row)
left join everwhen.tenant_limits l on l.tenant_id = %(tenant_id)s;

-- name: set_limits
-- Zero rows: it is another revision than the caller means. One that is not there yet has the revision 0.
insert into everwhen.tenant_limits as l
  (tenant_id, revision, attempts, calendars, channels, in_flight, log_bytes, members, minimum_interval_seconds, payload_bytes,
   queues, requests_per_minute, runs_per_day, schedules, subscriptions, tasks, tokens, workflows, changed_by, changed_at)
select %(tenant_id)s, 1, %(attempts)s::bigint, %(calendars)s::bigint, %(channels)s::bigint, %(in_flight)s::bigint,
       %(log_bytes)s::bigint, %(members)s::bigint, %(minimum_interval_seconds)s::bigint, %(payload_bytes)s::bigint, %(queues)s::bigint,
       %(requests_per_minute)s::bigint, %(runs_per_day)s::bigint, %(schedules)s::bigint, %(subscriptions)s::bigint,
       %(tasks)s::bigint, %(tokens)s::bigint, %(workflows)s::bigint, %(by)s, %(now)s
where %(revision)s::int = 0 or exists (select from everwhen.tenant_limits k where k.tenant_id = %(tenant_id)s)
on conflict (tenant_id) do update
set revision = l.revision + 1, attempts = excluded.attempts, calendars = excluded.calendars,
    channels = excluded.channels, in_flight = excluded.in_flight, log_bytes = excluded.log_bytes, members = excluded.members,
    minimum_interval_seconds = excluded.minimum_interval_seconds, payload_bytes = excluded.payload_bytes,
    queues = excluded.queues, requests_per_minute = excluded.requests_per_minute, runs_per_day = excluded.runs_per_day,
    schedules = excluded.schedules, subscriptions = excluded.subscriptions, tasks = excluded.tasks,
    tokens = excluded.tokens, workflows = excluded.workflows, changed_by = excluded.changed_by,
    changed_at = excluded.changed_at
where l.revision = %(revision)s
returning revision;

-- name: use_runs
-- Each pair of a tenant and a day once. The rows that it locks are held until the transaction ends.
select n, granted, most
from everwhen.use_runs(%(tenant_ids)s::uuid[], %(days)s::date[], %(wanted)s::int[], %(usual)s::bigint)
order by n;

-- name: give_back_runs
-- Runs that were counted in this transaction, and not made. It holds this connection's own row, if there is one, and else the
-- first: so it waits for nobody, who might wait for it.
insert into everwhen.run_counts as c (tenant_id, day, shard, runs)
select b.tenant_id, b.day,
       coalesce((select o.shard from everwhen.run_counts o
                 where o.tenant_id = b.tenant_id and o.day = b.day and o.shard = 1 + pg_backend_pid() %% 63), 0),
       -b.runs
from unnest(%(tenant_ids)s::uuid[], %(days)s::date[], %(runs)s::int[]) as b (tenant_id, day, runs)
order by b.tenant_id, b.day
on conflict (tenant_id, day, shard) do update set runs = c.runs + excluded.runs;

-- name: fold_days
-- Of a day that is over, one row is enough.
with over as materialized (
  select c.tenant_id, c.day, c.shard from everwhen.run_counts c
  where c.shard <> 0 and c.day < %(before)s
  limit %(limit)s
  for update skip locked
), gone as (
  delete from everwhen.run_counts c using over o
  where c.tenant_id = o.tenant_id and c.day = o.day and c.shard = o.shard
  returning c.tenant_id, c.day, c.runs, c.skipped
), joined as (
  insert into everwhen.run_counts as c (tenant_id, day, shard, runs, skipped)
  select g.tenant_id, g.day, 0, sum(g.runs), sum(g.skipped) from gone g group by g.tenant_id, g.day order by 1, 2
  on conflict (tenant_id, day, shard) do update
  set runs = c.runs + excluded.runs, skipped = c.skipped + excluded.skipped
)
select count(*) as rows from gone;

-- name: list_days
-- What was counted on each of the last days, the latest first.
select d.day, coalesce(c.runs, 0)::bigint as runs, coalesce(c.skipped, 0)::bigint as skipped,
       coalesce(q.requests, 0) as requests, coalesce(q.refused, 0) as refused,
       coalesce(q.worker_requests, 0) as worker_requests
from generate_series(0, %(days)s::int - 1) as n
cross join lateral (select %(today)s::date - n as day) d
left join lateral (
  select sum(c.runs) as runs, sum(c.skipped) as skipped from everwhen.run_counts c
  where c.tenant_id = %(tenant_id)s and c.day = d.day offset 0) c on true
left join lateral (
  select q.requests, q.refused, q.worker_requests from everwhen.request_counts q
  where q.tenant_id = %(tenant_id)s and q.day = d.day offset 0) q on true
order by d.day desc;

-- name: add_requests
insert into everwhen.request_counts as c (tenant_id, day, requests, refused, worker_requests)
select t.id, %(day)s, a.requests, a.refused, a.worker_requests
from unnest(%(tenant_ids)s::uuid[], %(requests)s::bigint[], %(refused)s::bigint[], %(worker_requests)s::bigint[])
       as a (tenant_id, requests, refused, worker_requests)
join everwhen.tenants t on t.id = a.tenant_id -- a token may outlive its tenant
order by t.id
on conflict (tenant_id, day) do update
set requests = c.requests + excluded.requests, refused = c.refused + excluded.refused,
    worker_requests = c.worker_requests + excluded.worker_requests;
