-- Who uses a task, or a workflow by the name under which it stands among the tasks. Whoever begins to use one holds its row
-- in key share mode until he has said so (a schedule's foreign key takes the same); whoever deletes it locks it for update,
-- waits for them, and looks in statements that come after.

-- name: share_targets
-- In the order of the key, as whoever takes several locks. What is not among the answers was deleted, or never there.
select name from everwhen.tasks
where tenant_id = %(tenant_id)s and name = any(%(names)s::text[]) and deleted_at is null
order by name
for key share;

-- name: lock_target
-- Before it is deleted: nobody begins to use it any more.
select name from everwhen.tasks
where tenant_id = %(tenant_id)s and name = %(name)s and deleted_at is null
for update;

-- name: list_schedules_of
select s.name from everwhen.schedules s
where s.tenant_id = %(tenant_id)s and s.task = %(name)s and s.state <> 'deleted'
order by s.name
limit %(limit)s;

-- name: list_workflows_of
-- Those whose latest version has it as a node. `node` is a part of a node that says so: see core/dag_json.py.
select w.name
from everwhen.workflows w
cross join lateral (
  select v.definition from everwhen.workflow_versions v
  where v.tenant_id = w.tenant_id and v.workflow = w.name and v.version = w.version
  offset 0) v
where w.tenant_id = %(tenant_id)s and w.deleted_at is null
  and v.definition @> jsonb_build_object('nodes', jsonb_build_array(%(node)s::jsonb))
order by w.name
limit %(limit)s;

-- name: list_running_workflows_of
-- Those with runs under way, by whatever version, that have it as a node: it may yet become due.
select distinct r.workflow
from (
  select distinct r.workflow, r.version
  from everwhen.leases l
  cross join lateral (
    select r.workflow, r.version from everwhen.workflow_runs r
    where r.tenant_id = l.tenant_id and r.run_id = l.run_id
    offset 0) r
  where l.tenant_id = %(tenant_id)s and l.queue = 'everwhen:workflows' and l.lease_token > 0) r
cross join lateral (
  select v.definition from everwhen.workflow_versions v
  where v.tenant_id = %(tenant_id)s and v.workflow = r.workflow and v.version = r.version
  offset 0) v
where v.definition @> jsonb_build_object('nodes', jsonb_build_array(%(node)s::jsonb))
order by r.workflow
limit %(limit)s;

-- name: count_runs_of
-- Runs that wait, are behind a gate, or run; up to so many. A line has no index by task, and is walked through: that is
-- what deleting something costs beside a long one.
select count(*) as runs from (
  (select from everwhen.leases l where l.tenant_id = %(tenant_id)s and l.task = %(name)s limit %(limit)s)
  union all
  (select from everwhen.waiting w where w.tenant_id = %(tenant_id)s and w.task = %(name)s limit %(limit)s)
  union all
  (select from everwhen.held h where h.tenant_id = %(tenant_id)s and h.task = %(name)s limit %(limit)s)
  limit %(limit)s) r;
