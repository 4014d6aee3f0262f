-- Tags of schedules, tasks and workflows. Each row has its own; `tagged` has them the other way round, so that a list by
-- a tag walks along its key: a policy's walls keep an index on the arrays from serving (their operators are not
-- leakproof). It is written by the transaction that writes the array.
alter table everwhen.schedules add column tags text[] not null default '{}' check (cardinality(tags) <= 20);
alter table everwhen.schedule_revisions add column tags text[] not null default '{}';
alter table everwhen.tasks add column tags text[] not null default '{}' check (cardinality(tags) <= 20);
alter table everwhen.workflows add column tags text[] not null default '{}' check (cardinality(tags) <= 20);

create table everwhen.tagged (
  tenant_id uuid not null references everwhen.tenants (id),
  kind      text not null check (kind in ('schedule', 'task', 'workflow')),
  tag       text not null check (length(tag) between 1 and 63),
  name      text not null,
  primary key (tenant_id, kind, tag, name)
);
alter table everwhen.tagged enable row level security, force row level security;
create policy own_rows on everwhen.tagged to everwhen_tenant
  using (tenant_id = (select everwhen.current_tenant())) with check (tenant_id = (select everwhen.current_tenant()));
create policy all_tenants on everwhen.tagged to everwhen_system using (true) with check (true);
grant select, insert, delete on everwhen.tagged to everwhen_tenant;
grant select, insert, delete on everwhen.tagged to everwhen_system;

alter table everwhen.alert_subscriptions drop constraint alert_subscriptions_scope_check;
alter table everwhen.alert_subscriptions add constraint alert_subscriptions_scope_check
  check (scope in ('tenant', 'schedule', 'task', 'workflow', 'tag'));
