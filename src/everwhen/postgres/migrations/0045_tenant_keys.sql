-- Each tenant's own key, which seals its secrets; only ever wrapped by a sealing key that is outside the database.
create table everwhen.tenant_keys (
  tenant_id  uuid primary key references everwhen.tenants (id),
  wrapped    bytea not null check (octet_length(wrapped) between 40 and 200),
  wrapped_by text not null check (length(wrapped_by) between 1 and 64), -- the name of the sealing key
  wrapped_at timestamptz not null
);

alter table everwhen.tenant_keys enable row level security, force row level security;
create policy own_rows on everwhen.tenant_keys to everwhen_tenant
  using (tenant_id = everwhen.current_tenant()) with check (tenant_id = everwhen.current_tenant());
create policy all_tenants on everwhen.tenant_keys to everwhen_system using (true) with check (true);
grant select, insert on everwhen.tenant_keys to everwhen_tenant;
grant select, insert, update on everwhen.tenant_keys to everwhen_system;
