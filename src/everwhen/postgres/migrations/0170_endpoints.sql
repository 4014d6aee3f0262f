-- A queue whose fleet is an HTTP endpoint: where its runs are posted, and how the endpoint has done.
create table everwhen.endpoints (
  tenant_id      uuid not null references everwhen.tenants (id),
  queue          text not null check (length(queue) between 1 and 200),
  url            text not null check (length(url) between 1 and 2048),
  headers        jsonb not null default '{}',
  answer_seconds double precision not null check (answer_seconds between 1 and 300),
  accept_seconds double precision not null check (accept_seconds between 10 and 604800),
  revision       integer not null default 1 check (revision > 0),
  changed_by     text not null,
  created_at     timestamptz not null,
  updated_at     timestamptz not null,
  primary key (tenant_id, queue)
);

-- Sealed by a key that is outside the database.
create table everwhen.endpoint_secrets (
  tenant_id uuid not null,
  queue     text not null,
  name      text not null check (length(name) between 1 and 100),
  sealed    bytea not null check (length(sealed) between 1 and 16384),
  primary key (tenant_id, queue, name),
  foreign key (tenant_id, queue) references everwhen.endpoints (tenant_id, queue) on delete cascade
);

-- The circuit breaker, shared by all copies of the role that calls. Written when an endpoint fails, and when it answers
-- again: not by each success.
create table everwhen.endpoint_states (
  tenant_id       uuid not null,
  queue           text not null,
  failures        integer not null default 0 check (failures >= 0), -- in a row
  rests_until     timestamptz,                                      -- nothing is sent before
  failing_since   timestamptz,
  last_failure_at timestamptz,
  last_error      text,
  test_wanted_at  timestamptz,
  tested_at       timestamptz,
  test_answer     text,
  primary key (tenant_id, queue),
  foreign key (tenant_id, queue) references everwhen.endpoints (tenant_id, queue) on delete cascade
) with (fillfactor = 70);

do $$
declare t text;
begin
  foreach t in array array['endpoints', 'endpoint_secrets', 'endpoint_states'] loop
    execute format('alter table everwhen.%I enable row level security, force row level security', t);
    execute format('create policy own_rows on everwhen.%I to everwhen_tenant
                    using (tenant_id = (select everwhen.current_tenant()))
                    with check (tenant_id = (select everwhen.current_tenant()))', t);
    execute format('create policy all_tenants on everwhen.%I to everwhen_system using (true) with check (true)', t);
  end loop;
end $$;
grant select, insert, update, delete on everwhen.endpoints, everwhen.endpoint_secrets, everwhen.endpoint_states
  to everwhen_tenant;
grant select on everwhen.endpoints, everwhen.endpoint_secrets to everwhen_system;
grant select, update on everwhen.endpoint_states to everwhen_system;
