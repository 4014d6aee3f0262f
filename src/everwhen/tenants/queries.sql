-- name: insert_tenant
-- A platform operation; the name is unique over the installation, and only the platform sees the conflict.
insert into everwhen.tenants (id, name, created_at)
values (%(tenant_id)s, %(name)s, %(now)s)
on conflict (name) do nothing
returning id, name, created_at;

-- name: find_tenant
select id, name, created_at from everwhen.tenants where name = %(name)s;

-- name: get_tenant
select id, name, created_at from everwhen.tenants where id = %(tenant_id)s;

-- name: list_tenants
select id, name, created_at from everwhen.tenants
where name > %(after)s
order by name
limit %(limit)s;
