-- Look-ups by key stand behind OFFSET 0, and rows are written by their place, so that no statistics can turn them into
-- walks: see dispatch/queries.sql. What is written of a run's nodes is written under the lock of the run's row.

-- name: find_ended_nodes
-- Which nodes these runs are; a run that is no node's is not returned.
select n.tenant_id, n.run_id, n.node, n.instance, n.node_run_id
from unnest(%(tenant_ids)s::uuid[], %(run_ids)s::uuid[]) as e (tenant_id, run_id)
cross join lateral (
  select n.tenant_id, n.run_id, n.node, n.instance, n.node_run_id
  from everwhen.workflow_nodes n
  where n.tenant_id = e.tenant_id and n.node_run_id = e.run_id
  offset 0) n;

-- name: lock_runs
-- In the order of the key, so that two batches never wait for each other. What is counted is read after this.
select tenant_id, run_id, workflow, version, root_run_id, generation, rerun_of, rerun_nodes, nesting, priority,
       lease_token, started_at, deadline_at, halt, ordinary, leaves, finals, live, look_at, ended_at
from everwhen.workflow_runs
where tenant_id = any(%(tenant_ids)s::uuid[]) and run_id = any(%(run_ids)s::uuid[])
order by tenant_id, run_id
for no key update;

-- name: take_run
-- The conductor passes over a run that somebody moves just now: it looks again.
select tenant_id, run_id, workflow, version, root_run_id, generation, rerun_of, rerun_nodes, nesting, priority,
       lease_token, started_at, deadline_at, halt, ordinary, leaves, finals, live, look_at, ended_at
from everwhen.workflow_runs
where tenant_id = %(tenant_id)s and run_id = %(run_id)s
for no key update skip locked;

-- name: get_run
select tenant_id, run_id, workflow, version, root_run_id, generation, rerun_of, rerun_nodes, nesting, priority,
       lease_token, started_at, deadline_at, halt, ordinary, leaves, finals, live, look_at, ended_at
from everwhen.workflow_runs
where tenant_id = %(tenant_id)s and run_id = %(run_id)s;

-- name: list_generations
-- A run and everything that it was run again as, in order.
select tenant_id, run_id, workflow, version, root_run_id, generation, rerun_of, rerun_nodes, nesting, priority,
       lease_token, started_at, deadline_at, halt, ordinary, leaves, finals, live, look_at, ended_at
from everwhen.workflow_runs
where tenant_id = %(tenant_id)s and root_run_id = %(root_run_id)s
order by generation
limit %(limit)s;

-- name: read_steering
-- The results that steer what follows: of branches all, of the others those that say that they skip themselves.
select a.run_id, a.result
from unnest(%(run_ids)s::uuid[], %(are_branches)s::boolean[]) as e (run_id, is_branch)
cross join lateral (
  select a.run_id, a.result::text as result
  from everwhen.attempts a
  where a.tenant_id = %(tenant_id)s and a.run_id = e.run_id and a.outcome = 'succeeded'
    and (e.is_branch or (jsonb_typeof(a.result) = 'object' and a.result ? '$skip'))
  offset 0) a;

-- name: read_results
select a.run_id, a.result
from unnest(%(run_ids)s::uuid[]) as e (run_id)
cross join lateral (
  select a.run_id, a.result::text as result
  from everwhen.attempts a
  where a.tenant_id = %(tenant_id)s and a.run_id = e.run_id and a.outcome = 'succeeded'
  offset 0) a;

-- name: read_instance_results
-- The results of fan-outs, instance by instance. Those of one fan-out that are more together than anybody may ask for are
-- left out: `is_cut` says so.
select i.node, i.instance, i.state, case when i.total <= %(most_bytes)s then i.result end as result,
       i.total > %(most_bytes)s as is_cut
from (
  select n.node, n.instance, n.state, r.result, sum(octet_length(r.result)) over (partition by n.node) as total
  from unnest(%(nodes)s::text[]) as f (node)
  cross join lateral (
    select n.node, n.instance, n.state, coalesce(n.node_run_id, n.kept_run_id) as result_run_id
    from everwhen.workflow_nodes n
    where n.tenant_id = %(tenant_id)s and n.run_id = %(run_id)s and n.node = f.node and n.instance >= 0
    offset 0) n
  left join lateral (
    select a.result::text as result
    from everwhen.attempts a
    where a.tenant_id = %(tenant_id)s and a.run_id = n.result_run_id and a.outcome = 'succeeded'
    offset 0) r on true) i
