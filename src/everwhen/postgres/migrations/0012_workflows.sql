-- Workflows: definitions in versions, the runs of them, and the nodes of each run.

-- A workflow is a task that the conductor performs: `workflow:` and its name, at a queue that no worker may claim from.
-- So whatever can be done with a task's runs (schedule, catch up, backfill, cancel, explain) can be done with its runs.
alter table everwhen.tasks drop constraint tasks_name_check;
alter table everwhen.tasks add constraint tasks_name_check check (length(name) between 1 and 220);

-- What a workflow's node wants otherwise than its task: {"retry": {…}, "timeout_seconds": 5}. Null for every other run.
alter table everwhen.waiting add column policy jsonb;
alter table everwhen.leases add column policy jsonb;

create index waiting_workflows on everwhen.waiting (available_at) where queue = 'everwhen:workflows';
create index leases_cancelled_workflows on everwhen.leases (tenant_id, run_id)
  where queue = 'everwhen:workflows' and cancel_requested_at is not null;

create table everwhen.workflows (
  tenant_id  uuid not null references everwhen.tenants (id),
  name       text not null check (length(name) between 1 and 200),
  version    integer not null check (version > 0), -- the latest
  created_at timestamptz not null,
  updated_at timestamptz not null,
  primary key (tenant_id, name)
);

create table everwhen.workflow_versions (
  tenant_id  uuid not null,
  workflow   text not null,
  version    integer not null,
  definition jsonb not null,
  changed_by text not null,
  reason     text,
  changed_at timestamptz not null,
  primary key (tenant_id, workflow, version),
  foreign key (tenant_id, workflow) references everwhen.workflows (tenant_id, name)
);

-- What a run of a workflow knows besides its row in runs. The counts are arrays of five: how many succeeded, failed, were
-- skipped, could not run because of a failure, and of the skipped how many were not taken by a branch.
create table everwhen.workflow_runs (
  tenant_id    uuid not null,
  run_id       uuid not null,
  workflow     text not null,
  version      integer not null, -- the one that it keeps
  root_run_id  uuid not null, -- the first generation's run: a rerun is a run of its own, in the same family
  generation   smallint not null check (generation > 0),
  rerun_of     uuid, -- the generation before
  rerun_nodes  text[], -- from which nodes it begins again
  nesting      smallint not null, -- how many workflows' runs it is inside of
  priority     smallint, -- its nodes', where they have none of their own; null: their tasks'
  lease_token  bigint, -- with which the conductor holds the run; null until it has started
  started_at   timestamptz,
  deadline_at  timestamptz,
  halt         text check (halt in ('fail_fast', 'cancel', 'deadline')),
  ordinary     integer[] not null default '{0,0,0,0,0}', -- how its ordinary nodes ended
  leaves       integer[] not null default '{0,0,0,0,0}',
  finals       integer[] not null default '{0,0,0,0,0}',
  live         integer not null default 0, -- node runs that have not ended
  look_at      timestamptz, -- when the conductor has to look: to halt it, to stop what runs, to end it
  ended_at     timestamptz,
  primary key (tenant_id, run_id),
  unique (tenant_id, root_run_id, generation),
  foreign key (tenant_id, workflow, version) references everwhen.workflow_versions (tenant_id, workflow, version)
);
create index workflow_runs_look on everwhen.workflow_runs (look_at) where look_at is not null;

-- The nodes of a run, and under a fan-out its instances (instance >= 0). Until a node is released it has no run.
create table everwhen.workflow_nodes (
  tenant_id       uuid not null,
  run_id          uuid not null, -- the workflow's run
  node            text not null,
  instance        integer not null default -1,
  state           text not null, -- of a released node `waiting`, until its run has ended
  tally           integer[] not null default '{0,0,0,0,0}', -- how its upstreams ended
  node_run_id     uuid, -- the run that it was released as
  kept_run_id     uuid, -- the run of an earlier generation whose end it keeps
  taken           text[], -- the downstream nodes that its result chose; null: all
  reason          text,
  detail          jsonb,
  is_held         boolean not null default false, -- it may run, and waits for room or for its key
  concurrency_key text,
  item            jsonb, -- of an instance
  instances       integer, -- of a fan-out: how many
  instances_released integer not null default 0,
  instances_ended integer not null default 0,
  decided_at      timestamptz, -- when it was released, or found not to run
  ended_at        timestamptz,
  primary key (tenant_id, run_id, node, instance),
  foreign key (tenant_id, run_id) references everwhen.workflow_runs (tenant_id, run_id)
);
create unique index workflow_nodes_run on everwhen.workflow_nodes (tenant_id, node_run_id) where node_run_id is not null;
create index workflow_nodes_held on everwhen.workflow_nodes (tenant_id, run_id, node, instance) where is_held;
create index workflow_nodes_keyed on everwhen.workflow_nodes (tenant_id, concurrency_key, decided_at)
  where is_held and concurrency_key is not null;

-- Who has a concurrency key: at most one node's run of a tenant at a time.
create table everwhen.workflow_keys (
  tenant_id   uuid not null references everwhen.tenants (id),
  key         text not null,
  node_run_id uuid not null,
  primary key (tenant_id, key)
);
create unique index workflow_keys_run on everwhen.workflow_keys (tenant_id, node_run_id);

do $$
declare t text;
begin
  foreach t in array array['workflows', 'workflow_versions', 'workflow_runs', 'workflow_nodes', 'workflow_keys'] loop
    execute format('alter table everwhen.%I enable row level security, force row level security', t);
    execute format('create policy own_rows on everwhen.%I to everwhen_tenant
                    using (tenant_id = everwhen.current_tenant()) with check (tenant_id = everwhen.current_tenant())', t);
    execute format('create policy all_tenants on everwhen.%I to everwhen_system using (true) with check (true)', t);
  end loop;
end $$;
grant select, insert, update on everwhen.workflows to everwhen_tenant, everwhen_system;
grant select, insert on everwhen.workflow_versions to everwhen_tenant, everwhen_system;
grant select, insert, update on everwhen.workflow_runs, everwhen.workflow_nodes to everwhen_tenant, everwhen_system;
grant select, insert, delete on everwhen.workflow_keys to everwhen_tenant, everwhen_system;
