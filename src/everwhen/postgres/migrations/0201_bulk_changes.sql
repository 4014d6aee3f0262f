-- Bulk changes of schedules, tasks and workflows: an item may be one of them, by its name, and a schedule's uid.
alter table everwhen.operation_items
  add column name text,
  add column uid uuid,
  add column detail text, -- what refused it, as a code
  drop constraint operation_items_check,
  add constraint operation_items_check check (num_nonnulls(run_id, nominal_at, name) = 1);

alter table everwhen.operations
  drop constraint operations_kind_check,
  add constraint operations_kind_check check (kind in (
    'redrive', 'backfill', 'cancel_runs', 'pause_schedules', 'resume_schedules', 'tag_schedules', 'untag_schedules',
    'delete_schedules', 'tag_tasks', 'untag_tasks', 'tag_workflows', 'untag_workflows'));