order by i.node, i.instance;

-- name: read_facts
-- What templates may say about the run.
select (select t.name from everwhen.tenants t where t.id = r.tenant_id) as tenant,
       (select s.name from everwhen.schedules s where s.tenant_id = r.tenant_id and s.uid = r.schedule_uid) as schedule,
       r.nominal_at, r.due_at, r.input::text as input
from everwhen.runs r
where r.tenant_id = %(tenant_id)s and r.run_id = %(run_id)s;

-- name: read_nodes
select n.node, n.instance, n.state, n.tally, n.node_run_id, n.kept_run_id, n.taken, n.reason, n.detail, n.is_held,
       n.concurrency_key, n.item, n.instances, n.instances_released, n.instances_ended, n.decided_at, n.ended_at
from unnest(%(nodes)s::text[], %(instances)s::int[]) as wanted (node, instance)
cross join lateral (
  select n.node, n.instance, n.state, n.tally, n.node_run_id, n.kept_run_id, n.taken, n.reason,
         n.detail::text as detail, n.is_held, n.concurrency_key, n.item::text as item, n.instances,
         n.instances_released, n.instances_ended, n.decided_at, n.ended_at
  from everwhen.workflow_nodes n
  where n.tenant_id = %(tenant_id)s and n.run_id = %(run_id)s and n.node = wanted.node
    and n.instance = wanted.instance
  offset 0) n;

-- name: read_all_nodes
-- Every node's own row: once when a run halts or is run again, and for people.
select node, instance, state, tally, node_run_id, kept_run_id, taken, reason, detail::text as detail, is_held,
       concurrency_key, item::text as item, instances, instances_released, instances_ended, decided_at, ended_at
from everwhen.workflow_nodes
where tenant_id = %(tenant_id)s and run_id = %(run_id)s and instance = -1;

-- name: list_instances
-- A page of a fan-out's instances.
select node, instance, state, tally, node_run_id, kept_run_id, taken, reason, detail::text as detail, is_held,
       concurrency_key, item::text as item, instances, instances_released, instances_ended, decided_at, ended_at
from everwhen.workflow_nodes
where tenant_id = %(tenant_id)s and run_id = %(run_id)s and node = %(node)s and instance > %(after)s and instance >= 0
order by instance
limit %(limit)s;

-- name: read_held
-- What may run and waits for room, in order; but none of these nodes' instances.
select node, instance, state, tally, node_run_id, kept_run_id, taken, reason, detail::text as detail, is_held,
       concurrency_key, item::text as item, instances, instances_released, instances_ended, decided_at, ended_at
from everwhen.workflow_nodes
where tenant_id = %(tenant_id)s and run_id = %(run_id)s and is_held and concurrency_key is null
  and node <> all(%(full_nodes)s::text[])
order by node, instance
limit %(limit)s;

-- name: read_all_held
-- Everything of a run that was let run and has not been released: what a halt ends.
select node, instance, state, tally, node_run_id, kept_run_id, taken, reason, detail::text as detail, is_held,
       concurrency_key, item::text as item, instances, instances_released, instances_ended, decided_at, ended_at
from everwhen.workflow_nodes
where tenant_id = %(tenant_id)s and run_id = %(run_id)s and is_held
order by node, instance;

-- name: count_instances
select state, count(*) as count
from everwhen.workflow_nodes
where tenant_id = %(tenant_id)s and run_id = %(run_id)s and node = %(node)s and instance >= 0
group by state;

-- name: insert_nodes
insert into everwhen.workflow_nodes
  (tenant_id, run_id, node, instance, state, tally, node_run_id, kept_run_id, taken, reason, detail, is_held,
   concurrency_key, item, instances, instances_released, instances_ended, decided_at, ended_at)
