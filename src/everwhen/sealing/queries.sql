-- name: find_tenant_key
select tenant_id, wrapped, wrapped_by from everwhen.tenant_keys where tenant_id = %(tenant_id)s;

-- name: insert_tenant_key
-- Two at once: the second one waits for the first, writes nothing, and reads the first one's afterwards.
insert into everwhen.tenant_keys (tenant_id, wrapped, wrapped_by, wrapped_at)
values (%(tenant_id)s, %(wrapped)s, %(wrapped_by)s, %(now)s)
on conflict (tenant_id) do nothing
returning tenant_id, wrapped, wrapped_by;

-- name: take_keys_of_others
-- Those that another sealing key wraps; what somebody else is wrapping again is left to them.
select tenant_id, wrapped, wrapped_by from everwhen.tenant_keys
where wrapped_by <> %(first)s and tenant_id > %(after)s
order by tenant_id
limit %(batch)s
for update skip locked;

-- name: rewrap_keys
update everwhen.tenant_keys k
set wrapped = n.wrapped, wrapped_by = %(first)s, wrapped_at = %(now)s
from unnest(%(tenant_ids)s::uuid[], %(wrapped)s::bytea[], %(wrapped_by)s::text[]) as n (tenant_id, wrapped, wrapped_by)
where k.tenant_id = n.tenant_id and k.wrapped_by = n.wrapped_by
returning k.tenant_id;

-- name: count_by_sealing_key
select wrapped_by, count(*) as tenant_keys from everwhen.tenant_keys group by wrapped_by order by wrapped_by;
