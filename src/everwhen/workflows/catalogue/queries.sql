-- The definitions of workflows, by name and version, and what registers them among the tasks.

-- name: insert_workflow
-- A deleted one comes back under its name, and its versions go on counting; zero rows mean that the name is taken.
insert into everwhen.workflows as w (tenant_id, name, version, tags, owner, created_at, updated_at)
values (%(tenant_id)s, %(name)s, 1, %(tags)s, %(owner)s, %(now)s, %(now)s)
on conflict (tenant_id, name) do update
set version = w.version + 1, tags = excluded.tags, owner = excluded.owner, created_at = excluded.created_at,
    updated_at = excluded.updated_at, deleted_at = null
where w.deleted_at is not null
returning version;

-- name: delete_workflow
-- Zero rows: it is another version than the caller means, or there is none. Its versions stay: runs have them.
update everwhen.workflows
set deleted_at = %(now)s, updated_at = %(now)s
where tenant_id = %(tenant_id)s and name = %(name)s and deleted_at is null
  and (%(among)s::int[] is null or version = any(%(among)s::int[]));

-- name: withdraw_task
-- What stands for a workflow that is deleted is deleted, too.
update everwhen.tasks
set deleted_at = %(now)s, updated_at = %(now)s
where tenant_id = %(tenant_id)s and name = %(task)s and deleted_at is null;

-- name: count_workflows
select count(*) as workflows from everwhen.workflows where tenant_id = %(tenant_id)s and deleted_at is null;

-- name: next_version
-- Zero rows: it is another version than the caller means.
update everwhen.workflows
set version = version + 1, tags = %(tags)s, owner = case when %(has_owner)s then %(owner)s else owner end,
    updated_at = %(now)s
where tenant_id = %(tenant_id)s and name = %(name)s and deleted_at is null
  and (%(among)s::int[] is null or version = any(%(among)s::int[]))
returning version;

-- name: insert_version
insert into everwhen.workflow_versions (tenant_id, workflow, version, definition, changed_by, reason, changed_at)
select w.tenant_id, w.name, %(version)s, %(definition)s::jsonb, %(changed_by)s, %(reason)s, %(now)s
from everwhen.workflows w
where w.tenant_id = %(tenant_id)s and w.name = %(workflow)s;

-- name: register_task
-- The workflow among the tasks: see core/targets.py.
insert into everwhen.tasks (tenant_id, name, queue, priority, retry, created_at, updated_at)
values (%(tenant_id)s, %(task)s, %(queue)s, 5, %(retry)s::jsonb, %(now)s, %(now)s)
on conflict (tenant_id, name) do update
set deleted_at = null, revision = tasks.revision + 1, created_at = excluded.created_at, updated_at = excluded.updated_at
where tasks.deleted_at is not null;

-- name: open_line
insert into everwhen.lanes (tenant_id, queue)
values (%(tenant_id)s, %(queue)s)
on conflict (tenant_id, queue) do nothing;

-- name: open_lines
-- The queues that nodes name instead of their tasks'.
insert into everwhen.lanes (tenant_id, queue)
select %(tenant_id)s, q.queue from unnest(%(queues)s::text[]) as q (queue)
on conflict (tenant_id, queue) do nothing;

-- name: read_tasks
-- The tasks, and workflows, of these names, with what a node's own retry policy is merged into.
select t.name, t.retry
from unnest(%(names)s::text[]) as n (name)
cross join lateral (
  select t.name, t.retry::text as retry
  from everwhen.tasks t
  where t.tenant_id = %(tenant_id)s and t.name = n.name and t.deleted_at is null
  offset 0) t;

-- name: lock_workflow
-- Two changes at once write one version after the other.
select w.name, w.version, w.owner, v.definition::text as definition, v.changed_by, v.reason, w.created_at, w.updated_at
from everwhen.workflows w
cross join lateral (
  select v.definition, v.changed_by, v.reason
  from everwhen.workflow_versions v
  where v.tenant_id = w.tenant_id and v.workflow = w.name and v.version = w.version
  offset 0) v
