-- Workflows' runs among all others, which are many more: what their list walks along.
create index runs_workflows on everwhen.runs (tenant_id, run_id) where queue = 'everwhen:workflows';
