-- What a task requires of its runs' workers: {labels: {…}, resources: {…}}. See core/capability.py.
alter table everwhen.tasks add column requires jsonb;
alter table everwhen.task_limits add column requires jsonb;
-- Some runs of the task are parked because they did not fit the worker that met them.
alter table everwhen.task_limits add column has_unfit boolean not null default false;
create index task_limits_unfit on everwhen.task_limits (tenant_id, task) where has_unfit;

-- Whether a worker with these labels, and so much of its resources free, may be given a run. The function `fits` of
-- core/capability.py says the same.
create function everwhen.fits(requires jsonb, labels jsonb, free jsonb) returns boolean language sql immutable parallel safe
begin atomic
  select coalesce(requires -> 'labels', '{}') <@ labels
    and not exists (
      select from jsonb_each(coalesce(requires -> 'resources', '{}')) as r (name, amount)
      where coalesce((free ->> r.name)::float8, 0) < (r.amount #>> '{}')::float8);
end;