select %(tenant_id)s, %(run_id)s, n.node, n.instance, n.state, n.tally::int[], n.node_run_id, n.kept_run_id,
       n.taken::text[], n.reason, n.detail::jsonb, n.is_held, n.concurrency_key, n.item::jsonb, n.instances,
       n.instances_released, n.instances_ended, n.decided_at, n.ended_at
from unnest(%(nodes)s::text[], %(instances)s::int[], %(states)s::text[], %(tallies)s::text[], %(node_run_ids)s::uuid[],
            %(kept_run_ids)s::uuid[], %(takens)s::text[], %(reasons)s::text[], %(details)s::text[],
            %(are_held)s::boolean[], %(concurrency_keys)s::text[], %(items)s::text[], %(instance_counts)s::int[],
            %(released_counts)s::int[], %(ended_counts)s::int[], %(decided_ats)s::timestamptz[],
            %(ended_ats)s::timestamptz[])
       as n (node, instance, state, tally, node_run_id, kept_run_id, taken, reason, detail, is_held, concurrency_key,
             item, instances, instances_released, instances_ended, decided_at, ended_at);

-- name: update_nodes
with place as materialized (
  select f.place, n.*
  from unnest(%(nodes)s::text[], %(instances)s::int[], %(states)s::text[], %(tallies)s::text[],
              %(node_run_ids)s::uuid[], %(takens)s::text[], %(reasons)s::text[], %(details)s::text[],
              %(are_held)s::boolean[], %(concurrency_keys)s::text[], %(instance_counts)s::int[],
              %(released_counts)s::int[], %(ended_counts)s::int[], %(decided_ats)s::timestamptz[],
              %(ended_ats)s::timestamptz[])
         as n (node, instance, state, tally, node_run_id, taken, reason, detail, is_held, concurrency_key, instances,
               instances_released, instances_ended, decided_at, ended_at)
  cross join lateral (
    select f.ctid as place
    from everwhen.workflow_nodes f
    where f.tenant_id = %(tenant_id)s and f.run_id = %(run_id)s and f.node = n.node and f.instance = n.instance
    offset 0) f
)
update everwhen.workflow_nodes n
set state = p.state, tally = p.tally::int[], node_run_id = p.node_run_id, taken = p.taken::text[], reason = p.reason,
    detail = p.detail::jsonb, is_held = p.is_held, concurrency_key = p.concurrency_key, instances = p.instances,
    instances_released = p.instances_released, instances_ended = p.instances_ended, decided_at = p.decided_at,
    ended_at = p.ended_at
from place p
where n.ctid = p.place;

-- name: release_nodes
-- The runs that nodes are released as: the intention, the place in the line, and the event. A second release of a node
-- would have the same id, and break the transaction on the primary key.
with released as (
  select i.*, t.task_queue, t.task_priority,
         %(now)s::timestamptz + make_interval(secs => least(
           coalesce(i.start_deadline, t.start_deadline_seconds),
           coalesce((i.policy::jsonb ->> 'total_deadline_seconds')::float8, t.total_deadline_seconds))) as expires_at
  from unnest(%(run_ids)s::uuid[], %(tasks)s::text[], %(inputs)s::text[], %(queues)s::text[], %(priorities)s::int[],
              %(start_deadlines)s::float8[], %(policies)s::text[], %(details)s::text[])
         as i (run_id, task, input, queue, priority, start_deadline, policy, detail)
  cross join lateral (
    select t.queue as task_queue, t.priority as task_priority, t.start_deadline_seconds, t.total_deadline_seconds
    from everwhen.tasks t
    where t.tenant_id = %(tenant_id)s and t.name = i.task
    offset 0) t
), planned as (
  insert into everwhen.runs
    (tenant_id, run_id, source, task, queue, priority, due_at, planned_at, expires_at, input, origin_run_id)
  select %(tenant_id)s, run_id, 'workflow', task, coalesce(queue, task_queue), coalesce(priority, task_priority),
         %(now)s, %(now)s, expires_at, input::jsonb, %(workflow_run_id)s
  from released
), lined_up as (
  insert into everwhen.waiting
    (tenant_id, queue, priority, available_at, run_id, task, expires_at, is_followed, policy)
  select %(tenant_id)s, coalesce(queue, task_queue), coalesce(priority, task_priority), %(now)s, run_id, task,
         expires_at, true, policy::jsonb
  from released
), logged as (
  insert into everwhen.events (tenant_id, run_id, at, kind, detail)
  select %(tenant_id)s, run_id, %(now)s, 'planned', detail::jsonb from released
)
select run_id, coalesce(queue, task_queue) as queue from released;

