-- The latest ended runs of a workflow: how long its nodes took is what a run's end is estimated from.
create index workflow_runs_past on everwhen.workflow_runs (tenant_id, workflow, ended_at) where ended_at is not null;
