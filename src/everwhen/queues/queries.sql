-- Queues as tenants define them, each with its lane, which is what a claim reads: whoever writes one writes the other.

-- name: open_lane
-- The line at a queue exists before anything is said of it.
insert into everwhen.lanes (tenant_id, queue)
values (%(tenant_id)s, %(queue)s)
on conflict (tenant_id, queue) do nothing;

-- name: lock_lane
-- Whoever changes what holds at a queue has its lane, so that of two changes the second sees what the first one said. A
-- claim that is under way ends as it began; the next one goes by what is changed. Zero rows: there is no such queue.
select queue from everwhen.lanes where tenant_id = %(tenant_id)s and queue = %(queue)s for no key update;

-- name: get_queue
select l.queue as name, q.tenant_id is not null and q.deleted_at is null as is_defined, q.max_in_flight,
       q.rate_tokens, q.rate_seconds, q.rate_burst, coalesce(q.delivery, 'pull') as delivery,
       coalesce(q.delivery_settings, '{}')::text as delivery_settings, l.ageing_seconds, coalesce(q.tags, '{}') as tags,
       q.owner, coalesce(q.revision, 0) as revision, q.created_at, q.updated_at,
       coalesce(s.weight, 1) as weight, s.max_in_flight as share_max_in_flight, l.max_in_flight as "limit",
       exists (select from everwhen.endpoints e where e.tenant_id = l.tenant_id and e.queue = l.queue) as has_endpoint
from everwhen.lanes l
left join everwhen.queues q on q.tenant_id = l.tenant_id and q.name = l.queue
left join everwhen.queue_shares s on s.tenant_id = l.tenant_id and s.queue = l.queue
where l.tenant_id = %(tenant_id)s and l.queue = %(queue)s;

-- name: list_queues
-- Those of the server itself are nobody's.
select l.queue as name, q.tenant_id is not null and q.deleted_at is null as is_defined, q.max_in_flight,
       q.rate_tokens, q.rate_seconds, q.rate_burst, coalesce(q.delivery, 'pull') as delivery,
       coalesce(q.delivery_settings, '{}')::text as delivery_settings, l.ageing_seconds, coalesce(q.tags, '{}') as tags,
       q.owner, coalesce(q.revision, 0) as revision, q.created_at, q.updated_at,
       coalesce(s.weight, 1) as weight, s.max_in_flight as share_max_in_flight, l.max_in_flight as "limit",
       exists (select from everwhen.endpoints e where e.tenant_id = l.tenant_id and e.queue = l.queue) as has_endpoint
from (
  select l.* from everwhen.lanes l
  where l.tenant_id = %(tenant_id)s and l.queue > %(after)s and l.queue not like 'everwhen:%%'
  order by l.queue
  limit %(limit)s) l
left join lateral (
  select q.* from everwhen.queues q where q.tenant_id = l.tenant_id and q.name = l.queue offset 0) q on true
left join lateral (
  select s.* from everwhen.queue_shares s where s.tenant_id = l.tenant_id and s.queue = l.queue offset 0) s on true
order by l.queue;

-- name: list_queues_named
-- Those of these names that are defined.
select l.queue as name, q.tenant_id is not null and q.deleted_at is null as is_defined, q.max_in_flight,
       q.rate_tokens, q.rate_seconds, q.rate_burst, coalesce(q.delivery, 'pull') as delivery,
       coalesce(q.delivery_settings, '{}')::text as delivery_settings, l.ageing_seconds, coalesce(q.tags, '{}') as tags,
       q.owner, coalesce(q.revision, 0) as revision, q.created_at, q.updated_at,
       coalesce(s.weight, 1) as weight, s.max_in_flight as share_max_in_flight, l.max_in_flight as "limit",
       exists (select from everwhen.endpoints e where e.tenant_id = l.tenant_id and e.queue = l.queue) as has_endpoint
from unnest(%(names)s::text[]) n (name)
cross join lateral (
  select q.* from everwhen.queues q
  where q.tenant_id = %(tenant_id)s and q.name = n.name and q.deleted_at is null offset 0) q