-- name: insert_run
-- A run of a workflow, when it starts; of a rerun, when somebody asks for it.
insert into everwhen.workflow_runs
  (tenant_id, run_id, workflow, version, root_run_id, generation, rerun_of, rerun_nodes, nesting, priority, lease_token,
   started_at, deadline_at)
values
  (%(tenant_id)s, %(run_id)s, %(workflow)s, %(version)s, %(root_run_id)s, %(generation)s, %(rerun_of)s,
   %(rerun_nodes)s, %(nesting)s, %(priority)s, %(lease_token)s, %(started_at)s, %(deadline_at)s)
on conflict do nothing;

-- name: start_run
-- A rerun that starts.
update everwhen.workflow_runs
set lease_token = %(lease_token)s, started_at = %(now)s, deadline_at = %(deadline_at)s, priority = %(priority)s
where tenant_id = %(tenant_id)s and run_id = %(run_id)s and started_at is null;

-- name: save_run
update everwhen.workflow_runs
set halt = %(halt)s, ordinary = %(ordinary)s::int[], leaves = %(leaves)s::int[], finals = %(finals)s::int[],
    live = %(live)s, look_at = %(look_at)s, ended_at = %(ended_at)s
where tenant_id = %(tenant_id)s and run_id = %(run_id)s;

-- name: put_off
-- A run that cannot be written back, whatever is wrong with it: out of the conductor's way for a while.
update everwhen.workflow_runs
set look_at = %(until)s
where tenant_id = %(tenant_id)s and run_id = %(run_id)s;

-- name: keep_instances
-- The instances of fan-outs whose ends a rerun keeps.
insert into everwhen.workflow_nodes
  (tenant_id, run_id, node, instance, state, kept_run_id, reason, detail, item, decided_at, ended_at)
select n.tenant_id, %(run_id)s, n.node, n.instance, n.state, coalesce(n.node_run_id, n.kept_run_id), n.reason, n.detail,
       n.item, n.decided_at, n.ended_at
from everwhen.workflow_nodes n
where n.tenant_id = %(tenant_id)s and n.run_id = %(rerun_of)s and n.node = any(%(nodes)s::text[]) and n.instance >= 0;

-- name: insert_rerun
-- The next generation, in the line.
with planned as (
  insert into everwhen.runs
    (tenant_id, run_id, source, task, queue, priority, due_at, planned_at, input, origin_run_id, schedule_uid,
     schedule_revision)
  select r.tenant_id, %(run_id)s, 'rerun', r.task, r.queue, r.priority, %(now)s, %(now)s, r.input, r.run_id, null, null
  from everwhen.runs r
  where r.tenant_id = %(tenant_id)s and r.run_id = %(rerun_of)s
  returning tenant_id, run_id, queue, priority, task
), lined_up as (
  insert into everwhen.waiting (tenant_id, queue, priority, available_at, run_id, task)
  select tenant_id, queue, priority, %(now)s, run_id, task from planned
)
insert into everwhen.events (tenant_id, run_id, at, kind, detail)
select tenant_id, run_id, %(now)s, 'planned', %(detail)s::jsonb from planned;

-- name: read_starting
-- What the conductor needs to know of runs that it has claimed.
select s.tenant_id, s.run_id, s.source, s.priority, s.parent_nesting, s.parent_priority, s.has_row
from unnest(%(tenant_ids)s::uuid[], %(run_ids)s::uuid[]) as c (tenant_id, run_id)
cross join lateral (
  select r.tenant_id, r.run_id, r.source, r.priority,
         (select p.nesting from everwhen.workflow_runs p
          where p.tenant_id = r.tenant_id and p.run_id = r.origin_run_id and r.source = 'workflow') as parent_nesting,
         (select p.priority from everwhen.workflow_runs p
          where p.tenant_id = r.tenant_id and p.run_id = r.origin_run_id and r.source = 'workflow') as parent_priority,
         exists (select from everwhen.workflow_runs o where o.tenant_id = r.tenant_id and o.run_id = r.run_id) as has_row
  from everwhen.runs r
  where r.tenant_id = c.tenant_id and r.run_id = c.run_id
  offset 0) s;

