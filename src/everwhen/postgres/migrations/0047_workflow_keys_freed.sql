-- When a concurrency key was given back last: how long a node has waited for a key that nobody has.
create index workflow_nodes_freed on everwhen.workflow_nodes (tenant_id, concurrency_key, ended_at)
where concurrency_key is not null and ended_at is not null;