where w.tenant_id = %(tenant_id)s and w.name = %(name)s and w.deleted_at is null
for no key update of w;

-- name: get_workflow
select w.name, w.version, w.owner, v.definition::text as definition, v.changed_by, v.reason, w.created_at, w.updated_at
from everwhen.workflows w
cross join lateral (
  select v.definition, v.changed_by, v.reason
  from everwhen.workflow_versions v
  where v.tenant_id = w.tenant_id and v.workflow = w.name and v.version = w.version
  offset 0) v
where w.tenant_id = %(tenant_id)s and w.name = %(name)s and w.deleted_at is null;

-- name: list_workflows
select name, version, tags, owner, created_at, updated_at
from everwhen.workflows
where tenant_id = %(tenant_id)s and name > %(after)s and deleted_at is null
order by name
limit %(limit)s;

-- name: list_workflows_tagged
-- The same of those with a tag, along its key.
select w.*
from (
  select t.name from everwhen.tagged t
  where t.tenant_id = %(tenant_id)s and t.kind = 'workflow' and t.tag = %(tag)s and t.name > %(after)s
  order by t.name
  limit %(limit)s) n
cross join lateral (
  select name, version, tags, owner, created_at, updated_at from everwhen.workflows w
  where w.tenant_id = %(tenant_id)s and w.name = n.name and w.deleted_at is null
  offset 0) w
order by w.name;

-- name: list_declared
-- With their definitions.
select w.name, w.version, w.owner, v.definition::text as definition, v.changed_by, v.reason, w.created_at, w.updated_at
from everwhen.workflows w
cross join lateral (
  select v.definition, v.changed_by, v.reason
  from everwhen.workflow_versions v
  where v.tenant_id = w.tenant_id and v.workflow = w.name and v.version = w.version
  offset 0) v
where w.tenant_id = %(tenant_id)s and w.name > %(after)s and w.deleted_at is null
order by w.name
limit %(limit)s;

-- name: list_declared_of_owner
select w.name, w.version, w.owner, v.definition::text as definition, v.changed_by, v.reason, w.created_at, w.updated_at
from everwhen.workflows w
cross join lateral (
  select v.definition, v.changed_by, v.reason
  from everwhen.workflow_versions v
  where v.tenant_id = w.tenant_id and v.workflow = w.name and v.version = w.version
  offset 0) v
where w.tenant_id = %(tenant_id)s and w.owner = %(owner)s and w.name > %(after)s and w.deleted_at is null
order by w.name
limit %(limit)s;

-- name: list_declared_named
select w.name, w.version, w.owner, v.definition::text as definition, v.changed_by, v.reason, w.created_at, w.updated_at
from unnest(%(names)s::text[]) n (name)
cross join lateral (
  select w.* from everwhen.workflows w
  where w.tenant_id = %(tenant_id)s and w.name = n.name and w.deleted_at is null offset 0) w
cross join lateral (
  select v.definition, v.changed_by, v.reason
  from everwhen.workflow_versions v
  where v.tenant_id = %(tenant_id)s and v.workflow = w.name and v.version = w.version
  offset 0) v
order by w.name;

-- name: list_versions
select version, changed_by, reason, changed_at
from everwhen.workflow_versions
where tenant_id = %(tenant_id)s and workflow = %(workflow)s and version > %(after)s
order by version
limit %(limit)s;

-- name: get_definition
select definition::text as definition
from everwhen.workflow_versions
where tenant_id = %(tenant_id)s and workflow = %(workflow)s and version = %(version)s;

-- name: latest_versions
-- What runs that start now will keep.
select l.tenant_id, l.workflow, l.version, l.definition
from unnest(%(tenant_ids)s::uuid[], %(workflows)s::text[]) as wanted (tenant_id, workflow)
cross join lateral (
  select w.tenant_id, w.name as workflow, w.version,
         (select v.definition::text from everwhen.workflow_versions v
          where v.tenant_id = w.tenant_id and v.workflow = w.name and v.version = w.version) as definition
  from everwhen.workflows w
  where w.tenant_id = wanted.tenant_id and w.name = wanted.workflow
  offset 0) l;
