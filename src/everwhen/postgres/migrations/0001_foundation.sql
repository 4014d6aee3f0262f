-- The foundation: tenants, definitions, runs with their history, and the hot set.
--
-- Three walls keep tenants apart: tenant_id leads every key, row-level security is enabled and FORCED on every tenant
-- table, and every statement names the tenant. Login roles own nothing; what they may do is granted to two group roles:
--   everwhen_tenant  acts for one tenant, the one in the setting everwhen.tenant of its transaction
--   everwhen_system  acts for all tenants: the scheduler, the reaper and the platform's own workers
-- Roles belong to the whole server, so a second database finds them there already.
do $$
declare wanted text;
begin
  foreach wanted in array array['everwhen_tenant', 'everwhen_system'] loop
    continue when exists (select from pg_roles where rolname = wanted); -- an administrator's, where we may make none
    begin
      execute format('create role %I nologin nosuperuser nobypassrls nocreatedb nocreaterole noreplication', wanted);
    exception when duplicate_object or unique_violation then null;
    end;
  end loop;
end $$;

create schema if not exists everwhen;
revoke all on schema everwhen from public;
grant usage on schema everwhen to everwhen_tenant, everwhen_system;
alter default privileges in schema everwhen revoke execute on functions from public;

-- After a transaction the setting is '' rather than NULL, and ''::uuid would raise: both must read as nobody.
create function everwhen.current_tenant() returns uuid
  language sql stable parallel safe
  return nullif(current_setting('everwhen.tenant', true), '')::uuid;
grant execute on function everwhen.current_tenant() to everwhen_tenant, everwhen_system;

-- Definitions ---------------------------------------------------------------------------------------------------------

