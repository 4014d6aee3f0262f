-- How many bytes of logs a tenant keeps, and how many it may: set by the platform.
alter table everwhen.tenant_limits add column log_bytes bigint check (log_bytes >= 0);

-- The sum over the shards is what all logs of a tenant take. Writers have fifteen, so that attempts that print at once do
-- not wait for each other; what the sweep removes is taken off shard 0, which may lie below zero.
create table everwhen.log_bytes (
  tenant_id  uuid not null references everwhen.tenants (id),
  shard      smallint not null check (shard between 0 and 15),
  size_bytes bigint not null,
  primary key (tenant_id, shard)
) with (fillfactor = 50);
insert into everwhen.log_bytes (tenant_id, shard, size_bytes)
select tenant_id, 0, sum(size_bytes) from everwhen.attempt_logs group by tenant_id;

alter table everwhen.log_bytes enable row level security, force row level security;
create policy own_rows on everwhen.log_bytes to everwhen_tenant
  using (tenant_id = (select everwhen.current_tenant())) with check (tenant_id = (select everwhen.current_tenant()));
create policy all_tenants on everwhen.log_bytes to everwhen_system using (true) with check (true);
grant select, insert, update on everwhen.log_bytes to everwhen_tenant, everwhen_system;
