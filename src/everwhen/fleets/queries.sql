-- Workers, as they announce themselves and are told what to do. The tenant of all zeros is the platform.

-- name: announce_again
-- One that is known says what it is now. Zero rows: it is not known, or not any more.
update everwhen.workers w
set name = s.name, sdk = s.sdk, version = s.version, host = s.host, pid = s.pid, slots = s.slots, tasks = s.tasks,
    queues = s.queues, labels = s.labels, resources = s.resources, is_stopping = false, last_seen_at = %(now)s
from jsonb_to_record(%(said)s::jsonb) as s (
  name text, sdk text, version text, host text, pid int, slots int, tasks text[], queues text[], labels jsonb,
  resources jsonb)
where w.tenant_id = %(tenant_id)s and w.instance = %(instance)s
returning w.worker_id, w.wish, w.exits;

-- name: hold_workers
-- One that counts workers after the other: the next statement sees what the lock's last holder has committed.
select pg_advisory_xact_lock(hashtextextended('everwhen.workers ' || %(tenant_id)s::uuid, 0))::text as held;

-- name: make_room
-- Takes away lost workers, those first that were not seen for longest, as far as there are too many for one more.
delete from everwhen.workers
where tenant_id = %(tenant_id)s and worker_id = any(array(
  select w.worker_id from everwhen.workers w
  where w.tenant_id = %(tenant_id)s and w.last_seen_at < %(lost)s
  order by w.last_seen_at
  limit greatest(0, (select count(*) from everwhen.workers a where a.tenant_id = %(tenant_id)s) + 1 - %(most)s)));

-- name: insert_worker
-- Zero rows: there are as many as there may be, all of them alive; or the same worker has just announced itself.
insert into everwhen.workers
  (tenant_id, worker_id, instance, name, sdk, version, host, pid, slots, tasks, queues, labels, resources, announced_at,
   last_seen_at, held, in_use, heard, is_stopping)
select %(tenant_id)s, %(worker_id)s, %(instance)s, s.name, s.sdk, s.version, s.host, s.pid, s.slots, s.tasks, s.queues,
       s.labels, s.resources, %(now)s, %(now)s, 0, '{}', 'active', false
from jsonb_to_record(%(said)s::jsonb) as s (
  name text, sdk text, version text, host text, pid int, slots int, tasks text[], queues text[], labels jsonb,
  resources jsonb)
where (select count(*) from everwhen.workers w where w.tenant_id = %(tenant_id)s) < %(most)s
on conflict do nothing
returning worker_id, wish, exits;

-- name: beat_worker
-- Zero rows: it is not known, and has to announce itself.
update everwhen.workers
set held = %(held)s, in_use = %(in_use)s::jsonb, heard = %(heard)s, is_stopping = %(is_stopping)s,
    last_seen_at = greatest(last_seen_at, %(now)s)
where tenant_id = %(tenant_id)s and instance = %(instance)s
returning worker_id, wish, exits;

-- name: delete_worker
-- One that has stopped.
delete from everwhen.workers where tenant_id = %(tenant_id)s and instance = %(instance)s;

-- name: list_workers
select worker_id, name, sdk, version, host, pid, slots, tasks, queues, labels::text as labels, resources::text as resources,
       in_use::text as in_use, announced_at, last_seen_at, held, heard, is_stopping, wish, exits, wished_by, wished_why,
       wished_at
from everwhen.workers
where tenant_id = %(tenant_id)s and worker_id > %(after)s
order by worker_id
limit %(limit)s;

-- name: get_worker
select worker_id, name, sdk, version, host, pid, slots, tasks, queues, labels::text as labels, resources::text as resources,
       in_use::text as in_use, announced_at, last_seen_at, held, heard, is_stopping, wish, exits, wished_by, wished_why,
       wished_at
from everwhen.workers
where tenant_id = %(tenant_id)s and worker_id = %(worker_id)s;

-- name: set_wish
-- What an operator wants; the instance is whom to tell. Zero rows: there is no such worker.
update everwhen.workers
set wish = %(wish)s, exits = %(exits)s, wished_by = %(by)s, wished_why = %(why)s, wished_at = %(now)s
where tenant_id = %(tenant_id)s and worker_id = %(worker_id)s
returning instance;