-- name: find_due
-- Whether a workflow's run waits to be started: asked before any line is locked.
select exists (
  select from everwhen.waiting where queue = 'everwhen:workflows' and available_at <= %(now)s) as is_due;

-- name: next_due
-- When the next one becomes due.
select min(available_at) as next_at
from everwhen.waiting
where queue = 'everwhen:workflows' and available_at > %(now)s;

-- name: find_looks
-- The runs that want to be looked at.
select tenant_id, run_id
from everwhen.workflow_runs
where look_at <= %(now)s
order by look_at
limit %(limit)s;

-- name: next_look
select min(look_at) as next_at from everwhen.workflow_runs where look_at > %(now)s;

-- name: find_cancelled
-- Runs that somebody has asked to stop and that are not halted for it, wherever the wish came from. The second condition
-- reads the index of cancelled workflows: those that stop already are few.
select l.tenant_id, l.run_id
from everwhen.leases l
where l.queue = 'everwhen:workflows' and l.cancel_requested_at is not null
  and exists (
    select from everwhen.workflow_runs r
    where r.tenant_id = l.tenant_id and r.run_id = l.run_id and r.ended_at is null
      and (r.halt is null or r.halt = 'fail_fast'))
limit %(limit)s;

-- name: is_cancel_requested
select exists (
  select from everwhen.leases
  where tenant_id = %(tenant_id)s and run_id = %(run_id)s and cancel_requested_at is not null) as is_requested;

-- name: list_live_nodes
-- The node runs of a run that have not ended.
select node, node_run_id
from everwhen.workflow_nodes
where tenant_id = %(tenant_id)s and run_id = %(run_id)s and node_run_id is not null and ended_at is null
limit %(limit)s;

-- name: stop_waiting
-- End those of these runs that are in the line and that nobody takes just now.
with taken as materialized (
  select w.place
  from unnest(%(run_ids)s::uuid[]) as i (run_id)
  cross join lateral (
    select w.ctid as place
    from everwhen.waiting w
    where w.tenant_id = %(tenant_id)s and w.run_id = i.run_id
    for update skip locked) w
), gone as (
  delete from everwhen.waiting w using taken where w.ctid = taken.place
  returning w.tenant_id, w.run_id, w.attempts, w.is_followed
), ended as (
  insert into everwhen.run_ends (tenant_id, run_id, state, reason, attempts, finished_at)
  select tenant_id, run_id, 'cancelled', %(reason)s, attempts, %(now)s from gone
), logged as (
  insert into everwhen.events (tenant_id, run_id, at, kind, reason)
  select tenant_id, run_id, %(now)s, 'cancelled', %(reason)s from gone
)
select run_id from gone order by run_id;

-- name: stop_running
-- Ask the holders of those of these runs that are held to stop, once; passed over is whoever reports just now.
with held as materialized (
  select l.place
  from unnest(%(run_ids)s::uuid[]) as i (run_id)
  cross join lateral (
    select l.ctid as place
    from everwhen.leases l
    where l.tenant_id = %(tenant_id)s and l.run_id = i.run_id and l.cancel_requested_at is null
    for no key update skip locked) l
), asked as (
  update everwhen.leases l
  set cancel_requested_at = %(now)s
  from held
  where l.ctid = held.place
  returning l.tenant_id, l.run_id, l.attempt
)
insert into everwhen.events (tenant_id, run_id, at, kind, attempt, reason)
select tenant_id, run_id, %(now)s, 'cancel_requested', attempt, %(reason)s from asked;

