-- The texts of alerts that a tenant has replaced: one template for each kind of alert and part of a message.
create table everwhen.alert_templates (
  tenant_id  uuid not null references everwhen.tenants (id),
  kind       text not null check (length(kind) between 1 and 60), -- a kind of alert, `any` or `digest`
  part       text not null check (part in ('subject', 'text', 'html', 'slack')),
  source     text not null check (octet_length(source) between 1 and 16384),
  updated_by text not null,
  updated_at timestamptz not null,
  primary key (tenant_id, kind, part)
);
alter table everwhen.alert_templates enable row level security, force row level security;
create policy own_rows on everwhen.alert_templates to everwhen_tenant
  using (tenant_id = everwhen.current_tenant()) with check (tenant_id = everwhen.current_tenant());
create policy all_tenants on everwhen.alert_templates to everwhen_system using (true) with check (true);
grant select, insert, update, delete on everwhen.alert_templates to everwhen_tenant;
grant select on everwhen.alert_templates to everwhen_system;