create table everwhen.tenants (
  id         uuid primary key,
  name       text not null unique check (name ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
  created_at timestamptz not null
);

create table everwhen.tasks (
  tenant_id              uuid not null references everwhen.tenants (id),
  name                   text not null check (length(name) between 1 and 200),
  queue                  text not null check (length(queue) between 1 and 200),
  priority               smallint not null check (priority between 0 and 9),
  retry                  jsonb not null,
  timeout_seconds        double precision check (timeout_seconds > 0),
  start_deadline_seconds double precision check (start_deadline_seconds > 0),
  created_at             timestamptz not null,
  updated_at             timestamptz not null,
  primary key (tenant_id, name)
);

create table everwhen.schedules (
  tenant_id    uuid not null references everwhen.tenants (id),
  uid          uuid not null,
  name         text not null check (length(name) between 1 and 200),
  state        text not null check (state in ('active', 'paused', 'deleted')),
  state_reason text,
  revision     integer not null check (revision > 0),
  task         text not null,
  spec         jsonb not null, -- trigger, time zone and policies
  input        jsonb not null,
  priority     smallint check (priority between 0 and 9), -- null: the task's
  created_at   timestamptz not null,
  updated_at   timestamptz not null,
  primary key (tenant_id, uid),
  foreign key (tenant_id, task) references everwhen.tasks (tenant_id, name)
);
-- A deleted schedule keeps its row, for its history's sake, and gives its name back.
create unique index schedules_name on everwhen.schedules (tenant_id, name) where state <> 'deleted';

-- Every change of a schedule, by whom and why; a run names the revision that it was planned from.
create table everwhen.schedule_revisions (
  tenant_id  uuid not null,
  uid        uuid not null,
  revision   integer not null,
  action     text not null check (action in ('created', 'updated', 'paused', 'resumed', 'deleted')),
  task       text not null,
  spec       jsonb not null,
  input      jsonb not null,
  priority   smallint,
  changed_by text not null,
  reason     text,
  changed_at timestamptz not null,
  primary key (tenant_id, uid, revision),
  foreign key (tenant_id, uid) references everwhen.schedules (tenant_id, uid)
);

-- The planner's cursor, apart from the wide definition because it moves with every occurrence. Nothing at or before
-- decided_until is ever planned again; it outlives the retention of the runs.
create table everwhen.watermarks (
  tenant_id     uuid not null,
  schedule_uid  uuid not null,
  decided_until timestamptz not null,
  next_at       timestamptz, -- when the planner looks next; null: never again, paused or deleted
  skip_until    timestamptz, -- instants up to here are skipped, for skip_reason: what a pause left behind
  skip_reason   text,
  failures      integer not null default 0, -- plannings in a row that raised; the schedule is put off, not the loop stopped
  last_error    text,
  primary key (tenant_id, schedule_uid),
  foreign key (tenant_id, schedule_uid) references everwhen.schedules (tenant_id, uid)
);
create index watermarks_next on everwhen.watermarks (next_at) where next_at is not null;

-- Runs and their history: append-only, partitioned by ranges of run id, which are ranges of time --------------------------
-- The history carries no foreign keys to runs: a key's check locks the run's row once for every event. Every row of it is
-- written by the one statement that also moves the run, and `everwhen verify` looks for orphans.

create table everwhen.runs (
  tenant_id          uuid not null,
  run_id             uuid not null,
  schedule_uid       uuid, -- null: asked for through the API
  schedule_revision  integer,
  source             text not null,
  task               text not null,
  queue              text not null,
  priority           smallint not null,
  nominal_at         timestamptz,
  utc_offset_seconds integer, -- the local offset at the nominal instant: tells the two passes of a fold apart
  due_at             timestamptz not null,
  planned_at         timestamptz not null,
  expires_at         timestamptz, -- the start deadline
  input              jsonb not null,
  primary key (tenant_id, run_id)
) partition by range (run_id);
create index runs_schedule on everwhen.runs (tenant_id, schedule_uid, run_id) where schedule_uid is not null;

-- How a run ended. Inserted once, never updated: it makes a state terminal.
create table everwhen.run_ends (
  tenant_id   uuid not null,
  run_id      uuid not null,
  state       text not null check (
    state in ('succeeded', 'dead', 'cancelled', 'expired', 'skipped', 'missed', 'coalesced')),
  reason      text,
  attempts    smallint not null, -- how many were opened
  finished_at timestamptz not null,
  primary key (tenant_id, run_id)
) partition by range (run_id);
create index run_ends_unwell on everwhen.run_ends (tenant_id, state, run_id) where state <> 'succeeded';

-- Closed attempts; an open one is its row in leases.
create table everwhen.attempts (
  tenant_id   uuid not null,
  run_id      uuid not null,
  attempt     smallint not null,
  lease_token bigint not null,
  worker      text not null,
  claimed_at  timestamptz not null,
  started_at  timestamptz, -- as the worker says, by its own clock
  finished_at timestamptz not null,
  outcome     text not null check (outcome in ('succeeded', 'failed', 'timed_out', 'lost', 'released', 'cancelled')),
  reason      text,
  error       jsonb,
  result      jsonb,
  primary key (tenant_id, run_id, attempt)
) partition by range (run_id);

create sequence everwhen.event_ids as bigint;
create table everwhen.events (
  tenant_id uuid not null,
  run_id    uuid not null,
  event_id  bigint not null default nextval('everwhen.event_ids'),
  at        timestamptz not null,
  kind      text not null,
  attempt   smallint,
  reason    text,
  detail    jsonb,
  primary key (tenant_id, run_id, event_id)
) partition by range (run_id);

-- Instants with one verdict that are too many for a row each.
create table everwhen.spans (
  tenant_id    uuid not null,
  schedule_uid uuid not null,
  first_at     timestamptz not null,
  last_at      timestamptz not null check (last_at >= first_at),
  instants     bigint not null check (instants > 0),
  verdict      text not null check (verdict in ('skipped', 'missed', 'coalesced')),
  reason       text not null,
  recorded_at  timestamptz not null,
  primary key (tenant_id, schedule_uid, first_at),
  foreign key (tenant_id, schedule_uid) references everwhen.schedules (tenant_id, uid)
);

-- The hot set: what waits and what is leased, in narrow rows, whatever the history weighs ------------------------------
-- A plan made while a table was empty, and kept, takes any index whose first column fits, and filters by the rest:
-- hundreds of times slower once there are thousands of rows. So the ways to a row are few, and none resembles another.

-- One tenant's line at one queue.
create table everwhen.lanes (
  tenant_id     uuid not null references everwhen.tenants (id),
  queue         text not null check (length(queue) between 1 and 200),
  weight        integer not null default 1 check (weight between 1 and 1000),
  max_in_flight integer check (max_in_flight >= 0), -- null: no limit
  virtual_time  double precision not null default 0, -- work taken so far, divided by the weight
  primary key (tenant_id, queue)
);
create index lanes_queue on everwhen.lanes (queue, virtual_time);

-- The primary key is the line itself: by priority, then by due time.
create table everwhen.waiting (
  tenant_id    uuid not null,
  queue        text not null,
  priority     smallint not null check (priority between 0 and 9),
  available_at timestamptz not null, -- the due instant, or the end of a back-off
  run_id       uuid not null,
  task         text not null,
  attempts     smallint not null default 0, -- opened so far
  failures     smallint not null default 0,
  expires_at   timestamptz,
  primary key (tenant_id, queue, priority, available_at, run_id)
);
create unique index waiting_run on everwhen.waiting (tenant_id, run_id);
create index waiting_expiry on everwhen.waiting (expires_at) where expires_at is not null;

-- The open attempts. A heartbeat moves lease_until only, which no index covers: the row is updated in place.
create sequence everwhen.lease_numbers as bigint;
create table everwhen.leases (
  tenant_id           uuid not null,
  run_id              uuid not null,
  queue               text not null,
  task                text not null,
  worker              text not null,
  attempt             smallint not null,
  failures            smallint not null,
  priority            smallint not null,
  expires_at          timestamptz,
  lease_token         bigint not null, -- the fencing number: only grows
  lease_until         timestamptz not null,
  claimed_at          timestamptz not null,
  deadline_at         timestamptz, -- the end of the execution time-out
  cancel_requested_at timestamptz,
  details             jsonb, -- what the last heartbeat said
  primary key (tenant_id, run_id)
) with (fillfactor = 50);
-- For counting what is in flight. The predicate holds for every row; only a statement that repeats it can take this index,
-- so that no plan made in an empty hour looks leases up by their lane instead of their key.
create index leases_lane on everwhen.leases (tenant_id, queue) where lease_token > 0;

-- A caller's key for a request maps to the run that it made.
create table everwhen.idempotency_keys (
  tenant_id   uuid not null references everwhen.tenants (id),
  key         text not null check (length(key) between 1 and 255),
  fingerprint bytea not null, -- of the request: the same key with another request is refused
  run_id      uuid not null,
  created_at  timestamptz not null,
  primary key (tenant_id, key)
);

-- Fencing numbers grow; the random low bits keep a token from being guessed.
create function everwhen.new_lease_token() returns bigint
  language sql volatile
  return (nextval('everwhen.lease_numbers') << 20) | floor(random() * 1048576)::bigint;

-- The smallest run id of an instant (see everwhen.core.ids).
create function everwhen.first_run_id(instant timestamptz) returns uuid
  language sql immutable parallel safe
  return (lpad(to_hex(floor(extract(epoch from instant) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid;

-- Make the partitions for the week around an instant. The parents stay readable and writable meanwhile: a new table is
-- attached, which takes a weaker lock than creating a partition would. Idempotent, and safe in any number of callers.
create function everwhen.ensure_week(instant timestamptz) returns boolean
  language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
  monday timestamptz := date_trunc('week', instant at time zone 'UTC') at time zone 'UTC';
  parent text;
  child  text;
begin
  if instant not between clock_timestamp() - interval '11 years' and clock_timestamp() + interval '1 year' then
    raise exception 'no partition for %: runs live between 11 years ago and a year ahead', instant
      using errcode = 'invalid_parameter_value';
  end if;
  if to_regclass(format('everwhen.events_%s', to_char(monday at time zone 'UTC', 'YYYYMMDD'))) is not null then
    return false;
  end if;
  perform pg_advisory_xact_lock(hashtextextended('everwhen.ensure_week', 0));
  foreach parent in array array['runs', 'run_ends', 'attempts', 'events'] loop
    child := format('%s_%s', parent, to_char(monday at time zone 'UTC', 'YYYYMMDD'));
    continue when to_regclass('everwhen.' || child) is not null;
    execute format('create table everwhen.%I (like everwhen.%I including defaults including constraints)', child, parent);
    execute format('alter table everwhen.%I enable row level security, force row level security', child);
    execute format('alter table everwhen.%I attach partition everwhen.%I for values from (%L) to (%L)',
                   parent, child, everwhen.first_run_id(monday), everwhen.first_run_id(monday + interval '7 days'));
  end loop;
  return true;
end $$;

grant execute on function everwhen.new_lease_token(), everwhen.first_run_id(timestamptz),
  everwhen.ensure_week(timestamptz) to everwhen_tenant, everwhen_system;

-- Row-level security: a tenant's transaction sees the rows of its tenant and no others; the system role sees all by a
-- policy of its own, not by bypassing them.
do $$
declare t text;
begin
  foreach t in array array['tasks', 'schedules', 'schedule_revisions', 'watermarks', 'runs', 'run_ends', 'attempts',
                           'events', 'spans', 'lanes', 'waiting', 'leases', 'idempotency_keys'] loop
    execute format('alter table everwhen.%I enable row level security, force row level security', t);
    execute format('create policy own_rows on everwhen.%I to everwhen_tenant
                    using (tenant_id = everwhen.current_tenant()) with check (tenant_id = everwhen.current_tenant())', t);
    execute format('create policy all_tenants on everwhen.%I to everwhen_system using (true) with check (true)', t);
  end loop;
end $$;
alter table everwhen.tenants enable row level security, force row level security;
create policy own_row on everwhen.tenants for select to everwhen_tenant using (id = everwhen.current_tenant());
create policy all_tenants on everwhen.tenants to everwhen_system using (true) with check (true);

-- What each role may do, and no more: history is inserted and read, never changed.
grant select on everwhen.tenants to everwhen_tenant;
grant select, insert on everwhen.tenants to everwhen_system;
grant select, insert, update on everwhen.tasks, everwhen.schedules, everwhen.watermarks, everwhen.lanes
  to everwhen_tenant, everwhen_system;
grant select, insert on everwhen.schedule_revisions, everwhen.run_ends, everwhen.attempts, everwhen.events,
  everwhen.spans to everwhen_tenant, everwhen_system;
grant select, insert, delete on everwhen.runs to everwhen_tenant, everwhen_system; -- delete: withdrawn before it was due
grant select, insert, update, delete on everwhen.waiting, everwhen.leases to everwhen_tenant, everwhen_system;
grant select, insert, delete on everwhen.idempotency_keys to everwhen_tenant, everwhen_system;
grant usage on sequence everwhen.event_ids, everwhen.lease_numbers to everwhen_tenant, everwhen_system;