-- name: is_replaced
-- Whether a later run takes the place of this one, or of the one that it is inside of, by a policy that waits for nobody.
with recursive around as (
  select %(tenant_id)s::uuid as tenant_id, %(run_id)s::uuid as run_id, 0 as height
  union all
  select r.tenant_id, r.origin_run_id, a.height + 1
  from around a
  cross join lateral (
    select r.tenant_id, r.origin_run_id from everwhen.runs r
    where r.tenant_id = a.tenant_id and r.run_id = a.run_id and r.source = 'workflow'
    offset 0) r
  where a.height < 10
)
select exists (
  select from around o
  cross join lateral (
    select a.schedule_uid from everwhen.admitted a
    where a.tenant_id = o.tenant_id and a.run_id = o.run_id and a.stop_asked_at is not null
    offset 0) a
  join everwhen.gates g on g.tenant_id = o.tenant_id and g.schedule_uid = a.schedule_uid
  where g.policy = 'terminate_other') as is_replaced;

-- name: lock_held_nodes
-- The leases of those of these runs that workers hold. Never waits: one that is locked is being reported on, or beats.
select l.run_id, l.lease_token, l.failures, l.claimed_at
from unnest(%(run_ids)s::uuid[]) as i (run_id)
cross join lateral (
  select l.run_id, l.lease_token, l.failures, l.claimed_at
  from everwhen.leases l
  where l.tenant_id = %(tenant_id)s and l.run_id = i.run_id and l.queue <> 'everwhen:workflows'
  for no key update skip locked) l
order by l.run_id;

-- name: find_keyed
-- Nodes that wait for a concurrency key which nobody has, the one that waits longest first.
select k.tenant_id, k.run_id, k.node, k.instance, k.concurrency_key
from (
  select distinct on (n.tenant_id, n.concurrency_key)
         n.tenant_id, n.run_id, n.node, n.instance, n.concurrency_key, n.decided_at
  from everwhen.workflow_nodes n
  where n.is_held and n.concurrency_key is not null
    and not exists (
      select from everwhen.workflow_keys k where k.tenant_id = n.tenant_id and k.key = n.concurrency_key)
  order by n.tenant_id, n.concurrency_key, n.decided_at) k
order by k.decided_at
limit %(limit)s;

-- name: take_key
-- Zero rows: somebody has it.
insert into everwhen.workflow_keys (tenant_id, key, node_run_id)
values (%(tenant_id)s, %(key)s, %(node_run_id)s)
on conflict do nothing;

-- name: free_keys
delete from everwhen.workflow_keys
where tenant_id = any(%(tenant_ids)s::uuid[]) and node_run_id = any(%(node_run_ids)s::uuid[]);

-- name: list_live_states
-- Where the node runs are that have not ended: with a worker, in the line, or resting after a failure.
select n.node, n.instance, n.node_run_id, l.worker, l.attempt, l.claimed_at, w.available_at, w.failures,
       coalesce(l.queue, w.queue) as queue
from everwhen.workflow_nodes n
left join lateral (
  select l.worker, l.attempt, l.claimed_at, l.queue
  from everwhen.leases l where l.tenant_id = n.tenant_id and l.run_id = n.node_run_id offset 0) l on true
left join lateral (
  select w.available_at, w.failures, w.queue
  from everwhen.waiting w where w.tenant_id = n.tenant_id and w.run_id = n.node_run_id offset 0) w on true
where n.tenant_id = %(tenant_id)s and n.run_id = %(run_id)s and n.node_run_id is not null and n.ended_at is null
limit %(limit)s;

-- name: read_pasts
-- How long each node took in the latest runs of the workflow, from its release to its end: what ended well only.
select n.node, percentile_cont(0.5) within group (order by n.seconds) as median,
       percentile_cont(0.9) within group (order by n.seconds) as p90
from (
  select r.run_id
  from everwhen.workflow_runs r
  where r.tenant_id = %(tenant_id)s and r.workflow = %(workflow)s and r.ended_at is not null
  order by r.ended_at desc
  limit %(limit)s) r
cross join lateral (
  select n.node, extract(epoch from n.ended_at - n.decided_at)::float8 as seconds
  from everwhen.workflow_nodes n
  where n.tenant_id = %(tenant_id)s and n.run_id = r.run_id and n.instance = -1 and n.state = 'succeeded'
    and n.kept_run_id is null
  offset 0) n
group by n.node;

-- name: count_fan_outs
-- How the instances of a run's fan-outs stand.
select node, state, is_held, count(*) as count
from everwhen.workflow_nodes
where tenant_id = %(tenant_id)s and run_id = %(run_id)s and instance >= 0
group by node, state, is_held;