cross join lateral (
  select l.* from everwhen.lanes l where l.tenant_id = q.tenant_id and l.queue = q.name offset 0) l
left join lateral (
  select s.* from everwhen.queue_shares s where s.tenant_id = q.tenant_id and s.queue = q.name offset 0) s on true
order by q.name;

-- name: page_names
-- The names of those that are defined.
select name from everwhen.queues
where tenant_id = %(tenant_id)s and name > %(after)s and deleted_at is null
order by name
limit %(limit)s;

-- name: page_names_of_owner
select name from everwhen.queues
where tenant_id = %(tenant_id)s and owner = %(owner)s and name > %(after)s and deleted_at is null
order by name
limit %(limit)s;

-- name: count_queues
select count(*) as queues from everwhen.queues where tenant_id = %(tenant_id)s and deleted_at is null;

-- name: put_queue
-- Zero rows: it is another revision than the caller means. One that was never defined has the revision 0.
insert into everwhen.queues as q
  (tenant_id, name, max_in_flight, rate_tokens, rate_seconds, rate_burst, delivery, delivery_settings, ageing_seconds,
   tags, owner, created_at, updated_at)
select %(tenant_id)s, %(queue)s, %(max_in_flight)s, %(rate_tokens)s, %(rate_seconds)s, %(rate_burst)s, %(delivery)s,
       %(delivery_settings)s::jsonb, %(ageing_seconds)s, %(tags)s, %(owner)s, %(now)s, %(now)s
where %(among)s::int[] is null or 0 = any(%(among)s::int[])
   or exists (select from everwhen.queues k where k.tenant_id = %(tenant_id)s and k.name = %(queue)s)
on conflict (tenant_id, name) do update
set max_in_flight = excluded.max_in_flight, rate_tokens = excluded.rate_tokens, rate_seconds = excluded.rate_seconds,
    rate_burst = excluded.rate_burst, delivery = excluded.delivery, delivery_settings = excluded.delivery_settings,
    ageing_seconds = excluded.ageing_seconds, tags = excluded.tags, owner = excluded.owner,
    created_at = case when q.deleted_at is null then q.created_at else excluded.created_at end,
    updated_at = excluded.updated_at, deleted_at = null, revision = q.revision + 1
where %(among)s::int[] is null or q.revision = any(%(among)s::int[])
returning revision;

-- name: delete_queue
-- Everything is as by default again. Zero rows: it is not defined, or it is another revision than the caller means.
update everwhen.queues
set max_in_flight = default, rate_tokens = default, rate_seconds = default, rate_burst = default, delivery = default,
    delivery_settings = default, ageing_seconds = default, tags = default, owner = default, updated_at = %(now)s,
    deleted_at = %(now)s, revision = revision + 1
where tenant_id = %(tenant_id)s and name = %(queue)s and deleted_at is null
  and (%(among)s::int[] is null or revision = any(%(among)s::int[]))
returning revision;

-- name: settle_lane
-- What the next claim goes by: of the tenant's limit and the platform's the lower one holds.
update everwhen.lanes l
set weight = coalesce(s.weight, 1), max_in_flight = least(q.max_in_flight, s.max_in_flight),
    ageing_seconds = case when q.tenant_id is null then 3600 else q.ageing_seconds end,
    is_limited = l.is_limited or (q.rate_tokens is not null and q.deleted_at is null)
from (values (1)) as one (row)
left join everwhen.queues q on q.tenant_id = %(tenant_id)s and q.name = %(queue)s
left join everwhen.queue_shares s on s.tenant_id = %(tenant_id)s and s.queue = %(queue)s
where l.tenant_id = %(tenant_id)s and l.queue = %(queue)s;

-- name: get_share
select coalesce(s.weight, 1) as weight, s.max_in_flight, coalesce(s.revision, 0) as revision, s.changed_by, s.changed_at
from everwhen.lanes l
left join everwhen.queue_shares s on s.tenant_id = l.tenant_id and s.queue = l.queue
where l.tenant_id = %(tenant_id)s and l.queue = %(queue)s;