-- name: list_held
-- Runs of the queues that a worker of this name holds. Among so many of a queue's leases at most, oldest first or not:
-- there is no index by worker, which every claim would pay for.
select o.tenant_id, o.run_id, o.task, o.queue, o.attempt, o.claimed_at, o.started_at, o.lease_until
from everwhen.workers w
cross join unnest(w.queues) as q (queue)
cross join lateral (
  select l.*
  from everwhen.leases l
  where l.tenant_id = w.tenant_id and l.queue = q.queue and l.lease_token > 0 -- the predicate of leases_lane
  limit %(looked_at)s) o
where w.tenant_id = %(tenant_id)s and w.worker_id = %(worker_id)s and o.worker = w.name
order by o.claimed_at, o.run_id
limit %(limit)s;

-- name: list_held_of_any
-- The same of a worker of the platform, which holds runs of any tenant.
select o.tenant_id, o.run_id, o.task, o.queue, o.attempt, o.claimed_at, o.started_at, o.lease_until
from everwhen.workers w
cross join lateral (
  select l.*
  from everwhen.leases l
  where l.queue = any(w.queues)
  limit %(looked_at)s) o
where w.tenant_id = '00000000-0000-0000-0000-000000000000' and w.worker_id = %(worker_id)s and o.worker = w.name
order by o.claimed_at, o.run_id
limit %(limit)s;

-- name: list_fleets
-- Who works at these queues: the tenant's own workers, and the platform's.
select q.queue, f.live, f.taking, f.slots, f.held, f.last_seen_at
from unnest(%(queues)s::text[]) as q (queue)
cross join lateral (
  select count(*) filter (where t.is_live) as live,
         count(*) filter (where t.takes) as taking,
         coalesce(sum(w.slots) filter (where t.takes), 0)::bigint as slots,
         coalesce(sum(w.held) filter (where t.takes), 0)::bigint as held,
         max(w.last_seen_at) as last_seen_at
  from everwhen.workers w
  cross join lateral (
    select w.last_seen_at >= %(lost)s as is_live,
           w.last_seen_at >= %(lost)s and w.wish = 'active' and not w.is_stopping as takes) t
  where w.tenant_id = any(array[%(tenant_id)s::uuid, '00000000-0000-0000-0000-000000000000'])
    and q.queue = any(w.queues)
  offset 0) f
order by q.queue;

-- name: forget_workers
-- Those that were not seen for so long that nobody asks any more where they are.
delete from everwhen.workers
where (tenant_id, worker_id) in (
  select tenant_id, worker_id from everwhen.workers where last_seen_at < %(before)s limit %(limit)s
  for update skip locked);

-- name: list_live
-- The live workers of a queue, the platform's among them, with what each has. There are so many of an owner at most.
select w.tasks, w.labels::text as labels, w.resources::text as resources, w.in_use::text as in_use, w.slots, w.held, w.wish,
       w.is_stopping
from everwhen.workers w
where w.tenant_id = any(array[%(tenant_id)s::uuid, '00000000-0000-0000-0000-000000000000'])
  and w.last_seen_at >= %(lost)s and %(queue)s = any(w.queues);

-- name: find_wants
-- For want of what runs that wait in these lines wait: a pause, or what the observer has noted of the line or of the task,
-- and has not seen to be over. Of several the first of the array; what lies behind others is nothing that is wanting.
select q.tenant_id, q.queue, q.task, r.reason
from unnest(%(tenant_ids)s::uuid[], %(queues)s::text[], %(tasks)s::text[]) as q (tenant_id, queue, task)
cross join lateral (
  select coalesce(
    (select case when p.queue = '' then 'tenant.paused' else 'queue.paused' end
     from everwhen.pauses p
     where p.tenant_id = q.tenant_id and p.queue = any(array['', q.queue])
       and (p.paused_until is null or p.paused_until > %(now)s)
     order by p.queue
     limit 1),
    (select b.reason
     from everwhen.line_states b
     where b.tenant_id = q.tenant_id and b.queue = q.queue and b.task = any(array['', q.task]) and b.until is null
       and b.reason = any(array['worker.none_registered', 'worker.none_live', 'worker.cordoned', 'worker.draining',
                                'worker.no_capability_match', 'worker.slots_full', 'broker.unreachable', 'endpoint.rests'])
     order by array_position(array['worker.none_registered', 'worker.none_live', 'worker.cordoned', 'worker.draining',
                                   'worker.no_capability_match', 'worker.slots_full', 'broker.unreachable', 'endpoint.rests'],
                             b.reason)
     limit 1)) as reason
  offset 0) r
where r.reason is not null;
