-- How many runs of a tenant may be in flight at once, at all of its queues together: set by the platform.
alter table everwhen.tenant_limits add column in_flight bigint check (in_flight between 0 and 100000);
-- A line of a tenant that has such a limit: claims of it count under a lock of the tenant.
alter table everwhen.lanes add column has_tenant_limit boolean not null default false;
