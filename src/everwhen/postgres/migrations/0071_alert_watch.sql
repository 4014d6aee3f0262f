-- What nothing that happens would tell: runs that are late, will miss their deadline, or show no progress. One row says
-- that a run was told as this, or is watched; `progress` is a digest of what its worker reported last.
create table everwhen.alert_watched (
  tenant_id uuid not null references everwhen.tenants (id),
  kind      text not null check (kind in ('run.late', 'run.overdue', 'run.zombie')),
  run_id    uuid not null,
  attempt   smallint not null default 0,
  progress  text,
  since     timestamptz not null,
  told_at   timestamptz,
  primary key (tenant_id, kind, run_id, attempt)
) with (fillfactor = 70);
create index alert_watched_since on everwhen.alert_watched (since);

alter table everwhen.alert_watched enable row level security, force row level security;
create policy own_rows on everwhen.alert_watched to everwhen_tenant
  using (tenant_id = (select everwhen.current_tenant())) with check (tenant_id = (select everwhen.current_tenant()));
create policy all_tenants on everwhen.alert_watched to everwhen_system using (true) with check (true);
grant select on everwhen.alert_watched to everwhen_tenant;
grant select, insert, update, delete on everwhen.alert_watched to everwhen_system;
