-- Payloads: what a run is given that is too large for its input. The bytes are in an object store; what is true of them
-- is decided here.

-- An object of the store: the pieces of one upload. Its row is there before its first byte and goes after its last one,
-- so that whatever lies in the store has a row here.
create table everwhen.payload_objects (
  tenant_id uuid not null references everwhen.tenants (id),
  id        uuid not null,
  state     text not null check (state in ('arriving', 'kept', 'doomed')),
  opened_by text not null,
  opened_at timestamptz not null,
  look_at   timestamptz, -- arriving: until when its writer holds it; doomed: when it is removed (again); kept: null
  doomed_at timestamptz,
  primary key (tenant_id, id),
  check ((state = 'kept') = (look_at is null) and (state = 'doomed') = (doomed_at is not null))
);
create index payload_objects_look on everwhen.payload_objects (look_at) where look_at is not null;
create index payload_objects_arriving on everwhen.payload_objects (tenant_id) where state = 'arriving';

-- A tenant's payload by its content. Another tenant's equal content is another payload: nobody learns what others have.
create table everwhen.payloads (
  tenant_id  uuid not null references everwhen.tenants (id),
  digest     text not null check (digest ~ '^sha256:[0-9a-f]{64}$'),
  object_id  uuid not null,
  size_bytes bigint not null check (size_bytes >= 0),
  pieces     integer not null check (pieces >= 0),
  name       text,
  media_type text,
  look_at    timestamptz, -- when it goes unless something refers to it; null: it stays until somebody deletes it
  created_by text not null,
  created_at timestamptz not null,
  primary key (tenant_id, digest),
  foreign key (tenant_id, object_id) references everwhen.payload_objects (tenant_id, id)
);
create index payloads_look on everwhen.payloads (look_at) where look_at is not null;

-- Which schedules refer to it by their input, as it is now.
create table everwhen.payload_users (
  tenant_id    uuid not null,
  digest       text not null,
  schedule_uid uuid not null,
  primary key (tenant_id, digest, schedule_uid),
  foreign key (tenant_id, digest) references everwhen.payloads (tenant_id, digest),
  foreign key (tenant_id, schedule_uid) references everwhen.schedules (tenant_id, uid)
);
create index payload_users_schedule on everwhen.payload_users (schedule_uid, tenant_id);

-- What a tenant's payloads take; the row is locked by whoever adds to it.
create table everwhen.payload_usage (
  tenant_id  uuid primary key references everwhen.tenants (id),
  size_bytes bigint not null default 0 check (size_bytes >= 0),
  payloads   bigint not null default 0 check (payloads >= 0)
);

do $$
declare t text;
begin
  foreach t in array array['payload_objects', 'payloads', 'payload_users', 'payload_usage'] loop
    execute format('alter table everwhen.%I enable row level security, force row level security', t);
    execute format('create policy own_rows on everwhen.%I to everwhen_tenant
                    using (tenant_id = (select everwhen.current_tenant())) with check (tenant_id = (select everwhen.current_tenant()))', t);
    execute format('create policy all_tenants on everwhen.%I to everwhen_system using (true) with check (true)', t);
  end loop;
end $$;
grant select, insert, update on everwhen.payload_objects, everwhen.payload_usage to everwhen_tenant, everwhen_system;
grant delete on everwhen.payload_objects to everwhen_system;
grant select, insert, update, delete on everwhen.payloads to everwhen_tenant, everwhen_system;
grant select, insert, delete on everwhen.payload_users to everwhen_tenant, everwhen_system;