-- name: put_share
-- Zero rows: it is another revision than the caller means. One that was never set has the revision 0.
insert into everwhen.queue_shares as s (tenant_id, queue, weight, max_in_flight, changed_by, changed_at)
select %(tenant_id)s, %(queue)s, %(weight)s, %(max_in_flight)s, %(by)s, %(now)s
where %(among)s::int[] is null or 0 = any(%(among)s::int[])
   or exists (select from everwhen.queue_shares k where k.tenant_id = %(tenant_id)s and k.queue = %(queue)s)
on conflict (tenant_id, queue) do update
set weight = excluded.weight, max_in_flight = excluded.max_in_flight, revision = s.revision + 1,
    changed_by = excluded.changed_by, changed_at = excluded.changed_at
where %(among)s::int[] is null or s.revision = any(%(among)s::int[])
returning revision;

-- name: count_lines
-- What stands in these lines now, each count up to a bound: one walk along the line's key for each priority, none past
-- what is due.
select n.queue, d.waiting, d.oldest_due_at, f.in_flight, p.is_paused, s.last_asked_at, k.workers, k.slots, k.free_slots,
       k.held_back, coalesce(b.blockages, '[]')::text as blockages
from unnest(%(queues)s::text[]) with ordinality as n (queue, place)
cross join lateral (
  select count(*) as waiting, min(w.available_at) as oldest_due_at
  from generate_series(0, 9) p
  cross join lateral (
    select w.available_at
    from everwhen.waiting w
    where w.tenant_id = %(tenant_id)s and w.queue = n.queue and w.priority = p and w.available_at <= %(now)s
    order by w.available_at
    limit %(most)s) w
  offset 0) d
cross join lateral (
  select count(*) as in_flight
  from (
    select from everwhen.leases o
    where o.tenant_id = %(tenant_id)s and o.queue = n.queue and o.lease_token > 0 -- the predicate of leases_lane
    limit %(most)s) o
  offset 0) f
cross join lateral (
  select exists (
    select from everwhen.pauses p
    where p.tenant_id = %(tenant_id)s and p.queue = any(array[n.queue, ''])
      and (p.paused_until is null or p.paused_until > %(now)s)) as is_paused
  offset 0) p
cross join lateral (
  select max(s.last_seen_at) as last_asked_at
  from everwhen.sightings s
  where s.tenant_id = %(tenant_id)s and s.queue = n.queue
  offset 0) s
cross join lateral (
  select count(*) filter (where t.takes) as workers, coalesce(sum(k.slots) filter (where t.takes), 0)::bigint as slots,
         coalesce(sum(greatest(0, k.slots - k.held)) filter (where t.takes), 0)::bigint as free_slots,
         count(*) filter (where not t.takes) as held_back
  from everwhen.workers k
  cross join lateral (select k.wish = 'active' and not k.is_stopping as takes) t
  where k.tenant_id = any(array[%(tenant_id)s, '00000000-0000-0000-0000-000000000000'::uuid])
    and n.queue = any(k.queues) and k.last_seen_at > %(live)s
  offset 0) k
cross join lateral (
  select jsonb_agg(jsonb_build_object('reason', b.reason, 'task', b.task, 'since', b.since, 'facts', b.facts)
                   order by b.reason, b.task) as blockages
  from (
    select b.reason, b.task, b.since, b.facts from everwhen.line_states b
    where b.tenant_id = %(tenant_id)s and b.queue = n.queue and b.until is null
    limit 100) b
  offset 0) b
order by n.place;

-- name: sample_paces
-- How long attempts took, by queue, among the latest of the tenant: those of the runs that became due last.
select r.queue, avg(extract(epoch from a.finished_at - a.claimed_at))::float8 as mean_seconds
from (
  select a.run_id, a.claimed_at, a.finished_at
  from everwhen.attempts a
  where a.tenant_id = %(tenant_id)s and a.run_id >= everwhen.first_run_id(%(since)s)
  order by a.run_id desc
  limit %(most)s) a
cross join lateral (
  select r.queue from everwhen.runs r where r.tenant_id = %(tenant_id)s and r.run_id = a.run_id offset 0) r
group by r.queue;
