-- Who works: each running worker that has said so, and still does. Workers of the platform stand under the tenant of all
-- zeros. `instance` is known to the worker alone: by it a worker speaks of itself, so nobody who sees the list can speak
-- for another, and two processes of one name are two. What changes with each beat is in no index, so a beat is an update
-- in place.
create table everwhen.workers (
  tenant_id    uuid not null,
  worker_id    uuid not null,
  instance     uuid not null,
  name         text not null check (length(name) between 1 and 200),
  sdk          text check (length(sdk) between 1 and 100),
  version      text check (length(version) between 1 and 100), -- of the application
  host         text check (length(host) between 1 and 200),
  pid          integer check (pid > 0),
  slots        integer not null check (slots between 1 and 100000),
  tasks        text[], -- null: it takes any
  queues       text[] not null check (cardinality(queues) between 1 and 64),
  labels       jsonb not null,
  resources    jsonb not null,
  announced_at timestamptz not null,
  -- What it says with each beat.
  last_seen_at timestamptz not null,
  held         integer not null check (held >= 0), -- leases
  in_use       jsonb not null,                     -- of its resources
  heard        text not null check (heard in ('active', 'draining', 'cordoned')), -- the wish that it goes by
  is_stopping  boolean not null,
  -- What an operator wants of it.
  wish         text not null default 'active' check (wish in ('active', 'draining', 'cordoned')),
  exits        boolean not null default false, -- once it is empty
  wished_by    text,
  wished_why   text check (length(wished_why) <= 500),
  wished_at    timestamptz,
  primary key (tenant_id, worker_id)
) with (fillfactor = 50);
create unique index workers_instance on everwhen.workers (tenant_id, instance);

alter table everwhen.workers enable row level security, force row level security;
create policy own_rows on everwhen.workers to everwhen_tenant
  using (tenant_id = (select everwhen.current_tenant())) with check (tenant_id = (select everwhen.current_tenant()));
-- A tenant's runs at a shared queue wait for the platform's workers, so it may count them.
create policy shared_rows on everwhen.workers for select to everwhen_tenant
  using (tenant_id = '00000000-0000-0000-0000-000000000000');
create policy all_tenants on everwhen.workers to everwhen_system using (true) with check (true);
grant select, insert, update, delete on everwhen.workers to everwhen_tenant, everwhen_system;
