-- What attempts print. The bytes are in the object store, as the pieces of one object for each attempt; here is where
-- they are, in narrow rows.

create table everwhen.attempt_logs (
  tenant_id  uuid not null references everwhen.tenants (id),
  run_id     uuid not null,
  attempt    integer not null check (attempt > 0),
  object_id  uuid not null,
  size_bytes bigint not null default 0 check (size_bytes >= 0),
  pieces     integer not null default 0 check (pieces >= 0), -- how many are there: the number of the next one
  slots      integer not null default 0 check (slots >= pieces), -- places in the object that were given out
  is_capped  boolean not null default false,
  opened_at  timestamptz not null,
  primary key (tenant_id, run_id, attempt),
  unique (tenant_id, object_id),
  foreign key (tenant_id, object_id) references everwhen.payload_objects (tenant_id, id)
);
create index attempt_logs_opened on everwhen.attempt_logs (opened_at);

-- A piece of a log: from which byte on, and which piece of the object it is.
create table everwhen.log_pieces (
  tenant_id  uuid not null,
  object_id  uuid not null,
  starts_at  bigint not null check (starts_at >= 0),
  size_bytes integer not null check (size_bytes > 0),
  slot       integer not null check (slot >= 0),
  primary key (tenant_id, object_id, starts_at),
  foreign key (tenant_id, object_id) references everwhen.attempt_logs (tenant_id, object_id)
);

do $$
declare t text;
begin
  foreach t in array array['attempt_logs', 'log_pieces'] loop
    execute format('alter table everwhen.%I enable row level security, force row level security', t);
    execute format('create policy own_rows on everwhen.%I to everwhen_tenant
                    using (tenant_id = (select everwhen.current_tenant())) with check (tenant_id = (select everwhen.current_tenant()))', t);
    execute format('create policy all_tenants on everwhen.%I to everwhen_system using (true) with check (true)', t);
  end loop;
end $$;
grant select, insert, update on everwhen.attempt_logs to everwhen_tenant, everwhen_system;
grant select, insert on everwhen.log_pieces to everwhen_tenant, everwhen_system;
grant delete on everwhen.attempt_logs, everwhen.log_pieces to everwhen_system;
