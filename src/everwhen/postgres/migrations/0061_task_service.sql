-- The task service: tasks as its users know them, each a schedule of ours under a name that they choose.
create table everwhen.service_tasks (
  tenant_id     uuid not null references everwhen.tenants (id),
  id            uuid not null,
  owner         text not null, -- whose dedup_id it is
  dedup_id      text not null,
  schedule_uid  uuid, -- null only until the transaction that makes it has made its schedule
  cron          text not null, -- '': once
  run_at        timestamptz, -- when it runs once
  delay_seconds double precision, -- as it was asked for
  priority      smallint not null check (priority between 0 and 9),
  digest        text not null,
  payload_name  text,
  is_enabled    boolean not null default true,
  created_at    timestamptz not null,
  updated_at    timestamptz not null,
  deleted_at    timestamptz,
  primary key (tenant_id, id),
  foreign key (tenant_id, schedule_uid) references everwhen.schedules (tenant_id, uid),
  check ((cron = '') = (run_at is not null))
);
create unique index service_tasks_dedup on everwhen.service_tasks (tenant_id, owner, dedup_id) where deleted_at is null;
create index service_tasks_live on everwhen.service_tasks (tenant_id, id) where deleted_at is null;

alter table everwhen.service_tasks enable row level security, force row level security;
create policy own_rows on everwhen.service_tasks to everwhen_tenant
  using (tenant_id = (select everwhen.current_tenant())) with check (tenant_id = (select everwhen.current_tenant()));
create policy all_tenants on everwhen.service_tasks to everwhen_system using (true) with check (true);
grant select, insert, update on everwhen.service_tasks to everwhen_tenant, everwhen_system;
