-- Tasks and workflows can be deleted: their names are free again, and what has run keeps them. The row stays, since runs
-- that were accepted at the last moment, and dead ones that are run anew, follow its policies.
alter table everwhen.tasks add column deleted_at timestamptz;
alter table everwhen.workflows add column deleted_at timestamptz;

-- What lists and owners walk along holds nothing of what was deleted.
drop index everwhen.tasks_listed;
create index tasks_listed on everwhen.tasks (tenant_id, name)
  where queue <> 'everwhen:workflows' and deleted_at is null;
drop index everwhen.tasks_by_owner;
create index tasks_by_owner on everwhen.tasks (tenant_id, owner, name) where deleted_at is null;
drop index everwhen.workflows_by_owner;
create index workflows_by_owner on everwhen.workflows (tenant_id, owner, name) where deleted_at is null;
create index workflows_listed on everwhen.workflows (tenant_id, name) where deleted_at is null;

-- Which schedules a task, or a workflow, is the target of.
create index schedules_target on everwhen.schedules (tenant_id, task, name) where state <> 'deleted';
