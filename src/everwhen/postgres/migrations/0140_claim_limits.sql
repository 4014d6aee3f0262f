-- Exact limits at the claim: how many runs of a task, or of a key of its inputs, are in flight at once, and how many begin
-- in a stretch of time. See claim_limits/service.py.

-- What a task's owner says.
alter table everwhen.tasks add column max_in_flight integer check (max_in_flight >= 1);
alter table everwhen.tasks add column rate jsonb; -- {tokens, seconds, burst}
alter table everwhen.tasks add column concurrency jsonb; -- {key: [JSON pointer …], max_in_flight, rate}

-- The same as a claim reads it, one narrow row for each task that has a limit, and the row that is locked to count.
create table everwhen.task_limits (
  tenant_id         uuid not null references everwhen.tenants (id),
  task              text not null,
  queue             text not null,
  max_in_flight     integer,
  rate_tokens       integer,
  rate_seconds      double precision,
  rate_burst        integer,
  rate_full_at      timestamptz, -- when the bucket is full again; null: it is
  key_paths         jsonb, -- [[step, …], …] into the input
  key_max_in_flight integer,
  key_rate_tokens   integer,
  key_rate_seconds  double precision,
  key_rate_burst    integer,
  key_version       bigint not null, -- grows when other parts of the input make the key
  has_parked        boolean not null default false, -- some runs of the task are parked
  release_at        timestamptz, -- when the next token is there for one that waits for it
  adopts_until      timestamptz, -- until then leases may come to light that were claimed before the limit was set
  primary key (tenant_id, task)
) with (fillfactor = 50);
create index task_limits_parked on everwhen.task_limits (tenant_id, task) where has_parked;
create index task_limits_release on everwhen.task_limits (tenant_id, queue, release_at) where release_at is not null;

-- The buckets of keys that are not full.
create table everwhen.key_rates (
  tenant_id uuid not null references everwhen.tenants (id),
  task      text not null,
  limit_key text not null,
  full_at   timestamptz not null,
  primary key (tenant_id, task, limit_key)
) with (fillfactor = 50);
create index key_rates_full on everwhen.key_rates (full_at);

do $$
declare t text;
begin
  foreach t in array array['task_limits', 'key_rates'] loop
    execute format('alter table everwhen.%I enable row level security, force row level security', t);
    execute format('create policy own_rows on everwhen.%I to everwhen_tenant
                    using (tenant_id = (select everwhen.current_tenant())) with check (tenant_id = (select everwhen.current_tenant()))', t);
    execute format('create policy all_tenants on everwhen.%I to everwhen_system using (true) with check (true)', t);
  end loop;
end $$;
grant select, insert, update, delete on everwhen.task_limits, everwhen.key_rates to everwhen_tenant, everwhen_system;

-- A line in which runs of tasks with limits wait.
alter table everwhen.lanes add column is_limited boolean not null default false;

-- A parked run stays in `waiting`, below every priority: its own is p, and -1 - p stands there. So every walk along a line,
-- from 9 to 0, passes it over without touching it, and whatever looks a run up by its id finds it. `limit_group` says what
-- it was parked for (`parked …`), or to what it was let go again (`offered …`).
alter table everwhen.waiting add column limit_group text collate "C";
alter table everwhen.waiting drop constraint waiting_priority_check;
alter table everwhen.waiting add constraint waiting_priority_check check (priority between -10 and 9);
alter table everwhen.waiting add constraint waiting_parked_check
  check ((priority < 0) = (limit_group is not null and limit_group < 'parked!' and limit_group >= 'parked '));
create index waiting_limited on everwhen.waiting (tenant_id, task, limit_group, priority, available_at, run_id)
  where limit_group is not null;

-- What a lease counts for: null where its task has no limit, else its key, empty where the task has none.
alter table everwhen.leases add column limit_key text;
create index leases_limited on everwhen.leases (tenant_id, task, limit_key) where limit_key is not null;
