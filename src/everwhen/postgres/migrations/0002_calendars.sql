-- Calendars: versions that are written once, who uses them, and the changes that schedules still have to follow.

create table everwhen.calendars (
  tenant_id  uuid not null references everwhen.tenants (id),
  name       text not null check (length(name) between 1 and 200),
  version    integer not null check (version > 0), -- the latest; only grows, even over a deletion, so name and version stay unique
  created_at timestamptz not null,
  updated_at timestamptz not null,
  deleted_at timestamptz,
  primary key (tenant_id, name)
);

create table everwhen.calendar_versions (
  tenant_id      uuid not null,
  calendar       text not null,
  version        integer not null,
  effective_from date, -- null: for all dates
  definition     jsonb not null,
  is_in_force    boolean not null, -- no later version stands for all of its dates
  changed_by     text not null,
  reason         text,
  changed_at     timestamptz not null,
  primary key (tenant_id, calendar, version),
  foreign key (tenant_id, calendar) references everwhen.calendars (tenant_id, name)
);

create table everwhen.calendar_users (
  tenant_id    uuid not null,
  calendar     text not null,
  schedule_uid uuid not null,
  primary key (tenant_id, calendar, schedule_uid),
  foreign key (tenant_id, calendar) references everwhen.calendars (tenant_id, name),
  foreign key (tenant_id, schedule_uid) references everwhen.schedules (tenant_id, uid)
);
create index calendar_users_schedule on everwhen.calendar_users (schedule_uid, tenant_id);

-- A changed calendar, and up to which user its schedules have been planned anew. Empty but for a moment after a change.
create table everwhen.calendar_changes (
  tenant_id uuid not null,
  calendar  text not null,
  after_uid uuid not null,
  primary key (tenant_id, calendar)
);

alter table everwhen.spans add column detail jsonb; -- which calendar, by which version

do $$
declare t text;
begin
  foreach t in array array['calendars', 'calendar_versions', 'calendar_users', 'calendar_changes'] loop
    execute format('alter table everwhen.%I enable row level security, force row level security', t);
    execute format('create policy own_rows on everwhen.%I to everwhen_tenant
                    using (tenant_id = everwhen.current_tenant()) with check (tenant_id = everwhen.current_tenant())', t);
    execute format('create policy all_tenants on everwhen.%I to everwhen_system using (true) with check (true)', t);
  end loop;
end $$;
grant select, insert, update on everwhen.calendars, everwhen.calendar_versions to everwhen_tenant, everwhen_system;
grant select, insert, delete on everwhen.calendar_users to everwhen_tenant, everwhen_system;
grant select, insert, update, delete on everwhen.calendar_changes to everwhen_tenant, everwhen_system;
